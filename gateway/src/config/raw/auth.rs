//! The `auth` section and `servers.*.auth` as they are written. Types and names alone, no rules.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use std::borrow::Cow;

use super::{Ordered, Time};

/// Who may call, and how it is proven.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Auth {
    /// Authorization servers whose access tokens are accepted.
    pub(crate) issuers: Option<Vec<Issuer>>,
    /// Fixed bearer tokens, by name.
    pub(crate) tokens: Option<Vec<Token>>,
    /// Client certificates (mutual TLS). Needs `tls`.
    pub(crate) clients: Option<Clients>,
    /// Where the gateway may connect to for keys, metadata and tokens.
    pub(crate) egress: Option<Egress>,
    /// Answers client registration for an issuer that refuses it. Off unless this section is here.
    pub(crate) registration_shim: Option<Shim>,
    /// A stream is cut so long after its credential has ended. Default 60s.
    pub(crate) stream_grace: Option<Time>,
}

/// An authorization server whose access tokens are accepted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Issuer {
    /// Its identifier, exactly as it stands in `iss`, such as https://idp.example.com/realms/platform.
    pub(crate) issuer: String,
    /// What `aud` names this gateway: one or several.
    pub(crate) audience: Texts,
    /// Audiences that may stand in `aud` beside this gateway's. Default: none.
    pub(crate) other_audiences: Option<Vec<String>>,
    /// Its keys: `env:NAME` or `file:PATH` of a JWK set, or an https URL. Default: found through its metadata.
    pub(crate) jwks: Option<String>,
    /// Age of the keys from which they are fetched again. Default 10m.
    pub(crate) jwks_refresh: Option<Time>,
    /// Shortest time between two fetches of the keys. Default 30s.
    pub(crate) jwks_cooldown: Option<Time>,
    /// Scopes that clients are told to ask for.
    pub(crate) scopes: Option<Vec<String>>,
    /// Scopes that a scope holds too: `mcp.write: [mcp.read]`.
    pub(crate) implies: Option<Ordered<Vec<String>>>,
    /// What is demanded of a JWT: `rfc9068` wants `typ: at+jwt`. Default plain.
    pub(crate) profile: Option<Profile>,
    /// Which claims hold what: a name, or a JSON pointer such as /realm_access/roles.
    pub(crate) claims: Option<Claims>,
    /// Looks opaque tokens up (RFC 7662). At one issuer alone.
    pub(crate) introspection: Option<Introspection>,
    /// Algorithm of RSA keys that name none: RS256 to RS512, PS256 to PS512. Default RS256.
    pub(crate) rsa: Option<String>,
}

/// What is demanded of a JWT.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Profile {
    Plain,
    Rfc9068,
}

/// Which claims hold what.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Claims {
    /// The caller's groups: a text or a list.
    pub(crate) groups: Option<String>,
    /// The caller's tenant.
    pub(crate) tenant: Option<String>,
    /// The task that the token is for.
    pub(crate) task: Option<String>,
    /// The run that the token is for.
    pub(crate) run: Option<String>,
    /// The client. Default: client_id, else azp.
    pub(crate) client: Option<String>,
}

/// How opaque tokens are looked up.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Introspection {
    /// The endpoint. Default: what the issuer's metadata names.
    pub(crate) endpoint: Option<String>,
    /// The gateway's client id.
    pub(crate) client_id: String,
    /// Its secret: `env:NAME` or `file:PATH`.
    pub(crate) client_secret: String,
    /// Where the secret goes. Default basic.
    pub(crate) client_auth: Option<ClientAuth>,
}

/// Where a client's secret goes.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ClientAuth {
    Basic,
    Post,
}

/// A fixed bearer token.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Token {
    /// Its name, for tasks and records.
    pub(crate) name: String,
    /// SHA-256 of its text: 64 hex digits, or `env:NAME` or `file:PATH` of them. `tollgate` never needs the text.
    pub(crate) sha256: String,
    /// When it ends: 2027-01-31 or 2027-01-31T12:00:00Z. Default never.
    pub(crate) expires: Option<String>,
}

/// Client certificates.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Clients {
    /// PEM file of the authorities that issue them.
    pub(crate) ca: String,
    /// Which subject alternative name is the caller's.
    pub(crate) name: NameKind,
}

/// A kind of subject alternative name.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NameKind {
    Uri,
    Dns,
    Email,
}

/// Where the gateway may connect to.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Egress {
    /// Networks that are allowed although they are not public, such as 10.1.0.0/16.
    pub(crate) allow: Option<Vec<String>>,
    /// Loopback, also by plain http. Default false; for development.
    pub(crate) loopback: Option<bool>,
    /// PEM file of the authorities trusted there instead of the system's.
    pub(crate) ca: Option<String>,
}

/// Registration with a client that was registered by hand.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shim {
    /// The issuer, one of `issuers`.
    pub(crate) issuer: String,
    /// The public client's id. Whoever asks gets it.
    pub(crate) client_id: String,
    /// Redirect URIs that are answered; http://127.0.0.1/callback stands for any port.
    pub(crate) redirect_uris: Vec<String>,
    /// Scopes of the client, separated by spaces.
    pub(crate) scope: Option<String>,
}

/// The credential that a server gets: one of these.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Outgoing {
    /// A bearer token: `env:NAME` or `file:PATH`.
    pub(crate) bearer: Option<String>,
    /// A header of another name.
    pub(crate) header: Option<Header>,
    /// A token of the gateway's own (RFC 6749 section 4.4).
    pub(crate) client_credentials: Option<Grantor>,
    /// A token on behalf of the caller (RFC 8693).
    pub(crate) token_exchange: Option<Grantor>,
    /// The gateway's signed word on the caller.
    pub(crate) assertion: Option<Assertion>,
}

/// A header with a secret.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    /// Its name.
    pub(crate) name: String,
    /// Its value: `env:NAME` or `file:PATH`.
    pub(crate) value: String,
}

/// A token endpoint.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Grantor {
    /// The token endpoint.
    pub(crate) token_url: String,
    /// The gateway's client id there.
    pub(crate) client_id: String,
    /// Its secret: `env:NAME` or `file:PATH`.
    pub(crate) client_secret: String,
    /// Where the secret goes. Default basic.
    pub(crate) client_auth: Option<ClientAuth>,
    /// Scopes to ask for, separated by spaces.
    pub(crate) scope: Option<String>,
    /// The server's URL at the endpoint (RFC 8707). Default for token_exchange without `audience`: the server's `url`.
    pub(crate) resource: Option<String>,
    /// The server's name at the endpoint.
    pub(crate) audience: Option<String>,
}

/// The gateway's signed word on the caller.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Assertion {
    /// Private key, Ed25519 or P-256, PKCS#8 in PEM: `env:NAME` or `file:PATH`.
    pub(crate) key: String,
    /// `iss` of the assertion. Default: `public_url`.
    pub(crate) issuer: Option<String>,
    /// `aud` of the assertion. Default: the server's `url` without its query.
    pub(crate) audience: Option<String>,
    /// Its life, up to 60s. Default 60s.
    pub(crate) lifetime: Option<Time>,
}

/// One text or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Texts {
    One(String),
    Several(Vec<String>),
}

impl JsonSchema for Texts {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Texts".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "array"], "items": { "type": "string" } })
    }
}
