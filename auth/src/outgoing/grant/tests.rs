//! Tests of the forms and the answers of token endpoints.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::client::ClientAuth;

fn client() -> Client {
    Client { id: "gw".into(), secret: Secret::new("s3cret"), auth: ClientAuth::Post }
}

fn target() -> Target {
    Target { resource: Some("https://s.example/mcp".into()), audience: None, scope: Some("a b".into()) }
}

fn read(answer: serde_json::Value) -> Result<Grant, GrantError> {
    grant(200, answer.to_string().as_bytes())
}

fn with(name: &str, value: serde_json::Value) -> serde_json::Value {
    let mut answer = json!({"access_token": "t0ken", "token_type": "Bearer", "expires_in": 300});
    answer[name] = value;
    answer
}

#[test]
fn forms_name_the_grant_and_the_server() {
    assert_eq!(
        client_credentials(&client(), &target()).body.expose(),
        "grant_type=client_credentials&resource=https%3A%2F%2Fs.example%2Fmcp&scope=a+b&client_id=gw&client_secret=s3cret"
    );
    let both = Target { audience: Some("s".into()), ..Target::default() };
    assert_eq!(
        exchange(&client(), &Secret::new("caller's"), &both).body.expose(),
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token=caller%27s\
         &subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token\
         &requested_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token\
         &audience=s&client_id=gw&client_secret=s3cret"
    );
}

#[test]
fn a_lifetime_is_believed_within_reason() {
    for (value, seconds) in [
        (json!(300), 300),
        (json!("300"), 300),
        (json!(null), 300),
        (json!(1), 1),
        (json!(86_400), 86_400),
        (json!(u64::MAX), 86_400),
    ] {
        assert_eq!(
            read(with("expires_in", value.clone())).unwrap().lifetime,
            Duration::from_secs(seconds),
            "{value}"
        );
    }
    for value in [json!(0), json!(-1), json!(1.5), json!("x"), json!(""), json!([]), json!(true), json!("-5")]
    {
        assert_eq!(read(with("expires_in", value.clone())).unwrap_err(), GrantError::Lifetime, "{value}");
    }
}

#[test]
fn only_a_bearer_token_that_fits_a_header_is_taken() {
    assert_eq!(read(with("token_type", json!("bEARER"))).unwrap().token.expose(), "t0ken");
    for kind in [json!("DPoP"), json!("N_A"), json!(null), json!(7), json!("mac")] {
        assert_eq!(read(with("token_type", kind.clone())).unwrap_err(), GrantError::TokenType, "{kind}");
    }
    for token in [
        json!(""),
        json!("a b"),
        json!("a\r\nX: y"),
        json!("é"),
        json!(7),
        json!(null),
        json!("x".repeat(40_000)),
    ] {
        assert_eq!(read(with("access_token", token)).unwrap_err(), GrantError::Malformed);
    }
    for text in [
        "",
        "access_token=a&token_type=bearer",
        "[]",
        r#"{"access_token":"a","access_token":"b","token_type":"bearer"}"#,
    ] {
        assert!(grant(200, text.as_bytes()).is_err(), "{text}");
    }
    assert_eq!(grant(200, &[b' '; MAX_GRANT + 1]).unwrap_err(), GrantError::TooLarge);
}

#[test]
fn a19_a_refusal_is_one_word_of_ours() {
    let refused = |status, error: &str| {
        let answer = json!({"error": error, "error_description": "see http://evil.example/canary"});
        grant(status, answer.to_string().as_bytes()).unwrap_err()
    };
    assert_eq!(refused(400, "invalid_grant"), GrantError::InvalidGrant);
    assert_eq!(refused(400, "invalid_target"), GrantError::InvalidTarget);
    assert_eq!(refused(401, "invalid_client"), GrantError::InvalidClient);
    assert_eq!(refused(401, "canary"), GrantError::InvalidClient);
    assert_eq!(refused(403, "canary"), GrantError::Refused);
    assert!(!format!("{0} {0:?}", refused(400, "canary")).contains("canary"));
    for status in [100, 201, 204, 301, 302, 500, 503] {
        let answer = with("x", json!(1)).to_string();
        assert_eq!(grant(status, answer.as_bytes()).unwrap_err(), GrantError::Status, "{status}");
    }
    assert_eq!(grant(400, b"<html>").unwrap_err(), GrantError::Refused);
}

#[test]
fn x5_a_grant_shows_no_token() {
    assert!(!format!("{:?}", read(with("x", json!(1))).unwrap()).contains("t0ken"));
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_fail(status in 0u16..1000, text in "\\PC{0,80}") {
        let _read = grant(status, text.as_bytes());
    }
}
