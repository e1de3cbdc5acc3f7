//! Case A2 and what browsers and clients without a credential are told: metadata pages, preflights, the registration shim.

use serde_json::json;
use tollgate_tests::gateway::Start;
use tollgate_tests::http::{Answer, Request};
use tollgate_tests::issuer::Mood;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;

use crate::auth_kit::{Kit, section};
use crate::support::{Bench, http, yaml};

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

fn get(kit: &Kit, path: &str) -> Answer {
    Request::new("GET", path).send(kit.gateway.addr)
}

#[test]
fn a2_each_endpoint_has_its_metadata() {
    let kit = Kit::new();
    let base = format!("http://{}", kit.gateway.addr);
    for (path, endpoint) in [
        ("", "/mcp"),
        ("/mcp", "/mcp"),
        ("/servers/up/mcp", "/servers/up/mcp"),
        ("/tasks/default/mcp", "/tasks/default/mcp"),
        ("/tasks/default/servers/up/mcp", "/tasks/default/servers/up/mcp"),
    ] {
        let answer = get(&kit, &format!("{WELL_KNOWN}{path}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let document: serde_json::Value = serde_json::from_str(&answer.text()).expect("JSON");
        assert_eq!(document["resource"], format!("{base}{endpoint}"), "{path}");
        assert_eq!(document["authorization_servers"], json!([kit.issuer.url()]));
        assert_eq!(document["scopes_supported"], json!(["mcp.read", "mcp.write"]));
        assert_eq!(document["bearer_methods_supported"], json!(["header"]));
        assert!(!answer.text().contains("offline_access"));
    }
    for path in ["/", "/x", "/mcp/", "/servers/UP/mcp", "/servers/up", "//mcp", "/tasks/../mcp"] {
        assert_eq!(get(&kit, &format!("{WELL_KNOWN}{path}")).status, 404, "{path}");
    }
    assert_eq!(Request::new("DELETE", WELL_KNOWN).send(kit.gateway.addr).status, 405);
    for path in ["oauth-authorization-server", "openid-configuration", "oauth-authorization-server/oauth"] {
        assert_eq!(get(&kit, &format!("/.well-known/{path}")).status, 404, "we are no authorization server");
    }
    assert_eq!(Request::post("/oauth/register", "{}").send(kit.gateway.addr).status, 404);
    let rebound = Request::new("GET", WELL_KNOWN).header("Host", "attacker.tld").send(kit.gateway.addr);
    assert_eq!(rebound.status, 403, "the Host is held to the list here too");
}

#[test]
fn a2_the_public_url_is_what_clients_are_told() {
    let issuer = tollgate_tests::issuer::Issuer::start();
    let up = Scripted::json(Peer::modern("up"));
    let head = format!("public_url: https://mcp.example.com/\n{}", section(&issuer, "", ""));
    let gateway = Start::new(&yaml(&head, &[http("up", &up, "")])).start();
    let answer = Request::new("GET", WELL_KNOWN).send(gateway.addr);
    let document: serde_json::Value = serde_json::from_str(&answer.text()).expect("JSON");
    assert_eq!(document["resource"], "https://mcp.example.com/mcp");
}

#[test]
fn a2_without_an_issuer_there_is_no_metadata() {
    let bench = Bench::modern();
    let answer = Request::new("GET", WELL_KNOWN).send(bench.gateway.addr);
    assert_eq!(answer.status, 404, "{}", answer.text());
}

#[test]
fn peer_12_a_preflight_needs_no_credential() {
    let issuer = tollgate_tests::issuer::Issuer::start();
    let up = Scripted::json(Peer::modern("up"));
    let head = format!("origins: [\"https://app.example\"]\n{}", section(&issuer, "", ""));
    let gateway = Start::new(&yaml(&head, &[http("up", &up, "")])).start();
    for path in ["/mcp", "/servers/up/mcp", WELL_KNOWN, &format!("{WELL_KNOWN}/mcp")] {
        let preflight = Request::new("OPTIONS", path)
            .header("Origin", "https://app.example")
            .header("Access-Control-Request-Method", "POST")
            .header("Access-Control-Request-Headers", "authorization,content-type,mcp-protocol-version");
        let answer = preflight.send(gateway.addr);
        assert_eq!(answer.status, 204, "{path}: {}", answer.text());
        assert_eq!(answer.header("access-control-allow-origin"), Some("https://app.example"));
        let allowed = answer.header("access-control-allow-headers").unwrap_or_default().to_lowercase();
        assert!(allowed.contains("authorization"), "{allowed}");
        let foreign =
            Request::new("OPTIONS", path).header("Origin", "https://evil.example").send(gateway.addr);
        assert_eq!(foreign.status, 403, "{path}");
    }
    let refused = Request::post("/mcp", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)
        .header("Origin", "https://app.example")
        .send(gateway.addr);
    assert_eq!(refused.status, 401, "{}", refused.text());
    assert_eq!(
        refused.header("access-control-allow-origin"),
        Some("https://app.example"),
        "a page can read it"
    );
    let exposed = refused.header("access-control-expose-headers").unwrap_or_default();
    assert!(
        exposed.contains("WWW-Authenticate") && refused.header("www-authenticate").is_some(),
        "{exposed}"
    );
    let page = Request::new("GET", WELL_KNOWN).header("Origin", "https://app.example").send(gateway.addr);
    assert_eq!(page.header("access-control-allow-origin"), Some("https://app.example"));
    let exposed = page.header("access-control-expose-headers").unwrap_or_default();
    assert!(exposed.contains("WWW-Authenticate"), "{exposed}");
}

#[test]
fn peer_9_the_shim_registers_clients_for_an_issuer_that_will_not() {
    let issuer = tollgate_tests::issuer::Issuer::start();
    let up = Scripted::json(Peer::modern("up"));
    let shim = format!(
        "  registration_shim: {{ issuer: \"{}\", client_id: public-client, redirect_uris: \
         [\"http://127.0.0.1/callback\", \"https://app.example/cb\"], scope: mcp.read }}\n",
        issuer.url()
    );
    let head = section(&issuer, "", &shim);
    let gateway = Start::new(&yaml(&head, &[http("up", &up, "")])).start();
    let base = format!("http://{}", gateway.addr);
    let read = |path: &str| {
        let answer = Request::new("GET", path).send(gateway.addr);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        serde_json::from_str::<serde_json::Value>(&answer.text()).expect("JSON")
    };
    assert_eq!(read(WELL_KNOWN)["authorization_servers"], json!([format!("{base}/oauth")]));
    let server = read("/.well-known/oauth-authorization-server/oauth");
    assert_eq!(server["issuer"], format!("{base}/oauth"));
    assert_eq!(server["authorization_endpoint"], format!("{}/authorize", issuer.url()));
    assert_eq!(server["token_endpoint"], format!("{}/token", issuer.url()));
    assert_eq!(server["registration_endpoint"], format!("{base}/oauth/register"));
    let register = |body: serde_json::Value| {
        let answer = Request::post("/oauth/register", body.to_string()).send(gateway.addr);
        (answer.status, serde_json::from_str::<serde_json::Value>(&answer.text()).expect("JSON"))
    };
    let (status, client) = register(json!({
        "client_name": "an editor", "redirect_uris": ["http://127.0.0.1:53682/callback"],
        "token_endpoint_auth_method": "none",
    }));
    assert_eq!((status, &client["client_id"]), (201, &json!("public-client")), "{client}");
    assert!(client.get("client_secret").is_none());
    let (status, refused) = register(json!({"redirect_uris": ["https://evil.example/cb"]}));
    assert_eq!((status, &refused["error"]), (400, &json!("invalid_redirect_uri")), "{refused}");
    let large = Request::post("/oauth/register", " ".repeat(17 << 10)).send(gateway.addr);
    assert_eq!(large.status, 413, "{}", large.text());
    issuer.metadata(Mood::Status(500));
    assert_eq!(
        read("/.well-known/oauth-authorization-server/oauth")["issuer"],
        format!("{base}/oauth"),
        "kept"
    );
}
