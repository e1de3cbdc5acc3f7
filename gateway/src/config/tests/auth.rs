//! The `auth` section and servers' credentials: what is refused, with its line, and what a good one becomes.

use super::*;

const ISSUER: &str = "auth:\n  issuers:\n    - { issuer: \"https://idp.example\", audience: us }\n";

/// The problems of a file with this `auth` section and one server, as `line:column what`.
fn problems(section: &str) -> Vec<String> {
    let text = format!("{section}{SERVER}");
    let found = check(&text).err().unwrap_or_default();
    found.iter().map(|p| format!("{}:{} {}", p.line, p.column, p.what)).collect()
}

fn told(section: &str, want: &str) {
    let found = problems(section);
    assert!(found.iter().any(|problem| problem.contains(want)), "{section}\n{found:?}");
}

#[test]
fn a_good_section_is_taken() {
    let checked = good(&format!("{ISSUER}{SERVER}"));
    assert!(checked.auth.any());
    assert_eq!(checked.auth.stream_grace, Duration::from_secs(60));
    let trusted = &checked.auth.issuers[0];
    assert!(matches!(trusted.keys, KeySource::Discovery) && trusted.introspection.is_none());
    assert!(!good(SERVER).auth.any());
}

#[test]
fn what_is_wrong_with_callers_credentials_is_told_with_its_line() {
    told("auth: { issuer: x }\n", "unknown key `issuer`");
    told(
        "auth:\n  issuers:\n    - { issuer: \"http://idp.example\", audience: us }\n",
        "doesn't connect there",
    );
    told("auth:\n  issuers:\n    - { issuer: \"https://idp.example\" }\n", "3:7 `audience` is missing");
    told(
        &format!("{ISSUER}    - {{ issuer: \"https://idp.example\", audience: us }}\n"),
        "the same issuer twice",
    );
    told(
        "auth: { issuers: [{ issuer: \"https://a.example\", audience: us, rsa: HS256 }] }\n",
        "no RSA algorithm",
    );
    told(
        "auth: { issuers: [{ issuer: \"https://a.example\", audience: us, scopes: [offline_access] }] }\n",
        "offline_access",
    );
    told("auth: { tokens: [{ name: ci, sha256: my-token-in-the-file }] }\n", "not the SHA-256 of a token");
}

#[test]
fn no_secret_is_in_a_problem_and_none_in_the_file() {
    let section = "auth: { tokens: [{ name: ci, sha256: canary-text }] }\n";
    assert!(!problems(section).concat().contains("canary"));
    let text = "servers: { a: { url: \"https://a.example/mcp\", auth: { bearer: canary-text } } }\n";
    let found = check(text).unwrap_err();
    assert!(found[0].what.contains("a credential in the file itself"), "{found:?}");
    assert!(found.iter().all(|problem| !problem.to_string().contains("canary")));
}

#[test]
fn a_server_gets_exactly_one_credential() {
    let with = |auth: &str| {
        let text = format!("servers: {{ a: {{ url: \"https://a.example/mcp\", auth: {auth} }} }}\n");
        check(&text).map(|checked| checked.servers[0].transport.clone())
    };
    for bad in ["{}", "{ bearer: env:SET, header: { name: X-Key, value: env:SET } }"] {
        assert!(with(bad).unwrap_err()[0].what.contains("not exactly one credential"), "{bad}");
    }
    let Transport::Http(http) = with("{ bearer: env:SET }").unwrap() else { panic!("no http server") };
    assert!(
        matches!(&http.credential, Some(Outgoing::Bearer(held)) if held.secret.expose() == "canary-value")
    );
    assert!(!format!("{http:?}").contains("canary"), "{http:?}");
    let url = "https://idp.example/token";
    let exchange =
        format!("{{ token_exchange: {{ token_url: \"{url}\", client_id: g, client_secret: env:SET }} }}");
    let Transport::Http(http) = with(&exchange).unwrap() else { panic!("no http server") };
    let Some(Outgoing::TokenExchange(grantor)) = &http.credential else { panic!("{http:?}") };
    assert_eq!(grantor.target.resource.as_deref(), Some("https://a.example/mcp"), "for this server alone");
    for bad in ["http://idp.example/token", "https://169.254.169.254/token", "https://u@idp.example/"] {
        let text = format!(
            "{{ client_credentials: {{ token_url: \"{bad}\", client_id: g, client_secret: env:SET }} }}"
        );
        assert!(with(&text).unwrap_err()[0].what.contains("doesn't connect there"), "{bad}");
    }
}
