//! Which object store a URL means, and the few things that are asked of it. Credentials come from the configuration or,
//! where it names none, from the environment as the clouds' own tools read it; none is ever shown.

use std::io;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    BackoffConfig, GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions,
    RetryConfig,
};

use super::http::Own;
use crate::adapters::outbound::chain;
use crate::config::{Archive, Secret};

/// Requests are repeated twice before the caller hears of it.
const RETRIES: usize = 2;
const RETRY_WITHIN: Duration = Duration::from_secs(20);

/// What a request came to, other than an answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// There is no such object.
    Absent,
    /// There is one already.
    There,
    /// Anything else.
    Other(String),
}

impl From<object_store::Error> for Fault {
    fn from(error: object_store::Error) -> Fault {
        match &error {
            object_store::Error::NotFound { .. } => Fault::Absent,
            object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. } => {
                Fault::There
            }
            other => Fault::Other(chain(other)),
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Absent => f.write_str("there is no such object"),
            Fault::There => f.write_str("there is an object of this name"),
            Fault::Other(why) => f.write_str(why),
        }
    }
}

/// An object store and the place in it under which journals are kept.
#[derive(Clone)]
pub struct Store {
    objects: Arc<dyn ObjectStore>,
    prefix: Path,
    url: String,
    /// The folder, where it is one.
    dir: Option<PathBuf>,
}

/// An object of a store.
pub(super) struct Object {
    pub(super) path: Path,
    pub(super) size: u64,
}

impl From<ObjectMeta> for Object {
    fn from(meta: ObjectMeta) -> Object {
        Object { path: meta.location, size: meta.size }
    }
}

impl Store {
    /// Opens what a configuration names. Nothing is connected yet. `make`: a folder is made when it is not there.
    ///
    /// # Errors
    /// It can't be what is meant.
    pub fn open(spec: &Archive, make: bool) -> Result<Store, String> {
        let url = spec.url.as_str().trim_end_matches('/').to_owned();
        let failed = |error: object_store::Error| format!("{url}: {}", chain(&error));
        if spec.url.scheme() == "file" {
            let dir = spec.url.to_file_path().map_err(|()| format!("{url}: not an absolute path"))?;
            let objects = Arc::new(folder(&dir, make).map_err(|e| format!("{}: {e}", dir.display()))?);
            return Ok(Store { objects, prefix: Path::default(), url, dir: Some(dir) });
        }
        let prefix = Path::from_url_path(spec.url.path()).map_err(|e| failed(e.into()))?;
        let objects: Arc<dyn ObjectStore> = match spec.url.scheme() {
            "gs" => Arc::new(google(spec).build().map_err(failed)?),
            "az" => Arc::new(azure(spec).build().map_err(failed)?),
            _ => Arc::new(amazon(spec).build().map_err(failed)?),
        };
        Ok(Store { objects, prefix, url, dir: None })
    }

    /// The URL of a log.
    pub(super) fn shown(&self, log: &str) -> String {
        format!("{}/{log}", self.url)
    }

    /// The place of a log's files: its id.
    pub(super) fn place(&self, log: &str) -> Path {
        log.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// The part of an object's place below the prefix.
    pub(super) fn below(&self, path: &Path) -> String {
        let parts: Option<Vec<String>> =
            path.prefix_match(&self.prefix).map(|parts| parts.map(|p| p.as_ref().to_owned()).collect());
        parts.unwrap_or_default().join("/")
    }

    /// All objects below the prefix.
    pub(super) async fn list(&self) -> Result<Vec<Object>, Fault> {
        if let Some(dir) = &self.dir {
            return walk(dir).map_err(|error| Fault::Other(format!("{}: {error}", dir.display())));
        }
        let found = self.objects.list(Some(&self.prefix)).map_ok(Object::from).try_collect();
        match found.await.map_err(Fault::from) {
            Err(Fault::Absent) => Ok(Vec::new()),
            other => other,
        }
    }

    /// An object's size.
    pub(super) async fn size(&self, path: &Path) -> Result<u64, Fault> {
        Ok(self.objects.head(path).await?.size)
    }

    /// Makes an object; one that is there stays as it is.
    pub(super) async fn create(&self, path: &Path, bytes: Bytes) -> Result<(), Fault> {
        let options = PutOptions::from(PutMode::Create);
        self.objects.put_opts(path, bytes.into(), options).await?;
        Ok(())
    }

    /// A piece of an object.
    pub(super) async fn piece(&self, path: &Path, from: u64, to: u64) -> Result<Bytes, Fault> {
        let options = GetOptions { range: Some(GetRange::Bounded(from..to)), ..GetOptions::default() };
        Ok(self.objects.get_opts(path, options).await?.bytes().await?)
    }
}

/// The regular files of a folder and those below it. Links, pipes and names that no object can have are passed over: one
/// of them must not hide the rest.
fn walk(root: &FilePath) -> io::Result<Vec<Object>> {
    let (mut found, mut open) = (Vec::new(), vec![Path::default()]);
    while let Some(at) = open.pop() {
        let Some(entries) = unless_gone(std::fs::read_dir(root.join::<&str>(at.as_ref())))? else { continue };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let Some(path) = name.to_str().and_then(|name| Path::parse(format!("{at}/{name}")).ok()) else {
                continue;
            };
            match unless_gone(entry.metadata())? {
                Some(meta) if meta.is_dir() => open.push(path),
                Some(meta) if meta.is_file() => found.push(Object { path, size: meta.len() }),
                _ => {}
            }
        }
    }
    Ok(found)
}

fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

fn folder(dir: &FilePath, make: bool) -> Result<LocalFileSystem, String> {
    use std::os::unix::fs::DirBuilderExt as _;
    if make {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o750).create(dir);
        made.map_err(|e| e.to_string())?;
    }
    LocalFileSystem::new_with_prefix(dir).map(|files| files.with_fsync(true)).map_err(|e| chain(&e))
}

fn retry() -> RetryConfig {
    let backoff = BackoffConfig { max_backoff: Duration::from_secs(5), ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: RETRIES, retry_timeout: RETRY_WITHIN }
}

fn own(spec: &Archive) -> Own {
    Own { ca: spec.ca.clone() }
}

fn text(secret: Option<&Secret>) -> Option<String> {
    secret.map(|secret| secret.expose().to_owned())
}

fn amazon(spec: &Archive) -> AmazonS3Builder {
    let given = spec.access_key.is_some();
    let mut builder = if given { AmazonS3Builder::new() } else { AmazonS3Builder::from_env() };
    builder = builder.with_url(spec.url.as_str()).with_http_connector(own(spec)).with_retry(retry());
    if let (Some(id), Some(secret)) = (text(spec.access_key.as_ref()), text(spec.secret_key.as_ref())) {
        builder = builder.with_access_key_id(id).with_secret_access_key(secret);
    }
    if let Some(token) = text(spec.session_token.as_ref()) {
        builder = builder.with_token(token);
    }
    if let Some(region) = &spec.region {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = &spec.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if spec.allow_http { builder.with_allow_http(true) } else { builder }
}

fn google(spec: &Archive) -> GoogleCloudStorageBuilder {
    let key = text(spec.service_account.as_ref());
    let mut builder =
        if key.is_some() { GoogleCloudStorageBuilder::new() } else { GoogleCloudStorageBuilder::from_env() };
    builder = builder.with_url(spec.url.as_str()).with_http_connector(own(spec)).with_retry(retry());
    if let Some(key) = key {
        builder = builder.with_service_account_key(key);
    }
    if let Some(endpoint) = &spec.endpoint {
        builder = builder.with_base_url(endpoint);
    }
    if spec.allow_http {
        let options = object_store::ClientOptions::new().with_allow_http(true);
        return builder.with_client_options(options);
    }
    builder
}

fn azure(spec: &Archive) -> MicrosoftAzureBuilder {
    let key = text(spec.access_key.as_ref());
    let mut builder =
        if key.is_some() { MicrosoftAzureBuilder::new() } else { MicrosoftAzureBuilder::from_env() };
    builder = builder.with_url(spec.url.as_str()).with_http_connector(own(spec)).with_retry(retry());
    if let Some(account) = &spec.account {
        builder = builder.with_account(account);
    }
    if let Some(key) = key {
        builder = builder.with_access_key(key);
    }
    if let Some(endpoint) = &spec.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    if spec.allow_http { builder.with_allow_http(true) } else { builder }
}

/// The archive that a URL of a command line means, with the environment's credentials.
///
/// # Errors
/// It is no such URL.
pub(super) fn of_url(text: &str) -> Result<Store, String> {
    let url = crate::config::archive_url(text).map_err(|(what, fix)| format!("{text}: {what}: {fix}"))?;
    Store::open(&Archive::of(url), false)
}
