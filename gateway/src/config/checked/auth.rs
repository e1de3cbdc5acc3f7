//! Checked credentials: what proves callers, and what servers get. Secrets are held, never shown; nothing here fetches.

use std::path::PathBuf;
use std::time::Duration;

use auth::certificate::NameKind;
use auth::client::ClientAuth;
use auth::egress::Egress;
use auth::issuer::Issuer;
use auth::keys::{Algorithm, Timing};
use auth::outgoing::Target;
use auth::registration::Shim;
use http::HeaderName;

use super::{Server, Transport};
use crate::config::secret::Secret;

/// What proves callers.
#[derive(Clone, Debug)]
pub struct Auth {
    /// Accepted authorization servers, in the order of the file.
    pub issuers: Vec<Trusted>,
    /// Fixed bearer tokens.
    pub tokens: Vec<FixedToken>,
    /// Client certificates.
    pub clients: Option<ClientCertificates>,
    /// Where keys, metadata and tokens may come from.
    pub egress: Egress,
    /// PEM file of authorities trusted there instead of the system's.
    pub egress_ca: Option<PathBuf>,
    /// The registration shim, and the issuer that it stands for.
    pub shim: Option<(String, Shim)>,
    /// A stream is cut so long after its credential has ended.
    pub stream_grace: Duration,
}

/// How long a stream may outlive its credential when the file says nothing.
const STREAM_GRACE: Duration = Duration::from_secs(60);

impl Default for Auth {
    fn default() -> Self {
        Self {
            issuers: Vec::new(),
            tokens: Vec::new(),
            clients: None,
            egress: Egress::default(),
            egress_ca: None,
            shim: None,
            stream_grace: STREAM_GRACE,
        }
    }
}

impl Auth {
    /// Whether there is any way to prove a caller.
    pub fn any(&self) -> bool {
        !self.issuers.is_empty() || !self.tokens.is_empty() || self.clients.is_some()
    }

    /// The scopes that clients are told to ask for, of all issuers.
    pub fn scopes(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for scope in self.issuers.iter().flat_map(|trusted| trusted.issuer.scopes().iter()) {
            if !all.contains(&scope) {
                all.push(scope);
            }
        }
        all
    }
}

/// An accepted authorization server.
#[derive(Clone, Debug)]
pub struct Trusted {
    /// Its rules.
    pub issuer: Issuer,
    /// Where its keys come from.
    pub keys: KeySource,
    /// How long keys are kept.
    pub timing: Timing,
    /// Algorithm of RSA keys that name none.
    pub rsa: Algorithm,
    /// How its opaque tokens are looked up.
    pub introspection: Option<Introspection>,
}

/// Where an issuer's keys come from.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// Its metadata.
    Discovery,
    /// This URL, which the egress rules let through.
    Url(String),
    /// A text of this machine.
    Held(Held),
}

/// How opaque tokens are looked up.
#[derive(Clone, Debug)]
pub struct Introspection {
    /// The endpoint; absent: what the metadata names.
    pub endpoint: Option<String>,
    /// The gateway's own credential there.
    pub client: HeldClient,
}

/// The gateway as a client of an authorization server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldClient {
    /// Its id.
    pub id: String,
    /// Its secret.
    pub secret: Held,
    /// Where the secret goes.
    pub auth: ClientAuth,
}

/// A fixed bearer token.
#[derive(Clone, Debug)]
pub struct FixedToken {
    /// Its name.
    pub name: auth::Identifier,
    /// Its SHA-256 as text, checked to be one.
    pub sha256: Held,
    /// When it ends, in seconds since 1970 UTC.
    pub expires: Option<u64>,
}

/// Client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// PEM file of the authorities.
    pub ca: PathBuf,
    /// Which name is the caller's.
    pub name: NameKind,
}

/// A secret of this machine, and the file that it came from: files are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its value at load.
    pub secret: Secret,
    /// Its file, when it came from one.
    pub file: Option<PathBuf>,
}

/// The credential that a server gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// `Authorization: Bearer`.
    Bearer(Held),
    /// A header.
    Header(HeaderName, Held),
    /// A token of the gateway's own.
    ClientCredentials(Grantor),
    /// A token on behalf of the caller.
    TokenExchange(Grantor),
    /// The gateway's signed word on the caller.
    Assertion(Assertion),
}

impl Outgoing {
    /// Whether each caller has another: then nothing that the server says is shared among callers.
    pub fn per_principal(&self) -> bool {
        matches!(self, Outgoing::TokenExchange(_) | Outgoing::Assertion(_))
    }
}

/// A token endpoint and what is asked of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grantor {
    /// Its URL, which the egress rules let through.
    pub url: String,
    /// The gateway's own credential there.
    pub client: HeldClient,
    /// What the token is for.
    pub target: Target,
}

/// The gateway's signed word on the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assertion {
    /// Private key in PEM (PKCS#8).
    pub key: Held,
    /// `iss`.
    pub issuer: String,
    /// `aud`.
    pub audience: String,
    /// Its life.
    pub lifetime: Duration,
}

impl Server {
    /// Whether each caller has its own credential at the server.
    pub fn per_principal(&self) -> bool {
        match &self.transport {
            Transport::Http(http) => http.credential.as_ref().is_some_and(Outgoing::per_principal),
            Transport::Stdio(_) => false,
        }
    }
}
