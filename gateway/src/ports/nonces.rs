//! The port to what remembers which one-time tokens were used. What forgets, or can't be asked, must refuse.

use async_trait::async_trait;

/// Why a nonce can't be spent now. For the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgetful(pub String);

/// Used one-time tokens.
#[async_trait]
pub trait Nonces: Send + Sync {
    /// Spends an owner's nonce; the times are the Unix second from which it is void, and now. `false`: it was spent before.
    ///
    /// # Errors
    /// It can't be told whether it was spent: then it must count as spent.
    async fn spend(&self, owner: &str, nonce: &str, times: (i64, i64)) -> Result<bool, Forgetful>;

    /// The replica that alone remembers what was spent here; none where replicas share it.
    fn replica(&self) -> Option<&str>;
}
