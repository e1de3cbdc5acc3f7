//! Configurations with random damage: the check ends, with settings or with problems that stand inside the text.

use std::path::Path;

use super::super::{Options, Source, check_text};

const FULL: &str = include_str!("../../../../examples/full.yaml");

/// What means something to YAML, and what is none.
const MARKS: &[u8] = b"{}[]:,#&*!|>'\"%@`-?\n\0\xff 9a";

/// A small generator (xorshift): the damage is the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(most.max(1)).unwrap()).unwrap()
    }
}

fn damaged(random: &mut Random) -> Vec<u8> {
    let mut text = FULL.as_bytes().to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(text.len());
        match random.below(4) {
            0 => text[at] = MARKS[random.below(MARKS.len())],
            1 => drop(text.remove(at)),
            2 => text.truncate(at.max(1)),
            _ => {
                let end = (at + 1 + random.below(200)).min(text.len());
                let piece = text[at..end].to_vec();
                let to = random.below(text.len());
                text.splice(to..to, piece);
            }
        }
    }
    text
}

#[test]
fn l7_damaged_files_are_judged_and_never_more() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut refused = 0;
    for round in 0..300 {
        let bytes = damaged(&mut random);
        let options = Options { listen: None, elsewhere: true };
        let source = Source { name: "f.yaml", bytes: &bytes, base: Path::new("/") };
        let Err(problems) = check_text(&source, &options, &|_| None) else { continue };
        refused += 1;
        let lines = bytes.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() + 2;
        assert!(!problems.is_empty(), "{round}");
        for problem in problems {
            assert!((1..=lines).contains(&problem.line) && problem.column >= 1, "{round}: {problem}");
            assert!(!problem.to_string().contains(['\n', '\u{1b}']), "{round}: {problem:?}");
        }
    }
    assert!(refused > 100, "{refused}: the damage does nothing");
}
