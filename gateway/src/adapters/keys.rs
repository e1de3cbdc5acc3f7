//! Proof of callers: fixed tokens, JWTs of the configured issuers, opaque tokens by introspection. What was proven is
//! remembered by the token's digest and checked against its end at each use. It never logs a token.

mod document;
mod lookup;
mod source;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use auth::issuer::ServerMetadata;
use auth::jwt::{self, Unverified};
use auth::keys::Key;
use auth::tokens::{Presented, StaticToken, StaticTokens, parse_digest};
use auth::{Digest, LEEWAY, Secret, TokenError};
use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

pub use self::document::{Documents, Obtain};
use self::lookup::Lookups;
use self::source::Source;
use crate::adapters::outbound::Watched;
use crate::config::{self, ClientCertificates, FixedToken};
use crate::digest::sha256;
use crate::ports::clock::since_epoch;
use crate::ports::keys::{Denied, IssuerState, Keys};
use crate::who::Who;

/// Verified tokens that are remembered.
const REMEMBERED: NonZeroUsize = NonZeroUsize::MIN.saturating_add(16_383);

/// Proves callers.
pub struct Keyring {
    fixed: Fixed,
    sources: HashMap<String, Arc<Source>>,
    lookups: Option<Lookups>,
    verified: Mutex<LruCache<Digest, Verified>>,
    clients: Option<ClientCertificates>,
    started: Instant,
}

/// A JWT that was verified before.
#[derive(Clone)]
struct Verified {
    who: Arc<Who>,
    source: Arc<Source>,
    kid: String,
    key: Arc<Key>,
}

impl Keyring {
    /// What this configuration proves callers with. Fetches through `obtain`, and nothing before the first token.
    ///
    /// # Errors
    /// What can't be used, without any secret.
    pub fn new(spec: &config::Auth, obtain: &Arc<dyn Obtain>) -> Result<Keyring, String> {
        let mut sources = HashMap::new();
        let mut lookups = None;
        for trusted in &spec.issuers {
            let source = Source::new(trusted, obtain).ok_or("an issuer's keys can't be used")?;
            if let Some(spec) = &trusted.introspection {
                lookups =
                    Some(Lookups::new(&source, spec, obtain).ok_or("an introspection client can't be used")?);
            }
            sources.insert(trusted.issuer.issuer().to_string(), source);
        }
        Ok(Keyring {
            fixed: Fixed::new(&spec.tokens)?,
            sources,
            lookups,
            verified: Mutex::new(LruCache::new(REMEMBERED)),
            clients: spec.clients.clone(),
            started: Instant::now(),
        })
    }

    /// A token that was verified before, as long as its key is still its issuer's and it has not ended.
    fn remembered(&self, digest: &Digest, secs: u64, age: Duration) -> Option<Arc<Who>> {
        let found = self.verified.lock().get(digest).cloned()?;
        let ended = found.who.principal.expires().is_none_or(|end| secs >= end.saturating_add(LEEWAY));
        if ended || !found.source.still_has(&found.kid, &found.key, age) {
            self.verified.lock().pop(digest);
            return None;
        }
        Some(found.who)
    }

    async fn jwt(&self, token: &str, digest: Digest, secs: u64) -> Result<Arc<Who>, Denied> {
        let unverified = Unverified::parse(token).map_err(invalid)?;
        let source = self.sources.get(unverified.issuer()).ok_or_else(|| invalid(TokenError::Issuer))?;
        let kid = unverified.kid().to_owned();
        let key = source.key(&kid, self.started).await?;
        let principal = unverified.verify(&key, source.issuer(), secs).map_err(invalid)?;
        let who = Who::new(principal, Some(Secret::new(token)));
        let verified = Verified { who: Arc::clone(&who), source: Arc::clone(source), kid, key };
        self.verified.lock().put(digest, verified);
        Ok(who)
    }
}

/// The reason alone: it is a word of a fixed list.
fn invalid(error: TokenError) -> Denied {
    Denied::Invalid(error.reason())
}

#[async_trait]
impl Keys for Keyring {
    async fn present(&self, token: &str, now: SystemTime) -> Result<Arc<Who>, Denied> {
        let secs = since_epoch(now).as_secs();
        let digest = sha256(token.as_bytes());
        if let Some(who) = self.remembered(&digest, secs, self.started.elapsed()) {
            return Ok(who);
        }
        match self.fixed.present(token, secs).await {
            Presented::Known(principal) => return Ok(Who::new(principal, None)),
            Presented::Expired => return Err(invalid(TokenError::Expired)),
            Presented::Unknown => {}
        }
        // Three parts alone don't make a JWT: an issuer's opaque tokens may have them.
        let is_jwt = jwt::has_form(token)
            && (self.lookups.is_none() || !matches!(Unverified::parse(token), Err(TokenError::Malformed)));
        match (&self.lookups, is_jwt) {
            (_, true) if !self.sources.is_empty() => self.jwt(token, digest, secs).await,
            (Some(lookups), _) => lookups.present(token, secs, self.started).await,
            (None, _) => Err(Denied::Invalid("unknown_token")),
        }
    }

    fn certificate(&self, der: &[u8]) -> Result<Arc<Who>, Denied> {
        let clients = self.clients.as_ref().ok_or(Denied::Invalid("no_client_certificates"))?;
        let principal = auth::certificate::principal(der, clients.name);
        principal.map(|principal| Who::new(principal, None)).map_err(|error| Denied::Invalid(error.reason()))
    }

    fn any(&self) -> bool {
        !self.fixed.metas.is_empty() || !self.sources.is_empty() || self.clients.is_some()
    }

    fn issuers(&self) -> Vec<IssuerState> {
        let mut all: Vec<_> =
            self.sources.values().map(|source| source.state(self.started.elapsed())).collect();
        all.sort_by(|a, b| a.issuer.cmp(&b.issuer));
        all
    }

    async fn metadata(&self, issuer: &str) -> Result<Arc<ServerMetadata>, Denied> {
        let source = self.sources.get(issuer).ok_or(Denied::Invalid("issuer"))?;
        source.metadata(self.started).await
    }
}

/// Fixed tokens; the digests of some may be in files.
struct Fixed {
    metas: Vec<(FixedToken, Watched<Digest>)>,
    compiled: ArcSwap<StaticTokens>,
    /// When the files are looked at again: the usual call looks at none.
    next: Mutex<Instant>,
}

/// How often the files of digests are looked at.
const LOOK: Duration = Duration::from_secs(1);

impl Fixed {
    fn new(tokens: &[FixedToken]) -> Result<Fixed, String> {
        let unfit = "the digest of a fixed token can't be used";
        let watched = tokens.iter().map(|token| {
            let digest = Watched::new(&token.sha256, |secret| parse_digest(secret.expose())).ok_or(unfit)?;
            let now = parse_digest(token.sha256.secret.expose()).ok_or(unfit)?;
            Ok(((token.clone(), digest), compiled(token, now)))
        });
        let (metas, all): (Vec<_>, Vec<_>) = watched.collect::<Result<Vec<_>, &str>>()?.into_iter().unzip();
        let compiled = StaticTokens::compile(all).map_err(|error| error.to_string())?;
        Ok(Fixed { metas, compiled: ArcSwap::from_pointee(compiled), next: Mutex::new(Instant::now()) })
    }

    async fn present(&self, token: &str, secs: u64) -> Presented {
        if self.is_due() {
            let mut changed = false;
            for (_, digest) in &self.metas {
                changed |= digest.refresh().await;
            }
            if changed {
                self.compile().await;
            }
        }
        self.compiled.load().present(token, secs)
    }

    fn is_due(&self) -> bool {
        let (mut next, now) = (self.next.lock(), Instant::now());
        let due = now >= *next;
        if due {
            *next = now + LOOK;
        }
        due
    }

    async fn compile(&self) {
        let mut all = Vec::with_capacity(self.metas.len());
        for (token, digest) in &self.metas {
            all.push(compiled(token, *digest.get().await));
        }
        match StaticTokens::compile(all) {
            Ok(tokens) => self.compiled.store(Arc::new(tokens)),
            Err(error) => tracing::error!(%error, "the fixed tokens stay as they were"),
        }
    }
}

fn compiled(token: &FixedToken, sha256: Digest) -> StaticToken {
    StaticToken { name: token.name.clone(), sha256, expires: token.expires }
}
