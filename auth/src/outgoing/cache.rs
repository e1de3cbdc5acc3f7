//! Tokens for servers, kept until they end: when to use one, when to renew it, when to wait. A state machine that sends
//! nothing itself; one flight per token, and bounded whatever the number of callers.

use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;

use super::grant::{Grant, GrantError};
use crate::digest::{self, Digest};
use crate::principal::Principal;
use crate::secret::Secret;

/// Longest time before its end at which a token is renewed.
const MARGIN: Duration = Duration::from_secs(60);
/// Time before its end from which a token is no longer sent: it must still be good when it arrives.
const LAST: Duration = Duration::from_secs(5);
/// How long a refusal stands before the endpoint is asked again.
const PAUSE: Duration = Duration::from_secs(5);
/// How long a request may take: one that hasn't ended by then never will.
const FLIGHT: Duration = Duration::from_secs(30);

/// What a token is kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheKey(Digest);

impl CacheKey {
    /// The gateway's own token for a server.
    pub fn own(server: &str) -> CacheKey {
        CacheKey(digest::of_parts(&["own", server]))
    }

    /// A token for a server on behalf of a caller. The scopes are a part of it: what was exchanged for a caller's strong
    /// token must not serve the same caller's weak one.
    pub fn on_behalf(server: &str, principal: &Principal) -> CacheKey {
        let scopes = principal.scopes().map(|scopes| scopes.text()).unwrap_or_default();
        CacheKey(digest::of_parts(&["on_behalf", server, &principal.canonical(), &scopes]))
    }
}

/// A token to send, and which one it is.
#[derive(Clone, Debug)]
pub struct Credential {
    /// The token.
    pub token: Secret,
    generation: u64,
}

/// What to do.
#[derive(Clone, Debug)]
pub enum Need {
    /// Send this; `renew` asks to get the next one meanwhile, once.
    Use {
        /// The token to send.
        credential: Credential,
        /// Whether to ask the endpoint now, and to tell the end by [`TokenCache::granted`].
        renew: bool,
    },
    /// Ask the endpoint now, tell the end by [`TokenCache::granted`], and ask here again.
    Fetch,
    /// Another request asks already: ask here again when it has ended.
    Wait,
    /// The endpoint has just refused, for this reason.
    Refused(GrantError),
}

#[derive(Debug, Default)]
struct Slot {
    held: Option<Held>,
    started: Option<Duration>,
    refused: Option<(GrantError, Duration)>,
}

#[derive(Debug)]
struct Held {
    credential: Credential,
    since: Duration,
    renew: Duration,
    end: Duration,
}

/// The tokens for servers.
#[derive(Debug)]
pub struct TokenCache {
    slots: LruCache<CacheKey, Slot>,
    generation: u64,
}

impl TokenCache {
    /// A cache of at most so many tokens.
    pub fn new(tokens: NonZeroUsize) -> TokenCache {
        TokenCache { slots: LruCache::new(tokens), generation: 0 }
    }

    /// What to do for a call. All times are monotonic, since any fixed moment.
    pub fn need(&mut self, key: CacheKey, now: Duration) -> Need {
        let slot = self.slots.get_or_insert_mut(key, Slot::default);
        let flying = slot.started.is_some_and(|at| now.saturating_sub(at) < FLIGHT);
        let refused = slot.refused.filter(|(_, at)| now.saturating_sub(*at) < PAUSE);
        if let Some(held) = slot.held.as_ref().filter(|held| now < held.end) {
            let renew = now >= held.renew && !flying && refused.is_none();
            let credential = held.credential.clone();
            if renew {
                slot.started = Some(now);
            }
            return Need::Use { credential, renew };
        }
        match (flying, refused) {
            (true, _) => Need::Wait,
            (false, Some((reason, _))) => Need::Refused(reason),
            (false, None) => {
                slot.started = Some(now);
                Need::Fetch
            }
        }
    }

    /// Tells how a request ended at `now`. `longest` bounds the token's life from `now` beside its own: a token on
    /// behalf of a caller must not outlive the caller's.
    pub fn granted(
        &mut self,
        key: CacheKey,
        result: Result<Grant, GrantError>,
        longest: Option<Duration>,
        now: Duration,
    ) {
        self.generation = self.generation.wrapping_add(1);
        let slot = self.slots.get_or_insert_mut(key, Slot::default);
        // Its life began when it was asked for: the way back is part of it.
        let asked = slot.started.take().unwrap_or(now);
        match result {
            Err(reason) => slot.refused = Some((reason, now)),
            Ok(grant) => {
                let life = grant.lifetime;
                let own_end = asked.saturating_add(life.saturating_sub(LAST.min(life / 4)));
                let end = longest.map_or(own_end, |longest| own_end.min(now.saturating_add(longest)));
                let renew = asked.saturating_add(life.saturating_sub(MARGIN.min(life / 2)));
                let credential = Credential { token: grant.token, generation: self.generation };
                slot.held = Some(Held { credential, since: now, renew, end });
                slot.refused = None;
            }
        }
    }

    /// Tells that a server has refused a token (401), however long it should have lived, and whether another one is worth
    /// a try. The token is forgotten if it is still the one that is held: calls that failed with the one before don't
    /// throw away its successor. A token that was given just now is kept: the next one would fare no better, and a server
    /// that refuses all tokens must not become a flood at the endpoint.
    pub fn rejected(&mut self, key: CacheKey, credential: &Credential, now: Duration) -> bool {
        let Some(slot) = self.slots.get_mut(&key) else { return true };
        let same = |held: &Held| held.credential.generation == credential.generation;
        if slot.held.as_ref().is_some_and(|held| same(held) && now.saturating_sub(held.since) < PAUSE) {
            return false;
        }
        slot.held.take_if(|held| same(held));
        true
    }

    /// How many tokens are kept.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }
}

#[cfg(test)]
mod tests;
