//! Every case of the journal has a test that carries its id, so that none is lost when tests are changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The cases, in a word each. What they ask for is in the tests that carry the id.
const CASES: [(&str, &str); 29] = [
    ("z1", "torn writes"),
    ("z2", "killed at random and at every failpoint"),
    ("z3", "power cuts"),
    ("z4", "full disks and failing operations"),
    ("z5", "failed syncs"),
    ("z6", "edits"),
    ("z7", "deleted, doubled, moved and foreign records"),
    ("z8", "cut ends and older copies"),
    ("z9", "two histories"),
    ("z10", "a rewrite with the current key"),
    ("z11", "missing and misplaced seals"),
    ("z12", "stored hashes"),
    ("z13", "proofs of something else"),
    ("z14", "signatures of notes"),
    ("z15", "key rotation"),
    ("z16", "clocks"),
    ("z17", "two writers"),
    ("z18", "memory that changes a record"),
    ("z19", "a disk that is slower than the traffic"),
    ("z20", "hostile files"),
    ("z21", "a crash between call and outcome"),
    ("z22", "erasure"),
    ("z23", "checkpoints that lag"),
    ("g1", "kill cycles"),
    ("g2", "states after power cuts"),
    ("g3", "the n-th operation fails"),
    ("g4", "the tamper corpus"),
    ("g5", "a second verifier"),
    ("g17", "reconciliation"),
];

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
        let path = entry.expect("an entry").path();
        match path.extension() {
            _ if path.is_dir() => walk(&path, found),
            Some(extension) if extension == "rs" => found.push(path),
            _ => {}
        }
    }
}

/// The ids at the start of a test's name: `g17_z2_z21_killed_…` has three.
fn ids(name: &str) -> impl Iterator<Item = &str> {
    name.split('_').take_while(|word| {
        let digits = word.strip_prefix(['g', 'z']).unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
    })
}

#[test]
fn every_case_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for dir in ["audit/src", "audit/tests", "gateway/src", "tests/it"] {
        walk(&root.join(dir), &mut files);
    }
    let mut tests: BTreeMap<String, usize> = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a source");
        for (attribute, head) in text.lines().zip(text.lines().skip(1)) {
            let name = head.trim().strip_prefix("fn ").and_then(|rest| rest.split('(').next());
            for id in name.filter(|_| attribute.trim() == "#[test]").into_iter().flat_map(ids) {
                *tests.entry(id.to_owned()).or_default() += 1;
            }
        }
    }
    let missing: Vec<_> = CASES.iter().filter(|(id, _)| !tests.contains_key(*id)).collect();
    assert!(missing.is_empty(), "no test carries the id of {missing:?}");
}
