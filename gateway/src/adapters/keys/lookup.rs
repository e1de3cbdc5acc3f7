//! Opaque tokens, looked up at the one issuer that does so: each token by one request at a time, a bounded number of
//! requests in all, both outcomes remembered shortly. A failure to ask is no outcome.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use auth::client::Client;
use auth::introspect::{self, Cache, MAX_ANSWER};
use auth::{Principal, Secret, TokenError};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::document::Obtain;
use super::invalid;
use super::source::Source;
use crate::adapters::outbound::Watched;
use crate::config::Introspection;
use crate::digest::sha256;
use crate::ports::keys::Denied;
use crate::who::Who;

/// Outcomes that are remembered.
const REMEMBERED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(16_383);
/// Requests to the issuer at once, over all tokens.
const AT_ONCE: usize = 32;
/// Requests for one token are one: tokens share this many places, so two that share one wait for each other.
const PLACES: usize = 64;
/// The longest that a token waits for its turn.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks opaque tokens up.
pub(super) struct Lookups {
    source: Arc<Source>,
    endpoint: Option<String>,
    id: String,
    way: auth::client::ClientAuth,
    secret: Watched<Secret>,
    obtain: Arc<dyn Obtain>,
    cache: Mutex<Cache>,
    places: Vec<tokio::sync::Mutex<()>>,
    at_once: Semaphore,
}

impl Lookups {
    pub(super) fn new(
        source: &Arc<Source>,
        spec: &Introspection,
        obtain: &Arc<dyn Obtain>,
    ) -> Option<Lookups> {
        Some(Lookups {
            source: Arc::clone(source),
            endpoint: spec.endpoint.clone(),
            id: spec.client.id.clone(),
            way: spec.client.auth,
            secret: Watched::new(&spec.client.secret, |secret| Some(Secret::new(secret.expose())))?,
            obtain: Arc::clone(obtain),
            cache: Mutex::new(Cache::new(REMEMBERED)),
            places: (0..PLACES).map(|_| tokio::sync::Mutex::default()).collect(),
            at_once: Semaphore::new(AT_ONCE),
        })
    }

    /// Whose token this is.
    pub(super) async fn present(&self, token: &str, secs: u64, started: Instant) -> Result<Arc<Who>, Denied> {
        let known = |age| self.cache.lock().get(self.source.issuer(), token, secs, age);
        let outcome = match known(started.elapsed()) {
            Some(outcome) => outcome,
            None => {
                let turn = async {
                    let place = usize::from(sha256(token.as_bytes()).first().copied().unwrap_or_default());
                    let place = self.places.get(place % PLACES).ok_or_else(busy)?;
                    let _one = place.lock().await;
                    if let Some(outcome) = known(started.elapsed()) {
                        return Ok(outcome);
                    }
                    let _turn = self.at_once.acquire().await.map_err(|_| busy())?;
                    self.ask(token, secs, started).await
                };
                timeout(PATIENCE, turn).await.unwrap_or_else(|_| Err(busy()))?
            }
        };
        outcome.map(|principal| Who::new(principal, Some(Secret::new(token)))).map_err(invalid)
    }

    async fn ask(
        &self,
        token: &str,
        secs: u64,
        started: Instant,
    ) -> Result<Result<Principal, TokenError>, Denied> {
        let endpoint = match &self.endpoint {
            Some(url) => url.clone(),
            None => {
                let metadata = self.source.metadata(started).await?;
                let named = metadata.introspection_endpoint();
                named.ok_or_else(|| away("the metadata names no introspection endpoint"))?.to_owned()
            }
        };
        let secret = (*self.secret.get().await).clone();
        let client = Client { id: self.id.clone(), secret, auth: self.way };
        let form = introspect::request(&client, token);
        let answer =
            self.obtain.post(&endpoint, &form, MAX_ANSWER).await.map_err(|e| away(&e.to_string()))?;
        if answer.status != 200 {
            return Err(away(&format!("status {} from the introspection endpoint", answer.status)));
        }
        let outcome = introspect::answer(self.source.issuer(), &answer.body, secs);
        self.cache.lock().put(self.source.issuer(), token, outcome.clone(), started.elapsed());
        Ok(outcome)
    }
}

fn busy() -> Denied {
    away("too many tokens wait to be looked up")
}

fn away(what: &str) -> Denied {
    Denied::Unavailable(what.to_owned())
}
