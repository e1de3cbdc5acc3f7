//! The credentials that servers get, per server: fixed ones, tokens from token endpoints, the gateway's signed word. A
//! caller's token is shown to the configured token endpoint alone, and never to a server; nothing that a server says
//! about authentication is followed.

mod granted;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use auth::outgoing::{About, AssertionKey};
use http::{HeaderName, HeaderValue, header};

use self::granted::Granted;
use crate::adapters::outbound::{Fetcher, Watched};
use crate::config::{self, Outgoing, Secret, assertion_key};
use crate::ports::clock::{Clock, since_epoch};
use crate::ports::upstream::{Behalf, Fault, FaultKind};

/// Tokens kept for one server.
const TOKENS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(4095);

/// Makes the credentials of servers.
#[derive(Clone)]
pub struct Issue {
    /// Fetches tokens.
    pub fetcher: Arc<Fetcher>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
}

/// The credential of one server.
pub struct Credential {
    name: HeaderName,
    kind: Kind,
}

enum Kind {
    Fixed(Watched<HeaderValue>),
    Granted(Arc<Granted>),
    Signed { key: Watched<AssertionKey>, spec: config::Assertion, clock: Arc<dyn Clock> },
}

/// A credential ready to be sent.
pub(in crate::adapters) struct Shown {
    /// The header.
    pub(in crate::adapters) name: HeaderName,
    /// Its value, marked sensitive.
    pub(in crate::adapters) value: HeaderValue,
    /// Which token it was.
    token: Option<auth::outgoing::Credential>,
}

impl Issue {
    /// The credential of a server; none where none is configured.
    ///
    /// # Errors
    /// It can't be used, in words without any secret.
    pub(in crate::adapters) fn credential(
        &self,
        server: &str,
        spec: Option<&Outgoing>,
    ) -> Result<Option<Arc<Credential>>, String> {
        let Some(spec) = spec else { return Ok(None) };
        let unfit = || format!("the credential of server '{server}' can't be used");
        let mut name = header::AUTHORIZATION;
        let kind = match spec {
            Outgoing::Bearer(held) => Watched::new(held, bearer).map(Kind::Fixed),
            Outgoing::Header(named, held) => {
                name.clone_from(named);
                Watched::new(held, |secret| sensitive(secret.expose())).map(Kind::Fixed)
            }
            Outgoing::ClientCredentials(grantor) => {
                Granted::new(server, grantor, false, self).map(Kind::Granted)
            }
            Outgoing::TokenExchange(grantor) => Granted::new(server, grantor, true, self).map(Kind::Granted),
            Outgoing::Assertion(spec) => {
                Watched::new(&spec.key, |secret| assertion_key(secret.expose()).ok())
                    .map(|key| Kind::Signed { key, spec: spec.clone(), clock: Arc::clone(&self.clock) })
            }
        };
        Ok(Some(Arc::new(Credential { name, kind: kind.ok_or_else(unfit)? })))
    }
}

impl Credential {
    /// What to send on this behalf.
    ///
    /// # Errors
    /// There is no credential: of kind `Auth`, before anything went to the server.
    pub(in crate::adapters) async fn present(&self, behalf: &Behalf) -> Result<Shown, Fault> {
        let (value, token) = match &self.kind {
            Kind::Fixed(value) => ((*value.get().await).clone(), None),
            Kind::Granted(granted) => {
                let token = granted.token(behalf).await?;
                let value = bearer_text(token.token.expose()).ok_or_else(|| no_credential("token"))?;
                (value, Some(token))
            }
            Kind::Signed { key, spec, clock } => (sign(&*key.get().await, spec, behalf, clock.now())?, None),
        };
        Ok(Shown { name: self.name.clone(), value, token })
    }

    /// The server has refused it (401). Whether another one is worth a try.
    pub(in crate::adapters) async fn refused(&self, behalf: &Behalf, shown: &Shown) -> bool {
        match (&self.kind, &shown.token) {
            (Kind::Fixed(value), _) => {
                let before = shown.value.clone();
                value.look().await;
                *value.get().await != before
            }
            (Kind::Granted(granted), Some(token)) => granted.refused(behalf, token),
            // The next one would say the same.
            _ => false,
        }
    }
}

fn sign(
    key: &AssertionKey,
    spec: &config::Assertion,
    behalf: &Behalf,
    now: SystemTime,
) -> Result<HeaderValue, Fault> {
    let id = uuid::Uuid::now_v7().to_string();
    let about =
        About { issuer: &spec.issuer, server: &spec.audience, task: &behalf.task, run: &behalf.run, id: &id };
    let now = since_epoch(now).as_secs();
    let principal = &behalf.who.principal;
    let lifetime: Duration = spec.lifetime;
    let signed = key.sign(&auth::outgoing::Assertion { principal, about, now, lifetime });
    let signed = signed.map_err(|error| no_credential(&error.to_string()))?;
    bearer_text(&signed).ok_or_else(|| no_credential("assertion"))
}

/// A failure to have a credential at all. `what` is a word of ours.
fn no_credential(what: &str) -> Fault {
    Fault::early(FaultKind::Auth, format!("no credential for the server: {what}"))
}

fn bearer(secret: &Secret) -> Option<HeaderValue> {
    bearer_text(secret.expose())
}

fn bearer_text(token: &str) -> Option<HeaderValue> {
    sensitive(&format!("Bearer {token}"))
}

/// HTTP/2 never indexes it, and its `Debug` shows nothing.
fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
