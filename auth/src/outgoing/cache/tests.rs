//! Tests of the tokens' cache: one flight, renewal before the end, and what a refusal does.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::principal::{Identifier, Oauth};
use crate::scope::Scopes;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn cache() -> TokenCache {
    TokenCache::new(NonZeroUsize::new(100).unwrap())
}

fn given(text: &str, lifetime: u64) -> Result<Grant, GrantError> {
    Ok(Grant { token: Secret::new(text), lifetime: s(lifetime) })
}

const KEY: fn() -> CacheKey = || CacheKey::own("github");

fn ask(cache: &mut TokenCache, now: u64) -> String {
    match cache.need(KEY(), s(now)) {
        Need::Use { credential, renew } => {
            format!("{}{}", credential.token.expose(), if renew { " renew" } else { "" })
        }
        Need::Fetch => "fetch".into(),
        Need::Wait => "wait".into(),
        Need::Refused(reason) => reason.reason().into(),
    }
}

fn held(cache: &mut TokenCache, now: u64) -> Credential {
    match cache.need(KEY(), s(now)) {
        Need::Use { credential, .. } => credential,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_flight_and_a_renewal_before_the_end() {
    let mut cache = cache();
    assert_eq!(ask(&mut cache, 0), "fetch");
    assert_eq!(ask(&mut cache, 1), "wait");
    cache.granted(KEY(), given("one", 600), None, s(2));
    assert_eq!(ask(&mut cache, 2), "one");
    assert_eq!(ask(&mut cache, 539), "one");
    assert_eq!(ask(&mut cache, 540), "one renew");
    assert_eq!(ask(&mut cache, 541), "one");
    cache.granted(KEY(), given("two", 600), None, s(542));
    assert_eq!(ask(&mut cache, 542), "two");
}

#[test]
fn a_token_that_could_not_be_renewed_serves_to_its_end() {
    let mut cache = cache();
    ask(&mut cache, 0);
    cache.granted(KEY(), given("one", 600), None, s(0));
    assert_eq!(ask(&mut cache, 550), "one renew");
    cache.granted(KEY(), Err(GrantError::Status), None, s(551));
    assert_eq!(ask(&mut cache, 552), "one");
    assert_eq!(ask(&mut cache, 556), "one renew");
    cache.granted(KEY(), Err(GrantError::Status), None, s(594));
    assert_eq!(ask(&mut cache, 594), "one");
    assert_eq!(ask(&mut cache, 595), "status");
    assert_eq!(ask(&mut cache, 599), "fetch");
}

#[test]
fn a_refusal_is_asked_again_only_after_a_pause() {
    let mut cache = cache();
    assert_eq!(ask(&mut cache, 0), "fetch");
    cache.granted(KEY(), Err(GrantError::InvalidClient), None, s(1));
    assert_eq!(ask(&mut cache, 5), "invalid_client");
    assert_eq!(ask(&mut cache, 6), "fetch");
    // A request that never ended doesn't block for ever.
    assert_eq!(ask(&mut cache, 35), "wait");
    assert_eq!(ask(&mut cache, 36), "fetch");
}

#[test]
fn a_refused_token_is_replaced_once() {
    let mut cache = cache();
    ask(&mut cache, 0);
    cache.granted(KEY(), given("one", 600), None, s(0));
    let one = held(&mut cache, 100);
    assert!(cache.rejected(KEY(), &one, s(100)));
    assert_eq!(ask(&mut cache, 100), "fetch");
    cache.granted(KEY(), given("two", 600), None, s(101));
    // Others that went out with the first come back late: the second stays, and is worth their try.
    assert!(cache.rejected(KEY(), &one, s(102)));
    assert_eq!(ask(&mut cache, 102), "two");
    // The second is refused at once: there is nothing better to get.
    let two = held(&mut cache, 102);
    assert!(!cache.rejected(KEY(), &two, s(102)));
    assert_eq!(ask(&mut cache, 102), "two");
    assert!(cache.rejected(KEY(), &two, s(106)));
    assert_eq!(ask(&mut cache, 106), "fetch");
}

#[test]
fn a_token_on_behalf_of_a_caller_ends_with_the_callers() {
    let mut cache = cache();
    ask(&mut cache, 0);
    cache.granted(KEY(), given("one", 600), Some(s(30)), s(0));
    assert_eq!(ask(&mut cache, 29), "one");
    assert_eq!(ask(&mut cache, 30), "fetch");
}

fn caller(subject: &str, scopes: &str) -> Principal {
    let id = |text: &str| Identifier::new(text).unwrap();
    Principal::Oauth(Arc::new(Oauth {
        issuer: id("https://i"),
        subject: id(subject),
        client_id: None,
        tenant: None,
        groups: Vec::new(),
        scopes: Scopes::parse(scopes).unwrap(),
        task: None,
        run: None,
        expires: 0,
        claims: serde_json::Map::new(),
    }))
}

#[test]
fn each_caller_scope_and_server_has_its_own_token() {
    let keys = [
        CacheKey::own("a"),
        CacheKey::own("b"),
        CacheKey::on_behalf("a", &Principal::Anonymous),
        CacheKey::on_behalf("a", &caller("x", "read")),
        CacheKey::on_behalf("a", &caller("x", "read write")),
        CacheKey::on_behalf("a", &caller("y", "read")),
        CacheKey::on_behalf("b", &caller("x", "read")),
    ];
    for (at, one) in keys.iter().enumerate() {
        assert_eq!(keys.iter().position(|other| other == one), Some(at));
    }
    assert_eq!(CacheKey::on_behalf("a", &caller("x", "b a")), CacheKey::on_behalf("a", &caller("x", "a b")));
}

#[test]
fn the_cache_is_bounded() {
    let mut cache = cache();
    for n in 0..1000 {
        cache.need(CacheKey::own(&n.to_string()), s(0));
    }
    assert_eq!((cache.len(), cache.is_empty()), (100, false));
}

proptest! {
    #[test]
    fn no_token_is_sent_at_or_after_its_end(life in 1u64..100_000, took in 0u64..30, at in 0u64..200_000) {
        let mut cache = cache();
        assert_eq!(ask(&mut cache, 0), "fetch");
        cache.granted(KEY(), given("one", life), None, s(took));
        let used = ask(&mut cache, at).starts_with("one");
        prop_assert!(!used || at < life);
        prop_assert!(used || at + 5 >= life || at * 4 >= life * 3);
    }
}
