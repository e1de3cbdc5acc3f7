//! Tests of introspection.

use serde_json::json;

use super::*;
use crate::client::ClientAuth;
use crate::secret::Secret;
use crate::testing::{AUDIENCE, ISSUER, NOW, claims_with, issuer};

fn read(document: Value) -> Result<Principal, TokenError> {
    answer(&issuer(), document.to_string().as_bytes(), NOW)
}

fn active(name: &str, value: Value) -> Value {
    let mut document = claims_with(name, value);
    document["active"] = json!(true);
    document
}

#[test]
fn the_request_names_the_token_and_the_client() {
    let client = Client { id: "gw".into(), secret: Secret::new("s"), auth: ClientAuth::Post };
    let request = request(&client, "a b&c");
    let body = "token=a+b%26c&token_type_hint=access_token&client_id=gw&client_secret=s";
    assert_eq!(request.body.expose(), body);
}

#[test]
fn an_active_answer_is_checked_like_a_jwt() {
    for (name, value, expected) in [
        ("x", json!(1), Ok(())),
        ("iss", json!(null), Ok(())),
        ("exp", json!(null), Ok(())),
        ("token_type", json!("Bearer"), Ok(())),
        ("token_type", json!("DPoP"), Err(TokenError::Type)),
        ("token_type", json!(7), Err(TokenError::Type)),
        ("iss", json!("https://evil.example"), Err(TokenError::Issuer)),
        ("aud", json!(null), Err(TokenError::Audience)),
        ("aud", json!([AUDIENCE, "x"]), Err(TokenError::Audience)),
        ("exp", json!(NOW - 30), Err(TokenError::Expired)),
        ("exp", json!("1"), Err(TokenError::Time)),
        ("nbf", json!(NOW + 31), Err(TokenError::NotYetValid)),
        ("sub", json!(7), Err(TokenError::Subject)),
        ("cnf", json!({"jkt": "x"}), Err(TokenError::SenderConstrained)),
        ("active", json!(1), Ok(())),
    ] {
        let result = read(active(name, value.clone())).map(|_| ());
        assert_eq!(result, expected, "{name} {value}");
    }
    let Ok(Principal::Oauth(oauth)) = read(active("iss", json!(null))) else { panic!() };
    assert_eq!((&*oauth.issuer, &*oauth.subject), (ISSUER, "user-1"));
    let endless = read(active("exp", json!(null))).unwrap();
    assert_eq!(endless.expires(), Some(NOW + 60));
}

#[test]
fn a_clients_own_token_stands_for_the_client() {
    let Ok(Principal::Oauth(oauth)) = read(active("sub", json!(null))) else { panic!() };
    assert_eq!(Some(&*oauth.subject), oauth.client_id.as_deref());
    let mut nobody = active("sub", json!(null));
    nobody.as_object_mut().unwrap().remove("client_id");
    assert_eq!(read(nobody), Err(TokenError::Subject));
}

#[test]
fn only_true_is_active() {
    for (active, refused) in [
        (json!(false), TokenError::Inactive),
        (json!("true"), TokenError::Malformed),
        (json!(1), TokenError::Malformed),
        (json!(null), TokenError::Malformed),
    ] {
        let mut document = claims_with("x", json!(1));
        document["active"] = active.clone();
        assert_eq!(read(document), Err(refused), "{active}");
    }
    assert_eq!(read(claims_with("x", json!(1))), Err(TokenError::Malformed));
    for text in ["", "true", r#"{"active":false,"active":true}"#, &" ".repeat(MAX_ANSWER + 1)] {
        assert!(answer(&issuer(), text.as_bytes(), NOW).is_err());
    }
}

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_principal_is_remembered_for_a_minute_or_until_its_token_ends() {
    let issuer = issuer();
    let mut cache = Cache::new(NonZeroUsize::new(10).unwrap());
    let principal = read(active("exp", json!(NOW + 300))).unwrap();
    cache.put(&issuer, "t", Ok(principal.clone()), s(100));
    assert_eq!(cache.get(&issuer, "t", NOW, s(100)), Some(Ok(principal.clone())));
    assert_eq!(cache.get(&issuer, "t", NOW, s(159)), Some(Ok(principal)));
    assert_eq!(cache.get(&issuer, "t", NOW, s(160)), None);
    assert_eq!(cache.get(&issuer, "other", NOW, s(100)), None);

    let short = read(active("exp", json!(NOW + 5))).unwrap();
    cache.put(&issuer, "short", Ok(short), s(100));
    assert!(cache.get(&issuer, "short", NOW + 4, s(104)).is_some());
    assert!(cache.get(&issuer, "short", NOW + 5, s(104)).is_none());
}

#[test]
fn a_refusal_is_remembered_shortly_and_per_issuer() {
    let issuer = issuer();
    let mut cache = Cache::new(NonZeroUsize::new(10).unwrap());
    cache.put(&issuer, "t", Err(TokenError::Inactive), s(0));
    assert_eq!(cache.get(&issuer, "t", NOW, s(9)), Some(Err(TokenError::Inactive)));
    assert_eq!(cache.get(&issuer, "t", NOW, s(10)), None);
    let settings =
        crate::issuer::Settings { issuer: "https://b.example".into(), ..crate::testing::settings() };
    let other = Issuer::compile(settings).unwrap();
    assert_eq!(cache.get(&other, "t", NOW, s(1)), None);
}

#[test]
fn the_cache_is_bounded_and_holds_no_token() {
    let issuer = issuer();
    let mut cache = Cache::new(NonZeroUsize::new(100).unwrap());
    assert!(cache.is_empty());
    for n in 0..10_000 {
        cache.put(&issuer, &format!("canary-{n}"), Err(TokenError::Inactive), s(0));
    }
    assert_eq!(cache.len(), 100);
    assert!(!format!("{cache:?}").contains("canary"));
}
