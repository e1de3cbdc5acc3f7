//! The gateway's journal from outside: what calls, refusals and lists leave, what survives a kill, and who may write.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use audit::entry::{Entry, Kind};
use audit::read::{Filter, all};
use audit::verify::{DirSource, Options, Verdict, verify};
use tollgate_tests::client::{Client, Modern};
use tollgate_tests::gateway::{Gateway, Start, kill_group, run};
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::wait::{self, LONG};

use crate::support::{http, yaml};

/// `keys.digest` of the tests.
pub(crate) const DIGEST: (&str, &str) = ("DIGEST", "CzBVep/E6Q4zWH2ix+wRNluApcrvFDleg6jN8hc8YYY=");
const KEYS: &str = "keys: { digest: \"env:DIGEST\" }\n";

pub(crate) struct Stand {
    pub(crate) up: Scripted,
    pub(crate) gateway: Gateway,
}

pub(crate) fn folder() -> Arc<tempfile::TempDir> {
    Arc::new(tempfile::tempdir().expect("a folder"))
}

pub(crate) fn begin(up: &Scripted, head: &str, dir: &Arc<tempfile::TempDir>) -> Start {
    let yaml = yaml(&format!("{KEYS}{head}"), &[http("up", up, ", cost: { per_call_usd: 0.002 }")]);
    Start::new(&yaml).env(DIGEST.0, DIGEST.1).folder(dir)
}

impl Stand {
    fn new(head: &str) -> Stand {
        let up = Scripted::json(Peer::modern("up"));
        let gateway = begin(&up, head, &folder()).start();
        Stand { up, gateway }
    }

    /// A client whose calls count for this run.
    fn client(&self, run: &str) -> Modern {
        self.gateway.modern().server("up").meta("dev.tollgate/run", &format!("{run:?}"))
    }

    fn log(&self) -> PathBuf {
        log(self.gateway.dir.path())
    }

    fn records(&self) -> Vec<Entry> {
        records(&self.log())
    }

    fn end(&self) {
        self.gateway.sigterm();
        assert!(self.gateway.wait(LONG).success(), "{}", self.gateway.log());
    }
}

pub(crate) fn log(dir: &Path) -> PathBuf {
    dir.join("var/audit/gateway")
}

pub(crate) fn records(log: &Path) -> Vec<Entry> {
    let read = all(&DirSource::new(log), &Filter::default()).expect("it can be read");
    read.into_iter().map(|record| record.entry).collect()
}

pub(crate) fn of(entries: &[Entry], kind: Kind) -> Vec<&Entry> {
    entries.iter().filter(|entry| entry.kind == kind).collect()
}

#[test]
fn every_call_leaves_an_intent_and_an_outcome_and_a_refusal_one_record() {
    let stand = Stand::new("");
    let client = stand.client("r1");
    assert_eq!(client.call("echo", r#"{"text":"canary-in"}"#).status, 200);
    client.call("no-such-tool", "{}");
    client.send("tools/list", "{}");
    let entries = stand.records();
    let (intents, outcomes) = (of(&entries, Kind::Intent), of(&entries, Kind::Outcome));
    assert_eq!((intents.len(), outcomes.len()), (1, 1));
    let (intent, outcome) = (intents[0], outcomes[0]);
    assert_eq!(intent.call, outcome.call);
    assert!(intent.seq < outcome.seq);
    let text = |field: &'_ Option<audit::entry::Text>| field.as_deref().unwrap_or_default().to_owned();
    assert_eq!(
        [&intent.sub, &intent.task, &intent.run, &intent.server, &intent.tool, &intent.method].map(text),
        ["anonymous", "default", "r1", "up", "echo", "tools/call"]
    );
    assert_eq!((intent.index.map(|i| i.0), text(&intent.rule)), (Some(0), "open".into()));
    assert_eq!(intent.args_bytes.map(|b| b.0), Some(r#"{"text":"canary-in"}"#.len() as u64));
    assert!(intent.args_mac.is_some() && intent.tool_digest.is_some() && intent.policy_digest.is_some());
    assert_eq!((text(&outcome.outcome), outcome.cost_nanousd.map(|c| c.0)), ("ok".into(), Some(2_000_000)));
    assert!(outcome.result_mac.is_some() && outcome.result_bytes.is_some());
    assert_eq!(text(&intent.span).len(), 16);
    let denied = of(&entries, Kind::Denied);
    assert_eq!(denied.len(), 1);
    assert_eq!((text(&denied[0].run), text(&denied[0].tool)), ("r1".into(), "no-such-tool".into()));
    assert_eq!(of(&entries, Kind::List).len(), 1);
    assert_eq!(of(&entries, Kind::Config).len(), 1);
    let bytes = std::fs::read(stand.log().join("00000000.log")).expect("read");
    assert!(!String::from_utf8_lossy(&bytes).contains("canary"), "a body is in the journal");
    stand.end();
    assert_eq!(of(&stand.records(), Kind::Close).len(), 1);
}

#[test]
fn z5_a_journal_in_strict_mode_is_whole_and_its_key_proves_it() {
    let stand = Stand::new("audit: { durability: strict }\n");
    let client = stand.client("r1");
    for _ in 0..3 {
        assert_eq!(client.call("echo", r#"{"text":"x"}"#).result()["isError"], false);
    }
    stand.end();
    let said = stand.gateway.log();
    let key = said.split("verify it with --key ").nth(1).expect("the key is said").lines().next();
    let key = audit::key::VerifierKey::parse(key.expect("a line")).expect("a key");
    let report = verify(&DirSource::new(stand.log()), &Options { key: Some(key), ..Options::default() });
    assert_eq!(report.verdict, Verdict::OkUnanchored, "{report:?}");
    let output = run(&["audit", "run", "r1", "--dir", "var/audit"], stand.gateway.dir.path());
    assert!(String::from_utf8_lossy(&output.stdout).contains("3 calls, 0.006 USD"), "{output:?}");
}

#[test]
fn replaying_a_run_gives_the_same_spans_on_another_instance_and_goes_on_after_a_restart() {
    let spans = |stand: &Stand| -> Vec<Option<audit::entry::Text>> {
        let client = stand.client("r1");
        ["a", "b", "a"].iter().for_each(|text| {
            client.call("echo", &format!(r#"{{"text":{text:?}}}"#));
        });
        of(&stand.records(), Kind::Intent).iter().map(|intent| intent.span.clone()).collect()
    };
    let (one, two) = (Stand::new(""), Stand::new(""));
    let first = spans(&one);
    assert_eq!(first, spans(&two));
    assert_ne!(first[0], first[2], "the same call later in the run is another");
    one.end();
    let again = begin(&one.up, "", &one.gateway.dir).start();
    again.modern().server("up").meta("dev.tollgate/run", "\"r1\"").call("echo", r#"{"text":"a"}"#);
    let entries = records(&log(again.dir.path()));
    let indexes: Vec<u64> = of(&entries, Kind::Intent).iter().filter_map(|e| Some(e.index?.0)).collect();
    assert_eq!(indexes, [0, 1, 2, 3]);
}

#[test]
fn z21_a_call_whose_gateway_is_killed_gets_an_unknown_outcome() {
    let stand = Stand::new("");
    let client = stand.client("r1");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            client.request("tools/call", r#"{"name":"slow","arguments":{}}"#).try_send(client.addr())
        });
        wait::until("the call", || stand.up.count("tools/call") == 1);
        kill_group(stand.gateway.pid());
    });
    let again = begin(&stand.up, "", &stand.gateway.dir).start();
    let entries = records(&log(again.dir.path()));
    let (intents, outcomes) = (of(&entries, Kind::Intent), of(&entries, Kind::Outcome));
    assert_eq!((intents.len(), outcomes.len()), (1, 1));
    assert_eq!(outcomes[0].outcome.as_deref(), Some("unknown"));
    assert_eq!(outcomes[0].call, intents[0].call);
}

#[test]
fn z17_a_second_gateway_with_the_same_log_does_not_start() {
    let stand = Stand::new("");
    let second = begin(&stand.up, "", &stand.gateway.dir).attempt();
    assert!(second.is_err_and(|why| why.contains("another process has this journal open")));
    assert_eq!(stand.client("r1").call("echo", r#"{"text":"x"}"#).status, 200);
}

#[test]
fn refusals_before_anybody_is_known_are_counted() {
    let stand = Stand::new("");
    for _ in 0..20 {
        let request = stand.client("r1").request("tools/call", "{}").header("Origin", "https://evil.example");
        assert_eq!(request.send(stand.gateway.addr).status, 403);
    }
    stand.end();
    let entries = stand.records();
    let counted: u64 = of(&entries, Kind::DeniedCount).iter().filter_map(|e| Some(e.count?.0)).sum();
    assert_eq!(counted, 20);
    assert!(of(&entries, Kind::Denied).is_empty());
}

#[test]
fn a_journal_that_is_off_is_said_and_leaves_nothing() {
    let stand = Stand::new("audit: { durability: \"off\" }\n");
    assert_eq!(stand.client("r1").call("echo", r#"{"text":"x"}"#).status, 200);
    assert!(stand.gateway.log().contains("no journal: calls leave no record"), "{}", stand.gateway.log());
    assert!(!stand.gateway.dir.path().join("var").exists());
}
