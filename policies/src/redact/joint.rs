//! Secrets that come in pieces: over the events of a stream, or the chunks of one text. Keeps no more than the end of
//! what came before.

use super::{Counts, Hit, Redactor, apply, settle};

/// How much of the text before is kept, in bytes: no rule but a private key's block is longer.
const CARRY: usize = 4096;

/// The end of the texts so far.
#[derive(Clone, Debug, Default)]
pub struct Joint {
    carry: String,
}

/// One text of a row after redaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The text without its secrets, and without the ends of those that started before it.
    pub text: String,
    /// Bytes at the end of the texts before, as they were given, that belong to a secret which goes on here. Who still
    /// holds those texts takes these bytes out; who doesn't has let half a secret through, and should stop the stream.
    pub behind: usize,
    /// Whether a secret may have started at the end of this text: hold it back until the next one, or the last.
    pub open: bool,
    /// What was taken out.
    pub counts: Counts,
}

impl Joint {
    /// Redacts the next text of a row. Costs as much as scanning the text and 4 KiB.
    pub fn push(&mut self, redactor: &Redactor, text: &str) -> Chunk {
        let whole = format!("{}{text}", self.carry);
        let before = self.carry.len();
        let (mut hits, _) = redactor.scan(text.as_bytes());
        let mut behind = 0;
        for hit in redactor.scan(whole.as_bytes()).0 {
            if hit.span.end > before {
                behind = behind.max(before.saturating_sub(hit.span.start));
                let span = hit.span.start.saturating_sub(before)..hit.span.end - before;
                hits.push(Hit { span, rule: hit.rule });
            }
        }
        settle(&mut hits);
        let mut counts = Counts::default();
        hits.iter().for_each(|hit| counts.add(hit.rule));
        let cut = whole.ceil_char_boundary(whole.len().saturating_sub(CARRY));
        self.carry = whole.get(cut..).unwrap_or_default().to_owned();
        let open = self.open();
        Chunk { text: apply(text, &hits, &redactor.names), behind, open, counts }
    }

    /// Whether the carried text ends in the middle of something: only after white space it does not.
    fn open(&self) -> bool {
        let block = self.carry.rfind("-----BEGIN ");
        let unclosed =
            block.is_some_and(|at| !self.carry.get(at..).unwrap_or_default().contains("-----END "));
        unclosed
            || self.carry.bytes().next_back().is_some_and(|last| !last.is_ascii_whitespace())
            || self.carry.trim_end().to_ascii_lowercase().ends_with("bearer")
    }
}
