//! Gateways killed in the middle of calls, over and over on one journal: what clients saw, what the journal says and what
//! the server saw agree exactly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use audit::entry::{Entry, Kind};
use audit::hash::Digest;
use audit::span::{Body, DigestKey};
use audit::verify::{DirSource, Options, verify};
use base64::Engine as _;
use parking_lot::Mutex;
use tollgate_tests::client::Client;
use tollgate_tests::gateway::{Gateway, kill_group};
use tollgate_tests::json;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::{Carrier, Scripted};
use tollgate_tests::wait::{self, LONG};

use crate::journal::{DIGEST, begin, folder, log, of, records};

/// Clients at a time.
const CLIENTS: u64 = 4;
/// Cycles of a usual run; `TOLLGATE_AUDIT_TIMES` multiplies them, `TOLLGATE_AUDIT_FULL` makes them the release's.
const CYCLES: u64 = 10;
const RELEASE: u64 = 1_000;

fn cycles() -> u64 {
    if std::env::var_os("TOLLGATE_AUDIT_FULL").is_some() {
        return RELEASE;
    }
    let times = std::env::var("TOLLGATE_AUDIT_TIMES").ok().and_then(|n| n.parse::<u64>().ok());
    CYCLES * times.unwrap_or(1).max(1)
}

/// The arguments of a call that no other call has.
fn args(cycle: u64, client: u64, number: u64) -> String {
    format!(r#"{{"text":"{cycle}-{client}-{number}"}}"#)
}

/// Calls until the gateway is gone; what was answered.
fn calls(gateway: &Gateway, cycle: u64, client: u64, gone: &AtomicBool) -> Vec<String> {
    let modern = gateway.modern().server("up").meta("dev.tollgate/run", &format!("\"run-{client}\""));
    let mut answered = Vec::new();
    for number in 0.. {
        let args = args(cycle, client, number);
        let params = format!(r#"{{"name":"echo","arguments":{args}}}"#);
        match modern.request("tools/call", &params).try_send(gateway.addr) {
            Ok(answer) if answer.status == 200 && answer.code().is_none() => answered.push(args),
            Ok(answer) => assert!(gone.load(Ordering::SeqCst), "{}", answer.text()),
            Err(_) => return answered,
        }
    }
    answered
}

/// A server that remembers the arguments of all calls that reached it.
fn server() -> (Scripted, Arc<Mutex<Vec<String>>>) {
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&arrived);
    let up = Scripted::carried(Peer::modern("up"), Carrier::Json, move |seen, _| {
        if seen.is("tools/call") {
            sink.lock().extend(json::raw(&seen.body, &["params", "arguments"]));
        }
        false
    });
    (up, arrived)
}

#[test]
fn g17_z2_z21_killed_gateways_clients_servers_and_the_journal_agree() {
    let (up, arrived) = server();
    let dir = folder();
    let answered = Mutex::new(BTreeSet::new());
    let mut heads = ["buffered", "strict"].iter().cycle();
    let mut head = String::new();
    for cycle in 0..cycles() {
        let durability = heads.next().expect("a cycle");
        head = format!("audit: {{ durability: {durability}, segment: {{ bytes: 64KiB }} }}\n");
        let gateway = begin(&up, &head, &dir).start();
        let gone = AtomicBool::new(false);
        let goal = arrived.lock().len() + 1 + usize::try_from(cycle * 13 % 41).expect("small");
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let (gateway, gone) = (&gateway, &gone);
                    scope.spawn(move || calls(gateway, cycle, client, gone))
                })
                .collect();
            wait::until("calls", || arrived.lock().len() >= goal);
            gone.store(true, Ordering::SeqCst);
            kill_group(gateway.pid());
            for worker in workers {
                answered.lock().extend(worker.join().expect("a client"));
            }
        });
    }
    let last = begin(&up, &head, &dir).start();
    last.sigterm();
    assert!(last.wait(LONG).success(), "{}", last.log());
    let answered = answered.into_inner();
    assert!(answered.len() as u64 >= cycles(), "{} calls were answered", answered.len());
    reconcile(&records(&log(dir.path())), &answered, &arrived.lock());
    let report = verify(&DirSource::new(log(dir.path())), &Options::default());
    assert_eq!(report.verdict.name(), "OK_UNPINNED", "{report:?}");
}

fn reconcile(entries: &[Entry], answered: &BTreeSet<String>, arrived: &[String]) {
    assert!(entries.iter().enumerate().all(|(at, entry)| entry.seq.0 == at as u64), "numbers are missing");
    let secret = base64::engine::general_purpose::STANDARD.decode(DIGEST.1).expect("base64");
    let key = DigestKey::new(secret.try_into().expect("32 bytes"));
    let mac = |args: &String| key.body("", Body::Args, args.as_bytes());
    let intents: BTreeMap<Digest, &Entry> =
        of(entries, Kind::Intent).into_iter().filter_map(|e| Some((e.args_mac?, e))).collect();
    assert_eq!(intents.len(), of(entries, Kind::Intent).len(), "a call has two intents");
    let mut outcomes: BTreeMap<&str, &Entry> = BTreeMap::new();
    for outcome in of(entries, Kind::Outcome) {
        let call = outcome.call.as_deref().expect("a call");
        assert!(outcomes.insert(call, outcome).is_none(), "{call} has two outcomes");
    }
    assert_eq!(outcomes.len(), intents.len(), "a call has no outcome");
    let ending = |intent: &Entry| {
        let outcome = outcomes.get(intent.call.as_deref().unwrap_or_default()).expect("an outcome");
        assert!(intent.seq < outcome.seq);
        outcome.outcome.as_deref().unwrap_or_default().to_owned()
    };
    let mut seen = BTreeSet::new();
    for args in arrived {
        assert!(seen.insert(mac(args)), "{args} went out twice");
        assert!(intents.contains_key(&mac(args)), "{args} went out without a record");
    }
    for args in answered {
        assert!(seen.contains(&mac(args)), "{args} was answered and never went out");
        assert_eq!(ending(intents[&mac(args)]), "ok", "{args}");
    }
    // Whose outcome nobody knows may have gone out; whose outcome is known did.
    for (mac, intent) in &intents {
        let ending = ending(intent);
        assert!(ending == "unknown" || (ending == "ok" && seen.contains(mac)), "{ending}: {intent:?}");
    }
}
