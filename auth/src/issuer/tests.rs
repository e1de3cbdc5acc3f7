//! Tests of the issuer's settings and of discovery.

use serde_json::{Value, json};

use super::*;
use crate::testing::{ISSUER, settings};

#[test]
fn an_issuer_is_a_plain_https_url() {
    for good in [
        "https://idp.example.com",
        "https://idp.example.com/a/",
        "http://127.0.0.1:8080",
        "http://localhost:1/x",
    ] {
        let issuer = Issuer::compile(Settings { issuer: good.into(), ..settings() }).unwrap();
        assert_eq!(&**issuer.issuer(), good);
    }
    for bad in [
        "",
        "idp",
        "http://idp.example.com",
        "https://a@idp.example.com",
        "https://@idp.example.com",
        "https://idp.example.com?x",
        "https://idp.example.com/#",
        "ftp://idp.example.com",
        "https://a\0",
    ] {
        let errors = Issuer::compile(Settings { issuer: bad.into(), ..settings() }).unwrap_err();
        assert_eq!(errors, [SettingsError::Issuer], "{bad}");
    }
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let errors = Issuer::compile(Settings {
        issuer: "x".into(),
        audiences: vec![],
        scopes: vec!["a b".into()],
        implies: [("a".to_owned(), vec!["a".to_owned()])].into(),
        ..Settings::default()
    });
    let cycle = SettingsError::Hierarchy(HierarchyError::Cycle("a".into()));
    assert_eq!(
        errors.unwrap_err(),
        [SettingsError::Issuer, SettingsError::Audience, SettingsError::Scopes, cycle]
    );
    let offline = Settings { scopes: vec!["offline_access".into()], ..settings() };
    assert_eq!(Issuer::compile(offline).unwrap_err(), [SettingsError::OfflineAccess]);
}

#[test]
fn metadata_is_looked_for_in_the_specifications_order() {
    assert_eq!(
        candidates("https://auth.example.com/tenant1"),
        [
            "https://auth.example.com/.well-known/oauth-authorization-server/tenant1",
            "https://auth.example.com/.well-known/openid-configuration/tenant1",
            "https://auth.example.com/tenant1/.well-known/openid-configuration",
        ]
    );
    for issuer in ["https://auth.example.com:8443", "https://auth.example.com:8443/"] {
        assert_eq!(
            candidates(issuer),
            [
                "https://auth.example.com:8443/.well-known/oauth-authorization-server",
                "https://auth.example.com:8443/.well-known/openid-configuration",
            ]
        );
    }
    assert!(candidates("file:///etc").is_empty() && candidates("x").is_empty());
}

#[test]
fn a15_a_document_of_another_issuer_is_not_used() {
    let document = |issuer: Value| {
        let all = json!({"issuer": issuer, "jwks_uri": "https://idp.example.com/keys", "token_endpoint": 7});
        ServerMetadata::parse(all.to_string().as_bytes(), ISSUER)
    };
    let good = document(json!(ISSUER)).unwrap();
    assert_eq!((good.jwks_uri(), good.token_endpoint()), (Some("https://idp.example.com/keys"), None));
    for other in [json!(format!("{ISSUER}/")), json!("https://evil.example"), json!([ISSUER]), json!(null)] {
        assert_eq!(document(other.clone()), Err(MetadataError::Issuer), "{other}");
    }
    for text in ["", "[]", "{", r#"{"issuer":"a","issuer":"b"}"#, &" ".repeat(MAX_METADATA + 1)] {
        assert_eq!(ServerMetadata::parse(text.as_bytes(), ISSUER), Err(MetadataError::Malformed));
    }
    assert_eq!(ServerMetadata::parse(b"{}", ISSUER), Err(MetadataError::Issuer));
}
