//! The harness against itself: a client straight at a scripted server. What fails here is no fault of the gateway.

use tollgate_tests::client::{Client, Legacy, Modern};
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;

#[test]
fn a_modern_client_and_a_modern_server_understand_each_other() {
    for up in [Scripted::json(Peer::modern("a")), Scripted::sse(Peer::modern("b"))] {
        let client = Modern::new(up.addr).meta("progressToken", "7");
        assert_eq!(client.send("server/discover", "{}").result()["resultType"], "complete");
        assert!(client.names("tools/list").contains(&"echo".to_owned()));
        assert_eq!(client.call("echo", r#"{"n":1.0}"#).result()["isError"], false);
        assert_eq!(client.send("resources/read", r#"{"uri":"file:///notes/ä.txt"}"#).status, 200);
        client.call("progress", "{}").result();
        up.assert_clean();
    }
}

#[test]
fn a_legacy_client_and_a_legacy_server_understand_each_other() {
    for up in [Scripted::json(Peer::legacy("a")), Scripted::sse(Peer::legacy("b"))] {
        let client = Legacy::connect(up.addr, "/mcp");
        assert!(client.id().starts_with("up-"));
        assert_eq!(client.call("count", "{}").result()["content"][0]["text"], "1");
        assert_eq!(client.call("count", "{}").result()["content"][0]["text"], "2");
        assert_eq!(client.as_session(None).call("count", "{}").status, 400);
        assert_eq!(client.delete().status, 200);
        assert_eq!(client.call("count", "{}").status, 404);
        up.assert_clean();
    }
}
