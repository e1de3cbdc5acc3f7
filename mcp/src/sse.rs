//! Server-sent events (WHATWG HTML, section 9.2): a bounded incremental decoder, and an encoder that can't break its
//! own framing. Never reconnects and never decides what an event means.

use std::collections::VecDeque;

use bytes::Bytes;

#[cfg(test)]
mod tests;

/// Why a stream was given up. The decoder takes nothing more afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SseError {
    /// An event, or a single line of any sort, is larger than allowed.
    #[error("event larger than allowed")]
    TooLarge,
}

/// One event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SseEvent {
    /// `event`, unless absent or empty (then it is a `message`).
    pub event: Option<String>,
    /// `id`, when this event has one.
    pub id: Option<String>,
    /// `retry` in milliseconds, when this event has one.
    pub retry: Option<u64>,
    /// The data lines joined by LF; may be empty. Not checked to be UTF-8.
    pub data: Bytes,
}

/// The data lines of an event so far. One line, the usual case, is not copied again.
#[derive(Debug, Default)]
enum Data {
    #[default]
    None,
    One(Bytes),
    Many(Vec<u8>),
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Data::None => 0,
            Data::One(line) => line.len(),
            Data::Many(lines) => lines.len(),
        }
    }

    fn push(&mut self, line: Bytes) {
        *self = match std::mem::take(self) {
            Data::None => Data::One(line),
            Data::One(first) => {
                let mut lines = Vec::with_capacity(first.len() + line.len() + 1);
                lines.extend_from_slice(&first);
                lines.push(b'\n');
                lines.extend_from_slice(&line);
                Data::Many(lines)
            }
            Data::Many(mut lines) => {
                lines.push(b'\n');
                lines.extend_from_slice(&line);
                Data::Many(lines)
            }
        };
    }

    fn take(&mut self) -> Option<Bytes> {
        match std::mem::take(self) {
            Data::None => None,
            Data::One(line) => Some(line),
            Data::Many(lines) => Some(Bytes::from(lines)),
        }
    }
}

/// Decodes a stream cut anywhere: push chunks, and after each take the finished events with `next()`. Events that are
/// not taken stay in memory; everything else held is at most the bound.
#[derive(Debug)]
pub struct Decoder {
    max_event: usize,
    /// A line whose end has not come.
    line: Vec<u8>,
    /// No line was finished yet: a byte order mark may stand before it.
    first: bool,
    /// The last line ended in CR: an LF that follows belongs to it.
    after_cr: bool,
    event: Option<String>,
    id: Option<String>,
    block_retry: Option<u64>,
    data: Data,
    ready: VecDeque<SseEvent>,
    comments: u64,
    last_id: Option<String>,
    retry: Option<u64>,
    failed: bool,
}

impl Decoder {
    /// A decoder that holds at most `max_event` bytes of an unfinished event.
    pub fn new(max_event: usize) -> Decoder {
        Decoder {
            max_event,
            line: Vec::new(),
            first: true,
            after_cr: false,
            event: None,
            id: None,
            block_retry: None,
            data: Data::None,
            ready: VecDeque::new(),
            comments: 0,
            last_id: None,
            retry: None,
            failed: false,
        }
    }

    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// When the bound is passed; events finished before it can still be taken.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), SseError> {
        if self.failed {
            return Err(SseError::TooLarge);
        }
        let mut rest = chunk;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let end = memchr::memchr2(b'\r', b'\n', rest);
            let part = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
            if self.held() + part.len() > self.max_event {
                self.failed = true;
                return Err(SseError::TooLarge);
            }
            let Some(end) = end else {
                self.line.extend_from_slice(part);
                break;
            };
            self.after_cr = rest.get(end) == Some(&b'\r');
            rest = rest.get(end + 1..).unwrap_or_default();
            if self.line.is_empty() {
                self.finish_line(Bytes::copy_from_slice(part));
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(part);
                self.finish_line(Bytes::from(line));
            }
        }
        Ok(())
    }

    /// Comment lines so far (keep-alives): what shows that a silent peer lives.
    pub fn comments(&self) -> u64 {
        self.comments
    }

    /// The id to resume after: the last `id` of a finished block, also of one without data. None when it is empty.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_id.as_deref().filter(|id| !id.is_empty())
    }

    /// The last `retry`, in milliseconds.
    pub fn retry(&self) -> Option<u64> {
        self.retry
    }

    /// Bytes of the unfinished event.
    fn held(&self) -> usize {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        self.line.len() + self.data.len() + text(&self.event) + text(&self.id)
    }

    fn finish_line(&mut self, line: Bytes) {
        let line = match std::mem::take(&mut self.first) && line.starts_with(b"\xef\xbb\xbf") {
            true => line.slice(3..),
            false => line,
        };
        if line.is_empty() {
            return self.finish_event();
        }
        let (name, value) = match memchr::memchr(b':', &line) {
            Some(0) => {
                self.comments += 1;
                return;
            }
            Some(colon) => {
                let space = usize::from(line.get(colon + 1) == Some(&b' '));
                (line.slice(..colon), line.slice(colon + 1 + space..))
            }
            None => (line, Bytes::new()),
        };
        match name.as_ref() {
            b"data" => self.data.push(value),
            b"event" => self.event = Some(String::from_utf8_lossy(&value).into_owned()),
            b"id" if !value.contains(&0) => self.id = Some(String::from_utf8_lossy(&value).into_owned()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let retry = std::str::from_utf8(&value).ok().and_then(|digits| digits.parse().ok());
                self.block_retry = retry.or(self.block_retry);
                self.retry = retry.or(self.retry);
            }
            _ => {}
        }
    }

    /// An empty line: an event without a data line is none, but its id counts.
    fn finish_event(&mut self) {
        let (event, id, retry) = (self.event.take(), self.id.take(), self.block_retry.take());
        if id.is_some() {
            self.last_id.clone_from(&id);
        }
        if let Some(data) = self.data.take() {
            let event = event.filter(|event| !event.is_empty());
            self.ready.push_back(SseEvent { event, id, retry, data });
        }
    }
}

impl Iterator for Decoder {
    type Item = SseEvent;

    /// The next finished event; none until more is pushed.
    fn next(&mut self) -> Option<SseEvent> {
        self.ready.pop_front()
    }
}

/// One event, ready for the wire. No field can hold a line break: in `event` and `id` they are left out, in `data`
/// each line becomes a data line of its own (JSON should come as [`crate::json::Raw::single_line`]).
pub fn encode(event: Option<&str>, id: Option<&str>, data: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(data.len() + 32 + event.map_or(0, str::len) + id.map_or(0, str::len));
    for (name, value) in [("event: ", event), ("id: ", id)] {
        if let Some(value) = value {
            out.extend_from_slice(name.as_bytes());
            out.extend(value.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n' | 0)));
            out.push(b'\n');
        }
    }
    let mut rest = Some(data);
    while let Some(text) = rest {
        let end = memchr::memchr2(b'\r', b'\n', text);
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(text.get(..end.unwrap_or(text.len())).unwrap_or_default());
        out.push(b'\n');
        rest = end.and_then(|end| {
            let width = if text.get(end..end + 2) == Some(b"\r\n") { 2 } else { 1 };
            text.get(end + width..)
        });
    }
    out.push(b'\n');
    Bytes::from(out)
}

/// A comment line: keeps a connection alive and means nothing.
pub fn comment() -> Bytes {
    Bytes::from_static(b":\n\n")
}
