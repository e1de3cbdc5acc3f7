//! The checked `audit` section: where and how the journal is kept. Nothing is opened or made here.

use std::path::PathBuf;
use std::time::Duration;

/// Where and how calls leave their records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// When a record counts as taken.
    pub durability: Durability,
    /// Folder of the logs of all instances.
    pub dir: PathBuf,
    /// File of the signing key.
    pub key: PathBuf,
    /// Folder for the newest checkpoints, on another volume.
    pub guard: Option<PathBuf>,
    /// Name of this gateway's log; `None`: by the command.
    pub instance: Option<String>,
    /// First part of a new log's id; `None`: the host's name.
    pub deployment: Option<String>,
    /// A log's file is closed at this size in bytes,
    pub segment_bytes: u64,
    /// and at this age.
    pub segment_age: Duration,
}

/// When a record counts as taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it is written; it is synced within 50 ms.
    Buffered,
    /// When it is synced.
    Strict,
    /// There is no journal.
    Off,
}
