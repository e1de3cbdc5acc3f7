//! The port to the journal: what is told of a call before it is sent and at its end, of refusals, questions and lists.
//! Bodies are only told so that their digests can be made.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use mcp::json::Raw;

use crate::ports::accounts::Accounts;
use crate::who::Who;

/// Whose message it is, and which.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The gateway's id of the message.
    pub call_id: &'a str,
    /// The caller.
    pub who: &'a Who,
    /// The task that it works under.
    pub task: &'a str,
    /// The run, where one is known.
    pub run: Option<&'a str>,
    /// The JSON-RPC method.
    pub method: &'a str,
    /// The server's configured id; empty when none is known.
    pub server: &'a str,
    /// The server's own name of the tool or prompt, or the resource's URI; what the client named where nothing here has
    /// that name.
    pub name: &'a str,
    /// The caller's `traceparent`, as it was sent.
    pub traceparent: Option<&'a str>,
}

/// What is known of a call when it is about to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Intent<'a> {
    /// Whose and which.
    pub about: About<'a>,
    /// The arguments as they are sent; empty when there are none.
    pub args: &'a [u8],
    /// SHA-256 of the tool's entry in the server's list.
    pub tool_digest: Option<[u8; 32]>,
    /// The part of the task that allowed it.
    pub rule: &'a str,
    /// What it has reserved; none when it has no price and no budget is asked.
    pub held: Option<Held<'a>>,
}

/// What a call has reserved: what it is charged when nobody gets to know how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held<'a> {
    /// In 10^-9 dollars.
    pub nanousd: u64,
    /// The day (UTC) that budgets count it under and the bytes of its result; none when no budget is asked.
    pub counted: Option<(&'a str, u64)>,
}

/// What is told of besides calls.
#[derive(Clone, Copy, Debug)]
pub enum Note<'a> {
    /// It was refused, for a reason of the table in `reject`.
    Denied(&'static str),
    /// A person is asked before the call is made.
    Question,
    /// A list was answered, with this message.
    List(&'a [u8]),
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
    /// Refused by the gateway: before it was sent, or its answer.
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

/// What is known of a call at its end.
#[derive(Clone, Debug)]
pub struct End {
    /// How it ended.
    pub ending: Ending,
    /// Why, of the table in `reject`.
    pub reason: Option<&'static str>,
    /// The result as the client gets it, before anything of the gateway's own is put in.
    pub result: Option<Raw>,
    /// What a cancelled call had given so far, as the client had got it or would have.
    pub partial: Option<Raw>,
    /// What it cost, in 10^-9 dollars.
    pub cost_nanousd: Option<u64>,
    /// Bytes of its result as budgets count them; none when it was never sent, or no budget is asked.
    pub charged_bytes: Option<u64>,
    /// How long the server took, in milliseconds.
    pub ms: u64,
}

/// The journal can't take a record: no call goes through (7008).
#[derive(Clone, Debug, thiserror::Error)]
#[error("journal unavailable: {0}")]
pub struct Unavailable(pub String);

/// Names a record: who keeps it can prove later that the record was there, and what it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The log's id.
    pub log: Arc<str>,
    /// The record's number in it.
    pub seq: u64,
    /// The record's leaf hash.
    pub leaf: [u8; 32],
}

/// Where a log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The log's id.
    pub log: Arc<str>,
    /// Records.
    pub size: u64,
    /// Leaf hash of the last.
    pub leaf: [u8; 32],
}

/// An outcome on its way to the disk; its record, when that is written then.
pub type Settling = Pin<Box<dyn Future<Output = Result<Option<Receipt>, Unavailable>> + Send>>;

/// An outcome that the journal was given.
pub enum Kept {
    /// Nothing is to be waited for. Its record, when that is written already.
    Now(Option<Receipt>),
    /// To be awaited before the answer leaves.
    Later(Settling),
}

/// The place that an intent keeps for its outcome. Dropped unfinished it leaves an outcome of `unknown`.
pub trait Slot: Send {
    /// Records how the call ended. Never waits: it is also called for clients that have left.
    fn finish(self: Box<Self>, end: End) -> Kept;
}

/// What names a call in traces: the same again when its run is replayed, on every replica with the same key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// The trace id, 32 hexadecimal digits; empty when there is no key to derive it with.
    pub trace: Arc<str>,
    /// The call's span id, 16 hexadecimal digits; empty likewise.
    pub span: Arc<str>,
    /// The call's index in its run, from 0.
    pub index: Option<u64>,
}

/// An intent that is written.
pub struct Written {
    /// What names the call.
    pub ids: Ids,
    /// The intent's record.
    pub receipt: Option<Receipt>,
    /// The outcome's place.
    pub slot: Box<dyn Slot>,
}

/// How the archive of the journal stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Archive {
    /// Where this log is kept.
    pub url: String,
    /// Closed segments that are not kept yet.
    pub lag_segments: u64,
    /// Segments that are kept.
    pub kept_segments: u64,
    /// Segments under whose names something else is kept. They count as lag.
    pub refused: Vec<u64>,
    /// Why nothing is taken now, and since when this is known.
    pub error: Option<(String, SystemTime)>,
}

/// How far a journal has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Records of its log.
    pub records: u64,
    /// Time since the last checkpoint while there are records without one.
    pub checkpoint_lag: Duration,
    /// What is wrong with it now.
    pub fault: Option<String>,
}

/// Is told how long each sync took. It must be quick.
pub type SyncTimer = Box<dyn Fn(Duration) + Send + Sync>;

/// Where calls leave their records.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Written before the call is sent.
    ///
    /// # Errors
    /// The call must not be sent.
    async fn intent(&self, intent: &Intent<'_>) -> Result<Written, Unavailable>;

    /// Records what is no call.
    ///
    /// # Errors
    /// It is not recorded.
    async fn note(&self, about: &About<'_>, note: Note<'_>) -> Result<Option<Receipt>, Unavailable>;

    /// Where the log ends now; none when nothing is kept.
    fn head(&self) -> Option<Head>;

    /// Counts a refusal whose caller or message is not known.
    fn count_denied(&self, reason: &'static str);

    /// What its records add up to; none when nothing is kept.
    fn accounts(&self) -> Option<&dyn Accounts> {
        None
    }

    /// How its archive stands, where there is one.
    fn archive(&self) -> Option<Archive> {
        None
    }

    /// How far it has come; none when nothing is kept.
    fn figures(&self) -> Option<Figures> {
        None
    }

    /// Gives every sync's time to this from now on.
    fn time_syncs(&self, _with: SyncTimer) {}

    /// Ends the journal: nothing is taken any more. Waits until everything is on disk.
    fn close(&self);
}

/// Keeps nothing.
pub struct NoJournal;

/// A place for no outcome.
pub struct Nowhere;

impl Slot for Nowhere {
    fn finish(self: Box<Self>, _: End) -> Kept {
        Kept::Now(None)
    }
}

#[async_trait]
impl Journal for NoJournal {
    async fn intent(&self, _: &Intent<'_>) -> Result<Written, Unavailable> {
        Ok(Written { ids: Ids::default(), receipt: None, slot: Box::new(Nowhere) })
    }

    async fn note(&self, _: &About<'_>, _: Note<'_>) -> Result<Option<Receipt>, Unavailable> {
        Ok(None)
    }

    fn head(&self) -> Option<Head> {
        None
    }

    fn count_denied(&self, _: &'static str) {}

    fn close(&self) {}
}
