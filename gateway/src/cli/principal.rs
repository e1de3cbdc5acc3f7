//! The caller that `--principal` names: what its credential would have proved, read from a JSON file and taken as
//! proven. Judges no credential and fetches nothing.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use auth::scope::Scopes;
use auth::{CertificateName, Identifier, Oauth, Principal};
use serde_json::{Map, Value};

use crate::config::Checked;
use crate::who::Who;

/// Bytes of the file.
const MAX_BYTES: u64 = 64 << 10;

/// What the file may hold, for `--help`.
pub(super) const SHAPES: &str = "\
CLAIMS.json is one of
  {\"iss\": \"https://idp.example.com\", \"sub\": \"alice\", \"client_id\": \"cli\",
   \"scope\": \"mcp.read mcp.write\", \"groups\": [\"support\"]}
                             the claims of an access token, all that it has; times are not looked at
  {\"token\": \"ci\"}          a static token, by its name
  {\"certificate\": \"spiffe://example.com/agent\"}
                             a client certificate, by the name in it
  {}                         a caller without a credential";

/// Reads the caller. Without a file it is one without a credential.
///
/// # Errors
/// Why the file names no caller.
pub(super) fn read(path: Option<&Path>, config: &Checked) -> Result<Arc<Who>, String> {
    let Some(path) = path else { return Ok(Who::anonymous()) };
    let shown = path.display();
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|e| format!("can't read {shown}: {}", e.kind()))?;
    file.take(MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(|e| format!("can't read {shown}: {}", e.kind()))?;
    let members: Map<String, Value> =
        serde_json::from_str(&text).map_err(|e| format!("{shown} is no JSON object: line {}", e.line()))?;
    let principal = principal(members, config).map_err(|what| format!("{shown}: {what}"))?;
    Ok(Who::new(principal, None))
}

fn principal(members: Map<String, Value>, config: &Checked) -> Result<Principal, String> {
    let text = |key: &str| match members.get(key) {
        Some(Value::String(text)) => Identifier::new(text).map(Some).ok_or(format!("`{key}` is no name")),
        Some(_) => Err(format!("`{key}` is no text")),
        None => Ok(None),
    };
    let kinds = ["token", "certificate", "iss"].iter().filter(|key| members.contains_key(**key)).count();
    if kinds > 1 {
        return Err("it names several callers: keep one of `iss`, `token` and `certificate`".into());
    }
    let unknown = |what: &str| Err(format!("{what}: the gateway would answer 401"));
    if members.contains_key("certificate") {
        if config.auth.any() && config.auth.clients.is_none() {
            return unknown("there is no `auth.clients`, so certificates prove nobody");
        }
        return certificate(members.get("certificate"));
    }
    if let Some(name) = text("token")? {
        if config.auth.any() && !config.auth.tokens.iter().any(|token| token.name == name) {
            return unknown("no token of `auth.tokens` has this name");
        }
        return Ok(Principal::Token { name });
    }
    if members.contains_key("iss") {
        return claims(members, config);
    }
    let only = |key: &String| key == "anonymous";
    match members.keys().all(only) {
        true => Ok(Principal::Anonymous),
        false => Err("it names no caller: claims have `iss` and `sub`".into()),
    }
}

/// The kind of the name is told by its form, as in certificates: a URI has a scheme, an address an `@`.
fn certificate(value: Option<&Value>) -> Result<Principal, String> {
    let text = match value {
        Some(Value::String(one)) => Some(one),
        Some(Value::Array(all)) => match all.as_slice() {
            [Value::String(one)] => Some(one),
            _ => None,
        },
        _ => None,
    };
    let text = text.ok_or("`certificate` is one name: a caller has no more")?;
    let name = Identifier::new(text).ok_or("`certificate` is no name")?;
    let name = match (text.contains("://"), text.contains('@')) {
        (true, _) => CertificateName::Uri(name),
        (false, true) => CertificateName::Email(name),
        (false, false) => CertificateName::Dns(name),
    };
    Ok(Principal::Certificate { name })
}

/// By the rules of their issuer; where the file has no credentials at all, by their usual names.
fn claims(mut members: Map<String, Value>, config: &Checked) -> Result<Principal, String> {
    let issuers = &config.auth.issuers;
    if !config.auth.any() {
        return plain(members);
    }
    let iss = members.get("iss").and_then(Value::as_str).ok_or("`iss` is no text")?;
    let trusted = issuers.iter().find(|trusted| &**trusted.issuer.issuer() == iss);
    let issuer =
        &trusted.ok_or("no issuer of `auth.issuers` has this `iss`: the gateway would answer 401")?.issuer;
    for time in ["exp", "nbf", "iat"] {
        members.remove(time);
    }
    if let Some(audience) = issuer.audiences().next().filter(|_| !members.contains_key("aud")) {
        members.insert("aud".into(), audience.into());
    }
    members.insert("active".into(), true.into());
    let document = Value::Object(members).to_string();
    let refused = |error: auth::TokenError| format!("the gateway would refuse such a token: {error}");
    auth::introspect::answer(issuer, document.as_bytes(), 0).map_err(refused)
}

fn plain(members: Map<String, Value>) -> Result<Principal, String> {
    let one = |key: &str| members.get(key).and_then(Value::as_str).and_then(Identifier::new);
    let issuer = one("iss").ok_or("`iss` is no text")?;
    let subject = one("sub").ok_or("`sub` is missing, or no text")?;
    let list = |key: &str| match members.get(key) {
        Some(Value::String(one)) => vec![one.as_str()],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let scopes = if members.contains_key("scope") { list("scope") } else { list("scp") };
    let scopes = Scopes::collect(scopes.iter().flat_map(|text| text.split(' ')).filter(|s| !s.is_empty()));
    Ok(Principal::Oauth(Arc::new(Oauth {
        issuer,
        subject,
        client_id: one("client_id").or_else(|| one("azp")),
        tenant: None,
        groups: list("groups").into_iter().filter_map(Identifier::new).collect(),
        scopes: scopes.ok_or("`scope` holds what is no scope")?,
        task: None,
        run: None,
        expires: u64::MAX,
        claims: members,
    })))
}
