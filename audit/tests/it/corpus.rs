//! Tampering: logs that are whole, ways to spoil them, and what a verifier must say. The example `corpus` writes the
//! cases to a folder, so that a verifier in any language can be checked against them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_audit::entry::{Entry, Kind};
use tollgate_audit::frame::{Frame, Frames, line};
use tollgate_audit::hash::Digest;
use tollgate_audit::key::VerifierKey;
use tollgate_audit::tree::leaf_hash;
use tollgate_audit::verify::{Options as Verify, verify};
use tollgate_audit::writer::{Journal, Options, block_on};

use crate::support::*;

/// A whole log with what was kept elsewhere.
pub(crate) struct Base {
    pub(crate) files: Files,
    pub(crate) key: VerifierKey,
    /// Signed checkpoints, ascending.
    pub(crate) notes: Vec<String>,
    /// The bodies of all records.
    pub(crate) bodies: Vec<Vec<u8>>,
    /// The segments' first records.
    pub(crate) firsts: Vec<u64>,
}

/// A spoiled log and what is wrong with it.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) files: Files,
    pub(crate) options: Verify,
    pub(crate) verdict: &'static str,
    pub(crate) exit: u8,
    /// Class, first, last; sorted.
    pub(crate) findings: Vec<(&'static str, u64, u64)>,
}

impl Case {
    /// Whether our own verifier says the same.
    pub(crate) fn check(&self) {
        let report = verify(&self.files, &self.options);
        let name = |class| serde_json::to_value(class).unwrap().as_str().unwrap().to_owned();
        let said: Vec<(String, u64, u64)> =
            report.findings.iter().map(|f| (name(f.class), f.first, f.last)).collect();
        let expected: Vec<(String, u64, u64)> =
            self.findings.iter().map(|(c, a, b)| ((*c).to_owned(), *a, *b)).collect();
        assert_eq!(said, expected, "{}: {report:?}", self.name);
        assert_eq!(
            (report.verdict.name().as_str(), report.exit_code()),
            (self.verdict, self.exit),
            "{}",
            self.name
        );
    }

    /// The expectation as it is written beside the files.
    pub(crate) fn json(&self) -> Value {
        let findings: Vec<Value> =
            self.findings.iter().map(|(c, a, b)| json!({"class": c, "first": a, "last": b})).collect();
        let receipts: Vec<Value> =
            self.options.receipts.iter().map(|(seq, leaf)| json!({"seq": seq, "leaf": leaf.hex()})).collect();
        let notes: Vec<String> =
            self.options.checkpoints.iter().map(|n| String::from_utf8_lossy(n).into_owned()).collect();
        json!({
            "name": self.name,
            "key": self.options.key.as_ref().map(ToString::to_string),
            "checkpoints": notes,
            "receipts": receipts,
            "verdict": self.verdict,
            "exit": self.exit,
            "findings": findings,
        })
    }
}

/// How a base log is made.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) records: u64,
    pub(crate) segments: u64,
    pub(crate) epochs: u64,
}

/// Makes a whole log. Every segment but the last ends with a key's hand-over or a rotation.
pub(crate) fn base(shape: Shape) -> Base {
    let dir = tempfile::tempdir().unwrap();
    let clock = HandClock::new();
    let options = Options { clock: clock.clone(), segment_ns: 3_600_000_000_000, ..options(dir.path()) };
    let journal = Journal::open(options).unwrap();
    let per_segment = shape.records / shape.segments;
    let mut notes = Vec::new();
    let (mut segment, mut epoch) = (1, 1);
    for number in 0.. {
        clock.pass(std::time::Duration::from_millis(3));
        let size = journal.head().size;
        if size + 1 >= shape.records {
            break;
        }
        if segment < shape.segments && size >= per_segment * segment {
            rotate(&journal, &clock, segment, &mut epoch, shape.epochs);
            segment += 1;
        } else if number % 3 == 0 && size + 3 < shape.records {
            call(&journal, number);
        } else {
            block_on(journal.record(Entry { sub: Some("é\"\\".into()), ..Entry::new(Kind::Denied) }))
                .unwrap();
        }
        if number % 40 == 13 {
            notes.push(note(&journal));
        }
    }
    journal.close();
    notes.push(journal.last_checkpoint().unwrap().to_string());
    let files = Files::load(&journal.opened().dir);
    let (bodies, firsts) = split(&files);
    assert_eq!((bodies.len() as u64, firsts.len() as u64), (shape.records, shape.segments));
    Base { files, key: journal.first_key().clone(), notes, bodies, firsts }
}

fn rotate(journal: &Arc<Journal>, clock: &HandClock, segment: u64, epoch: &mut u64, epochs: u64) {
    if *epoch < epochs {
        *epoch += 1;
        journal.rotate_key(key(*epoch as u8)).unwrap().wait().unwrap();
        return;
    }
    note(journal);
    clock.pass(std::time::Duration::from_secs(3_700));
    let next = journal.opened().dir.join(format!("{segment:08}.log"));
    while !next.exists() {
        note(journal);
    }
    note(journal);
}

/// The bodies of all records, and the first record of each segment.
fn split(files: &Files) -> (Vec<Vec<u8>>, Vec<u64>) {
    let (mut bodies, mut firsts) = (Vec::new(), Vec::new());
    for (name, bytes) in files.0.iter().filter(|(n, _)| n.ends_with(".log")) {
        firsts.push(bodies.len() as u64);
        let mut frames = Frames::new(bytes.as_slice());
        while let Some((_, frame)) = frames.next().unwrap() {
            let Frame::Whole(body) = frame else { panic!("{name}: {frame:?}") };
            bodies.push(body.to_vec());
        }
    }
    (bodies, firsts)
}

fn member<'a>(body: &'a str, name: &str) -> (usize, &'a str) {
    let at = body.find(&format!("\"{name}\":")).unwrap() + name.len() + 3;
    let rest = &body[at..];
    let end = match rest.strip_prefix('"') {
        Some(text) => text.find('"').unwrap() + 2,
        None => rest.find([',', '}']).unwrap(),
    };
    (at, &rest[..end])
}

/// A body with another `prev` and `seq`.
pub(crate) fn rechained(body: &[u8], prev: &Digest, seq: u64) -> Vec<u8> {
    let text = std::str::from_utf8(body).unwrap();
    let (at, old) = member(text, "prev");
    let text = format!("{}\"{prev}\"{}", &text[..at], &text[at + old.len()..]);
    let (at, old) = member(&text, "seq");
    format!("{}{seq}{}", &text[..at], &text[at + old.len()..]).into_bytes()
}

impl Base {
    pub(crate) fn log(segment: usize) -> String {
        format!("{segment:08}.log")
    }

    pub(crate) fn size(&self) -> u64 {
        self.bodies.len() as u64
    }

    /// The key and the last checkpoint, kept elsewhere.
    pub(crate) fn anchored(&self) -> Verify {
        let last = self.notes.last().unwrap().clone().into_bytes();
        Verify { key: Some(self.key.clone()), checkpoints: vec![last], receipts: Vec::new() }
    }

    /// The key alone.
    pub(crate) fn pinned(&self) -> Verify {
        Verify { key: Some(self.key.clone()), ..Verify::default() }
    }

    pub(crate) fn case(&self, name: impl Into<String>, files: Files) -> Case {
        Case {
            name: name.into(),
            files,
            options: self.anchored(),
            verdict: "OK",
            exit: 0,
            findings: Vec::new(),
        }
    }

    pub(crate) fn segment_of(&self, seq: u64) -> usize {
        self.firsts.partition_point(|first| *first <= seq) - 1
    }

    /// The lines of every segment, to be reordered.
    pub(crate) fn lines(&self) -> Vec<Vec<Vec<u8>>> {
        let mut all = vec![Vec::new(); self.firsts.len()];
        for (seq, body) in self.bodies.iter().enumerate() {
            all[self.segment_of(seq as u64)].push(line(body));
        }
        all
    }

    /// The files with other lines in them.
    pub(crate) fn with_lines(&self, lines: &[Vec<Vec<u8>>]) -> Files {
        let mut files = self.files.clone();
        for (segment, lines) in lines.iter().enumerate() {
            files.put(&Base::log(segment), lines.concat());
        }
        files
    }

    /// The files with these bodies in the place of the records from `from` on, numbered and chained again.
    pub(crate) fn rewritten(&self, from: u64, bodies: &[Vec<u8>]) -> Files {
        let mut prev = leaf_hash(&self.bodies[from as usize - 1]);
        let mut lines = self.lines();
        let first = self.segment_of(from);
        for (segment, lines) in lines.iter_mut().enumerate().skip(first) {
            lines.truncate((from.saturating_sub(self.firsts[segment])) as usize);
        }
        for (at, body) in bodies.iter().enumerate() {
            let seq = from + at as u64;
            let body = rechained(body, &prev, seq);
            prev = leaf_hash(&body);
            let segment = self.segment_of(seq.min(self.size() - 1));
            lines[segment].push(line(&body));
        }
        self.with_lines(&lines)
    }
}

/// The case with what a verifier must say.
pub(crate) fn expect(mut case: Case, verdict: &'static str, findings: &[(&'static str, u64, u64)]) -> Case {
    case.verdict = verdict;
    case.exit = match verdict {
        "OK" => 0,
        "UNDECIDED" => 4,
        "OK_UNANCHORED" | "OK_UNPINNED" | "OK_UNSEALED_TAIL" | "TORN_TAIL" => 3,
        _ => 1,
    };
    case.findings = findings.to_vec();
    case
}

/// A body whose outcome, or else some letter, is another.
pub(crate) fn altered(body: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(body).unwrap();
    let (at, _) = member(text, "ts");
    let mut bytes = body.to_vec();
    bytes[at + 1] = if bytes[at + 1] == b'2' { b'3' } else { b'2' };
    bytes
}

/// Single edits of one record: of the bytes alone, with the CRC, with the whole chain behind it.
pub(crate) fn edits(base: &Base, seq: u64) -> Vec<Case> {
    let body = altered(&base.bodies[seq as usize]);
    let segment = base.segment_of(seq);
    let place = (seq - base.firsts[segment]) as usize;
    let mut rot = base.lines();
    let plain = rot[segment][place].clone();
    rot[segment][place] = [&plain[..18], &body, b"\n"].concat();
    let mut edit = base.lines();
    edit[segment][place] = line(&body);
    let mut all = vec![
        expect(base.case(format!("rot-{seq}"), base.with_lines(&rot)), "EDITED", &[("EDITED", seq, seq)]),
        expect(base.case(format!("edit-{seq}"), base.with_lines(&edit)), "EDITED", &[("EDITED", seq, seq)]),
    ];
    if seq > 0 && seq + 1 < base.size() {
        let bodies: Vec<Vec<u8>> =
            std::iter::once(body).chain(base.bodies[seq as usize + 1..].iter().cloned()).collect();
        let findings = [("REWRITTEN", seq + 1, base.size() - 1), ("EDITED", seq, seq)];
        let case = base.case(format!("rewrite-{seq}"), base.rewritten(seq, &bodies));
        all.push(expect(case, "REWRITTEN", &findings));
    }
    all
}

/// Records deleted, copied, swapped and invented: as lines, and with the chain computed again.
pub(crate) fn moves(base: &Base, seq: u64, other: u64) -> Vec<Case> {
    let (segment, place) = (base.segment_of(seq), (seq - base.firsts[base.segment_of(seq)]) as usize);
    let (far, there) = (base.segment_of(other), (other - base.firsts[base.segment_of(other)]) as usize);
    let last = base.size() - 1;
    let mut all = Vec::new();
    let mut lines = base.lines();
    lines[segment].remove(place);
    let class = if seq == last { "TRUNCATED" } else { "MISSING" };
    all.push(expect(
        base.case(format!("delete-{seq}"), base.with_lines(&lines)),
        class,
        &[(class, seq, seq)],
    ));
    let mut lines = base.lines();
    let copy = lines[segment][place].clone();
    lines[segment].insert(place + 1, copy.clone());
    all.push(expect(
        base.case(format!("duplicate-{seq}"), base.with_lines(&lines)),
        "INSERTED",
        &[("INSERTED", seq + 1, seq + 1)],
    ));
    let mut lines = base.lines();
    lines[far].insert(there, copy);
    let at = if other == seq { seq + 1 } else { other };
    all.push(expect(
        base.case(format!("copy-{seq}-to-{other}"), base.with_lines(&lines)),
        "INSERTED",
        &[("INSERTED", at, at)],
    ));
    let mut lines = base.lines();
    lines[segment].insert(place, line(&altered(&base.bodies[seq as usize])));
    all.push(expect(
        base.case(format!("invent-{seq}"), base.with_lines(&lines)),
        "INSERTED",
        &[("INSERTED", seq, seq)],
    ));
    if seq != other {
        let mut lines = base.lines();
        let (a, b) = (lines[segment][place].clone(), lines[far][there].clone());
        lines[segment][place] = b;
        lines[far][there] = a;
        let (low, high) = (seq.min(other), seq.max(other));
        let one = [("MOVED", low, high)];
        let two = [("MOVED", low, low), ("MOVED", high, high)];
        let findings: &[_] = if high == low + 1 { &one } else { &two };
        all.push(expect(
            base.case(format!("swap-{seq}-{other}"), base.with_lines(&lines)),
            "MOVED",
            findings,
        ));
    }
    all.extend(moves_rechained(base, seq));
    all
}

/// The same with the numbers and the chain computed again behind it.
fn moves_rechained(base: &Base, seq: u64) -> Vec<Case> {
    let last = base.size() - 1;
    let mut all = Vec::new();
    if seq > 0 && seq < last {
        let rest = base.bodies[seq as usize + 1..].to_vec();
        let findings = [("REWRITTEN", seq + 1, last), ("MISSING", seq, seq)];
        let case = base.case(format!("delete-rechained-{seq}"), base.rewritten(seq, &rest));
        all.push(expect(case, "REWRITTEN", &findings));
        let more: Vec<Vec<u8>> = std::iter::once(altered(&base.bodies[seq as usize]))
            .chain(base.bodies[seq as usize..].iter().cloned())
            .collect();
        let findings = [("REWRITTEN", seq, last), ("INSERTED", seq, seq)];
        let case = base.case(format!("invent-rechained-{seq}"), base.rewritten(seq, &more));
        all.push(expect(case, "REWRITTEN", &findings));
    }
    all
}

/// What is cut at the end, with and without somebody who knows better.
pub(crate) fn cuts(base: &Base, keep: u64) -> Vec<Case> {
    let (segment, place) = (base.segment_of(keep), (keep - base.firsts[base.segment_of(keep)]) as usize);
    let last = base.size() - 1;
    let mut lines = base.lines();
    lines[segment].truncate(place);
    let mut files = base.with_lines(&lines);
    for gone in segment + 1..base.firsts.len() {
        for extension in ["log", "leaves", "checkpoints", "snapshot"] {
            files.0.remove(&format!("{gone:08}.{extension}"));
        }
    }
    let cut = base.case(format!("cut-{keep}"), files.clone());
    let mut all = vec![expect(cut, "TRUNCATED", &[("TRUNCATED", keep, last)])];
    // With a line that is not whole at the end.
    let mut torn = files.clone();
    let mut bytes = torn.get(&Base::log(segment)).to_vec();
    bytes.extend_from_slice(&line(&base.bodies[keep as usize])[..20]);
    torn.put(&Base::log(segment), bytes);
    let cut = base.case(format!("cut-torn-{keep}"), torn);
    all.push(expect(cut, "TRUNCATED", &[("TRUNCATED", keep, last)]));
    // The leaves cut as well, and then only a receipt left.
    let mut quiet = files;
    let name = format!("{segment:08}.leaves");
    let leaves = quiet.get(&name)[..place * 32].to_vec();
    quiet.put(&name, leaves);
    let mut case = base.case(format!("cut-receipt-{keep}"), quiet);
    case.options.checkpoints.clear();
    case.options.receipts = vec![(last, leaf_hash(&base.bodies[last as usize]))];
    all.push(expect(case, "TRUNCATED", &[("TRUNCATED", keep, last)]));
    all
}

/// Cut back to an older checkpoint with everything that tells of it: found by who kept a later one, else never plain OK.
pub(crate) fn rollbacks(base: &Base, old: &Files, size: u64) -> Vec<Case> {
    let last = base.size() - 1;
    let known = base.case(format!("rollback-{size}"), old.clone());
    let mut unknown = base.case(format!("rollback-unknown-{size}"), old.clone());
    unknown.options = base.pinned();
    vec![expect(known, "TRUNCATED", &[("TRUNCATED", size, last)]), expect(unknown, "OK_UNANCHORED", &[])]
}

/// Files that are not records.
pub(crate) fn sides(base: &Base) -> Vec<Case> {
    let mut all = vec![expect(base.case("clean", base.files.clone()), "OK", &[])];
    let mut unpinned = base.case("clean-without-a-key", base.files.clone());
    unpinned.options.key = None;
    all.push(expect(unpinned, "OK_UNPINNED", &[]));
    let mut unanchored = base.case("clean-without-a-checkpoint", base.files.clone());
    unanchored.options = base.pinned();
    all.push(expect(unanchored, "OK_UNANCHORED", &[]));
    let mut torn = base.files.clone();
    let name = Base::log(base.firsts.len() - 1);
    let bytes = [torn.get(&name), b"000000"].concat();
    torn.put(&name, bytes);
    all.push(expect(base.case("torn-tail", torn), "TORN_TAIL", &[]));
    let leaves = "00000000.leaves".to_owned();
    let mut flipped = base.files.clone();
    let mut bytes = flipped.get(&leaves).to_vec();
    bytes[40] ^= 1;
    flipped.put(&leaves, bytes);
    all.push(expect(base.case("leaves-flipped", flipped), "OK", &[]));
    let mut gone = base.files.clone();
    gone.0.remove(&leaves);
    all.push(expect(base.case("leaves-deleted", gone), "OK", &[]));
    let checkpoints: BTreeMap<String, Arc<Vec<u8>>> = base
        .files
        .0
        .iter()
        .filter(|(n, _)| !n.ends_with(".checkpoints"))
        .map(|(n, b)| (n.clone(), b.clone()))
        .collect();
    let mut case = base.case("checkpoints-deleted", Files(checkpoints));
    case.options = base.pinned();
    all.push(expect(case, "EPOCH_GAP", &[("EPOCH_GAP", 0, base.size() - 1)]));
    let mut wrong = base.case("wrong-key", base.files.clone());
    wrong.options.key = Some(key(9).verifier(base.key.name()));
    wrong.options.checkpoints.clear();
    all.push(expect(wrong, "UNKNOWN_KEY", &[("UNKNOWN_KEY", 0, 0)]));
    all
}

/// Whole segments deleted and swapped.
pub(crate) fn segments(base: &Base) -> Vec<Case> {
    let mut all = Vec::new();
    let count = base.firsts.len();
    let end = |s: usize| base.firsts.get(s + 1).copied().unwrap_or(base.size());
    for gone in 0..count - 1 {
        for keep_sides in [true, false] {
            let mut files = base.files.clone();
            files.0.remove(&Base::log(gone));
            if !keep_sides {
                for extension in ["leaves", "checkpoints", "snapshot"] {
                    files.0.remove(&format!("{gone:08}.{extension}"));
                }
            }
            let case = base.case(format!("segment-{gone}-deleted-{keep_sides}"), files);
            let findings = [("MISSING", base.firsts[gone], end(gone) - 1)];
            all.push(expect(case, "MISSING", &findings));
        }
    }
    for (one, two) in [(0, 1), (1, count - 1)] {
        let mut files = base.files.clone();
        for extension in ["log", "leaves", "checkpoints", "snapshot"] {
            let name = |s: usize| format!("{s:08}.{extension}");
            let (a, b) = (base.files.0.get(&name(one)).cloned(), base.files.0.get(&name(two)).cloned());
            a.map(|a| files.0.insert(name(two), a));
            b.map(|b| files.0.insert(name(one), b));
        }
        let mut case = base.case(format!("segments-{one}-{two}-swapped"), files);
        // Which of two neighbours of one length moved can't be told: both are named.
        let (a, b) = ((base.firsts[one], end(one)), (base.firsts[two], end(two)));
        case = match (two - one, (a.1 - a.0).cmp(&(b.1 - b.0))) {
            (1, std::cmp::Ordering::Less) => expect(case, "MOVED", &[("MOVED", a.0, a.1 - 1)]),
            (1, std::cmp::Ordering::Greater) => expect(case, "MOVED", &[("MOVED", b.0, b.1 - 1)]),
            (1, std::cmp::Ordering::Equal) => expect(case, "MOVED", &[("MOVED", a.0, b.1 - 1)]),
            _ => expect(case, "MOVED", &[("MOVED", a.0, a.1 - 1), ("MOVED", b.0, b.1 - 1)]),
        };
        all.push(case);
    }
    all
}

/// Single flipped bits of records.
pub(crate) fn flips(base: &Base, count: u64, random: &mut Random) -> Vec<Case> {
    let mut all = Vec::new();
    for _ in 0..count {
        let mut lines = base.lines();
        let seq = random.below(base.size());
        let segment = base.segment_of(seq);
        let bytes = &mut lines[segment][(seq - base.firsts[segment]) as usize];
        let bit = random.below(bytes.len() as u64 * 8) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
        let case = base.case(format!("flip-{seq}-bit-{bit}"), base.with_lines(&lines));
        all.push(expect(case, "EDITED", &[("EDITED", seq, seq)]));
    }
    all
}
