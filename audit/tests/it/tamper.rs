//! Cases Z6, Z7, Z8, Z11 and Z12: every way of tampering is found, at the exact places, in the right class; and
//! whole logs raise no alarm.

use tollgate_audit::frame::line;
use tollgate_audit::verify::{Report, verify};

use crate::corpus::*;
use crate::oddities::oddities;
use crate::support::*;

fn words(report: &Report) -> Vec<(String, u64, u64)> {
    let name = |class| serde_json::to_value(class).unwrap().as_str().unwrap().to_owned();
    report.findings.iter().map(|f| (name(f.class), f.first, f.last)).collect()
}

const ONE: Shape = Shape { records: 256, segments: 1, epochs: 1 };
const MANY: Shape = Shape { records: 256, segments: 10, epochs: 3 };

#[test]
fn z6_every_edited_record_is_named_and_classed() {
    for shape in [ONE, MANY] {
        let base = base(shape);
        (0..256)
            .step_by(stride(3) as usize)
            .chain([254, 255])
            .flat_map(|seq| edits(&base, seq))
            .for_each(|case| case.check());
    }
}

#[test]
fn g4_z6_every_flipped_byte_is_found_at_its_record() {
    let base = base(ONE);
    let name = Base::log(0);
    let bytes = base.files.get(&name).to_vec();
    let mut ends: Vec<usize> = Vec::new();
    base.bodies.iter().for_each(|b| ends.push(ends.last().unwrap_or(&0) + line(b).len()));
    // On two cores at a time: these are a hundred thousand verifications.
    std::thread::scope(|scope| {
        for start in 0..2 {
            let (base, name, bytes, ends) = (&base, &name, &bytes, &ends);
            scope.spawn(move || {
                let mut random = Random(start as u64);
                for at in (start..bytes.len()).step_by(2) {
                    let mut files = base.files.clone();
                    let mut flipped = bytes.clone();
                    flipped[at] ^= 1 << random.below(8);
                    files.put(name, flipped);
                    let seq = ends.partition_point(|end| *end <= at) as u64;
                    let report = verify(&files, &base.anchored());
                    assert_eq!(words(&report), [("EDITED".to_owned(), seq, seq)], "byte {at}: {report:?}");
                }
            });
        }
    });
}

#[test]
fn z7_every_moved_record_is_named() {
    for shape in [ONE, MANY] {
        let base = base(shape);
        let mut random = Random(2);
        for seq in (0..256).step_by(stride(5) as usize).chain([254, 255]) {
            let near = (seq + 1 + random.below(3)).min(255);
            for other in [near, random.below(256)] {
                moves(&base, seq, other).iter().for_each(Case::check);
            }
        }
    }
}

#[test]
fn z7_segments_deleted_or_swapped_are_named() {
    segments(&base(MANY)).iter().for_each(Case::check);
}

#[test]
fn z7_records_of_another_log_are_named() {
    let (base, other) = (base(ONE), base(ONE));
    let foreign = line(&other.bodies[9]);
    let mut lines = base.lines();
    lines[0][9] = foreign.clone();
    let mut case = base.case("spliced", base.with_lines(&lines));
    (case.verdict, case.exit, case.findings) = ("WRONG_LOG", 1, vec![("WRONG_LOG", 9, 9)]);
    case.check();
    let mut lines = base.lines();
    lines[0].insert(40, foreign);
    let mut case = base.case("spliced in", base.with_lines(&lines));
    (case.verdict, case.exit, case.findings) = ("WRONG_LOG", 1, vec![("WRONG_LOG", 40, 40)]);
    case.check();
    // A whole segment of it, side files and all.
    let mut files = base.files.clone();
    files.0.extend(
        other.files.0.iter().filter(|(n, _)| n.starts_with("00000000.")).map(|(n, b)| (n.clone(), b.clone())),
    );
    let report = verify(&files, &base.anchored());
    assert_eq!(report.exit_code(), 1, "{report:?}");
}

#[test]
fn z8_cut_tails_are_named() {
    for shape in [ONE, MANY] {
        let base = base(shape);
        for keep in [1, 2, 13, 77, 200, 254, 255] {
            cuts(&base, keep).iter().for_each(Case::check);
        }
    }
}

#[test]
fn z8_an_older_copy_is_told_by_who_knows_better_and_never_plain_ok() {
    let dir = tempfile::tempdir().unwrap();
    let journal = tollgate_audit::writer::Journal::open(options(dir.path())).unwrap();
    call(&journal, 0);
    note(&journal);
    let old = Files::load(&journal.opened().dir);
    journal.close();
    let files = Files::load(&journal.opened().dir);
    let bodies = vec![Vec::new(); journal.head().size as usize];
    let notes = vec![journal.last_checkpoint().unwrap().to_string()];
    let base = Base { files, key: journal.first_key().clone(), notes, bodies, firsts: vec![0] };
    rollbacks(&base, &old, 3).iter().for_each(Case::check);
}

#[test]
fn g5_cases_say_what_a_second_verifier_must_find() {
    let base = base(ONE);
    let case = flips(&base, 1, &mut Random(9)).remove(0);
    case.check();
    let json = case.json();
    assert_eq!((json["verdict"].as_str(), json["exit"].as_u64()), (Some("EDITED"), Some(1)));
    assert_eq!(json["findings"][0]["class"], "EDITED");
    assert_eq!(json["key"], base.key.to_string());
}

#[test]
fn z11_side_files_keys_and_seals() {
    for shape in [ONE, MANY] {
        sides(&base(shape)).iter().for_each(Case::check);
    }
}

#[test]
fn z11_side_files_that_are_damaged_in_odd_ways() {
    for shape in [ONE, MANY] {
        oddities(&base(shape)).iter().for_each(Case::check);
    }
}

#[test]
fn g4_z6_many_edits_at_once_are_all_named() {
    let base = base(MANY);
    let mut random = Random(3);
    for round in 0..rounds(1_000, 10_000) {
        let mut lines = base.lines();
        let mut expected: Vec<(String, u64, u64)> = Vec::new();
        let mut shift = 0_i64;
        let mut at = 2 + random.below(8);
        // Far enough apart that every edit has one reading.
        while at < 250 {
            let segment = base.segment_of(at);
            let before: usize = lines[..segment].iter().map(Vec::len).sum();
            let place = (at as i64 + shift) as usize - before;
            match random.below(4) {
                0 => {
                    lines[segment][place] = line(&altered(&base.bodies[at as usize]));
                    expected.push(("EDITED".into(), at, at));
                }
                1 => {
                    lines[segment].remove(place);
                    expected.push(("MISSING".into(), at, at));
                    shift -= 1;
                }
                2 => {
                    let copy = line(&base.bodies[random.below(2) as usize]);
                    lines[segment].insert(place, copy);
                    expected.push((
                        "INSERTED".into(),
                        (at as i64 + shift) as u64,
                        (at as i64 + shift) as u64,
                    ));
                    shift += 1;
                }
                _ => {
                    let bytes = lines[segment][place].clone();
                    lines[segment][place] = [&bytes[..30], b"\n", &bytes[31..]].concat();
                    expected.push(("EDITED".into(), at, at));
                }
            }
            at += 5 + random.below(20);
        }
        expected.sort_by_key(|(class, first, _)| {
            (["EDITED", "MISSING", "INSERTED"].iter().position(|c| c == class), *first)
        });
        let report = verify(&base.with_lines(&lines), &base.anchored());
        assert_eq!(words(&report), expected, "round {round}: {report:?}");
    }
}

#[test]
fn g4_z6_whole_logs_raise_no_alarm() {
    let mut random = Random(4);
    for _ in 0..rounds(1_000, 10_000) {
        let shape = Shape {
            records: 20 + random.below(60),
            segments: 1 + random.below(4),
            epochs: 1 + random.below(2),
        };
        let base = base(shape);
        let report = verify(&base.files, &base.anchored());
        assert_eq!((report.exit_code(), report.findings.len()), (0, 0), "{report:?}");
    }
}

#[test]
fn z12_stored_hashes_are_never_believed() {
    let base = base(ONE);
    let mut lines = base.lines();
    lines[0][7] = line(&altered(&base.bodies[7]));
    let mut files = base.with_lines(&lines);
    let mut leaves = files.get("00000000.leaves").to_vec();
    let leaf = tollgate_audit::tree::leaf_hash(&altered(&base.bodies[7]));
    leaves[7 * 32..8 * 32].copy_from_slice(&leaf.0);
    files.put("00000000.leaves", leaves);
    let report = verify(&files, &base.anchored());
    assert_eq!(words(&report)[0].0, "EDITED");
    assert_eq!((report.exit_code(), report.findings[0].first), (1, 7), "{report:?}");
    // And with the chain and the leaves computed again up to the end: nothing but what was signed knows.
    let rest: Vec<Vec<u8>> =
        std::iter::once(altered(&base.bodies[7])).chain(base.bodies[8..].iter().cloned()).collect();
    let mut files = base.rewritten(7, &rest);
    let mut frames = tollgate_audit::frame::Frames::new(files.get("00000000.log").to_vec().leak() as &[u8]);
    let mut leaves = Vec::new();
    while let Some((_, tollgate_audit::frame::Frame::Whole(body))) = frames.next().unwrap() {
        leaves.extend(tollgate_audit::tree::leaf_hash(body).0);
    }
    files.put("00000000.leaves", leaves);
    let report = verify(&files, &base.anchored());
    assert_eq!(report.verdict.name(), "REWRITTEN", "{report:?}");
    assert!(report.findings[0].first <= 7 && report.findings[0].last >= 7, "{report:?}");
}
