//! Cases Z9, Z10, Z14, Z15 and Z20: forks, rewriting by who holds the key, signatures, hand-overs, hostile files.

use std::os::unix::fs::symlink;

use tollgate_audit::frame::line;
use tollgate_audit::note::Checkpoint;
use tollgate_audit::tree::leaf_hash;
use tollgate_audit::verify::{DirSource, Options, Verdict, verify};
use tollgate_audit::writer::Journal;

use crate::corpus::{Base, Shape, altered, base};
use crate::support::*;

const ONE: Shape = Shape { records: 60, segments: 1, epochs: 1 };
const EPOCHS: Shape = Shape { records: 90, segments: 3, epochs: 3 };

/// The log rewritten from a record on, with leaves and a last checkpoint by this key.
fn forged(base: &Base, from: u64, seed: u8) -> (Files, String) {
    let rest: Vec<Vec<u8>> = std::iter::once(altered(&base.bodies[from as usize]))
        .chain(base.bodies[from as usize + 1..].iter().cloned())
        .collect();
    let mut files = base.rewritten(from, &rest);
    let log = files.get("00000000.log").to_vec();
    let mut frames = tollgate_audit::frame::Frames::new(log.as_slice());
    let (mut leaves, mut range) = (Vec::new(), tollgate_audit::tree::Range::default());
    while let Some((_, tollgate_audit::frame::Frame::Whole(body))) = frames.next().unwrap() {
        leaves.extend(leaf_hash(body).0);
        range.push(leaf_hash(body));
    }
    let note = Checkpoint { origin: base.key.name().into(), size: range.size(), root: range.root() }
        .sign(&key(seed));
    files.put("00000000.leaves", leaves);
    files.put("00000000.checkpoints", line(note.as_bytes()));
    (files, note)
}

#[test]
fn z9_two_histories_are_a_fork() {
    let base = base(ONE);
    let (forged, note) = forged(&base, 20, 1);
    let alone = verify(&forged, &base.pinned());
    assert_eq!(alone.verdict, Verdict::OkUnanchored, "by itself the rewritten log is consistent: {alone:?}");
    let report = verify(&forged, &base.anchored());
    assert_eq!(report.verdict.name(), "FORK", "{report:?}");
    let other = Options { checkpoints: vec![note.into_bytes()], ..base.pinned() };
    assert_eq!(verify(&base.files, &other).verdict.name(), "FORK");
    let receipts = vec![(30, leaf_hash(&base.bodies[30]))];
    let report = verify(&forged, &Options { receipts, ..base.pinned() });
    assert_eq!((report.verdict.name().as_str(), report.findings[0].first), ("FORK", 30), "{report:?}");
    let before = vec![(10, leaf_hash(&base.bodies[10]))];
    assert_eq!(
        verify(&forged, &Options { receipts: before, ..base.pinned() }).verdict,
        Verdict::OkUnanchored
    );
}

#[test]
fn z10_the_current_key_cannot_rewrite_an_earlier_epoch() {
    let base = base(EPOCHS);
    assert_eq!(verify(&base.files, &base.anchored()).verdict, Verdict::Ok);
    // Records of the first epoch, signed by the key of the third.
    let (forged, _) = forged(&base, 10, 3);
    let report = verify(&forged, &base.pinned());
    assert_eq!(report.exit_code(), 1, "{report:?}");
}

#[test]
fn z11_an_old_record_under_a_newer_key_is_the_wrong_epoch() {
    let base = base(EPOCHS);
    let size = base.firsts[1];
    let mut range = tollgate_audit::tree::Range::default();
    base.bodies[..size as usize].iter().for_each(|b| range.push(leaf_hash(b)));
    let note = Checkpoint { origin: base.key.name().into(), size, root: range.root() }.sign(&key(2));
    let mut files = base.files.clone();
    files.put("00000000.checkpoints", line(note.as_bytes()));
    let report = verify(&files, &base.anchored());
    let classes: Vec<String> = report.findings.iter().map(|f| format!("{:?}", f.class)).collect();
    assert!(
        classes.contains(&"EpochKey".to_owned()) && classes.contains(&"EpochGap".to_owned()),
        "{report:?}"
    );
}

#[test]
fn z14_spoiled_and_unknown_checkpoints_are_told() {
    let base = base(ONE);
    let bytes = base.files.get("00000000.checkpoints").to_vec();
    for at in (0..bytes.len() - 1).step_by(3) {
        let mut files = base.files.clone();
        let mut flipped = bytes.clone();
        flipped[at] ^= 4;
        files.put("00000000.checkpoints", flipped);
        let report = verify(&files, &base.anchored());
        assert_ne!(report.verdict, Verdict::Ok, "byte {at}: {report:?}");
    }
    let mut files = base.files.clone();
    let stranger =
        Checkpoint::of_text(&base.notes[0][..base.notes[0].find("\n\n").unwrap() + 1]).unwrap().sign(&key(7));
    files.put("00000000.checkpoints", [line(stranger.as_bytes()), bytes].concat());
    assert_eq!(verify(&files, &base.anchored()).verdict.name(), "UNKNOWN_KEY");
}

#[test]
fn z15_hand_overs_that_nobody_signed_are_told() {
    let base = base(EPOCHS);
    let keys = String::from_utf8(base.files.get("keys").to_vec()).unwrap();
    let epochs: Vec<&str> = keys.lines().map(|l| &l[18..]).collect();
    let with = |lines: &[String]| {
        let mut files = base.files.clone();
        files.put("keys", lines.iter().flat_map(|l| line(l.as_bytes())).collect());
        verify(&files, &base.pinned())
    };
    let own = |n: usize| epochs[n].to_owned();
    assert_eq!(with(&[own(0), own(1), own(2)]).exit_code(), 3);
    let attacker = key(9).verifier(base.key.name()).to_string();
    let vkey =
        serde_json::from_str::<serde_json::Value>(epochs[1]).unwrap()["vkey"].as_str().unwrap().to_owned();
    let stolen = epochs[1].replace(&vkey, &attacker);
    for (what, lines) in [
        ("to the attacker's key", vec![own(0), stolen, own(2)]),
        ("at another place", vec![own(0), epochs[1].replace("\"seq\":", "\"seq\":1"), own(2)]),
        ("as another epoch", vec![own(0), own(1), epochs[1].replace("\"epoch\":1", "\"epoch\":2")]),
    ] {
        let report = with(&lines);
        assert_eq!(report.exit_code(), 1, "{what}: {report:?}");
    }
    // The file alone is not needed: the records have the same.
    let report = with(&[own(0)]);
    assert_eq!((report.exit_code(), report.epochs), (3, 3), "{report:?}");
}

#[test]
fn z20_hostile_directories_are_refused_precisely() {
    let base = base(ONE);
    let dir = tempfile::tempdir().unwrap();
    let fresh = |name: &str| {
        let place = dir.path().join(name);
        base.files.store(&place);
        place
    };
    let said = |place: &std::path::Path| verify(&DirSource::new(place), &base.anchored());
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    assert_eq!(said(&empty).exit_code(), 1, "a checkpoint is known: {:?}", said(&empty));
    assert_eq!(verify(&DirSource::new(&empty), &Options::default()).verdict, Verdict::Undecided);
    assert_eq!(said(&dir.path().join("nothing")).verdict, Verdict::Undecided);
    let zero = fresh("zero");
    std::fs::write(zero.join("00000000.log"), b"").unwrap();
    assert_eq!(said(&zero).verdict.name(), "TRUNCATED");
    for (name, bytes) in
        [("huge", &b"ffffffff ffffffff {}\n"[..]), ("long", &[b'x'; 3 << 20]), ("nul", &[0; 5000])]
    {
        let place = fresh(name);
        std::fs::write(place.join("00000000.log"), bytes).unwrap();
        assert_eq!(said(&place).exit_code(), 1, "{name}");
    }
    let link = fresh("link");
    std::fs::rename(link.join("00000000.log"), link.join("elsewhere")).unwrap();
    symlink("elsewhere", link.join("00000000.log")).unwrap();
    let report = said(&link);
    assert_eq!(report.exit_code(), 4, "{report:?}");
    let pipe = fresh("pipe");
    std::fs::remove_file(pipe.join("00000000.log")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(pipe.join("00000000.log")).status().unwrap().success());
    assert_eq!(said(&pipe).exit_code(), 4);
    let strange = fresh("strange");
    std::fs::write(strange.join("00000001.log\n"), b"x").unwrap();
    std::fs::write(strange.join("00000000.log.old"), b"x").unwrap();
    assert_eq!(said(&strange).exit_code(), 0);
}

#[test]
fn z20_random_bytes_never_panic_and_never_pass() {
    let base = base(EPOCHS);
    let mut random = Random(8);
    let names: Vec<String> = base.files.0.keys().filter(|n| *n != "lock").cloned().collect();
    for round in 0..rounds(300, 20_000) {
        let mut files = base.files.clone();
        let name = &names[random.below(names.len() as u64) as usize];
        let mut bytes = files.get(name).to_vec();
        for _ in 0..1 + random.below(6) {
            let at = random.below(bytes.len() as u64 + 1) as usize;
            match random.below(3) {
                0 if at < bytes.len() => bytes[at] = random.next() as u8,
                1 => bytes.truncate(at),
                _ => bytes.insert(at, random.next() as u8),
            }
        }
        let same = bytes == base.files.get(name);
        files.put(name, bytes);
        let report = verify(&files, &base.anchored());
        // The leaf hashes and the snapshots prove nothing by themselves.
        let idle = name.ends_with("leaves") || name.ends_with("snapshot");
        assert!(same || idle || report.verdict != Verdict::Ok, "round {round}, {name}: {report:?}");
    }
}

#[test]
fn z18_a_record_that_changed_behind_the_writer_is_never_signed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gw/00000000.log");
    let hook_path = path.clone();
    let hook: tollgate_audit::writer::Hook = std::sync::Arc::new(move |point| {
        if point == "synced" {
            let mut bytes = std::fs::read(&hook_path).unwrap();
            let at = bytes.len() - 30;
            bytes[at] ^= 1;
            std::fs::write(&hook_path, bytes).unwrap();
        }
    });
    let journal =
        Journal::open(tollgate_audit::writer::Options { hook: Some(hook), ..options(dir.path()) }).unwrap();
    let signed = journal.last_checkpoint();
    let _ = tollgate_audit::writer::block_on(journal.intent(intent(0)));
    let failed = journal.checkpoint().map(|t| t.wait());
    assert!(matches!(failed, Ok(Err(_)) | Err(_)), "{failed:?}");
    assert_eq!(journal.last_checkpoint(), signed);
    assert!(journal.stats().fault.unwrap().contains("is not what was written"));
}
