//! The checked `audit` section: where and how the journal is kept. Nothing is opened or made here.

use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::config::secret::Secret;

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
    /// Where closed files are kept for good.
    pub archive: Option<Archive>,
}

/// An object store and how it is reached. Credentials that are not here are taken from the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    /// `s3`, `gs`, `az` or `file`.
    pub url: Url,
    /// Instead of the cloud's own.
    pub endpoint: Option<String>,
    /// Of S3.
    pub region: Option<String>,
    /// Whether the endpoint may be without TLS.
    pub allow_http: bool,
    /// PEM authorities instead of the system's.
    pub ca: Option<PathBuf>,
    /// Of Azure.
    pub account: Option<String>,
    /// S3's id of the key, Azure's key.
    pub access_key: Option<Secret>,
    /// S3's secret.
    pub secret_key: Option<Secret>,
    /// S3's token of a session.
    pub session_token: Option<Secret>,
    /// Google's JSON.
    pub service_account: Option<Secret>,
}

impl Archive {
    /// With the environment's credentials alone.
    pub fn of(url: Url) -> Archive {
        Archive {
            url,
            endpoint: None,
            region: None,
            allow_http: false,
            ca: None,
            account: None,
            access_key: None,
            secret_key: None,
            session_token: None,
            service_account: None,
        }
    }
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
