//! A secret of this machine that is read again when its file changes: looked at when it is used, at most once a second,
//! never on a worker thread. A file that can't be read leaves the last good value in force.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::config::{Held, Secret, read_secret};

/// How often a file is looked at.
const EVERY: Duration = Duration::from_secs(1);

type Make<T> = Box<dyn Fn(&Secret) -> Option<T> + Send + Sync>;

/// A value made from a secret.
pub(in crate::adapters) struct Watched<T> {
    shared: Arc<Shared<T>>,
    started: Instant,
    /// Milliseconds since `started` before which nobody looks again.
    next: AtomicU64,
}

struct Shared<T> {
    file: Option<PathBuf>,
    make: Make<T>,
    current: ArcSwap<T>,
    known: Mutex<Known>,
}

/// The file as it was last seen.
struct Known {
    print: Print,
    secret: Secret,
}

/// What tells one state of a file from another: Kubernetes exchanges a mounted secret by exchanging a link.
type Print = Option<(SystemTime, u64, u64)>;

impl<T: Send + Sync + 'static> Watched<T> {
    /// The value of a checked secret; None when `make` can't use it.
    pub(in crate::adapters) fn new(
        held: &Held,
        make: impl Fn(&Secret) -> Option<T> + Send + Sync + 'static,
    ) -> Option<Watched<T>> {
        let current = ArcSwap::from_pointee(make(&held.secret)?);
        let file = held.file.clone();
        let known = Mutex::new(Known { print: None, secret: held.secret.clone() });
        let shared = Shared { file, make: Box::new(make), current, known };
        Some(Watched { shared: Arc::new(shared), started: Instant::now(), next: AtomicU64::new(0) })
    }

    /// The value now.
    pub(in crate::adapters) async fn get(&self) -> Arc<T> {
        self.refresh().await;
        self.shared.current.load_full()
    }

    /// Looks at the file if nobody did for a second. Whether the value is another one.
    pub(in crate::adapters) async fn refresh(&self) -> bool {
        if self.shared.file.is_none() {
            return false;
        }
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let next = self.next.load(Ordering::Relaxed);
        let later = now.saturating_add(u64::try_from(EVERY.as_millis()).unwrap_or(u64::MAX));
        let mine = now >= next
            && self.next.compare_exchange(next, later, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        mine && self.look().await
    }

    /// Looks at the file now. Whether the value is another one.
    pub(in crate::adapters) async fn look(&self) -> bool {
        let shared = Arc::clone(&self.shared);
        tokio::task::spawn_blocking(move || shared.look()).await.unwrap_or(false)
    }
}

impl<T> Shared<T> {
    fn look(&self) -> bool {
        let Some(file) = &self.file else { return false };
        let seen = print(file);
        let mut known = self.known.lock();
        if seen.is_none() || known.print == seen {
            return false;
        }
        let secret = match read_secret(file) {
            Ok(secret) => secret,
            Err(what) => {
                tracing::error!(%what, "the secret can't be read again; the old one stays");
                return false;
            }
        };
        known.print = seen;
        if known.secret == secret {
            return false;
        }
        let made = (self.make)(&secret);
        known.secret = secret;
        match made {
            Some(made) => {
                self.current.store(Arc::new(made));
                tracing::info!(file = %file.display(), "a secret was read again");
                true
            }
            None => {
                tracing::error!(file = %file.display(), "the new secret can't be used; the old one stays");
                false
            }
        }
    }
}

#[cfg(unix)]
fn print(file: &std::path::Path) -> Print {
    use std::os::unix::fs::MetadataExt as _;
    let meta = file.metadata().ok()?;
    Some((meta.modified().ok()?, meta.len(), meta.ino()))
}

#[cfg(not(unix))]
fn print(file: &std::path::Path) -> Print {
    let meta = file.metadata().ok()?;
    Some((meta.modified().ok()?, meta.len(), 0))
}
