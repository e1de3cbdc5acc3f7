//! `tollgate audit` on journals that the journal's own crate wrote: verdicts and exit codes, runs, proofs, exports,
//! costs, and hostile files.

mod journals;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Output, Stdio};

use audit::entry::{Entry, Kind};
use audit::verify::DirSource;
use serde_json::Value;
use tollgate_tests::gateway::{command, run};
use tollgate_tests::json;

use journals::{Book, HOSTILE};

fn audit(args: &[&str]) -> Output {
    let all: Vec<&str> = ["audit"].iter().chain(args).copied().collect();
    let output = run(&all, Path::new("/"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("panicked"), "{args:?}: {said}");
    output
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it ended by itself")
}

fn lines(output: &Output) -> Vec<Value> {
    out(output).lines().map(json::parse).collect()
}

#[test]
fn z8_a_log_is_plain_ok_only_with_its_key_and_something_kept_elsewhere() {
    let book = Book::new();
    let (vkey, log) = book.write("gw", 4);
    let dir = book.dir();
    let unpinned = audit(&["verify", &dir]);
    assert_eq!(code(&unpinned), 3);
    assert!(out(&unpinned).contains("OK_UNPINNED"), "{}", out(&unpinned));
    let unanchored = audit(&["verify", &dir, "--key", &vkey]);
    assert_eq!(code(&unanchored), 3);
    let last = book.records("gw").len() - 1;
    let said = out(&unanchored);
    assert!(said.contains("OK_UNANCHORED") && said.contains(&format!("beyond record {last}")), "{said}");
    let note = book.file("note", &audit(&["checkpoint", "--dir", &dir]).stdout);
    for place in [dir.clone(), format!("{dir}/gw")] {
        let proven = audit(&["verify", &place, "--key", &vkey, "--checkpoint", &note, "--json"]);
        assert_eq!(code(&proven), 0, "{}", out(&proven));
        let report = &lines(&proven)[0];
        assert_eq!(report["verdict"], "OK");
        assert_eq!((&report["log"], &report["horizon"]), (&log.as_str().into(), &last.into()));
    }
    assert_eq!(out(&audit(&["keys", "--dir", &dir])).trim(), vkey);
    // The end goes, checkpoint and all: only what was kept tells.
    book.cut("gw", 2);
    let lost = audit(&["verify", &dir, "--key", &vkey, "--checkpoint", &note, "--json"]);
    assert_eq!(code(&lost), 1);
    assert_eq!(lines(&lost)[0]["verdict"], "TRUNCATED");
    let receipt = format!("{{\"log\":\"{log}\",\"seq\":{last},\"leaf\":\"{}\"}}\n", "0".repeat(64));
    let receipts = book.file("receipts", receipt.as_bytes());
    assert_eq!(code(&audit(&["verify", &dir, "--key", &vkey, "--receipts", &receipts])), 1);
}

#[test]
fn z6_an_edited_record_is_named() {
    let book = Book::new();
    let (vkey, _) = book.write("gw", 4);
    book.edit("gw", "\"c2\"", "\"cX\"");
    let found = audit(&["verify", &book.dir(), "--key", &vkey, "--json"]);
    assert_eq!(code(&found), 1);
    let report = &lines(&found)[0];
    assert_eq!(report["verdict"], "EDITED");
    // Record 0 is `open`; call 2 has the records 5 and 6.
    let named: Vec<u64> = report["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .flat_map(|f| f["first"].as_u64().expect("a place")..=f["last"].as_u64().expect("a place"))
        .collect();
    let expected: Vec<u64> =
        book.records("gw").iter().filter(|e| e.call.as_deref() == Some("cX")).map(|e| e.seq.0).collect();
    assert_eq!(named, expected);
    let human = audit(&["verify", &book.dir(), "--key", &vkey]);
    assert!(out(&human).contains(&format!("EDITED records {} to {} (rot)", named[0], named[1])), "{human:?}");
}

#[test]
fn z7_with_several_logs_each_key_finds_its_own_and_a_lost_log_is_missed() {
    let book = Book::new();
    let (one, _) = book.write("gw-0", 2);
    let (two, _) = book.write("gw-1", 3);
    let dir = book.dir();
    let both = audit(&["verify", &dir, "--key", &one, "--key", &two, "--json"]);
    assert_eq!(code(&both), 3);
    assert!(lines(&both).iter().all(|r| r["verdict"] == "OK_UNANCHORED"), "{}", out(&both));
    let half = audit(&["verify", &dir, "--key", &two, "--json"]);
    assert_eq!(code(&half), 3);
    assert_eq!(lines(&half)[0]["verdict"], "OK_UNPINNED");
    // A log that loses its file of keys is still there, and judged.
    std::fs::remove_file(book.path("gw-0").join("keys")).expect("remove");
    let keyless = audit(&["verify", &dir, "--key", &one, "--key", &two, "--json"]);
    assert_eq!(code(&keyless), 1);
    assert_eq!(lines(&keyless)[0]["verdict"], "BAD_SIGNATURE");
    std::fs::remove_dir_all(book.path("gw-0")).expect("remove");
    let lost = audit(&["verify", &dir, "--key", &one, "--key", &two]);
    assert_eq!(code(&lost), 1);
    assert!(out(&lost).contains("MISSING"), "{}", out(&lost));
    let another = audit(&["verify", &dir, "--key", &one, "--json"]);
    assert_eq!((code(&another), &lines(&another)[0]["verdict"]), (1, &"UNKNOWN_KEY".into()));
}

#[test]
fn z20_hostile_files_neither_panic_nor_hang_nor_pass() {
    let book = Book::new();
    let dir = book.dir();
    assert_eq!(code(&audit(&["verify", &dir])), 4);
    assert_eq!(code(&audit(&["verify", &format!("{dir}/none")])), 4);
    assert_eq!(code(&audit(&["verify"])), 2);
    assert_eq!(code(&audit(&["verify", &dir, "--key", "none"])), 2);
    let (vkey, _) = book.write("gw", 2);
    let log = book.path("gw").join("00000000.log");
    let whole = std::fs::read(&log).expect("read");
    let hostile = |bytes: &[u8]| {
        std::fs::remove_file(&log).expect("remove");
        std::fs::write(&log, bytes).expect("write");
        for args in [
            vec!["verify", &dir, "--key", &vkey],
            vec!["run", "r1", "--dir", &dir],
            vec!["show", "--dir", &dir],
            vec!["costs", "--dir", &dir],
            vec!["export", "--format", "csv", "--dir", &dir],
            vec!["prove", "1", "--dir", &dir],
        ] {
            let output = audit(&args);
            assert!(args[0] != "verify" || matches!(code(&output), 1 | 4), "{output:?}");
            assert!(code(&output) <= 4);
        }
    };
    hostile(b"");
    hostile(b"ffffffff ffffffff {\n");
    hostile(&[0xff; 4096]);
    hostile(&whole[..whole.len() / 2]);
    hostile(&[whole.as_slice(), b"00000002 00000000 {}\n"].concat());
    std::fs::remove_file(&log).expect("remove");
    symlink("/dev/zero", &log).expect("link");
    assert_eq!(code(&audit(&["verify", &dir, "--key", &vkey])), 4);
    std::fs::remove_file(&log).expect("remove");
    assert!(std::process::Command::new("mkfifo").arg(&log).status().expect("mkfifo").success());
    assert_eq!(code(&audit(&["verify", &dir, "--key", &vkey])), 4);
    let note = book.file("note", &vec![b'x'; 1 << 20]);
    assert_eq!(code(&audit(&["verify", &dir, "--checkpoint", &note])), 4);
}

#[test]
fn a_run_is_listed_in_the_order_of_its_calls_over_all_replicas() {
    let book = Book::new();
    let (first, second) = (book.open("a"), book.open("b"));
    // The second replica takes the calls 1 and 3.
    for index in 0..4 {
        let journal = if index % 2 == 0 { &first } else { &second };
        journals::call(journal, "r1", index);
    }
    journals::denied(&first, "r1");
    journals::call(&second, "r2", 0);
    first.close();
    second.close();
    let dirs = [book.path("a"), book.path("b")].map(|p| p.to_string_lossy().into_owned());
    let args = ["run", "r1", "--dir", &dirs[1], "--dir", &dirs[0], "--json"];
    let calls = lines(&audit(&args));
    let order: Vec<Option<u64>> = calls.iter().map(|c| c["index"].as_u64()).collect();
    assert_eq!(order.iter().copied().flatten().collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(calls.len(), 5);
    let refusal = calls.iter().find(|c| c["index"].is_null()).expect("the refusal");
    assert_eq!(refusal["outcome"], "denied");
    // The records are the stored ones: their hash is their leaf.
    for call in &calls {
        let record = audit::entry::Entry::parse(call["first"]["record"].to_string().as_bytes()).expect("it");
        assert_eq!(audit::tree::leaf_hash(&record.json()).hex(), call["first"]["leaf"]);
    }
    let table = audit(&args[..6]);
    let text = out(&table);
    assert!(text.starts_with("run r1  task support  principal"), "{text}");
    assert!(text.contains("0.000004006 USD"), "{text}");
    assert!(!text.contains('\u{1b}') && text.contains("\\u{1b}"), "{text}");
    assert_eq!(code(&audit(&["run", "r3", "--dir", &book.dir()])), 1);
    assert_eq!(code(&audit(&["run", "r1", "--principal", "u2", "--dir", &book.dir()])), 1);
}

#[test]
fn z13_a_proof_holds_for_its_record_and_its_log_alone() {
    let book = Book::new();
    let (vkey, _) = book.write("gw", 5);
    let dir = book.dir();
    let made = audit(&["prove", "3", "--dir", &dir]);
    assert_eq!(code(&made), 0);
    let proof = book.file("proof", &made.stdout);
    let checked = audit(&["check-proof", &proof, "--key", &vkey, "--json"]);
    assert_eq!(code(&checked), 0);
    let said = &lines(&checked)[0];
    assert_eq!(
        (&said["verdict"], &said["seq"], &said["record"]["seq"]),
        (&"OK".into(), &3.into(), &3.into())
    );
    let unpinned = audit(&["check-proof", &proof]);
    assert_eq!((code(&unpinned), out(&unpinned).contains("OK_UNPINNED")), (3, true));
    assert_eq!(code(&audit(&["check-proof", &proof, "--dir", &dir])), 3);
    assert_eq!(code(&audit(&["check-proof", &proof, "--dir", &dir, "--key", &vkey])), 0);
    let other = Book::new();
    let (stranger, _) = other.write("gw", 5);
    assert_eq!(code(&audit(&["check-proof", &proof, "--key", &stranger])), 1);
    assert_eq!(code(&audit(&["check-proof", &proof, "--key", &stranger, "--dir", &other.dir()])), 1);
    let text = out(&made).replace("index 3\n", "index 2\n");
    let moved = book.file("moved", text.as_bytes());
    assert_eq!(code(&audit(&["check-proof", &moved, "--key", &vkey])), 1);
    for nonsense in [b"".as_slice(), b"c2sp.org/tlog-proof@v1\n", &[0xff; 100]] {
        let file = book.file("nonsense", nonsense);
        assert_eq!(code(&audit(&["check-proof", &file, "--key", &vkey])), 1);
    }
    assert_eq!(code(&audit(&["check-proof", &format!("{dir}/none"), "--key", &vkey])), 4);
    assert_eq!(code(&audit(&["prove", "999", "--dir", &dir])), 1);
    // Only the first checkpoint is left: it covers the first record.
    book.only_first_checkpoint("gw");
    assert_eq!(code(&audit(&["prove", "3", "--dir", &dir])), 3);
    book.write("gw-2", 1);
    assert_eq!(code(&audit(&["prove", "3", "--dir", &dir])), 2);
}

#[test]
fn costs_agree_with_the_journals_totals_to_the_nanodollar() {
    let book = Book::new();
    book.write("gw", 5);
    let dir = book.dir();
    let totals = audit::read::totals(&DirSource::new(book.path("gw"))).expect("totals");
    let total = totals.tasks[&("support".into(), "docs".into())];
    assert_eq!((total.calls, total.nanousd), (5, 5 * 1000 + 10));
    let table = out(&audit(&["costs", "--dir", &dir]));
    assert!(table.lines().nth(1).expect("a row").ends_with("5  0.00000501"), "{table}");
    let rows = lines(&audit(&["costs", "--dir", &dir, "--by", "day,principal", "--format", "json"]));
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (&rows[0]["cost_nanousd"], &rows[0]["principal"]),
        (&total.nanousd.into(), &"https://idp u1".into())
    );
    let rows = lines(&audit(&["costs", "--dir", &dir, "--format", "ledger"]));
    assert_eq!(rows.len(), 1);
    assert_eq!((&rows[0]["model"], &rows[0]["tags"][0]), (&"mcp-server".into(), &"docs".into()));
    assert_eq!((&rows[0]["calls"], &rows[0]["cost_usd"]), (&5.into(), &"0.00000501".into()));
    let none = lines(&audit(&["costs", "--dir", &dir, "--since", "2999", "--format", "json"]));
    assert!(none.is_empty());
    assert_eq!(code(&audit(&["costs", "--dir", &dir, "--by", "colour"])), 2);
}

#[test]
fn exports_are_the_stored_bytes_or_a_table_without_formulas() {
    let book = Book::new();
    book.write("gw", 3);
    let dir = book.dir();
    let exported = audit(&["export", "--format", "jsonl", "--dir", &dir]);
    assert_eq!(exported.stdout, book.bodies("gw"));
    let csv = out(&audit(&["export", "--format", "csv", "--dir", &dir, "--kind", "intent,outcome"]));
    let rows: Vec<&str> = csv.split_terminator("\r\n").collect();
    assert_eq!(rows.len(), 1 + 6);
    assert!(rows[0].starts_with("log,seq,leaf,ts,kind,call,"), "{csv}");
    assert!(csv.contains("\"'=1+1") && !csv.contains(",=1+1"), "{csv}");
}

#[test]
fn records_are_shown_filtered_and_followed() {
    let book = Book::new();
    let journal = book.open("gw");
    journals::call(&journal, "r1", 0);
    journals::denied(&journal, "r1");
    let dir = book.dir();
    let shown = |more: &[&str]| {
        let args: Vec<&str> = ["show", "--dir", dir.as_str()].iter().chain(more).copied().collect();
        out(&audit(&args))
    };
    assert!(shown(&["--kind", "denied"]).contains("reason=tool"));
    assert!(!shown(&[]).contains('\u{1b}'));
    assert_eq!(shown(&["--server", "other"]), "");
    assert_eq!(shown(&["--since", "2999-01-01"]), "");
    assert_eq!(shown(&["--task", "support", "--principal", "u1", "--json"]).lines().count(), 3);
    assert_eq!(code(&audit(&["show", "--dir", &dir, "--kind", "nothing"])), 2);
    let mut following = command()
        .args(["audit", "show", "--follow", "--json", "--kind", "intent", "--since", "1h", "--dir", &dir])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut read = BufReader::new(following.stdout.take().expect("stdout"));
    let mut line = String::new();
    read.read_line(&mut line).expect("the first");
    journals::call(&journal, "r1", 1);
    line.clear();
    read.read_line(&mut line).expect("the second");
    assert_eq!(Entry::parse(line.as_bytes()).expect("a record").call.as_deref(), Some("c1"));
    // Nobody reads any more: the next record ends it, and that is no failure.
    drop(read);
    journals::call(&journal, "r1", 2);
    assert_eq!(following.wait().expect("it ends").code(), Some(0));
    journal.close();
}

#[test]
fn every_command_has_help_and_hostile_texts_are_escaped() {
    for command in
        ["verify", "run", "show", "prove", "check-proof", "checkpoint", "keys", "export", "costs", "fork"]
    {
        let help = audit(&[command, "--help"]);
        assert_eq!(code(&help), 0);
        assert!(out(&help).contains("Usage: tollgate audit"), "{command}");
    }
    let book = Book::new();
    let journal = book.open("gw");
    journals::call(&journal, "r1", 0);
    journal.close();
    assert!(book.records("gw").iter().any(|e| e.kind == Kind::Intent && e.rule.as_deref() == Some(HOSTILE)));
    for args in [vec!["show"], vec!["run", "r1"], vec!["costs", "--by", "tool"]] {
        let dir = book.dir();
        let all: Vec<&str> = args.iter().copied().chain(["--dir", &dir]).collect();
        let output = audit(&all);
        let mut text = String::new();
        output.stdout.as_slice().read_to_string(&mut text).expect("UTF-8");
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{9b}']), "{args:?}: {text:?}");
    }
}
