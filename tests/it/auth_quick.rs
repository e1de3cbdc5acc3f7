//! What the environment adds for a quick start, and what `/status` says of issuers.

use serde_json::{Value, json};
use tollgate_tests::client::Client;
use tollgate_tests::gateway::{Gateway, Start};
use tollgate_tests::http::Request;
use tollgate_tests::issuer::{AUDIENCE, Issuer, Mood, now};
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::wait;

use crate::auth_kit::Kit;
use crate::support::{http, yaml};

const TOKEN: &str = "quick-0123456789abcdef";

#[test]
fn a_token_of_the_environment_proves_its_caller() {
    let up = Scripted::json(Peer::modern("up"));
    let task =
        "default_task: t\ntasks: { t: { principals: { tokens: [quick-start] }, allow: [\"up__*\"] } }\n";
    let gateway = Start::new(&yaml(task, &[http("up", &up, "")])).env("TOLLGATE_TOKEN", TOKEN).start();
    let call = || gateway.modern().request("tools/call", r#"{"name":"up__echo","arguments":{}}"#);
    let bearer = |token: &str| call().header("Authorization", &format!("Bearer {token}")).send(gateway.addr);
    assert_eq!(bearer(TOKEN).result()["isError"], false);
    assert_eq!(bearer("quick-0123456789abcdeX").status, 401);
    assert_ne!(call().send(gateway.addr).status, 200, "nobody in particular");
    let told = format!("{}{}{}", gateway.log(), gateway.stdout(), gateway.admin("/status").text());
    assert!(!told.contains(TOKEN));
    assert!(told.contains("TOLLGATE_TOKEN") && told.contains("let in as the token quick-start"), "{told}");
}

/// What is left over in an environment does not widen a gateway whose file says who is believed.
#[test]
fn l7_the_environment_adds_nobody_to_a_file_that_says_who_is_believed() {
    const EVIL: &str = "https://evil.example";
    let up = Scripted::json(Peer::modern("up"));
    let zeros = "0".repeat(64);
    let issuers = "issuers: [{ issuer: \"https://real.example\", audience: x }]";
    let tokens = format!("tokens: [{{ name: ci, sha256: \"{zeros}\" }}]");
    for auth in [issuers.to_owned(), tokens.clone(), format!("{issuers}, {tokens}"), "tokens: []".to_owned()]
    {
        let head = format!("auth: {{ {auth} }}\ndefault_task: t\ntasks: {{ t: {{ allow: [\"*\"] }} }}\n");
        let gateway = Start::new(&yaml(&head, &[http("up", &up, "")]))
            .env("TOLLGATE_TOKEN", TOKEN)
            .env("TOLLGATE_OAUTH_ISSUER", EVIL)
            .env("TOLLGATE_OAUTH_SCOPES", "evil.read")
            .start();
        for variable in ["TOLLGATE_TOKEN", "TOLLGATE_OAUTH_ISSUER", "TOLLGATE_OAUTH_SCOPES"] {
            let want = format!("{variable}: ignored");
            assert!(gateway.log().contains(&want), "{auth}: {want}\n{}", gateway.log());
        }
        let page = Request::new("GET", "/.well-known/oauth-protected-resource/mcp").send(gateway.addr);
        assert!(!page.text().contains("evil"), "{auth}: {}", page.text());
        if !auth.ends_with("[]") {
            let call = gateway.modern().request("tools/call", r#"{"name":"up__echo","arguments":{}}"#);
            let answer = call.header("Authorization", &format!("Bearer {TOKEN}")).send(gateway.addr);
            assert_eq!(answer.status, 401, "{auth}: {}", answer.text());
        }
    }
}

#[test]
fn what_is_wrong_in_the_environment_is_told_by_its_name() {
    let up = Scripted::json(Peer::modern("up"));
    let text = yaml("", &[http("up", &up, "")]);
    for (variable, value, want) in [
        ("TOLLGATE_TOKEN", "short", "not a token"),
        ("TOLLGATE_TOKEN", "with spaces in between it", "not a token"),
        ("TOLLGATE_OAUTH_ISSUER", "http://idp.example.com", "doesn't connect there"),
        ("TOLLGATE_OAUTH_ISSUER", "no url", "doesn't connect there"),
    ] {
        let refused = Start::new(&text).env(variable, value).attempt().err().expect("a refusal");
        assert!(refused.contains(variable) && refused.contains(want), "{variable}={value}: {refused}");
        assert!(!refused.contains("short") && !refused.contains("in between"), "{refused}");
    }
    let alone = Start::new(&text).env("TOLLGATE_OAUTH_SCOPES", "mcp.read").start();
    assert!(alone.log().contains("TOLLGATE_OAUTH_SCOPES has no effect"), "{}", alone.log());
}

#[test]
fn an_issuer_of_the_environment_is_believed_and_told_of() {
    let (up, issuer) = (Scripted::json(Peer::modern("up")), Issuer::start());
    let head = "public_url: https://mcp.example.com\nauth: { egress: { loopback: true } }\n";
    let gateway = Start::new(&yaml(head, &[http("up", &up, "")]))
        .env("TOLLGATE_OAUTH_ISSUER", &issuer.url())
        .env("TOLLGATE_OAUTH_SCOPES", "mcp.read mcp.write")
        .start();
    let told = format!("tokens of {} are believed", issuer.url());
    assert!(gateway.log().contains(&told), "{}", gateway.log());
    let page = Request::new("GET", "/.well-known/oauth-protected-resource/mcp");
    let page: Value = serde_json::from_str(&page.send(gateway.addr).text()).unwrap();
    assert_eq!(page["authorization_servers"], json!([issuer.url()]), "{page}");
    assert_eq!(page["scopes_supported"], json!(["mcp.read", "mcp.write"]), "{page}");
    let call = |audience: &str| {
        let claims = json!({"iss": issuer.url(), "aud": audience, "sub": "alice", "exp": now() + 600});
        let token = issuer.sign(&json!({"alg": "EdDSA", "kid": "k1"}), &claims);
        let request = gateway.modern().request("tools/call", r#"{"name":"up__echo","arguments":{}}"#);
        request.header("Authorization", &format!("Bearer {token}")).send(gateway.addr)
    };
    for ours in ["https://mcp.example.com/mcp", "https://mcp.example.com"] {
        let answer = call(ours);
        assert_eq!(answer.status, 200, "{ours}: {}", answer.text());
    }
    assert_eq!(call("https://other.example.com/mcp").status, 401);
}

/// The card is for programs that decide how to come in: it says what the configuration says.
#[test]
fn the_capability_card_says_how_callers_are_proven() {
    let read = |gateway: &Gateway, bearer: &str| -> Value {
        let request = gateway.modern().request("resources/read", r#"{"uri":"tollgate://capability"}"#);
        let answer = request.header("Authorization", &format!("Bearer {bearer}")).send(gateway.addr);
        let text = answer.result()["contents"][0]["text"].as_str().expect("a card").to_owned();
        serde_json::from_str(&text).unwrap()
    };
    let kit = Kit::new();
    let card = read(&kit.gateway, &kit.good());
    let resource = format!("http://{}/.well-known/oauth-protected-resource/mcp", kit.gateway.addr);
    let oauth = json!({
        "enabled": true, "issuers": [kit.issuer.url()], "protectedResource": resource,
        "scopes": ["mcp.read", "mcp.write"],
    });
    assert_eq!(card["auth"], json!({"modes": ["oauth"], "oauth": oauth}));
    let page = Request::new("GET", "/.well-known/oauth-protected-resource/mcp").send(kit.gateway.addr);
    let page: Value = serde_json::from_str(&page.text()).unwrap();
    assert_eq!(page["authorization_servers"], card["auth"]["oauth"]["issuers"]);
    let told: Value = serde_json::from_str(&kit.gateway.admin("/capability").text()).unwrap();
    assert_eq!(told["auth"]["modes"], json!(["oauth"]));
    assert!(told["auth"]["oauth"]["protectedResource"].is_null(), "the listener has no address: {told}");

    let up = Scripted::json(Peer::modern("up"));
    let bare = Gateway::start(&yaml("", &[http("up", &up, "")]));
    let off = json!({"enabled": false, "issuers": [], "protectedResource": null, "scopes": []});
    assert_eq!(read(&bare, TOKEN)["auth"], json!({"modes": ["anonymous-loopback"], "oauth": off}));
    let both = "public_url: https://mcp.example.com/\n\
                auth: { issuers: [{ issuer: \"https://idp.example\", audience: x }], \
                tokens: [{ name: ci, sha256: \"9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0\" }] }\n\
                default_task: t\n\
                tasks: { t: { principals: { tokens: [ci], anonymous: true }, allow: [\"*\"] } }\n\
                legacy: { until: 2026-01-01 }\n";
    let gateway = Gateway::start(&yaml(both, &[http("up", &up, "")]));
    let admin: Value = serde_json::from_str(&gateway.admin("/capability").text()).unwrap();
    for card in [read(&gateway, "aaa"), admin] {
        assert_eq!(card["auth"]["modes"], json!(["oauth", "static-token", "anonymous-loopback"]), "{card}");
        let resource = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";
        assert_eq!(card["auth"]["oauth"]["protectedResource"], resource, "{card}");
        assert_eq!((&card["task"], &card["eras"]), (&json!("t"), &json!(["modern"])), "{card}");
    }
}

#[test]
fn status_tells_how_it_stands_with_issuers() {
    let kit = Kit::with(", jwks_refresh: 1s", "");
    let of = || kit.gateway.status()["issuers"][0].clone();
    assert_eq!(
        (of()["issuer"].clone(), of()["state"].clone()),
        (json!(kit.issuer.url()), json!("not_asked_yet"))
    );
    let token = kit.good();
    kit.works("a good token", &token);
    let good = of();
    assert_eq!(
        (&good["state"], &good["keys"], &good["failures"]),
        (&json!("usable"), &json!(1), &json!(0)),
        "{good}"
    );
    assert!(
        good["read"].is_string() && good["failing_since"].is_null() && good["last_error"].is_null(),
        "{good}"
    );
    kit.issuer.jwks(Mood::Status(500));
    wait::until("a failure that is told", || {
        kit.works("stale keys still serve", &token);
        of()["last_error"].as_str().is_some_and(|error| error.contains("500"))
    });
    let bad = of();
    assert!(bad["failures"].as_u64() >= Some(1) && bad["failing_since"].is_string(), "{bad}");
    assert_eq!(bad["state"], "usable", "{bad}");
    assert!(!kit.gateway.status().to_string().contains(&token));
}

/// A key that is there and can't be used is the issuer's last word: 401, and not "come again" (503).
#[test]
fn a5_a6_a12_a_token_of_a_key_that_cannot_be_used_is_refused_for_good() {
    let kit = Kit::new();
    kit.issuer.add_unusable_keys();
    kit.works("a good token", &kit.good());
    let claims = json!({"iss": kit.issuer.url(), "aud": AUDIENCE, "sub": "alice", "exp": now() + 600});
    for kid in ["unusable-enc", "unusable-oct", "unusable-small", "unusable-type"] {
        let token = kit.issuer.sign(&json!({"alg": "EdDSA", "kid": kid}), &claims);
        kit.refuses(kid, &kit.with_token(&token), 401);
    }
    assert_eq!(kit.issuer.seen("/jwks").len(), 1, "nothing is asked again for them");
    assert_eq!(kit.gateway.status()["issuers"][0]["unusable_keys"], 4);
}
