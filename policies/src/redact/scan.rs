//! Finds the built-in token formats in one text. Each byte is looked at a bounded number of times, whatever the text:
//! runs of characters are measured once, not once for each start inside them.

use std::ops::Range;

use memchr::memmem;

use super::anchors::{Anchor, Anchors};
use super::shapes::{Alphabet, Form, SHAPES, Shape};
use super::{Hit, Redactor, check, wrapped};

/// Longest gap between an AWS key id and the secret beside it, in bytes.
const AWS_NEIGHBOUR: usize = 160;
/// Longest password of a URL, with the user, in bytes.
const MAX_USERINFO: usize = 512;
/// Bodies of secrets that are judged within one run of an alphabet. A run with more beginnings that are none is made to
/// cost, and goes whole.
const MAX_JUDGED: u8 = 16;
/// Most bytes of a private key without an end that are taken for its body.
const MAX_PEM: usize = 16 * 1024;

/// One pass over one text.
#[derive(Debug)]
pub(super) struct Scan<'t> {
    pub(super) text: &'t [u8],
    pub(super) hits: Vec<Hit>,
    /// Bytes looked at while following anchors up: what the cost of a hostile text is measured by.
    pub(super) steps: usize,
    runs: [Range<usize>; Alphabet::COUNT],
    /// How many bodies were judged in each of them.
    judged: [u8; Alphabet::COUNT],
    /// Where the next end of a PEM block is, as far as it was looked for.
    pem_end: Option<Range<usize>>,
    /// No text is looked at again inside a private key or base64 that is redacted anyway.
    done: usize,
}

impl<'t> Scan<'t> {
    pub(super) fn new(text: &'t [u8]) -> Scan<'t> {
        // Nothing is known yet, also not of the text's beginning.
        let runs = [const { usize::MAX..usize::MAX }; Alphabet::COUNT];
        Scan { text, hits: Vec::new(), steps: 0, runs, judged: [0; Alphabet::COUNT], pem_end: None, done: 0 }
    }

    /// Looks for everything that a redactor looks for in a text.
    pub(super) fn all(&mut self, redactor: &Redactor) {
        self.tokens(redactor, true);
        redactor.people(self);
        redactor.own.find(self);
    }

    /// Looks for credentials alone, in a text that was inside base64.
    pub(super) fn credentials(&mut self, redactor: &Redactor) {
        self.tokens(redactor, false);
        redactor.own.find(self);
    }

    /// Looks for credentials in a text that was under another encoding: it may be plain or base64 once more.
    pub(super) fn encoded(&mut self, redactor: &Redactor) {
        self.tokens(redactor, true);
        redactor.own.find(self);
    }

    fn tokens(&mut self, redactor: &Redactor, inside: bool) {
        let mut windows = wrapped::Windows::default();
        for anchors in Anchors::built_in().into_iter().chain(redactor.own.anchors()) {
            for found in anchors.find(self.text) {
                if found.start < self.done {
                    continue;
                }
                match found.anchor {
                    Anchor::Plain { shape, rule } if redactor.is_on(rule) => {
                        if let Some(shape) = SHAPES.get(usize::from(shape))
                            && let Some(span) = self.follow(shape, found.start..found.end)
                        {
                            self.hits.push(Hit { span, rule });
                        }
                    }
                    Anchor::Wrapped { dropped } if inside => {
                        if let Some(hit) = windows.look(self, redactor, found.start, dropped) {
                            self.done = hit.span.end;
                            self.hits.push(hit);
                        }
                    }
                    Anchor::Plain { .. } | Anchor::Wrapped { .. } => {}
                }
            }
            self.done = 0;
        }
    }

    /// The span to redact, when what is at the anchor is one of that shape.
    fn follow(&mut self, shape: &Shape, anchor: Range<usize>) -> Option<Range<usize>> {
        match shape.form {
            Form::UrlPassword => return self.url_password(anchor.end),
            Form::EntraSecret => return self.entra(anchor),
            _ if self.glued(anchor.start) => return None,
            _ => {}
        }
        match shape.form {
            Form::Run { alphabet, least, most, check } => {
                let end = self.run_end(alphabet, anchor.end);
                let body = self.text.get(anchor.end..end)?;
                if body.len() < least || body.len() > most || self.word_at(alphabet, end) {
                    return None;
                }
                if !self.judge(alphabet) {
                    self.done = end;
                    return Some(anchor.start..end);
                }
                // Checks look at it twice at most.
                self.steps += 2 * body.len().min(256);
                if !check(body.get(..256).unwrap_or(body)) {
                    return None;
                }
                if shape.rule == "aws" {
                    self.aws_neighbours(anchor.start..end);
                }
                Some(anchor.start..end)
            }
            Form::Checksummed => self.checksummed(anchor),
            Form::Jwt => self.jwt(anchor.start),
            Form::Pem => self.pem(anchor),
            Form::Authorization => self.authorization(anchor),
            Form::Labelled => self.labelled(anchor.end),
            Form::UrlPassword | Form::EntraSecret => None,
        }
    }

    /// Whether one more body may be judged in the run that was measured last.
    fn judge(&mut self, alphabet: Alphabet) -> bool {
        let Some(judged) = self.judged.get_mut(alphabet.slot()) else { return false };
        *judged = judged.saturating_add(1);
        *judged <= MAX_JUDGED
    }

    /// Whether the text before goes on in the word that starts here, so that nothing starts here.
    fn glued(&self, at: usize) -> bool {
        if !self.text.get(at).is_some_and(u8::is_ascii_alphanumeric) {
            return false;
        }
        let before = self.text.get(at.saturating_sub(6)..at).unwrap_or_default();
        match before {
            [.., b'\\', b'n' | b't' | b'r'] | [b'\\', b'u', ..] => false,
            [.., last] => last.is_ascii_alphanumeric(),
            [] => false,
        }
    }

    /// Whether a word goes on after a run of an alphabet that has not all of a word's characters.
    fn word_at(&self, alphabet: Alphabet, at: usize) -> bool {
        alphabet == Alphabet::Upper && self.text.get(at).is_some_and(u8::is_ascii_alphanumeric)
    }

    pub(super) fn run_end(&mut self, alphabet: Alphabet, at: usize) -> usize {
        let Some(known) = self.runs.get_mut(alphabet.slot()) else { return at };
        if known.start <= at && at <= known.end {
            return known.end;
        }
        let rest = self.text.get(at..).unwrap_or_default();
        let length = rest.iter().position(|b| !alphabet.has(*b)).unwrap_or(rest.len());
        *known = at..at + length;
        if let Some(judged) = self.judged.get_mut(alphabet.slot()) {
            *judged = 0;
        }
        self.steps += length + 1;
        at + length
    }

    fn checksummed(&mut self, anchor: Range<usize>) -> Option<Range<usize>> {
        let end = self.run_end(Alphabet::Alnum, anchor.end);
        let run = self.text.get(anchor.end..end)?;
        let body = run.get(..36)?;
        self.steps += 36;
        if check::crc32_base62(body) {
            return Some(anchor.start..anchor.end + 36);
        }
        let newer = self.run_end(Alphabet::Dotted, anchor.end);
        check::mixed(body).then_some(anchor.start..newer)
    }

    fn jwt(&mut self, start: usize) -> Option<Range<usize>> {
        let before = start.checked_sub(1).and_then(|at| self.text.get(at));
        if before.is_some_and(|b| matches!(b, b'-' | b'_')) {
            return None;
        }
        let header = self.run_end(Alphabet::Word, start);
        let payload = self.segment(header)?;
        let mut end = self.segment(payload)?;
        // An encrypted one has five parts (RFC 7516).
        for _ in 0..2 {
            match self.segment(end) {
                Some(next) if next > end + 1 => end = next,
                _ => break,
            }
        }
        let header = self.text.get(start..header)?;
        self.steps += header.len().min(1024);
        (header.len() >= 16 && check::jwt_header(header)).then_some(start..end)
    }

    /// The end of the run after a dot.
    fn segment(&mut self, dot: usize) -> Option<usize> {
        (self.text.get(dot) == Some(&b'.')).then(|| self.run_end(Alphabet::Word, dot + 1))
    }

    fn pem(&mut self, anchor: Range<usize>) -> Option<Range<usize>> {
        let label = self.text.get(anchor.end..)?;
        let label = label.get(..64).unwrap_or(label);
        self.steps += label.len();
        let dashes = memmem::find(label, b"-----")?;
        memmem::find(label.get(..dashes)?, b"PRIVATE KEY")?;
        let body = anchor.end + dashes + 5;
        let end = match self.next_pem_end(body) {
            Some(end) if end - body <= MAX_PEM => end,
            _ => self.pem_body(body),
        };
        self.done = end;
        Some(anchor.start..end)
    }

    /// The end of the next `-----END …-----`, looked for once over the whole text.
    fn next_pem_end(&mut self, from: usize) -> Option<usize> {
        if let Some(known) = &self.pem_end
            && known.start <= from
            && from <= known.end
        {
            return (known.end < self.text.len()).then(|| self.after_label(known.end));
        }
        let rest = self.text.get(from..)?;
        let found = memmem::find(rest, b"-----END").map_or(self.text.len(), |at| from + at);
        self.steps += found - from;
        self.pem_end = Some(from..found);
        (found < self.text.len()).then(|| self.after_label(found))
    }

    fn after_label(&self, end: usize) -> usize {
        let label = self.text.get(end + 8..).unwrap_or_default();
        let label = label.get(..64).unwrap_or(label);
        memmem::find(label, b"-----").map_or(end + 8, |at| end + 8 + at + 5)
    }

    fn pem_body(&mut self, from: usize) -> usize {
        let rest = self.text.get(from..).unwrap_or_default();
        let rest = rest.get(..MAX_PEM).unwrap_or(rest);
        let part = |b: &u8| Alphabet::Base64.has(*b) || matches!(b, b' ' | b'\r' | b'\n' | b'\t' | b'\\');
        let length = rest.iter().position(|b| !part(b)).unwrap_or(rest.len());
        self.steps += length;
        from + length
    }

    /// What follows `Authorization` or `Bearer`: separators, perhaps a scheme, then the credential.
    fn authorization(&mut self, anchor: Range<usize>) -> Option<Range<usize>> {
        let at = self.value(anchor.end);
        if at == anchor.end && self.text.get(at.checked_sub(1)?) != Some(&b' ') {
            return None;
        }
        let end = self.run_end(Alphabet::Credential, at);
        let word = self.text.get(at..end)?;
        let scheme = word.len() <= 16
            && [&b"bearer"[..], b"basic", b"token", b"digest", b"negotiate", b"apikey", b"bot"]
                .iter()
                .any(|name| word.eq_ignore_ascii_case(name));
        if !scheme {
            if word.len() >= 16 && !self.judge(Alphabet::Credential) {
                self.done = end;
                return Some(at..end);
            }
            self.steps += 3 * word.len().min(256);
            let head = word.get(..256).unwrap_or(word);
            return (word.len() >= 16 && check::has_digit(head) && check::mixed(head) && !url_like(head))
                .then_some(at..end);
        }
        if self.text.get(end) != Some(&b' ') {
            return None;
        }
        let credential = self.run_end(Alphabet::Credential, end + 1);
        (credential > end + 6).then_some(end + 1..credential)
    }

    /// Where a value starts after its name: past quotes, colons and signs of equality.
    fn value(&self, from: usize) -> usize {
        let after = self.text.get(from..).unwrap_or_default().iter().take(8);
        from + after.take_while(|b| matches!(b, b'"' | b'\'' | b'\\' | b':' | b'=' | b' ')).count()
    }

    /// A secret of forty base64 characters after its name.
    fn labelled(&mut self, from: usize) -> Option<Range<usize>> {
        let at = self.value(from);
        let end = self.run_end(Alphabet::Base64, at);
        (at > from && end - at == 40).then_some(at..end)
    }

    fn url_password(&mut self, from: usize) -> Option<Range<usize>> {
        let rest = self.text.get(from..)?;
        let rest = rest.get(..MAX_USERINFO).unwrap_or(rest);
        let stop = |b: &u8| {
            b.is_ascii_whitespace()
                || matches!(b, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'\\' | b'`')
        };
        let authority = rest.get(..rest.iter().position(stop).unwrap_or(rest.len()))?;
        self.steps += authority.len();
        let host = memchr::memrchr(b'@', authority)?;
        let colon = memchr::memchr(b':', authority.get(..host)?)?;
        let password = authority.get(colon + 1..host)?;
        let placeholder = password.is_empty()
            || matches!(password, [b'$' | b'{' | b'[' | b'%', ..]) && !password.contains(&b'%')
            || password.iter().all(|b| matches!(b, b'*' | b'x' | b'X' | b'.'));
        (!placeholder).then_some(from + colon + 1..from + host)
    }

    fn entra(&mut self, anchor: Range<usize>) -> Option<Range<usize>> {
        let start = anchor.start.checked_sub(3)?;
        if self.glued(start) || !self.text.get(start..anchor.start)?.iter().all(u8::is_ascii_alphanumeric) {
            return None;
        }
        let rest = self.text.get(anchor.end..)?;
        let tail = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'~' | b'-');
        let length = rest.iter().take(64).take_while(|b| tail(b)).count();
        self.steps += length;
        let body = rest.get(..length)?;
        ((31..=40).contains(&length) && check::mixed(body)).then_some(start..anchor.end + length)
    }

    /// Runs of exactly forty base64 characters near a key id, as AWS makes its secrets.
    fn aws_neighbours(&mut self, id: Range<usize>) {
        let from = id.start.saturating_sub(AWS_NEIGHBOUR);
        let to = (id.end + AWS_NEIGHBOUR).min(self.text.len());
        let near = self.text.get(from..to).unwrap_or_default();
        self.steps += near.len();
        let Some(rule) = super::anchors::rule_of("aws") else { return };
        let part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
        let mut at = 0;
        for piece in near.split(|b| !part(b)) {
            let span = from + at..from + at + piece.len();
            at += piece.len() + 1;
            if piece.len() == 40 && check::mixed(piece) && check::has_digit(piece) {
                self.hits.push(Hit { span, rule });
            }
        }
    }
}

fn url_like(head: &[u8]) -> bool {
    memmem::find(head, b"://").is_some()
}
