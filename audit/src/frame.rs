//! One record's line: `{length:8 hex} {crc32:8 hex} {json}\n`. The CRC tells bit rot and torn writes from edits; it
//! proves nothing. Reading never takes more memory than one line of the greatest length.

use std::io::{self, Read};

use crate::hash::{digits, nibble};

/// Bytes before the JSON.
pub const HEAD: usize = 18;
/// Greatest length of the JSON: below the 65,535 bytes that tlog-tiles allows for an entry.
pub const MAX_JSON: usize = 60 * 1024;
/// Bytes that are read at once.
const BUFFER: usize = 256 * 1024;
/// Greatest length of a whole line.
pub const MAX_LINE: usize = HEAD + MAX_JSON + 1;

/// Writes the head of a line whose JSON stands at `buffer[start + HEAD..]` behind as many spaces, and its end.
pub(crate) fn close(buffer: &mut Vec<u8>, start: usize) {
    let json = buffer.get(start + HEAD..).unwrap_or_default();
    let (length, crc) = (u32::try_from(json.len()).unwrap_or(u32::MAX), crc32fast::hash(json));
    for (at, number) in [(start, length), (start + 9, crc)] {
        if let Some(place) = buffer.get_mut(at..at + 8) {
            digits(number, place);
        }
    }
    buffer.push(b'\n');
}

/// A whole line around `body`.
pub fn line(body: &[u8]) -> Vec<u8> {
    let mut out = vec![b' '; HEAD];
    out.extend_from_slice(body);
    close(&mut out, 0);
    out
}

fn number(digits: Option<&[u8]>) -> Option<u32> {
    digits?.iter().try_fold(0_u32, |sum, d| Some((sum << 4) | u32::from(nibble(*d)?)))
}

/// Length and CRC that a head names.
fn head(bytes: &[u8]) -> Option<(usize, u32)> {
    let length = number(bytes.get(..8))?;
    let crc = number(bytes.get(9..17))?;
    (bytes.get(8) == Some(&b' ') && bytes.get(17) == Some(&b' '))
        .then_some((usize::try_from(length).ok()?, crc))
}

/// What stands at one place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A line whose length, CRC and end are right.
    Whole(&'a [u8]),
    /// A damaged line; its most likely body, if it has one, and whether the CRC in its head is that body's.
    Flawed(Option<&'a [u8]>, bool),
    /// The file ends before the line does.
    Torn,
}

/// Reads lines one after the other.
pub struct Frames<R> {
    input: R,
    buffer: Vec<u8>,
    /// What was read and is not used yet.
    from: usize,
    to: usize,
    ended: bool,
    offset: u64,
    limit: usize,
}

enum Shape {
    Whole(usize),
    Flawed { body: Option<(usize, bool)>, next: usize },
    Torn,
    Endless,
}

impl<R: Read> Frames<R> {
    /// Lines of records.
    pub fn new(input: R) -> Frames<R> {
        Frames::with_limit(input, MAX_JSON)
    }

    /// Lines whose body has at most `limit` bytes.
    pub fn with_limit(input: R, limit: usize) -> Frames<R> {
        Frames { input, buffer: Vec::new(), from: 0, to: 0, ended: false, offset: 0, limit }
    }

    /// Lines of records, read through a buffer that was used before.
    pub(crate) fn over(input: R, buffer: Vec<u8>) -> Frames<R> {
        Frames { buffer, ..Frames::new(input) }
    }

    /// The buffer, to be used again.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.from..self.to).unwrap_or_default()
    }

    /// Where the next line starts, in bytes from the start.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    fn fill(&mut self) -> io::Result<()> {
        let want = HEAD + self.limit + 1;
        if self.ended || self.to - self.from >= want {
            return Ok(());
        }
        self.buffer.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        let size = want.max(BUFFER);
        if self.buffer.len() < size {
            // Pages that are never read into are never touched.
            let mut buffer = vec![0; size];
            if let Some(start) = buffer.get_mut(..self.to) {
                start.copy_from_slice(self.buffer.get(..self.to).unwrap_or_default());
            }
            self.buffer = buffer;
        }
        while self.to < want && !self.ended {
            match self.input.read(self.buffer.get_mut(self.to..).unwrap_or_default()) {
                Ok(read) => {
                    self.to += read;
                    self.ended = read == 0;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// What stands at the next place, and where that is; `None` at the end.
    ///
    /// # Errors
    /// Those of the input.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> io::Result<Option<(u64, Frame<'_>)>> {
        self.fill()?;
        let rest = self.rest();
        if rest.is_empty() {
            return Ok(None);
        }
        let (at, start, length) = (self.offset, self.from, rest.len());
        let shape = self.shape(rest);
        let used = match shape {
            Shape::Whole(end) => end + 1,
            Shape::Flawed { next, .. } => next,
            Shape::Torn => length,
            Shape::Endless => {
                let (skipped, torn) = self.skip()?;
                self.offset += skipped;
                return Ok(Some((at, if torn { Frame::Torn } else { Frame::Flawed(None, false) })));
            }
        };
        self.from += used;
        self.offset += u64::try_from(used).unwrap_or_default();
        Ok(Some((
            at,
            match shape {
                Shape::Whole(end) => Frame::Whole(self.slice(start, end)),
                Shape::Flawed { body: Some((end, right)), .. } => {
                    Frame::Flawed(Some(self.slice(start, end)), right)
                }
                Shape::Flawed { body: None, .. } => Frame::Flawed(None, false),
                Shape::Torn | Shape::Endless => Frame::Torn,
            },
        )))
    }

    fn slice(&self, start: usize, end: usize) -> &[u8] {
        self.buffer.get(start + HEAD..start + end).unwrap_or_default()
    }

    /// The rules of FORMAT.md, section "Damaged lines", in their order.
    fn shape(&self, rest: &[u8]) -> Shape {
        let named = head(rest).filter(|(length, _)| *length <= self.limit);
        if let Some((length, crc)) = named {
            let end = HEAD + length;
            if let (Some(body), Some(last)) = (rest.get(HEAD..end), rest.get(end))
                && crc32fast::hash(body) == crc
            {
                return match last {
                    b'\n' => Shape::Whole(end),
                    _ => Shape::Flawed { body: Some((end, true)), next: end + 1 },
                };
            }
        }
        let window = rest.get(..HEAD + self.limit + 1).unwrap_or(rest);
        let newline = memchr::memchr(b'\n', window);
        if let (Some(end), Some(crc)) = (newline, number(rest.get(9..17)))
            && end >= HEAD
            && crc32fast::hash(rest.get(HEAD..end).unwrap_or_default()) == crc
        {
            return Shape::Flawed { body: Some((end, true)), next: end + 1 };
        }
        if let Some((length, _)) = named
            && rest.get(HEAD + length) == Some(&b'\n')
        {
            return Shape::Flawed { body: Some((HEAD + length, false)), next: HEAD + length + 1 };
        }
        match newline {
            Some(end) => Shape::Flawed { body: (end >= HEAD).then_some((end, false)), next: end + 1 },
            None if self.ended => Shape::Torn,
            None => Shape::Endless,
        }
    }

    /// Drops everything up to the next newline without keeping it. Says how much, and whether there was none.
    fn skip(&mut self) -> io::Result<(u64, bool)> {
        let mut skipped = 0_u64;
        loop {
            let rest = self.rest();
            if let Some(end) = memchr::memchr(b'\n', rest) {
                self.from += end + 1;
                return Ok((skipped + u64::try_from(end + 1).unwrap_or_default(), false));
            }
            skipped += u64::try_from(rest.len()).unwrap_or_default();
            self.from = self.to;
            if self.ended {
                return Ok((skipped, true));
            }
            self.fill()?;
        }
    }
}

#[cfg(test)]
mod tests;
