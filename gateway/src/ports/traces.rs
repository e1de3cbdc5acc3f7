//! The port to where traces go: spans of finished messages. Nothing is told of messages that are not sampled, and whoever
//! tells never waits.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

/// What a message is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A tool, by name. `listed`: its server lists it, so that the name may be part of the span's.
    Tool {
        /// The name.
        name: String,
        /// Whether the server lists it.
        listed: bool,
    },
    /// A prompt, likewise.
    Prompt {
        /// The name.
        name: String,
        /// Whether the server lists it.
        listed: bool,
    },
    /// A resource, by URI without what may be secret in it.
    Resource(String),
}

/// The way to a server that a call took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// The span's id, 16 hexadecimal digits: the parent of the server's own.
    pub span: Arc<str>,
    /// What was asked of the server, under its own name.
    pub subject: Option<Subject>,
    /// From the message's arrival until it was sent.
    pub after: Duration,
    /// From then until the answer.
    pub took: Duration,
    /// Host and port; none for a child process.
    pub address: Option<(String, Option<u16>)>,
    /// The revision spoken.
    pub revision: Option<&'static str>,
}

/// A finished message.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The trace id, 32 hexadecimal digits.
    pub trace: Arc<str>,
    /// The span's id, 16 hexadecimal digits.
    pub span: Arc<str>,
    /// The caller's span.
    pub parent: Option<String>,
    /// The JSON-RPC method, one that the specification knows, or `other`.
    pub method: String,
    /// What it is about.
    pub subject: Option<Subject>,
    /// The JSON-RPC id.
    pub id: Option<String>,
    /// The revision spoken, where it is known.
    pub revision: Option<&'static str>,
    /// The gateway's name of the session, which opens none.
    pub session: Option<String>,
    /// Whether it came over stdin.
    pub pipe: bool,
    /// The server's id; empty when none is known.
    pub server: String,
    /// The task; empty when none is known.
    pub task: String,
    /// The run.
    pub run: Option<Arc<str>>,
    /// The gateway's id of the message.
    pub call_id: Arc<str>,
    /// How it ended.
    pub outcome: &'static str,
    /// Why it was refused or failed.
    pub reason: Option<&'static str>,
    /// The class of the error that the client got: a code, or `tool_error`.
    pub error: Option<String>,
    /// The JSON-RPC code of that error.
    pub code: Option<i64>,
    /// What it cost, in 10^-9 dollars.
    pub cost_nanousd: Option<u64>,
    /// From its arrival to its end.
    pub took: Duration,
    /// The call to the server, if one was made.
    pub leg: Option<Leg>,
}

/// Where spans go.
#[async_trait]
pub trait Traces: Send + Sync {
    /// Whether a message of this trace is to be told of. `parent`: what its caller decided for the trace, if it did.
    fn sampled(&self, trace: &str, parent: Option<bool>) -> bool;

    /// Takes a message that is over, ended just now. Never waits: what there is no room for is dropped and counted.
    fn finished(&self, message: Box<Finished>);

    /// Sends what is left, within this time. Nothing is taken any more.
    async fn close(&self, within: Duration);
}
