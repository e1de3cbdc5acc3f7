//! The cases of credentials, permissions, limits and secrets by their ids: each has a test that is named by it, and one can
//! be run by that name (`tests/run a16_`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};
use tollgate_tests::client::Client;
use tollgate_tests::gateway::Start;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::wait;

use crate::support::{http, yaml};

/// Letters and the numbers of their cases.
const CASES: [(&str, std::ops::RangeInclusive<u32>); 8] = [
    ("a", 1..=26),
    ("k", 1..=7),
    ("x", 1..=8),
    ("s", 6..=6),
    ("l", 1..=3),
    ("l", 5..=7),
    ("r", 1..=2),
    ("t", 11..=11),
];
/// What peers' users suffer from in authorization and in payloads, in two spellings.
const PEERS: [u32; 7] = [9, 10, 11, 12, 13, 14, 18];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.map_while(Result::ok).map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !matches!(name.as_str(), "target" | ".git" | "node_modules") {
            sources(&path, found);
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// The ids that a test's name begins with: `a5_a6_a_key_…` has two.
fn ids(name: &str) -> impl Iterator<Item = &str> {
    name.split('_').take_while(|part| {
        let (letter, number) = part.split_at(1.min(part.len()));
        letter.starts_with(|c: char| c.is_ascii_lowercase())
            && !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit())
    })
}

#[test]
fn each_case_has_a_test_that_is_named_by_it() {
    let mut files = Vec::new();
    sources(Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace"), &mut files);
    let mut tests: BTreeMap<String, u32> = BTreeMap::new();
    let mut peers: Vec<String> = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let names = text.split("fn ").skip(1).filter_map(|rest| rest.split('(').next());
        for name in names {
            ids(name).for_each(|id| *tests.entry(id.to_owned()).or_default() += 1);
            peers.extend(name.strip_prefix("peer_").map(str::to_owned));
        }
    }
    let all = CASES.into_iter().flat_map(|(letter, numbers)| numbers.map(move |n| format!("{letter}{n}")));
    let missing: Vec<String> = all.chain(["r8".to_owned()]).filter(|id| !tests.contains_key(id)).collect();
    assert!(missing.is_empty(), "no test is named by {missing:?}");
    let named = |n: u32| {
        peers.iter().any(|name| name.starts_with(&format!("{n}_")) || name.starts_with(&format!("{n:02}_")))
    };
    let missing: Vec<u32> = PEERS.into_iter().filter(|n| !named(*n)).collect();
    assert!(missing.is_empty(), "no test is named by what peers suffer from: {missing:?}");
}

/// Case X8: whoever has the journal and guesses an argument can't tell that it was the right guess.
#[test]
fn x8_a_journal_does_not_answer_guesses_at_an_argument() {
    let up = Scripted::json(Peer::modern("up"));
    let kept = |key: &str| {
        let text = yaml("keys: { digest: \"env:DIGEST\" }\n", &[http("up", &up, "")]);
        let gateway = Start::new(&text).env("DIGEST", key).start();
        assert_eq!(gateway.modern().call("up__echo", r#"{"pin":"4711"}"#).result()["isError"], false);
        gateway.sigterm();
        assert!(gateway.wait(wait::LONG).success());
        let mut text = String::new();
        let folder = gateway.dir.path().join("var/audit/gateway");
        for entry in std::fs::read_dir(&folder).expect("a journal").map_while(Result::ok) {
            text += &String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap_or_default());
        }
        text
    };
    let (one, other) = (
        kept("CzBVep/E6Q4zWH2ix+wRNluApcrvFDleg6jN8hc8YYY="),
        kept("ZZrPBDluo9gNQnes4RZLgLXqH1SJvvMoXZLH/DFmm9A="),
    );
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    for guess in [r#"{"pin":"4711"}"#, "4711", "\"4711\""] {
        let bare = hex(digest(&SHA256, guess.as_bytes()).as_ref());
        assert!(!one.contains(&bare) && !one.contains(&bare[..16]), "{guess}");
    }
    assert!(!one.contains("pin"), "arguments stand in the journal");
    let macs = |text: &str| -> Vec<String> {
        text.split("\"args_mac\":\"")
            .skip(1)
            .filter_map(|rest| Some(rest.split('"').next()?.to_owned()))
            .collect()
    };
    assert!(!macs(&one).is_empty() && macs(&one) != macs(&other), "{:?}", macs(&one));
}
