//! The meter, the receipt and the span on answers: in every placement, for both eras on both sides, and checked against
//! the journal as an outsider would.

mod trace;

use std::path::PathBuf;
use std::time::Duration;

use audit::entry::{Entry, Kind};
use audit::hash::Digest;
use audit::read::{Filter, Record, all};
use audit::span::{Body, DigestKey};
use audit::verify::DirSource;
use base64::Engine as _;
use serde_json::{Value, json};
use tollgate_tests::client::{Client, Legacy, call_params, with_member};
use tollgate_tests::gateway::{Gateway, Start, run};
use tollgate_tests::http::Conn;
use tollgate_tests::json;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::{Carrier, Scripted};
use tollgate_tests::wait::{self, LONG};

use crate::support::{SEAL_B, http, yaml};

/// `keys.digest` of the tests.
const DIGEST: &str = "CzBVep/E6Q4zWH2ix+wRNluApcrvFDleg6jN8hc8YYY=";
const KEYS: &str = "keys: { digest: \"env:DIGEST\", seal: [\"env:SEAL_B\"] }\n";
/// What only the gateway puts into `_meta`.
const OWN: [&str; 3] = ["dev.tollgate/meter", "dev.tollgate/receipt", "dev.tollgate/span"];

/// A gateway before a modern server `m` and a legacy server `l`, which cost something.
pub(crate) struct Stand {
    pub(crate) gateway: Gateway,
    pub(crate) modern: Scripted,
    pub(crate) legacy: Scripted,
}

impl Stand {
    pub(crate) fn new(head: &str) -> Stand {
        Stand::of(head, &[])
    }

    fn of(head: &str, env: &[(&str, &str)]) -> Stand {
        let (modern, legacy) = (Scripted::json(Peer::modern("m")), Scripted::sse(Peer::legacy("l")));
        let cost = ", cost: { per_call_usd: 0.002 }";
        let yaml = yaml(&format!("{KEYS}{head}"), &[http("m", &modern, cost), http("l", &legacy, cost)]);
        let start = Start::new(&yaml).env("DIGEST", DIGEST).env(SEAL_B.0, SEAL_B.1);
        let start = env.iter().fold(start, |start, (name, value)| start.env(name, value));
        Stand { gateway: start.start(), modern, legacy }
    }

    /// Clients of both eras at both servers' own endpoints.
    fn clients(&self) -> Vec<(String, Box<dyn Client>)> {
        let mut all: Vec<(String, Box<dyn Client>)> = Vec::new();
        for server in ["m", "l"] {
            all.push((format!("modern to {server}"), Box::new(self.gateway.modern().server(server))));
            all.push((format!("legacy to {server}"), Box::new(Legacy::server(self.gateway.addr, server))));
        }
        all
    }

    fn log(&self) -> PathBuf {
        self.gateway.dir.path().join("var/audit/gateway")
    }

    fn records(&self) -> Vec<Record> {
        all(&DirSource::new(self.log()), &Filter::default()).expect("it can be read")
    }

    /// The newest outcome.
    fn outcome(&self) -> Entry {
        let of = |record: &Record| record.entry.kind == Kind::Outcome;
        self.records().into_iter().rfind(of).expect("an outcome").entry
    }
}

fn key() -> DigestKey {
    let bytes = base64::engine::general_purpose::STANDARD.decode(DIGEST).expect("base64");
    DigestKey::new(bytes.try_into().expect("32 bytes"))
}

/// A result without what the gateway has put in: how an outsider gets to the bytes that the record's digest covers.
fn bare(raw: &str) -> String {
    let mut text = raw.to_owned();
    if let Some(meter) = json::raw(&text, &["_meter"]) {
        text = text.replace(&format!(",\"_meter\":{meter}"), "");
    }
    for name in OWN {
        if let Some(value) = json::raw(&text, &["_meta", name]) {
            let member = format!("\"{name}\":{value}");
            let behind = format!(",{member}");
            let part = if text.contains(&behind) { behind } else { format!("{member},") };
            text = if text.contains(&part) { text.replace(&part, "") } else { text.replace(&member, "") };
        }
    }
    match text.strip_suffix(",\"_meta\":{}}") {
        Some(rest) => format!("{rest}}}"),
        None => text,
    }
}

fn check_meter(meter: &Value, tool: &str, ok: bool, what: &str) {
    assert_eq!(meter["tool"], tool, "{what}: {meter}");
    assert_eq!(meter["ok"], ok, "{what}: {meter}");
    assert!(meter["latency_ms"].is_number() && meter["cost_usd"].is_number(), "{what}: {meter}");
    let id = meter["call_id"].as_str().unwrap_or_default();
    assert!(id.len() == 36 && id.as_bytes()[14] == b'7', "{what}: a UUIDv7: {meter}");
    let ts = meter["ts"].as_str().unwrap_or_default();
    assert!(ts.len() == 24 && ts.ends_with('Z') && ts.as_bytes()[19] == b'.', "{what}: {meter}");
}

#[test]
fn every_placement_keeps_the_result_and_the_digest_covers_it_alone() {
    for placement in ["result", "meta", "off"] {
        let stand = Stand::new(&format!("meter: {{ placement: {placement} }}\n"));
        for (who, client) in stand.clients() {
            for tool in ["echo", "whoami", "fail"] {
                let what = format!("{placement}, {who}, {tool}");
                let answer = client.call(tool, r#"{"text":"x"}"#);
                let (raw, result) = (answer.raw_result(), answer.result());
                let meter = match placement {
                    "result" => &result["_meter"],
                    _ => &result["_meta"]["dev.tollgate/meter"],
                };
                if placement == "off" {
                    assert!(!raw.contains("_meter") && !raw.contains("dev.tollgate/"), "{what}: {raw}");
                } else {
                    check_meter(meter, tool, tool != "fail", &what);
                    assert!(raw.contains("\"cost_usd\":0.002,"), "{what}: an exact decimal: {raw}");
                    assert_eq!(result.get("_meter").is_some(), placement == "result", "{what}");
                    assert_eq!(
                        result["_meta"]["dev.tollgate/span"].as_str(),
                        answer.header("tollgate-span-id")
                    );
                }
                let outcome = stand.outcome();
                let mac = key().body("", Body::Result, bare(&raw).as_bytes());
                assert_eq!(outcome.result_mac, Some(mac), "{what}: {raw}");
                assert_eq!(answer.header("tollgate-span-id"), outcome.span.as_deref(), "{what}");
                assert_eq!(
                    outcome.outcome.as_deref(),
                    Some(if tool == "fail" { "tool_error" } else { "ok" })
                );
            }
        }
        stand.modern.assert_clean();
        stand.legacy.assert_clean();
    }
}

#[test]
fn the_variable_switches_the_meter_off_and_is_held_to_its_values() {
    let stand = Stand::of("meter: { placement: meta }\n", &[("TOLLGATE_COST_METER", "0")]);
    let raw = stand.gateway.modern().server("m").call("whoami", "{}").raw_result();
    assert!(!raw.contains("_meter") && !raw.contains("dev.tollgate/"), "{raw}");
    let card = stand.gateway.admin("/capability").text();
    assert_eq!(json::at(&card, &["meter"]), Some(json!({"enabled": false, "placement": "off"})), "{card}");
    let up = Scripted::json(Peer::modern("m"));
    let wrong = Start::new(&yaml("", &[http("m", &up, "")])).env("TOLLGATE_COST_METER", "no").attempt();
    assert!(wrong.is_err_and(|why| why.contains("TOLLGATE_COST_METER is neither 0 nor 1")));
}

#[test]
fn the_card_tells_of_meter_and_journal() {
    let stand = Stand::new("");
    stand.gateway.modern().server("m").call("whoami", "{}");
    let card = stand.gateway.admin("/capability").text();
    assert_eq!(json::at(&card, &["meter"]), Some(json!({"enabled": true, "placement": "result"})));
    let journal = json::at(&card, &["journal"]).expect("a journal");
    let records = stand.records();
    let last = records.last().expect("records");
    let (log, size) = (last.entry.log.to_string(), last.entry.seq.0 + 1);
    assert_eq!(journal, json!({"log": log, "size": size, "head": last.leaf.hex()}));
    let off = Stand::new("audit: { durability: \"off\" }\n");
    assert_eq!(json::at(&off.gateway.admin("/capability").text(), &["journal"]), Some(Value::Null));
    let answer = off.gateway.modern().server("m").call("whoami", "{}");
    assert!(answer.header("tollgate-span-id").is_some(), "calls have spans without a journal too");
    assert!(answer.result()["_meta"].get("dev.tollgate/receipt").is_none(), "{}", answer.text());
}

#[test]
fn what_is_refused_carries_a_meter_and_names_no_server_that_is_not_shown() {
    let stand = Stand::new(
        "default_task: t\ntasks:\n  t: { allow: [\"m__*\"], deny: [\"m__slow\"], limits: { calls: 3/h, budget_calls: 1 } }\n",
    );
    let client = stand.gateway.modern();
    let meter = |name: &str| client.call(name, "{}").error()["data"]["_meter"].clone();
    for name in ["m__slow", "l__echo", "nowhere__echo", "nothing"] {
        let meter = meter(name);
        check_meter(&meter, name, false, name);
        assert!(meter.get("server").is_none() && meter["cost_usd"] == 0, "{meter}");
    }
    for client in [Box::new(client.clone()) as Box<dyn Client>, Box::new(stand.gateway.legacy())] {
        let answer = client.send("tools/call", r#"{"name":7}"#);
        assert!(answer.error()["data"]["call_id"].is_string(), "{}", answer.text());
    }
    let failed = client.call("m__rpc_error", "{}");
    check_meter(&failed.error()["data"]["_meter"], "m__rpc_error", false, "a server's error");
    assert_eq!(failed.error()["data"]["why"], 1.0, "{}", failed.text());
    let spent = client.call("m__echo", "{}").result();
    assert_eq!(spent["_meta"]["dev.tollgate/refusal"]["reason"], "budget", "{spent}");
    check_meter(&spent["_meter"], "m__echo", false, "a budget");
    let denied = stand.records().into_iter().rfind(|record| record.entry.kind == Kind::Denied);
    let denied = denied.expect("a refusal's record");
    assert_eq!(spent["_meta"]["dev.tollgate/receipt"]["seq"], denied.entry.seq.0);
    assert_eq!(spent["_meta"]["dev.tollgate/receipt"]["leaf"], denied.leaf.hex());
    client.call("m__echo", "{}");
    let slow = client.call("m__echo", "{}");
    assert_eq!(slow.status, 429);
    check_meter(&slow.error()["data"]["_meter"], "m__echo", false, "a rate");
    for error in [&slow.error(), &failed.error()] {
        assert_eq!(error["data"]["_meter"]["server"], "m", "{error}");
    }
}

#[test]
fn receipts_are_proven_by_the_journal() {
    for durability in ["buffered", "strict"] {
        let stand = Stand::new(&format!("audit: {{ durability: {durability} }}\n"));
        let client = stand.gateway.modern().server("m");
        let legacy = Legacy::server(stand.gateway.addr, "l");
        let answers = [
            client.call("echo", "{}"),
            client.send("resources/read", r#"{"uri":"file:///notes/a.txt"}"#),
            client.send("prompts/get", r#"{"name":"greet"}"#),
            legacy.call("echo", "{}"),
        ];
        stand.gateway.sigterm();
        assert!(stand.gateway.wait(LONG).success(), "{}", stand.gateway.log());
        let dir = stand.gateway.dir.path();
        let vkey = run(&["audit", "keys"], dir).stdout;
        let vkey = String::from_utf8_lossy(&vkey).trim().to_owned();
        for answer in answers {
            let result = answer.result();
            let receipt = &result["_meta"]["dev.tollgate/receipt"];
            let proof = run(&["audit", "prove", &receipt["seq"].to_string()], dir);
            assert!(proof.status.success(), "{proof:?}");
            std::fs::write(dir.join("proof"), &proof.stdout).expect("write");
            let checked = run(&["audit", "check-proof", "proof", "--key", &vkey, "--json"], dir);
            let said = String::from_utf8_lossy(&checked.stdout).into_owned();
            assert!(checked.status.success(), "{said}");
            assert_eq!(json::at(&said, &["log"]), Some(receipt["log"].clone()), "{said}");
            let record = json::raw(&said, &["record"]).expect("the record");
            let leaf = Digest::sha256(&[b"\0", record.as_bytes()]);
            assert_eq!(receipt["leaf"], leaf.hex(), "the record that the receipt names: {said}");
            let entry = Entry::parse(record.as_bytes()).expect("a record");
            assert_eq!(
                (entry.kind, entry.span.as_deref()),
                (Kind::Outcome, answer.header("tollgate-span-id"))
            );
            let mac = key().body("", Body::Result, bare(&answer.raw_result()).as_bytes());
            assert_eq!(entry.result_mac, Some(mac), "{}", answer.text());
        }
    }
}

#[test]
fn details_and_a_budget_that_is_nearly_spent() {
    let stand = Stand::new(
        "meter: { detail: true }\ndefault_task: t\ntasks:\n  t: { allow: [\"m__*\"], limits: { budget_usd: 0.01, budget_calls: { task: { day: 100 } } } }\n",
    );
    let client = stand.gateway.modern().meta("dev.tollgate/run", "\"r\"");
    let meters: Vec<(Value, usize)> = (0..5)
        .map(|_| {
            let answer = client.call("m__whoami", "{}");
            (answer.result()["_meter"].clone(), bare(&answer.raw_result()).len())
        })
        .collect();
    for (n, (meter, bytes)) in meters.iter().enumerate() {
        assert_eq!(meter["result_bytes"], *bytes, "{meter}");
        assert_eq!(meter["est_tokens"], bytes.div_ceil(4), "{meter}");
        assert_eq!(meter["budget_remaining_usd"].to_string(), ["0.008", "0.006", "0.004", "0.002", "0"][n]);
    }
    assert!(meters[..3].iter().all(|(meter, _)| meter.get("budget").is_none()), "{meters:?}");
    let notice = json!({"name": "run.usd", "spent_ratio": 0.8, "renews": null});
    assert_eq!(meters[3].0["budget"], notice, "{meters:?}");
}

#[test]
fn l2_a_price_that_is_none_shows_as_0() {
    let up = Scripted::carried(Peer::modern("up"), Carrier::Json, |seen, out| {
        let mine = seen.is("tools/call");
        if mine {
            let result =
                r#"{"resultType":"complete","_meta":{},"content":[],"structuredContent":{"cost":-5}}"#;
            out.json(200, seen.rpc().result(result));
        }
        mine
    });
    let cost = ", cost: { reported: /structuredContent/cost, reserve_usd: 0.50 }";
    let gateway = Gateway::start(&yaml("", &[http("up", &up, cost)]));
    let result = gateway.modern().call("up__count", "{}").result();
    assert_eq!(result["_meter"]["cost_usd"], 0, "{result}");
    assert!(
        result["_meta"]["dev.tollgate/receipt"].is_object(),
        "an empty _meta is as good as none: {result}"
    );
}

#[test]
fn a_cancelled_call_is_metered_and_its_partial_is_in_the_journal_by_digest() {
    let stand = Stand::new("");
    let client = Legacy::server(stand.gateway.addr, "l");
    let params = call_params("progress", r#"{"ms":400,"steps":50}"#);
    let request = client.request("tools/call", &with_member(&params, "_meta", r#"{"progressToken":1}"#));
    let id = json::raw(&String::from_utf8_lossy(&request.body), &["id"]).expect("an id");
    let mut conn = Conn::open(client.addr());
    conn.write(&request.wire(&client.addr().to_string()));
    let mut stream = conn.stream_after("POST", wait::LONG).expect("a stream");
    stream.message(wait::LONG).expect("progress");
    client.notify("notifications/cancelled", &format!(r#"{{"requestId":{id}}}"#));
    let mut last = String::new();
    while let Ok(Some(event)) = stream.event(Duration::from_secs(8)) {
        last = event.data.unwrap_or(last);
    }
    let result = json::at(&last, &["result"]).expect("a result");
    assert_eq!((&result["cancelled"], &result["partial"]), (&json!(true), &json!(true)), "{last}");
    check_meter(&result["_meter"], "progress", false, &last);
    let content = json::raw(&last, &["result", "content"]).expect("content");
    assert!(content.contains("step 1"), "{content}");
    let outcome = stand.outcome();
    assert_eq!(outcome.outcome.as_deref(), Some("cancelled"));
    let mac = key().body("", Body::Partial, content.as_bytes());
    assert_eq!(outcome.result_mac, Some(mac));
}

#[test]
fn a_notification_says_nothing_in_the_gateways_name() {
    let up = Scripted::carried(Peer::modern("up"), Carrier::Sse, |seen, out| {
        let mine = seen.is("tools/call");
        if mine {
            let token = seen.rpc().param(&["_meta", "progressToken"]).expect("a token");
            out.stream(&[]);
            out.event(&format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":1,"_meter":{{"cost_usd":0}},"_meta":{{"k":1,"dev.tollgate/receipt":{{}}}}}}}}"#
            ));
            out.event(&seen.rpc().result(r#"{"resultType":"complete","content":[]}"#));
            out.end();
        }
        mine
    });
    let gateway = Gateway::start(&yaml("", &[http("up", &up, "")]));
    let client = gateway.modern().meta("progressToken", "\"t\"");
    let answer = client.call("up__echo", r#"{"text":"x"}"#);
    let text = answer.text();
    let progress = text.lines().find(|line| line.contains("notifications/progress")).expect("progress");
    assert!(progress.contains(r#""_meta":{"k":1}"#) && !progress.contains("_meter"), "{progress}");
}
