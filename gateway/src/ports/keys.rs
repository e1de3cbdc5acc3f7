//! The port to whatever proves credentials: static tokens, issuers' keys, introspection. It is given a token and says
//! whose it is; it never sees a request.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use auth::issuer::ServerMetadata;

use crate::who::Who;

/// Why a token proves nobody. `detail` is for the log alone and never holds the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// It is not valid here; the reason is one of a fixed set.
    Invalid(&'static str),
    /// It can't be judged now: keys or the introspection endpoint can't be had.
    Unavailable(String),
}

/// How it stands with one issuer, for those who look after the gateway. Holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerState {
    /// Its identifier.
    pub issuer: String,
    /// Keys that can be used.
    pub keys: usize,
    /// Keys of its set that can't.
    pub dropped: usize,
    /// Whether tokens can be verified.
    pub usable: bool,
    /// Age of the keys; none before the first were read.
    pub age: Option<Duration>,
    /// Readings that failed since the last that didn't, and for how long.
    pub failing: Option<(u32, Duration)>,
    /// What the last failure was.
    pub last_error: Option<String>,
}

/// Proves credentials.
#[async_trait]
pub trait Keys: Send + Sync {
    /// Whose token this is.
    ///
    /// # Errors
    /// See [`Denied`].
    async fn present(&self, token: &str, now: SystemTime) -> Result<Arc<Who>, Denied>;

    /// Whose client certificate (DER) this is; TLS has checked that its authority is trusted.
    ///
    /// # Errors
    /// It names nobody.
    fn certificate(&self, _der: &[u8]) -> Result<Arc<Who>, Denied> {
        Err(Denied::Invalid("no_client_certificates"))
    }

    /// Whether there is any credential that could prove somebody.
    fn any(&self) -> bool;

    /// How it stands with the issuers.
    fn issuers(&self) -> Vec<IssuerState> {
        Vec::new()
    }

    /// What one of the issuers says of itself.
    ///
    /// # Errors
    /// It is none of ours, or can't be asked.
    async fn metadata(&self, _issuer: &str) -> Result<Arc<ServerMetadata>, Denied> {
        Err(Denied::Invalid("issuer"))
    }
}

/// No credential proves anybody.
pub struct NoKeys;

#[async_trait]
impl Keys for NoKeys {
    async fn present(&self, _: &str, _: SystemTime) -> Result<Arc<Who>, Denied> {
        Err(Denied::Invalid("no_issuer"))
    }

    fn any(&self) -> bool {
        false
    }
}
