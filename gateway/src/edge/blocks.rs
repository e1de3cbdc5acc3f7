//! HTTP/2 frames as they pass by, looked at only so far as to tell whether a frame or a header block has begun and does
//! not end. It judges nothing in them: that is up to h2.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// The client's preface (RFC 9113 §3.4), before the first frame.
const PREFACE: usize = 24;
/// A frame's header: length, type, flags, stream (§4.1).
const HEAD: usize = 9;
const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const CONTINUATION: u8 = 0x9;
const END_HEADERS: u8 = 0x4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Preface,
    Head,
    Payload,
}

/// Where in its frames a connection is.
#[derive(Debug)]
struct Blocks {
    part: Part,
    /// Bytes still to come of the preface or the payload.
    left: usize,
    /// Bytes seen of a frame's header, and what they say.
    have: usize,
    length: usize,
    kind: u8,
    flags: u8,
    /// The header block goes on in the next frame (§4.3).
    open: bool,
    /// How often everything that had begun was finished.
    finished: u64,
}

impl Blocks {
    fn new() -> Blocks {
        Blocks {
            part: Part::Preface,
            left: PREFACE,
            have: 0,
            length: 0,
            kind: DATA,
            flags: 0,
            open: false,
            finished: 0,
        }
    }

    fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(first) = bytes.first() {
            let taken = match self.part {
                Part::Head => {
                    self.head(*first);
                    1
                }
                Part::Preface | Part::Payload => self.left.min(bytes.len()),
            };
            if self.part != Part::Head {
                // A header that has just become whole has taken none of its payload.
                let paid = if self.have == HEAD { 0 } else { taken };
                self.have = 0;
                self.left = self.left.saturating_sub(paid);
                if self.left == 0 {
                    self.finish();
                }
            }
            bytes = bytes.get(taken..).unwrap_or_default();
        }
    }

    fn head(&mut self, byte: u8) {
        match self.have {
            0 => self.length = usize::from(byte),
            1 | 2 => self.length = (self.length << 8) | usize::from(byte),
            3 => self.kind = byte,
            4 => self.flags = byte,
            _ => {}
        }
        self.have += 1;
        if self.have == HEAD {
            (self.part, self.left) = (Part::Payload, self.length);
        }
    }

    fn finish(&mut self) {
        if self.part == Part::Payload && matches!(self.kind, HEADERS | CONTINUATION) {
            self.open = self.flags & END_HEADERS == 0;
        }
        self.part = Part::Head;
        if !self.open {
            self.finished = self.finished.wrapping_add(1);
        }
    }

    /// Whether something has begun and is not finished. The body's own deadline covers data.
    fn is_unfinished(&self) -> bool {
        match self.part {
            Part::Preface => false,
            Part::Head => self.open || self.have > 0,
            Part::Payload => self.open || self.kind != DATA,
        }
    }
}

/// Ends a connection whose header block, or any frame but data, takes longer than this from its first byte.
#[derive(Debug)]
pub(super) struct Guard {
    blocks: Blocks,
    within: Duration,
    timer: Pin<Box<Sleep>>,
    /// What the timer runs for.
    armed: Option<u64>,
}

impl Guard {
    /// For a connection of which nothing has been read.
    pub(super) fn new(within: Duration) -> Guard {
        Guard { blocks: Blocks::new(), within, timer: Box::pin(sleep(within)), armed: None }
    }

    /// Takes bytes in their order.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.blocks.feed(bytes);
        let wanted = self.blocks.is_unfinished().then_some(self.blocks.finished);
        if wanted.is_some() && wanted != self.armed {
            self.timer.as_mut().reset(Instant::now() + self.within);
        }
        self.armed = wanted;
    }

    /// To be asked before each read; wakes the reader when the time is over.
    ///
    /// # Errors
    /// It is over.
    pub(super) fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.armed.map(|_| self.timer.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let length = u8::try_from(payload).unwrap();
        let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, 1];
        frame.resize(HEAD + payload, 7);
        frame
    }

    /// Whether each prefix of these bytes leaves something unfinished, fed in pieces of every size.
    fn states(bytes: &[u8]) -> Vec<bool> {
        let one_by_one = |bytes: &[u8], size: usize| {
            let mut blocks = Blocks::new();
            blocks.feed(&[b'P'; PREFACE]);
            bytes.chunks(size).for_each(|part| blocks.feed(part));
            blocks.is_unfinished()
        };
        (0..=bytes.len())
            .map(|end| {
                let state = one_by_one(&bytes[..end], 1);
                for size in 2..=bytes.len() {
                    assert_eq!(one_by_one(&bytes[..end], size), state, "{end} in pieces of {size}");
                }
                state
            })
            .collect()
    }

    #[test]
    fn a_frame_is_unfinished_from_its_first_byte_to_its_last() {
        let seen = states(&frame(0x4, 0, 6));
        assert_eq!((seen.first(), seen.last()), (Some(&false), Some(&false)));
        assert!(seen[1..seen.len() - 1].iter().all(|unfinished| *unfinished));
        assert!(!*states(&frame(0x4, 1, 0)).last().unwrap(), "an empty payload");
    }

    #[test]
    fn a_header_block_is_unfinished_until_its_last_frame() {
        let begun = [frame(HEADERS, 0, 3), frame(CONTINUATION, 0, 0), frame(CONTINUATION, 0, 2)].concat();
        assert!(states(&begun)[1..].iter().all(|unfinished| *unfinished));
        let whole = [begun, frame(CONTINUATION, END_HEADERS, 1)].concat();
        assert!(!*states(&whole).last().unwrap());
        assert!(!*states(&frame(HEADERS, END_HEADERS, 3)).last().unwrap());
    }

    #[test]
    fn data_may_take_its_time_once_its_header_is_there() {
        let seen = states(&frame(DATA, 0, 5));
        assert!(seen[1..HEAD].iter().all(|unfinished| *unfinished));
        assert!(!seen[HEAD..].iter().any(|unfinished| *unfinished));
    }
}
