//! What can go wrong: at start (the journal does not open) and later (a record is not taken).

use std::io;
use std::path::PathBuf;

/// Why a journal does not open, or can't be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process writes there.
    #[error("{0}: another process has this journal open")]
    Locked(PathBuf),
    /// A network file system: its locks and syncs are not to be relied on.
    #[error("{0}: a journal must not lie on a network file system")]
    NetworkFs(PathBuf),
    /// A file operation failed.
    #[error("{what}: {error}")]
    Io {
        /// The operation and its file.
        what: String,
        /// The system's reason.
        error: io::Error,
    },
    /// What was signed is no longer there: nothing is cut or written.
    #[error("record {seq} is damaged below the last checkpoint: {why}; run `tollgate audit verify`")]
    Damaged {
        /// The first record concerned.
        seq: u64,
        /// What is wrong with it.
        why: String,
    },
    /// The second place knows of more than is here: an old copy was put back.
    #[error("the guard knows {guard} records, the journal has {here}: it was rolled back")]
    RolledBack {
        /// The guard's size.
        guard: u64,
        /// The journal's size.
        here: u64,
    },
    /// The second place, or the journal's own checkpoint, contradicts the records.
    #[error("the checkpoint of {0} records contradicts the journal: its history was rewritten")]
    Forked(u64),
    /// The signing key is not the one that the log ends with, and nothing hands over to it.
    #[error("the signing key is not the log's: {0}")]
    KeyMismatch(String),
    /// The options make no log.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    /// For `map_err`: names the operation.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |error| Error::Io { what, error }
    }
}

/// Why a record is not taken. The call must not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// Writing failed, for example for lack of space. Later records are tried again.
    #[error("the journal can't be written: {0}")]
    Write(String),
    /// A sync failed or memory was corrupted: this process takes no more records and should end.
    #[error("the journal is lost to this process: {0}")]
    Poisoned(String),
    /// The journal was closed.
    #[error("the journal is closed")]
    Closed,
}

impl Unavailable {
    /// Whether the same may work a moment later.
    pub fn retryable(&self) -> bool {
        matches!(self, Unavailable::Write(_))
    }
}
