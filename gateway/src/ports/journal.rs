//! The port to the journal. Until the journal is built its one adapter keeps nothing; the calls are placed
//! where the records will be written, so that no call can be sent without an intent.

use async_trait::async_trait;

/// What is known of a call when it is about to be sent.
#[derive(Clone, Debug)]
pub struct Intent<'a> {
    /// The gateway's id of the call.
    pub call_id: &'a str,
    /// The task that the call is made under.
    pub task: &'a str,
    /// The server's configured id.
    pub server: &'a str,
    /// The JSON-RPC method.
    pub method: &'a str,
    /// The server's own name of the tool or prompt, or the resource's URI.
    pub name: &'a str,
}

/// How a call ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// A result without `isError`.
    Ok,
    /// A result with `isError: true`.
    ToolError,
    /// Answered with a question to a person: the call was not made, and may come again.
    Asked,
    /// Refused by the gateway.
    Refused,
    /// The server answered with an error, or not at all.
    Failed,
    /// The client cancelled or left.
    Cancelled,
}

impl Ending {
    /// The outcome as a label of logs and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Ending::Ok => "ok",
            Ending::ToolError => "tool_error",
            Ending::Asked => "asked",
            Ending::Refused => "refused",
            Ending::Failed => "failed",
            Ending::Cancelled => "cancelled",
        }
    }
}

/// The journal can't take a record: no call goes through (7008).
#[derive(Clone, Debug, thiserror::Error)]
#[error("journal unavailable: {0}")]
pub struct Unavailable(pub String);

/// Where calls leave their records.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Written before the call is sent.
    async fn intent(&self, intent: &Intent<'_>) -> Result<(), Unavailable>;

    /// Written before the final answer leaves. Must not wait: it is also called for departed clients.
    fn outcome(&self, call_id: &str, ending: Ending);
}

/// Keeps nothing.
pub struct NoJournal;

#[async_trait]
impl Journal for NoJournal {
    async fn intent(&self, _: &Intent<'_>) -> Result<(), Unavailable> {
        Ok(())
    }

    fn outcome(&self, _: &str, _: Ending) {}
}
