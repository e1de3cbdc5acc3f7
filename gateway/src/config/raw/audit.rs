//! The `audit` section as it is written. Types and names alone, no rules.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Size, Time};

/// The journal: where calls leave their signed records.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Audit {
    /// Folder of the logs; each process has one of its own in it. Default ./var/audit.
    pub(crate) dir: Option<String>,
    /// `buffered`: written before each step, synced within 50 ms. `strict`: synced before a call is sent and before
    /// its answer leaves. `off`: no journal. Default buffered.
    pub(crate) durability: Option<Durability>,
    /// File of the signing key, mode 0600; made when it is not there. Default `signing-key` in `dir`.
    pub(crate) key: Option<String>,
    /// Folder on another volume for the newest checkpoint of each log: a journal that was rolled back does not open.
    pub(crate) guard: Option<String>,
    /// Name of this gateway's log among those of its replicas. Default gateway (`tollgate stdio`: stdio).
    pub(crate) instance: Option<String>,
    /// First part of a new log's id. Default: the name of the host.
    pub(crate) deployment: Option<String>,
    /// When a log's file is closed and the next begun.
    pub(crate) segment: Option<Segment>,
    /// Where closed files of the log are kept for good.
    pub(crate) archive: Option<Archive>,
}

/// An object store for the closed files of the log. Without credentials here, those of the environment count, as the
/// cloud's own tools read it (`AWS_*`, `GOOGLE_*`, `AZURE_*`, the machine's role).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Archive {
    /// `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix` or `file:///folder`.
    pub(crate) url: String,
    /// Base URL of a server that speaks the store's protocol, instead of the cloud's own.
    pub(crate) endpoint: Option<String>,
    /// S3: the region. Default us-east-1.
    pub(crate) region: Option<String>,
    /// Allow an endpoint without TLS. Default false.
    pub(crate) allow_http: Option<bool>,
    /// PEM file of the authorities to trust instead of the system's.
    pub(crate) ca: Option<String>,
    /// Azure: the storage account.
    pub(crate) account: Option<String>,
    /// S3: the access key's id; Azure: the account's key. `env:NAME` or `file:PATH`.
    pub(crate) access_key: Option<String>,
    /// S3: the secret access key, by reference.
    pub(crate) secret_key: Option<String>,
    /// S3: the session's token, by reference.
    pub(crate) session_token: Option<String>,
    /// Google: the service account's JSON, by reference.
    pub(crate) service_account: Option<String>,
}

/// When records count as taken.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Durability {
    Buffered,
    Strict,
    Off,
}

/// When a log's file is closed and the next begun.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Segment {
    /// At this size. Default 64MiB.
    pub(crate) bytes: Option<Size>,
    /// At this age. Default 1h.
    pub(crate) age: Option<Time>,
}
