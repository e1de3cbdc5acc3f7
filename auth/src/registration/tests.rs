//! Tests of the stand-in for client registration.

use super::*;
use crate::testing::ISSUER;

fn shim() -> Shim {
    let redirects = [
        "https://app.example/callback",
        "http://127.0.0.1/callback",
        "http://localhost/oauth/done",
        "http://[::1]:7777/fixed",
        "cursor://anysphere.cursor-mcp/oauth/callback",
    ];
    Shim::compile("public-client", &redirects.map(str::to_owned), Some("mcp.read".into())).unwrap()
}

fn asked(redirects: Value) -> Value {
    json!({"redirect_uris": redirects, "client_name": "App", "token_endpoint_auth_method": "none"})
}

fn register(request: &Value) -> Result<Value, RegistrationError> {
    shim().register(request.to_string().as_bytes())
}

#[test]
fn every_request_gets_the_one_client() {
    let answer =
        register(&asked(json!(["https://app.example/callback", "http://127.0.0.1:49152/callback"]))).unwrap();
    assert_eq!(
        answer,
        json!({
            "client_id": "public-client",
            "redirect_uris": ["https://app.example/callback", "http://127.0.0.1:49152/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "none",
            "scope": "mcp.read",
        })
    );
    assert_eq!(answer.get("client_secret"), None);
}

#[test]
fn only_listed_redirect_uris_are_registered() {
    for good in [
        "https://app.example/callback",
        "http://127.0.0.1/callback",
        "http://127.0.0.1:1/callback",
        "http://127.0.0.1:65535/callback",
        "http://localhost:3000/oauth/done",
        "http://[::1]:7777/fixed",
        "cursor://anysphere.cursor-mcp/oauth/callback",
    ] {
        assert!(register(&asked(json!([good]))).is_ok(), "{good}");
    }
    for bad in [
        "https://evil.example/callback",
        "https://app.example/callback/",
        "https://app.example/callback?x=1",
        "https://app.example:444/callback",
        "https://app.example/callback/../evil",
        "https://app.example.evil.example/callback",
        "http://app.example/callback",
        "http://127.0.0.1:1/callback?next=https://evil.example",
        "http://127.0.0.1:1/callback#x",
        "http://127.0.0.1:1/x/../callback",
        "http://127.0.0.1:1@evil.example/callback",
        "http://user@127.0.0.1:1/callback",
        "http://127.0.0.2:1/callback",
        "http://127.1:1/callback",
        "http://localhost:1/callback",
        "https://127.0.0.1:1/callback",
        "http://127.0.0.1:99999/callback",
        "http://[::1]:7778/fixed",
        "cursor://evil/oauth/callback",
        "javascript:alert(1)",
        "",
    ] {
        let mixed = asked(json!(["https://app.example/callback", bad]));
        assert_eq!(register(&mixed), Err(RegistrationError::RedirectUri), "{bad}");
    }
    for bad in [
        json!([]),
        json!(null),
        json!("https://app.example/callback"),
        json!([7]),
        json!(vec!["https://app.example/callback"; MAX_REDIRECTS + 1]),
    ] {
        assert_eq!(register(&asked(bad.clone())), Err(RegistrationError::RedirectUri), "{bad}");
    }
}

#[test]
fn what_is_no_public_code_client_is_refused() {
    for (name, value, good) in [
        ("token_endpoint_auth_method", json!("none"), true),
        ("token_endpoint_auth_method", json!("client_secret_basic"), false),
        ("token_endpoint_auth_method", json!(7), false),
        ("grant_types", json!(["authorization_code", "refresh_token"]), true),
        ("grant_types", json!(["client_credentials"]), false),
        ("grant_types", json!("authorization_code"), false),
        ("response_types", json!(["code"]), true),
        ("response_types", json!(["token"]), false),
        ("software_statement", json!("x"), true),
    ] {
        let mut request = asked(json!(["https://app.example/callback"]));
        request[name] = value.clone();
        let expected = if good { Ok(()) } else { Err(RegistrationError::Metadata) };
        assert_eq!(register(&request).map(|_| ()), expected, "{name} {value}");
    }
    for text in ["", "[]", r#"{"redirect_uris":[],"redirect_uris":[]}"#, &" ".repeat(MAX_REQUEST + 1)] {
        assert_eq!(shim().register(text.as_bytes()), Err(RegistrationError::Metadata));
    }
    assert_eq!(RegistrationError::RedirectUri.document()["error"], "invalid_redirect_uri");
    assert_eq!(RegistrationError::Metadata.document()["error"], "invalid_client_metadata");
}

#[test]
fn settings_are_checked() {
    let compile = |id: &str, redirects: &[&str]| {
        let redirects: Vec<String> = redirects.iter().map(|text| text.to_string()).collect();
        Shim::compile(id, &redirects, None).map(|_| ())
    };
    assert_eq!(compile("", &[]), Err(vec![ShimError::ClientId, ShimError::NoRedirect]));
    for bad in [
        "http://app.example/",
        "https://a.example/#x",
        "https://a.example/#",
        "https://u@a.example/",
        "x",
        "",
        "javascript:x",
        "data:text/html,x",
        "file:///x",
    ] {
        assert_eq!(compile("c", &[bad]), Err(vec![ShimError::Redirect(bad.into())]), "{bad}");
    }
}

#[test]
fn the_document_is_the_issuers_with_registration_here() {
    let document = json!({
        "issuer": ISSUER,
        "authorization_endpoint": "https://idp.example.com/auth",
        "token_endpoint": "https://idp.example.com/token",
        "jwks_uri": "https://idp.example.com/keys",
        "registration_endpoint": "https://idp.example.com/register",
        "introspection_endpoint": "https://idp.example.com/introspect",
        "client_id_metadata_document_supported": true,
        "authorization_response_iss_parameter_supported": true,
        "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        "scopes_supported": ["mcp.read"],
        "x_private": "internal",
    });
    let metadata = |document: &Value| ServerMetadata::parse(document.to_string().as_bytes(), ISSUER).unwrap();
    let ours = server_document(
        &metadata(&document),
        "https://mcp.example.com/shim",
        "https://mcp.example.com/shim/register",
    );
    assert_eq!(
        ours.unwrap(),
        json!({
            "issuer": "https://mcp.example.com/shim",
            "authorization_endpoint": "https://idp.example.com/auth",
            "token_endpoint": "https://idp.example.com/token",
            "jwks_uri": "https://idp.example.com/keys",
            "scopes_supported": ["mcp.read"],
            "registration_endpoint": "https://mcp.example.com/shim/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": false,
        })
    );
    for missing in ["authorization_endpoint", "token_endpoint"] {
        let mut less = document.clone();
        less.as_object_mut().unwrap().remove(missing);
        assert_eq!(server_document(&metadata(&less), "https://a", "https://a/r"), None, "{missing}");
    }
}
