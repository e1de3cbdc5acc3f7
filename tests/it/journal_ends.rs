//! How calls end in the journal: what is told of those that were cancelled, refused afterwards or left.

use audit::entry::{Entry, Kind};
use serde_json::json;
use tollgate_tests::client::{Client, Legacy, call_params};
use tollgate_tests::http::Conn;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::wait::{self, LONG};

use crate::journal::{begin, folder, log, of, records};

fn text(field: &Option<audit::entry::Text>) -> &str {
    field.as_deref().unwrap_or_default()
}

/// The only outcome of a log.
fn outcome(entries: &[Entry]) -> &Entry {
    let outcomes = of(entries, Kind::Outcome);
    assert_eq!(outcomes.len(), 1, "{entries:?}");
    outcomes[0]
}

#[test]
fn z5_the_answer_to_a_cancelled_call_waits_for_its_record_and_names_it() {
    for durability in ["strict", "buffered"] {
        let up = Scripted::json(Peer::legacy("up"));
        let gateway = begin(&up, &format!("audit: {{ durability: {durability} }}\n"), &folder()).start();
        let client = Legacy::server(gateway.addr, "up");
        let params = call_params("slow", r#"{"ms":20000}"#);
        let body = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#);
        let mut conn = Conn::open(gateway.addr);
        conn.write(&client.post(body).wire(&gateway.addr.to_string()));
        wait::until("the call", || up.count("tools/call") == 1);
        client.notify("notifications/cancelled", &json!({"requestId": 7}).to_string());
        let result = conn.try_answer(LONG).expect("an answer").result();
        assert_eq!(result["cancelled"], true, "{result}");
        let entries = records(&log(gateway.dir.path()));
        let outcome = outcome(&entries);
        assert_eq!(text(&outcome.outcome), "cancelled");
        let receipt = &result["_meta"]["dev.tollgate/receipt"];
        assert_eq!(receipt["seq"], outcome.seq.0, "{durability}: {result}");
    }
}
