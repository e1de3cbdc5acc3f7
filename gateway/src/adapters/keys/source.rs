//! One issuer's keys and metadata: fetched by one flight at a time, kept as the rules of the key cache say. A failure
//! leaves what is there; what is too old closes the door.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use auth::issuer::{Issuer, MAX_METADATA, ServerMetadata, candidates};
use auth::keys::{Algorithm, Found, Key, KeyCache, KeySet, MAX_SET};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::document::Obtain;
use crate::adapters::outbound::Watched;
use crate::config::{KeySource, Trusted};
use crate::ports::keys::{Denied, IssuerState};

/// The longest that a token waits for its key. A fetch of metadata and keys takes at most this.
const PATIENCE: Duration = Duration::from_secs(12);
/// How often a token looks for its key: each time a fetch has ended.
const LOOKS: usize = 3;
/// How long metadata is believed that nobody asked keys of.
const METADATA_AGE: Duration = Duration::from_secs(600);

/// One issuer.
pub(super) struct Source {
    issuer: Issuer,
    rsa: Algorithm,
    origin: Origin,
    obtain: Arc<dyn Obtain>,
    cache: Mutex<KeyCache>,
    metadata: ArcSwapOption<(ServerMetadataRef, Duration)>,
    /// One request for metadata at a time.
    asking: tokio::sync::Mutex<()>,
    landed: watch::Sender<()>,
    last_error: Mutex<Option<String>>,
}

type ServerMetadataRef = Arc<ServerMetadata>;

enum Origin {
    Discovery,
    Url(String),
    Held(Watched<String>),
}

impl Source {
    pub(super) fn new(trusted: &Trusted, obtain: &Arc<dyn Obtain>) -> Option<Arc<Source>> {
        let origin = match &trusted.keys {
            KeySource::Discovery => Origin::Discovery,
            KeySource::Url(url) => Origin::Url(url.clone()),
            KeySource::Held(held) => {
                Origin::Held(Watched::new(held, |secret| Some(secret.expose().to_owned()))?)
            }
        };
        Some(Arc::new(Source {
            issuer: trusted.issuer.clone(),
            rsa: trusted.rsa,
            origin,
            obtain: Arc::clone(obtain),
            cache: Mutex::new(KeyCache::new(trusted.timing)),
            metadata: ArcSwapOption::empty(),
            asking: tokio::sync::Mutex::default(),
            landed: watch::Sender::new(()),
            last_error: Mutex::default(),
        }))
    }

    /// Its rules.
    pub(super) fn issuer(&self) -> &Issuer {
        &self.issuer
    }

    /// The key of this id.
    pub(super) async fn key(self: &Arc<Self>, kid: &str, started: Instant) -> Result<Arc<Key>, Denied> {
        for _ in 0..LOOKS {
            let mut landing = self.landed.subscribe();
            let looked = self.cache.lock().lookup(kid, started.elapsed());
            if looked.fetch {
                self.fly(started);
            }
            match looked.found {
                Found::Key(key) => return Ok(key),
                Found::Unknown => return Err(Denied::Invalid("unknown_key")),
                Found::Closed | Found::Held => break,
                Found::Wait => {}
            }
            if timeout(PATIENCE, landing.changed()).await.is_err() {
                break;
            }
        }
        Err(Denied::Unavailable(format!("the keys of {} can't be had", &**self.issuer.issuer())))
    }

    /// Whether this key is still in force. Fetches behind the caller's back when that is due.
    pub(super) fn still_has(self: &Arc<Self>, kid: &str, key: &Arc<Key>, now: Duration) -> bool {
        let (held, due) = {
            let mut cache = self.cache.lock();
            let looked = cache.lookup(kid, now);
            (matches!(looked.found, Found::Key(found) if Arc::ptr_eq(&found, key)), looked.fetch)
        };
        if due {
            // The moment that ages count from.
            let started = Instant::now().checked_sub(now).unwrap_or_else(Instant::now);
            self.fly(started);
        }
        held
    }

    /// How it stands with the issuer.
    pub(super) fn state(&self, now: Duration) -> IssuerState {
        let report = self.cache.lock().report(now);
        IssuerState {
            issuer: self.issuer.issuer().to_string(),
            keys: report.keys,
            dropped: report.dropped,
            usable: report.usable,
            age: report.age,
            failing: report.failing.map(|since| (report.failures, since)),
            last_error: self.last_error.lock().clone(),
        }
    }

    fn fly(self: &Arc<Self>, started: Instant) {
        let source = Arc::clone(self);
        tokio::spawn(async move {
            let set = source.fetch(started).await;
            let issuer = &**source.issuer.issuer();
            match &set {
                Ok(set) => {
                    tracing::debug!(issuer, keys = set.len(), dropped = set.dropped().len(), "keys read")
                }
                Err(what) => tracing::warn!(issuer, %what, "the issuer's keys can't be read"),
            }
            *source.last_error.lock() = set.as_ref().err().cloned();
            source.cache.lock().fetched(set.ok(), started.elapsed());
            source.landed.send_replace(());
        });
    }

    async fn fetch(&self, started: Instant) -> Result<KeySet, String> {
        let url = match &self.origin {
            Origin::Held(text) => return self.read(text.get().await.as_bytes()),
            Origin::Url(url) => url.clone(),
            Origin::Discovery => {
                let metadata = self.discover(started).await?;
                metadata.jwks_uri().ok_or("the metadata names no jwks_uri")?.to_owned()
            }
        };
        let document = self.obtain.get(&url, MAX_SET).await.map_err(|error| error.to_string())?;
        match document.status {
            200 => self.read(&document.body),
            status => Err(format!("status {status} instead of a key set")),
        }
    }

    fn read(&self, bytes: &[u8]) -> Result<KeySet, String> {
        KeySet::parse(bytes, self.rsa).map_err(|error| error.to_string())
    }

    /// What the issuer says of itself, asked for at most once at a time and not again for a while.
    pub(super) async fn metadata(&self, started: Instant) -> Result<ServerMetadataRef, Denied> {
        let fresh = || {
            let held = self.metadata.load_full()?;
            (started.elapsed().saturating_sub(held.1) < METADATA_AGE).then(|| Arc::clone(&held.0))
        };
        if let Some(found) = fresh() {
            return Ok(found);
        }
        let _one = self.asking.lock().await;
        if let Some(found) = fresh() {
            return Ok(found);
        }
        self.discover(started).await.map_err(Denied::Unavailable)
    }

    async fn discover(&self, started: Instant) -> Result<ServerMetadataRef, String> {
        let issuer = &**self.issuer.issuer();
        let mut last = "no address to ask".to_owned();
        for url in candidates(issuer) {
            let document = match self.obtain.get(&url, MAX_METADATA).await {
                Ok(document) if document.status == 200 => document,
                Ok(document) => {
                    last = format!("status {} instead of metadata", document.status);
                    continue;
                }
                Err(error) => {
                    last = error.to_string();
                    continue;
                }
            };
            match ServerMetadata::parse(&document.body, issuer) {
                Ok(metadata) => {
                    let metadata = Arc::new(metadata);
                    self.metadata.store(Some(Arc::new((Arc::clone(&metadata), started.elapsed()))));
                    return Ok(metadata);
                }
                // One that names another issuer is never used, nor is what another address might say instead.
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(last)
    }
}
