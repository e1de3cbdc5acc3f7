//! The pages for clients without a credential: protected-resource metadata, and the registration shim's two where it is
//! configured. They tell what the configuration says and nothing of who may do what.

use std::borrow::Cow;

use auth::metadata::Resource;
use auth::registration::{self, RegistrationError};
use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;

use crate::config::Auth;
use crate::gate::Snapshot;
use crate::pipeline::reply;
use crate::ports::keys::Denied;
use crate::reject::{Reject, Why};
use crate::stages::admit::Admitted;
use crate::stages::challenge::{self, Page, SHIM, SHIM_REGISTER};
use crate::wire::Full;

/// What people see of the gateway.
const NAME: &str = "Tollgate";

/// Answers a page.
///
/// # Errors
/// 404 where it does not exist, 503 where the issuer can't be asked.
pub async fn page(snap: &Snapshot, admitted: &Admitted, page: Page, body: &Bytes) -> Result<Full, Reject> {
    let base = challenge::base(&snap.config, admitted).ok_or_else(absent)?;
    match page {
        Page::Resource => resource(snap, admitted, &base),
        Page::Server => server(snap, &base).await,
        Page::Register => register(snap, body),
    }
}

fn absent() -> Reject {
    Reject::new(Why::NotFound, "no authorization server is configured")
}

/// The authorization servers that clients are sent to. The shim stands in for its issuer where its address is known.
pub(super) fn servers<'a>(auth: &'a Auth, base: Option<&str>) -> Vec<Cow<'a, str>> {
    let stood_in = auth.shim.as_ref().map(|(issuer, _)| issuer.as_str());
    let issuers = auth.issuers.iter().map(|trusted| &**trusted.issuer.issuer());
    issuers
        .map(|issuer| match base {
            Some(base) if stood_in == Some(issuer) => Cow::Owned(format!("{base}{SHIM}")),
            _ => Cow::Borrowed(issuer),
        })
        .collect()
}

fn resource(snap: &Snapshot, admitted: &Admitted, base: &str) -> Result<Full, Reject> {
    let auth = &snap.config.auth;
    let servers = servers(auth, Some(base));
    let servers: Vec<&str> = servers.iter().map(AsRef::as_ref).collect();
    let url = format!("{base}{}", challenge::path(admitted));
    let scopes = auth.scopes();
    let resource =
        Resource { resource: &url, authorization_servers: &servers, scopes: &scopes, name: Some(NAME) };
    resource.document().map(|document| json(StatusCode::OK, &document)).ok_or_else(absent)
}

async fn server(snap: &Snapshot, base: &str) -> Result<Full, Reject> {
    let (issuer, _) = snap.config.auth.shim.as_ref().ok_or_else(absent)?;
    let away = |detail: String| {
        Reject::new(Why::KeysAway, "the authorization server can't be asked at present").detail(detail)
    };
    let metadata = snap.keys.metadata(issuer).await.map_err(|denied| match denied {
        Denied::Invalid(reason) => away(reason.to_owned()),
        Denied::Unavailable(detail) => away(detail),
    })?;
    let (identifier, registration) = (format!("{base}{SHIM}"), format!("{base}{SHIM_REGISTER}"));
    let document = registration::server_document(&metadata, &identifier, &registration);
    let document = document.ok_or_else(|| away("the issuer has no authorization code flow".to_owned()))?;
    Ok(json(StatusCode::OK, &document))
}

fn register(snap: &Snapshot, body: &Bytes) -> Result<Full, Reject> {
    let (_, shim) = snap.config.auth.shim.as_ref().ok_or_else(absent)?;
    Ok(match shim.register(body) {
        Ok(client) => json(StatusCode::CREATED, &client),
        Err(error) => {
            let error: RegistrationError = error;
            json(StatusCode::BAD_REQUEST, &error.document())
        }
    })
}

fn json(status: StatusCode, document: &Value) -> Full {
    reply::json(status, document.to_string().into())
}
