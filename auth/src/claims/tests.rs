//! Tests of the claims table.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::issuer::{Beside, ClaimNames, Settings};
use crate::testing::{AUDIENCE, ISSUER, NOW, claims_with, issuer, settings};

fn check(issuer: &Issuer, claims: Value) -> Result<Arc<Oauth>, TokenError> {
    let Value::Object(claims) = claims else { panic!("no object") };
    match principal(issuer, claims, NOW)? {
        Principal::Oauth(oauth) => Ok(oauth),
        other => panic!("{other:?}"),
    }
}

fn outcome(name: &str, value: Value) -> Result<(), TokenError> {
    check(&issuer(), claims_with(name, value)).map(|_| ())
}

#[test]
fn a7_the_audience_is_us_and_nobody_else() {
    let refused = Err(TokenError::Audience);
    for (aud, expected) in [
        (json!(AUDIENCE), Ok(())),
        (json!([AUDIENCE]), Ok(())),
        (json!([AUDIENCE, AUDIENCE]), Ok(())),
        (json!(null), refused),
        (json!(7), refused),
        (json!(true), refused),
        (json!({}), refused),
        (json!(""), refused),
        (json!([]), refused),
        (json!([7]), refused),
        (json!([AUDIENCE, 7]), refused),
        (json!([[AUDIENCE]]), refused),
        (json!("https://other.example.com/mcp"), refused),
        (json!([AUDIENCE, "https://other.example.com/mcp"]), refused),
        (json!(["https://other.example.com/mcp", AUDIENCE]), refused),
        (json!("https://mcp.example.com"), refused),
        (json!("https://mcp.example.com/mcp/"), refused),
        (json!("https://mcp.example.com/MCP"), refused),
        (json!("https://mcp.example.com/tasks/b/mcp"), refused),
        (json!(format!("{AUDIENCE}x")), refused),
        (json!(vec![AUDIENCE; MAX_AUDIENCES + 1]), refused),
    ] {
        assert_eq!(outcome("aud", aud.clone()), expected, "{aud}");
    }
}

#[test]
fn a7_arrays_with_others_only_as_configured() {
    let with = |beside| Issuer::compile(Settings { beside, ..settings() }).unwrap();
    let listed = with(Beside::Listed(["account".to_owned()].into()));
    let anyone = with(Beside::Anyone);
    for (aud, when_listed, when_anyone) in [
        (json!([AUDIENCE, "account"]), true, true),
        (json!([AUDIENCE, "billing"]), false, true),
        (json!([AUDIENCE, "account", "billing"]), false, true),
        (json!(["account"]), false, false),
        (json!("account"), false, false),
    ] {
        for (issuer, good) in [(&listed, when_listed), (&anyone, when_anyone)] {
            let result = check(issuer, claims_with("aud", aud.clone())).map(|_| ());
            assert_eq!(result, if good { Ok(()) } else { Err(TokenError::Audience) }, "{aud}");
        }
    }
}

#[test]
fn a8_the_issuer_is_one_exact_string() {
    for iss in [
        json!(null),
        json!([ISSUER]),
        json!(format!("{ISSUER}/")),
        json!("https://IDP.example.com/realms/platform"),
        json!("https://idp.example.com/realms/Platform"),
        json!("https://idp.example.com:443/realms/platform"),
        json!(format!(" {ISSUER}")),
        json!({"iss": ISSUER}),
    ] {
        assert_eq!(outcome("iss", iss.clone()), Err(TokenError::Issuer), "{iss}");
    }
}

#[test]
fn a9_the_end_is_a_number_that_is_to_come() {
    for (exp, expected) in [
        (json!(NOW + 1), Ok(())),
        (json!(NOW), Ok(())),
        (json!(NOW - 29), Ok(())),
        (json!(NOW - 30), Err(TokenError::Expired)),
        (json!(NOW - 31), Err(TokenError::Expired)),
        (json!(0), Err(TokenError::Expired)),
        (json!(NOW as f64 + 0.5), Ok(())),
        (json!(NOW as f64 - 29.5), Err(TokenError::Expired)),
        (json!(253_402_300_799u64), Ok(())),
        (json!(253_402_300_800u64), Err(TokenError::Time)),
        (json!(u64::MAX), Err(TokenError::Time)),
        (json!(1e300), Err(TokenError::Time)),
        (json!(-1), Err(TokenError::Time)),
        (json!(-0.5), Err(TokenError::Time)),
        (json!(i64::MIN), Err(TokenError::Time)),
        (json!((NOW + 1).to_string()), Err(TokenError::Time)),
        (json!("never"), Err(TokenError::Time)),
        (json!([NOW + 1]), Err(TokenError::Time)),
        (json!(true), Err(TokenError::Time)),
        (json!(null), Err(TokenError::Time)),
    ] {
        assert_eq!(outcome("exp", exp.clone()), expected, "{exp}");
    }
    // A null is as wrong as a missing claim.
    let mut null = claims_with("exp", json!(1));
    null["exp"] = Value::Null;
    assert_eq!(check(&issuer(), null).map(|_| ()), Err(TokenError::Time));
}

#[test]
fn a9_the_beginnings_are_numbers_that_are_past() {
    for (name, late) in [("nbf", TokenError::NotYetValid), ("iat", TokenError::IssuedInFuture)] {
        for (time, expected) in [
            (json!(null), Ok(())),
            (json!(0), Ok(())),
            (json!(NOW), Ok(())),
            (json!(NOW + 29), Ok(())),
            (json!(NOW + 30), Ok(())),
            (json!(NOW + 31), Err(late)),
            (json!(NOW + 3600), Err(late)),
            (json!(NOW.to_string()), Err(TokenError::Time)),
            (json!(-1), Err(TokenError::Time)),
            (json!(1e300), Err(TokenError::Time)),
            (json!({}), Err(TokenError::Time)),
        ] {
            assert_eq!(outcome(name, time.clone()), expected, "{name} {time}");
        }
    }
}

#[test]
fn a9_a_clock_at_its_ends_makes_nothing_overflow() {
    for now in [0, 1, u64::MAX - 1, u64::MAX] {
        let Value::Object(claims) = claims_with("nbf", json!(1)) else { unreachable!() };
        let result = principal(&issuer(), claims, now);
        assert!(matches!(result, Err(TokenError::Expired | TokenError::IssuedInFuture)), "{now}");
    }
}

#[test]
fn a_subject_is_needed() {
    for sub in [
        json!(null),
        json!(""),
        json!(7),
        json!(["a"]),
        json!("a\0b"),
        json!("a\nb"),
        json!("x".repeat(1025)),
    ] {
        assert_eq!(outcome("sub", sub.clone()), Err(TokenError::Subject), "{sub}");
    }
}

#[test]
fn scopes_come_from_either_claim_in_either_form() {
    let scopes = |name: &str, value: Value| {
        let mut claims = claims_with("scope", json!(null));
        claims[name] = value;
        check(&issuer(), claims).map(|oauth| oauth.scopes.text())
    };
    assert_eq!(scopes("scope", json!("b a")), Ok("a b".into()));
    assert_eq!(scopes("scp", json!("b a")), Ok("a b".into()));
    assert_eq!(scopes("scp", json!(["b", "a"])), Ok("a b".into()));
    assert_eq!(scopes("other", json!("a")), Ok(String::new()));
    for bad in [json!(7), json!([7]), json!(["a b"]), json!("a\"b"), json!({}), json!("é")] {
        assert_eq!(scopes("scope", bad.clone()), Err(TokenError::Scope), "{bad}");
    }
}

#[test]
fn a16_a_held_scope_brings_those_that_it_implies() {
    let implies = [("mcp.write".to_owned(), vec!["mcp.read".to_owned()])].into();
    let issuer = Issuer::compile(Settings { implies, ..settings() }).unwrap();
    let held = check(&issuer, claims_with("scope", json!("mcp.write"))).unwrap();
    assert_eq!(held.scopes.text(), "mcp.read mcp.write");
}

fn named() -> Issuer {
    let name = |name: &str| Some(name.to_owned());
    let claims = ClaimNames {
        groups: name("/realm_access/roles"),
        tenant: name("tid"),
        task: name("https://tollgate.dev/task"),
        run: name("run"),
        client: name("azp"),
    };
    Issuer::compile(Settings { claims, ..settings() }).unwrap()
}

#[test]
fn named_claims_are_read_by_name_or_pointer() {
    let mut claims = claims_with("tid", json!("t1"));
    claims["realm_access"] = json!({"roles": ["support", "dev"]});
    claims["https://tollgate.dev/task"] = json!("triage");
    claims["run"] = json!("r-1");
    claims["azp"] = json!("client-2");
    let oauth = check(&named(), claims).unwrap();
    assert_eq!(oauth.groups.iter().map(|g| &**g).collect::<Vec<_>>(), ["support", "dev"]);
    let read = [&oauth.tenant, &oauth.task, &oauth.run, &oauth.client_id].map(|one| one.as_deref());
    assert_eq!(read, [Some("t1"), Some("triage"), Some("r-1"), Some("client-2")]);
    // None of them has to be there.
    let oauth = check(&named(), claims_with("x", json!(1))).unwrap();
    assert!(oauth.groups.is_empty() && oauth.task.is_none() && oauth.client_id.is_none());
}

#[test]
fn a_named_claim_of_another_type_is_refused_not_passed_over() {
    for (name, value) in [
        ("tid", json!(7)),
        ("tid", json!("")),
        ("https://tollgate.dev/task", json!(["triage"])),
        ("https://tollgate.dev/task", json!({})),
        ("run", json!("a\0b")),
        ("azp", json!(false)),
        ("realm_access", json!({"roles": [7]})),
        ("realm_access", json!({"roles": {"a": 1}})),
        ("realm_access", json!({"roles": vec!["g"; MAX_GROUPS + 1]})),
    ] {
        assert_eq!(
            check(&named(), claims_with(name, value.clone())),
            Err(TokenError::Claim),
            "{name} {value}"
        );
    }
}

proptest! {
    #[test]
    fn a9_only_the_window_is_accepted(exp in 0u64..2 * NOW, nbf in 0u64..2 * NOW, now in 0u64..2 * NOW) {
        let mut claims = claims_with("exp", json!(exp));
        claims["nbf"] = json!(nbf);
        claims["iat"] = json!(0);
        let Value::Object(claims) = claims else { unreachable!() };
        let good = now < exp + LEEWAY && nbf <= now + LEEWAY;
        prop_assert_eq!(principal(&issuer(), claims, now).is_ok(), good);
    }

    #[test]
    fn a7_no_other_text_is_our_audience(aud in "\\PC{0,40}|https://mcp\\.example\\.com/.{0,5}") {
        prop_assume!(aud != AUDIENCE);
        prop_assert_eq!(outcome("aud", json!(aud)), Err(TokenError::Audience));
        prop_assert_eq!(outcome("aud", json!([aud, AUDIENCE])), Err(TokenError::Audience));
    }
}
