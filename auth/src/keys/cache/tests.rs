//! Tests of the key cache: how often it fetches, what it answers meanwhile, and when it closes.

use super::*;
use crate::keys::Algorithm;
use crate::testing::{Signer, keys};

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A set with keys of these ids.
fn with(kids: &[&str]) -> KeySet {
    let signer = Signer::new(Algorithm::EdDsa);
    keys(&kids.iter().map(|kid| signer.jwk(kid)).collect::<Vec<_>>())
}

/// A cache that got its first set at 0.
fn filled(kids: &[&str]) -> KeyCache {
    let mut cache = KeyCache::new(Timing::default());
    assert!(cache.due(s(0)));
    cache.fetched(Some(with(kids)), s(0));
    cache
}

fn ask(cache: &mut KeyCache, kid: &str, now: Duration) -> (&'static str, bool) {
    let Lookup { found, fetch } = cache.lookup(kid, now);
    let found = match found {
        Found::Key(_) => "key",
        Found::Wait => "wait",
        Found::Unknown => "unknown",
        Found::Held => "held",
        Found::Closed => "closed",
    };
    (found, fetch)
}

#[test]
fn the_first_look_up_fetches_once_and_all_wait_for_it() {
    let mut cache = KeyCache::new(Timing::default());
    assert_eq!(ask(&mut cache, "a", s(0)), ("wait", true));
    for _ in 0..100 {
        assert_eq!(ask(&mut cache, "a", s(1)), ("wait", false));
        assert!(!cache.due(s(1)));
    }
    cache.fetched(Some(with(&["a"])), s(2));
    assert_eq!(ask(&mut cache, "a", s(2)), ("key", false));
}

#[test]
fn a_set_of_some_age_is_fetched_again_while_it_serves() {
    let mut cache = filled(&["a"]);
    assert_eq!(ask(&mut cache, "a", s(599)), ("key", false));
    assert!(!cache.due(s(599)));
    assert_eq!(ask(&mut cache, "a", s(600)), ("key", true));
    assert_eq!(ask(&mut cache, "a", s(601)), ("key", false));
    cache.fetched(Some(with(&["a"])), s(602));
    assert_eq!(cache.report(s(603)).age, Some(s(1)));
    assert_eq!(ask(&mut cache, "a", s(1201)), ("key", false));
    assert!(cache.due(s(1202)));
}

#[test]
fn a12_a_rotated_key_is_found_and_a_removed_one_is_gone() {
    let mut cache = filled(&["old"]);
    assert_eq!(ask(&mut cache, "new", s(60)), ("wait", true));
    // Tokens of the old key pass all the while.
    assert_eq!(ask(&mut cache, "old", s(60)), ("key", false));
    cache.fetched(Some(with(&["new"])), s(61));
    assert_eq!(ask(&mut cache, "new", s(61)), ("key", false));
    assert_eq!(ask(&mut cache, "old", s(61)), ("unknown", false));
}

#[test]
fn a12_a_new_key_within_the_cooldown_is_held_and_not_refused() {
    let mut cache = filled(&["old"]);
    assert_eq!(ask(&mut cache, "invented", s(60)), ("wait", true));
    cache.fetched(Some(with(&["old"])), s(61));
    assert_eq!(ask(&mut cache, "new", s(62)), ("held", false));
    assert_eq!(ask(&mut cache, "new", s(90)), ("wait", true));
    cache.fetched(Some(with(&["new"])), s(91));
    assert_eq!(ask(&mut cache, "new", s(91)), ("key", false));
}

#[test]
fn a12_an_empty_set_counts_as_a_fetch() {
    let mut cache = filled(&[]);
    assert!(!cache.report(s(0)).usable);
    let fetches = (1..=300).filter(|at| {
        let (found, fetch) = ask(&mut cache, &format!("k{at}"), s(*at));
        if fetch {
            assert_eq!(found, "wait");
            cache.fetched(Some(with(&[])), s(*at));
        } else {
            assert_eq!(found, "held");
        }
        fetch
    });
    assert_eq!(fetches.count(), 10);
}

#[test]
fn a12_failures_leave_the_old_set_for_an_hour_and_then_it_closes() {
    let mut cache = filled(&["a"]);
    let (mut fetches, mut last_key, mut first_closed) = (0, 0, u64::MAX);
    for at in 1..=6000 {
        let (found, fetch) = ask(&mut cache, "a", s(at));
        if fetch {
            fetches += 1;
            cache.fetched(None, s(at));
        }
        match found {
            "key" => last_key = at,
            "closed" => first_closed = first_closed.min(at),
            "wait" => assert!(fetch),
            other => panic!("{other} at {at}"),
        }
    }
    assert_eq!((last_key, cache.report(s(6000)).usable), (600 + 3600 - 1, false));
    assert!((4200..4230).contains(&first_closed), "{first_closed}");
    // One in thirty seconds since the set was due, and no more than that.
    assert_eq!(fetches, (6000 - 600) / 30 + 1);
    assert_eq!(cache.report(s(6000)).failures, fetches);
    // It opens again with the next good answer.
    assert_eq!(ask(&mut cache, "a", s(6030)), ("wait", true));
    cache.fetched(Some(with(&["a"])), s(6031));
    assert_eq!(ask(&mut cache, "a", s(6031)), ("key", false));
}

#[test]
fn a12_a_first_fetch_that_fails_closes_until_the_next() {
    let mut cache = KeyCache::new(Timing::default());
    assert_eq!(ask(&mut cache, "a", s(0)), ("wait", true));
    cache.fetched(None, s(1));
    assert_eq!(ask(&mut cache, "a", s(2)), ("closed", false));
    assert_eq!(ask(&mut cache, "a", s(29)), ("closed", false));
    assert_eq!(ask(&mut cache, "a", s(30)), ("wait", true));
}

#[test]
fn a13_ten_thousand_random_key_ids_cause_one_fetch_per_cooldown() {
    let mut cache = filled(&["a"]);
    let mut fetches = Vec::new();
    for n in 0..10_000u64 {
        // A hundred a second from the hundredth second on: 100 seconds.
        let now = s(100) + Duration::from_millis(n * 10);
        let (found, fetch) = ask(&mut cache, &format!("random-{n}"), now);
        assert!(matches!(found, "wait" | "held"));
        if fetch {
            fetches.push(now);
            cache.fetched(Some(with(&["a"])), now + Duration::from_millis(5));
        }
        assert_eq!(ask(&mut cache, "a", now).0, "key");
    }
    assert_eq!(fetches.len(), 4);
    assert!(fetches.windows(2).all(|two| two[1] - two[0] >= s(30)));
    assert!(cache.unknown.len() <= MAX_UNKNOWN.get());
}

#[test]
fn a13_what_waits_and_what_is_remembered_is_bounded() {
    let mut cache = KeyCache::new(Timing::default());
    for n in 0..10_000 {
        ask(&mut cache, &format!("random-{n}"), s(0));
    }
    assert_eq!(cache.awaited.len(), MAX_AWAITED);
    cache.fetched(Some(with(&[])), s(1));
    assert_eq!((cache.awaited.len(), cache.unknown.len()), (0, MAX_AWAITED));
    let long = "k".repeat(MAX_KID + 1);
    assert_eq!(ask(&mut cache, &long, s(500)), ("unknown", false));
}

#[test]
fn a13_a_key_id_that_a_fetch_did_not_bring_asks_for_none_for_a_while() {
    let mut cache = filled(&["a"]);
    assert_eq!(ask(&mut cache, "x", s(100)), ("wait", true));
    cache.fetched(Some(with(&["a"])), s(101));
    for at in [101, 131, 200, 400] {
        assert_eq!(ask(&mut cache, "x", s(at)), ("unknown", false), "{at}");
    }
    assert_eq!(ask(&mut cache, "x", s(401)), ("wait", true));
    // A failed fetch says nothing about a key id.
    cache.fetched(None, s(402));
    assert_eq!(ask(&mut cache, "x", s(432)), ("wait", true));
    // And one that a later set brings is known at once.
    cache.fetched(Some(with(&["a"])), s(433));
    assert_eq!(ask(&mut cache, "y", s(470)), ("wait", true));
    cache.fetched(Some(with(&["a", "x"])), s(471));
    assert_eq!(ask(&mut cache, "x", s(471)), ("key", false));
}

#[test]
fn a_fetch_that_never_ends_does_not_block_for_ever() {
    let mut cache = KeyCache::new(Timing::default());
    assert_eq!(ask(&mut cache, "a", s(0)), ("wait", true));
    assert_eq!(ask(&mut cache, "a", s(29)), ("wait", false));
    assert_eq!(ask(&mut cache, "a", s(30)), ("wait", true));
}

#[test]
fn a11_a_clock_that_goes_back_changes_nothing() {
    let mut cache = KeyCache::new(Timing::default());
    assert!(cache.due(s(10_000)));
    cache.fetched(Some(with(&["a"])), s(10_000));
    assert_eq!(ask(&mut cache, "a", s(0)), ("key", false));
    assert_eq!(ask(&mut cache, "x", s(0)), ("held", false));
    assert_eq!(ask(&mut cache, "a", Duration::MAX), ("wait", true));
}

/// The id is in the set and its key is not: that is the issuer's last word, not a reason to wait.
#[test]
fn a5_a6_a12_a_key_id_whose_key_cannot_be_used_is_refused_at_once() {
    let mut enc = Signer::new(Algorithm::Rs256).jwk("enc");
    enc["use"] = serde_json::json!("enc");
    let mut small = Signer::new(Algorithm::Rs256).jwk("small");
    small["n"] = serde_json::json!("AQAB");
    let oct = serde_json::json!({"kty": "oct", "kid": "oct", "k": "AAAA"});
    let odd = serde_json::json!({"kty": "XYZ", "kid": "odd"});
    let twin = Signer::new(Algorithm::EdDsa).jwk("twin");
    let good = Signer::new(Algorithm::EdDsa).jwk("good");
    let set = keys(&[enc, small, oct, odd, twin.clone(), twin, good]);
    let mut cache = KeyCache::new(Timing::default());
    assert!(cache.due(s(0)));
    cache.fetched(Some(set), s(0));
    for kid in ["enc", "small", "oct", "odd", "twin"] {
        for now in [1, 60, 599] {
            assert_eq!(ask(&mut cache, kid, s(now)), ("unknown", false), "{kid} at {now}");
        }
    }
    assert_eq!(ask(&mut cache, "good", s(1)), ("key", false));
    // A mended key comes with the next set.
    assert_eq!(ask(&mut cache, "enc", s(600)), ("unknown", true));
    cache.fetched(Some(with(&["enc"])), s(601));
    assert_eq!(ask(&mut cache, "enc", s(601)), ("key", false));
}
