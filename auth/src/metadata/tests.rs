//! Tests of the metadata and the challenges.

use proptest::prelude::*;

use super::*;

#[test]
fn a2_each_endpoint_has_its_path_inserted_and_back() {
    for endpoint in ["/mcp", "/tasks/support/mcp", "/servers/github/mcp", "/tasks/t-1/servers/s2/mcp"] {
        let path = well_known_path(endpoint);
        assert_eq!(path, format!("/.well-known/oauth-protected-resource{endpoint}"));
        assert_eq!(endpoint_of(&path), Some(endpoint));
    }
    assert_eq!(endpoint_of("/.well-known/oauth-protected-resource"), Some("/mcp"));
}

#[test]
fn a2_other_paths_have_no_metadata() {
    for rest in [
        "/",
        "x",
        "/mcp/",
        "/mcp/x",
        "//mcp",
        "/tasks/mcp",
        "/tasks//mcp",
        "/tasks/A/mcp",
        "/tasks/../mcp",
        "/tasks/a%2fb/mcp",
        "/servers/s/tasks/t/mcp",
        "/admin/mcp",
        "/tasks/a\0/mcp",
    ] {
        assert_eq!(endpoint_of(&format!("/.well-known/oauth-protected-resource{rest}")), None, "{rest:?}");
    }
    for path in [
        "",
        "/",
        "/mcp",
        "/.well-known/oauth-authorization-server",
        "/x/.well-known/oauth-protected-resource",
    ] {
        assert_eq!(endpoint_of(path), None, "{path}");
    }
    assert_eq!(endpoint_of(&well_known_path(&format!("/tasks/{}/mcp", "a".repeat(33)))), None);
}

#[test]
fn a2_the_document_tells_the_clients_url_and_the_issuers() {
    let resource = Resource {
        resource: "https://mcp.example.com/mcp",
        authorization_servers: &["https://idp.example.com"],
        scopes: &["mcp.read", "offline_access"],
        name: None,
    };
    assert_eq!(
        resource.document().unwrap(),
        json!({
            "resource": "https://mcp.example.com/mcp",
            "authorization_servers": ["https://idp.example.com"],
            "scopes_supported": ["mcp.read"],
            "bearer_methods_supported": ["header"],
        })
    );
    assert_eq!(Resource { authorization_servers: &[], ..resource }.document(), None);
    let bare = Resource { scopes: &["offline_access"], name: Some("Docs"), ..resource }.document().unwrap();
    assert_eq!((bare.get("scopes_supported"), &bare["resource_name"]), (None, &json!("Docs")));
}

fn challenge<'a>(asked: Asked) -> Challenge<'a> {
    Challenge {
        asked,
        resource_metadata: Some("https://g/.well-known/x"),
        scopes: &["a", "b"],
        description: None,
    }
}

#[test]
fn a1_without_a_token_no_error_is_named() {
    let header = challenge(Asked::NoCredential).header();
    assert_eq!(header, r#"Bearer resource_metadata="https://g/.well-known/x", scope="a b""#);
    let bare = Challenge { resource_metadata: None, scopes: &[], ..challenge(Asked::NoCredential) };
    assert_eq!(bare.header(), "Bearer");
    assert_eq!(Asked::NoCredential.status(), 401);
}

#[test]
fn a16_all_scopes_stand_in_one_challenge() {
    let header = challenge(Asked::InsufficientScope).header();
    assert_eq!(
        header,
        r#"Bearer resource_metadata="https://g/.well-known/x", scope="a b", error="insufficient_scope""#
    );
    assert_eq!((Asked::InsufficientScope.status(), Asked::InvalidToken.status()), (403, 401));
    assert!(challenge(Asked::InvalidToken).header().ends_with(r#"error="invalid_token""#));
}

#[test]
fn a17_a_callers_text_stays_inside_its_quotes() {
    let evil = "x\"\r\nSet-Cookie: a=b\\\", error=\"none";
    let header = Challenge { description: Some(evil), ..challenge(Asked::InvalidToken) }.header();
    assert!(header.ends_with(r#"error_description="x???Set-Cookie: a=b??, error=?none""#), "{header}");
    let long = Challenge { description: Some(&"é".repeat(5000)), ..challenge(Asked::InvalidToken) }.header();
    assert!(long.len() < 400, "{}", long.len());
    let scopes =
        Challenge { scopes: &["a\"b", "ok", "c d", ""], ..challenge(Asked::InsufficientScope) }.header();
    assert!(scopes.contains(r#"scope="ok","#), "{scopes}");
}

proptest! {
    #[test]
    fn a17_no_text_breaks_out_of_the_header(text in "\\PC*|[\\x00-\\x7f]*", scope in "[\\x00-\\x7f]{0,8}") {
        let scopes = [scope.as_str()];
        let header = Challenge {
            description: Some(&text), resource_metadata: Some(&text), scopes: &scopes, asked: Asked::InvalidToken,
        }.header();
        prop_assert!(header.bytes().all(|b| (0x20..=0x7e).contains(&b)));
        prop_assert_eq!(header.matches('"').count() % 2, 0);
        prop_assert!(!header.contains('\\'));
        let outside: String = header.split('"').step_by(2).collect();
        prop_assert!(["Bearer resource_metadata=, scope=, error=, error_description=",
            "Bearer resource_metadata=, error=, error_description="].contains(&outside.as_str()), "{}", outside);
    }
}
