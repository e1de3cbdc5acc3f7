//! `server/discover`, `initialize` and `ping` on every pair of eras.

use serde_json::json;
use tollgate_tests::client::{Client, LEGACY, Legacy, MODERN};

use super::{Matrix, SERVERS, check_era, is_modern};

#[test]
fn eras_discover() {
    let matrix = Matrix::start();
    for server in SERVERS {
        let client = matrix.gateway.modern().server(server);
        let result = client.send("server/discover", "{}").result();
        check_era(server, &client, &result, true);
        let versions = result["supportedVersions"].as_array().expect("versions").clone();
        assert!(versions.contains(&json!(MODERN)) && versions.contains(&json!(LEGACY)), "{versions:?}");
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "tollgate");
        assert_eq!(result["_meta"]["dev.tollgate/capabilityCard"]["specRevision"], MODERN);
        for capability in ["tools", "prompts", "resources", "completions"] {
            assert!(result["capabilities"][capability].is_object(), "{server}: {capability}: {result}");
        }
        assert_eq!(result["capabilities"]["extensions"]["com.example/x"]["depth"], json!(1.0), "{server}");
        assert!(result["instructions"].as_str().is_some_and(|i| i.contains(server)), "{result}");
    }
    let merged = matrix.gateway.modern().send("server/discover", "{}").result();
    assert!(
        merged["instructions"].as_str().is_some_and(|i| SERVERS.iter().all(|s| i.contains(s))),
        "{merged}"
    );
    matrix.assert_clean();
}

#[test]
fn eras_initialize() {
    let matrix = Matrix::start();
    for server in SERVERS {
        let client = Legacy::server(matrix.gateway.addr, server);
        assert_eq!(client.welcome["protocolVersion"], LEGACY);
        assert_eq!(client.welcome["serverInfo"]["name"], "tollgate");
        assert!(
            client.welcome["instructions"].as_str().is_some_and(|i| i.contains(server)),
            "{}",
            client.welcome
        );
        for capability in ["tools", "prompts", "resources", "completions", "logging"] {
            assert!(
                client.welcome["capabilities"][capability].is_object(),
                "{server}: {capability}: {}",
                client.welcome
            );
        }
        assert!(client.welcome["capabilityCard"].is_object());
        assert!(client.welcome.get("resultType").is_none(), "{}", client.welcome);
    }
    matrix.assert_clean();
}

#[test]
fn eras_ping() {
    Matrix::start().each(|server, client| {
        let answer = client.send("ping", "{}");
        if is_modern(client) {
            assert_eq!((answer.status, answer.code()), (404, Some(-32601)), "{server}: {}", answer.text());
        } else {
            assert_eq!(answer.result(), json!({}), "{server}");
        }
    });
}

#[test]
fn eras_methods_of_the_other_era_are_unknown() {
    Matrix::start().each(|server, client| {
        let (method, params) = match is_modern(client) {
            true => ("logging/setLevel", r#"{"level":"info"}"#),
            false => ("subscriptions/listen", "{}"),
        };
        let answer = client.send(method, params);
        let status = if is_modern(client) { 404 } else { 200 };
        assert_eq!(
            (answer.status, answer.code()),
            (status, Some(-32601)),
            "{server} {method}: {}",
            answer.text()
        );
    });
}
