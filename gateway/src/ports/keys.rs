//! The port to whatever proves credentials: static tokens, issuers' keys, introspection. It is given a token and says
//! whose it is; it never sees a request.

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;

use crate::who::Who;

/// Why a token proves nobody. `detail` is for the log alone and never holds the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// It is not valid here; the reason is one of a fixed set.
    Invalid(&'static str),
    /// It can't be judged now: keys or the introspection endpoint can't be had.
    Unavailable(String),
}

/// Proves credentials.
#[async_trait]
pub trait Keys: Send + Sync {
    /// Whose token this is.
    ///
    /// # Errors
    /// See [`Denied`].
    async fn present(&self, token: &str, now: SystemTime) -> Result<Arc<Who>, Denied>;

    /// Whether there is any credential that could prove somebody.
    fn any(&self) -> bool;
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
