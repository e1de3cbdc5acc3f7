//! Tampering with what stands beside the records, alone and together: checkpoints out of order, key epochs twice, leaf
//! files that are damaged as well; and what a start leaves that was ended.

use std::sync::Arc;

use tollgate_audit::frame::{Frame, Frames, line};
use tollgate_audit::hash::Digest;
use tollgate_audit::note::{Checkpoint, MAX_NOTE, Note};
use tollgate_audit::tree::leaf_hash;

use crate::corpus::{Base, Case, altered, expect};
use crate::support::*;

fn bodies(file: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Frames::with_limit(file, MAX_NOTE);
    let mut all = Vec::new();
    while let Some((_, Frame::Whole(body))) = frames.next().unwrap() {
        all.push(body.to_vec());
    }
    all
}

fn side(segment: usize, extension: &str) -> String {
    format!("{segment:08}.{extension}")
}

fn notes(base: &Base, segment: usize) -> Vec<Vec<u8>> {
    bodies(base.files.get(&side(segment, "checkpoints")))
}

fn size(note: &[u8]) -> u64 {
    Checkpoint::of_text(&Note::parse(note).unwrap().text).unwrap().size
}

/// The same with a leaf file that leads to no signed root.
fn leafless(files: &Files) -> Files {
    let mut files = files.clone();
    let mut bytes = files.get("00000000.leaves").to_vec();
    bytes[40] ^= 1;
    files.put("00000000.leaves", bytes);
    files
}

fn with_notes(base: &Base, segment: usize, notes: &[Vec<u8>]) -> Files {
    let mut files = base.files.clone();
    files.put(&side(segment, "checkpoints"), notes.iter().flat_map(|n| line(n)).collect());
    files
}

/// The case with the list and without it, with one expectation.
fn both(
    base: &Base,
    name: &str,
    files: &Files,
    verdict: &'static str,
    found: &[(&'static str, u64, u64)],
) -> [Case; 2] {
    [(name.to_owned(), files.clone()), (format!("{name}-without-a-list"), leafless(files))]
        .map(|(name, files)| expect(base.case(name, files), verdict, found))
}

/// All of them.
pub(crate) fn oddities(base: &Base) -> Vec<Case> {
    let mut all = checkpoints(base);
    all.extend(epochs(base));
    all.extend(records(base));
    all.extend(beginnings(base));
    all.extend(tails(base));
    if base.firsts.len() > 4 {
        all.extend(elsewhere(base));
    }
    all
}

/// Checkpoints that are repeated, fall, are damaged or contradict each other.
fn checkpoints(base: &Base) -> Vec<Case> {
    let segment = if base.firsts.len() > 4 { 3 } else { 0 };
    let own = notes(base, segment);
    let (first, last) = (own[0].clone(), own[own.len() - 1].clone());
    assert!(size(&first) < size(&last));
    let mut all = Vec::new();
    let twice: Vec<Vec<u8>> = own.iter().flat_map(|n| [n.clone(), n.clone()]).collect();
    all.extend(both(base, "checkpoints-repeated", &with_notes(base, segment, &twice), "OK", &[]));
    let falling = [own.clone(), vec![first]].concat();
    let at = size(&last) - 1;
    let found = [("BAD_SIGNATURE", at, at)];
    all.extend(both(
        base,
        "checkpoint-falling",
        &with_notes(base, segment, &falling),
        "BAD_SIGNATURE",
        &found,
    ));
    let mut files = base.files.clone();
    let name = side(segment, "checkpoints");
    let mut bytes = line(&last);
    bytes[30] ^= 1;
    bytes.extend(files.get(&name));
    files.put(&name, bytes);
    let at = base.firsts[segment].saturating_sub(1);
    all.extend(both(base, "checkpoint-damaged", &files, "BAD_SIGNATURE", &[("BAD_SIGNATURE", at, at)]));
    let end = base.firsts.len() - 1;
    let epochs = bodies(base.files.get("keys")).len() as u8;
    let other = Checkpoint { origin: base.key.name().into(), size: base.size(), root: Digest([9; 32]) };
    let more = [notes(base, end), vec![other.sign(&key(epochs)).into_bytes()]].concat();
    let at = base.size() - 1;
    all.extend(both(
        base,
        "checkpoint-contradicted",
        &with_notes(base, end, &more),
        "FORK",
        &[("FORK", at, at)],
    ));
    all
}

/// Checkpoints of other segments, and what was kept of lost ones.
fn elsewhere(base: &Base) -> Vec<Case> {
    let mut all = Vec::new();
    let at = base.firsts[4] - 1;
    let earlier = [notes(base, 3), vec![notes(base, 0)[0].clone()]].concat();
    let found = [("BAD_SIGNATURE", at, at)];
    let files = with_notes(base, 3, &earlier);
    all.extend(both(base, "checkpoint-of-an-earlier-segment", &files, "BAD_SIGNATURE", &found));
    let later = [notes(base, 3), vec![notes(base, 5)[0].clone()]].concat();
    let case = base.case("checkpoint-of-a-later-segment", with_notes(base, 3, &later));
    all.push(expect(case, "BAD_SIGNATURE", &found));
    // Without a list it is compared with nothing, and closes nothing.
    let case =
        base.case("checkpoint-of-a-later-segment-without-a-list", leafless(&with_notes(base, 3, &later)));
    all.push(expect(case, "OK", &[]));
    // A segment that no checkpoint closes is a gap with a list and without.
    let open: Vec<Vec<u8>> = notes(base, 3)[..1].to_vec();
    let found = [("EPOCH_GAP", size(&open[0]), at)];
    all.extend(both(base, "segment-open", &with_notes(base, 3, &open), "EPOCH_GAP", &found));
    let mut files = base.files.clone();
    for extension in ["log", "leaves", "checkpoints", "snapshot"] {
        files.0.remove(&side(3, extension));
    }
    // The records are there: their leaves are not bridged by a snapshot.
    let mut bare = base.files.clone();
    bare.0.remove(&side(3, "leaves"));
    bare.0.remove(&side(3, "checkpoints"));
    let found = [("EPOCH_GAP", base.firsts[3], at)];
    all.push(expect(base.case("segment-without-side-files", bare), "EPOCH_GAP", &found));
    let mut case = base.case("receipt-and-checkpoint-of-a-lost-segment", files);
    let seq = base.firsts[3] + 1;
    case.options.receipts =
        vec![(seq, Digest([7; 32])), (seq + 1, leaf_hash(&base.bodies[seq as usize + 1]))];
    case.options.checkpoints.push(notes(base, 3)[0].clone());
    all.push(expect(case, "MISSING", &[("MISSING", base.firsts[3], at)]));
    all
}

/// The file `keys`.
fn epochs(base: &Base) -> Vec<Case> {
    let own = bodies(base.files.get("keys"));
    let with = |lines: &[Vec<u8>]| {
        let mut files = base.files.clone();
        files.put("keys", lines.iter().flat_map(|l| line(l)).collect());
        files
    };
    let seqs: Vec<u64> = own
        .iter()
        .map(|l| serde_json::from_slice::<serde_json::Value>(l).unwrap()["seq"].as_u64().unwrap())
        .collect();
    let mut all = Vec::new();
    let found: Vec<_> = seqs.iter().map(|seq| ("BAD_SIGNATURE", *seq, *seq)).collect();
    let twice = [own.clone(), own.clone()].concat();
    all.push(expect(base.case("keys-doubled", with(&twice)), "BAD_SIGNATURE", &found));
    let zero = String::from_utf8(own[0].clone()).unwrap();
    let prev = zero.find("\"prev\":\"").unwrap() + 8;
    let other = format!("{}{}{}", &zero[..prev], "0".repeat(64), &zero[prev + 64..]);
    let signed = zero.replace("\"sig\":\"\"", "\"sig\":\"AAAA\"");
    let bare = zero.replace("\"sig\":\"\",", "");
    for (name, first) in [("other-prev", other), ("signed", signed), ("without-sig", bare)] {
        let lines: Vec<Vec<u8>> =
            std::iter::once(first.into_bytes()).chain(own[1..].iter().cloned()).collect();
        let case = base.case(format!("epoch-0-{name}"), with(&lines));
        all.push(expect(case, "BAD_SIGNATURE", &[("BAD_SIGNATURE", 0, 0)]));
    }
    if own.len() > 2 {
        let case = base.case("keys-skipped", with(&[own[0].clone(), own[2].clone()]));
        all.push(expect(case, "EPOCH_GAP", &[("EPOCH_GAP", seqs[2], seqs[2])]));
    }
    all
}

/// Records changed where the leaf files are damaged too, lines that say nothing, copies that are damaged.
fn records(base: &Base) -> Vec<Case> {
    let sizes: Vec<u64> =
        (0..base.firsts.len()).flat_map(|s| notes(base, s)).map(|note| size(&note)).collect();
    let seq =
        (41..).find(|s| !sizes.contains(&(s + 1)) && base.segment_of(*s) == base.segment_of(s + 2)).unwrap();
    let (segment, place) = (base.segment_of(seq), (seq - base.firsts[base.segment_of(seq)]) as usize);
    let edited = |how: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut lines = base.lines();
        how(&mut lines[segment]);
        base.with_lines(&lines)
    };
    let mut all = Vec::new();
    let edit = edited(&|l| l[place] = line(&altered(&base.bodies[seq as usize])));
    let found = [("EDITED", seq, seq + 1)];
    all.push(expect(base.case("edit-without-a-list", leafless(&edit)), "EDITED", &found));
    // The leaf file of another segment is too short.
    let mut cut = edit;
    let name = side(base.firsts.len() / 2, "leaves");
    let leaves = cut.get(&name).to_vec();
    cut.put(&name, leaves[..leaves.len() - 32].to_vec());
    all.push(expect(base.case("edit-and-leaves-cut", cut), "EDITED", &found));
    let instead = edited(&|l| l[place] = line(b"{}"));
    all.push(expect(
        base.case("nothing-without-a-list", leafless(&instead)),
        "WRONG_LOG",
        &[("WRONG_LOG", seq, seq)],
    ));
    all.push(expect(base.case("nothing", instead), "EDITED", &[("EDITED", seq, seq)]));
    let more = edited(&|l| l.insert(place, line(b"{}")));
    all.push(expect(base.case("nothing-more", more), "INSERTED", &[("INSERTED", seq, seq)]));
    let array = edited(&|l| l[place] = line(br#"[null,"open","","",3]"#));
    all.extend(both(base, "array", &array, "EDITED", &[("EDITED", seq, seq)]));
    let copy = edited(&|l| {
        let mut copy = l[place].clone();
        copy[3] = b'x';
        l.insert(place + 1, copy);
    });
    all.push(expect(base.case("copy-damaged", copy), "INSERTED", &[("INSERTED", seq + 1, seq + 1)]));
    all
}

/// What a first start leaves that was ended before its first checkpoint, and what only looks like it.
fn beginnings(base: &Base) -> Vec<Case> {
    let mut alone = Files::default();
    alone.put("keys", line(&bodies(base.files.get("keys"))[0]));
    let case = |name: &str, files: &Files, verdict, found: &[_]| {
        let mut case = base.case(name, files.clone());
        case.options = base.pinned();
        expect(case, verdict, found)
    };
    let mut all = vec![case("keys-alone", &alone, "UNDECIDED", &[])];
    let last = base.size() - 1;
    let mut keys = Files::default();
    keys.put("keys", base.files.get("keys").to_vec());
    all.push(expect(base.case("keys-alone-anchored", keys), "TRUNCATED", &[("TRUNCATED", 0, last)]));
    alone.put("00000000.checkpoints", Vec::new());
    alone.put("00000000.leaves", Vec::new());
    alone.put("00000000.log", Vec::new());
    all.push(case("no-record", &alone, "UNDECIDED", &[]));
    alone.put("00000000.log", line(&base.bodies[0]));
    all.push(case("first-record", &alone, "OK_UNSEALED_TAIL", &[]));
    alone.put("00000000.leaves", vec![0; 32]);
    all.push(case("first-record-and-a-bad-leaf", &alone, "OK_UNSEALED_TAIL", &[]));
    alone.put("00000000.leaves", leaf_hash(&base.bodies[0]).0.to_vec());
    all.push(case("first-record-and-its-leaf", &alone, "OK_UNSEALED_TAIL", &[]));
    let torn = [line(&base.bodies[0]), b"00".to_vec()].concat();
    alone.put("00000000.log", torn);
    all.push(case("first-record-torn-tail", &alone, "TORN_TAIL", &[]));
    // Somebody had an answer from this one.
    alone.put("00000000.log", [line(&base.bodies[0]), line(&base.bodies[1])].concat());
    all.push(case("stripped", &alone, "EPOCH_GAP", &[("EPOCH_GAP", 0, 1)]));
    let records = base.files.0.iter().filter(|(n, _)| n.ends_with(".log") || *n == "keys");
    let bare = Files(records.map(|(n, b)| (n.clone(), Arc::clone(b))).collect());
    all.push(case("records-and-keys-alone", &bare, "EPOCH_GAP", &[("EPOCH_GAP", 0, last)]));
    all
}

/// The end of a log that no checkpoint covers yet.
fn tails(base: &Base) -> Vec<Case> {
    let segment = base.firsts.len() - 1;
    let mut own = notes(base, segment);
    own.pop();
    let files = with_notes(base, segment, &own);
    let case = |name: &str, files: Files, verdict, found: &[_]| {
        let mut case = base.case(name, files);
        case.options = base.pinned();
        expect(case, verdict, found)
    };
    let mut all = vec![case("tail", files.clone(), "OK_UNSEALED_TAIL", &[])];
    let last = base.size() - 1;
    let name = side(segment, "leaves");
    let mut leaves = files.get(&name).to_vec();
    let from = leaves.len() - 40;
    leaves[from..].fill(0);
    let mut spoiled = files.clone();
    spoiled.put(&name, leaves);
    // The leaves prove nothing there: the records go on as they should.
    all.push(case("tail-and-leaves-damaged", spoiled.clone(), "OK_UNSEALED_TAIL", &[]));
    // What was kept elsewhere speaks of the records.
    let anchored = base.case("tail-and-leaves-damaged-anchored", spoiled);
    all.push(expect(anchored, "OK_UNSEALED_TAIL", &[]));
    let mut edited = files;
    let log = Base::log(segment);
    let mut lines: Vec<Vec<u8>> = bodies(edited.get(&log)).iter().map(|b| line(b)).collect();
    let at = lines.len() - 2;
    lines[at] = line(&altered(&base.bodies[last as usize - 1]));
    edited.put(&log, lines.concat());
    all.push(case("tail-edited", edited, "EDITED", &[("EDITED", last - 1, last - 1)]));
    all
}
