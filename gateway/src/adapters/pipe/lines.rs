//! Splits a byte stream into lines, each in memory of its own so that a kept message never pins a neighbour's.
//! Never looks into a line and never goes on after one that was too long.

use bytes::Bytes;

/// A line that exceeds the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooLong;

/// Collects bytes up to the next LF. A CR before the LF stays in the line (JSON takes it for whitespace).
#[derive(Debug)]
pub(crate) struct Lines {
    kept: Vec<u8>,
    limit: usize,
}

impl Lines {
    /// Lines of at most `limit` bytes, LF not counted.
    pub(crate) fn new(limit: usize) -> Lines {
        Lines { kept: Vec::new(), limit }
    }

    /// Takes the first line out of what is kept and `chunk`, which is moved behind its LF. `None`: `chunk` is
    /// used up and the line goes on in the next one.
    pub(crate) fn next(&mut self, chunk: &mut &[u8]) -> Result<Option<Bytes>, TooLong> {
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let (part, rest) = match end.and_then(|end| chunk.split_at_checked(end)) {
            Some((part, rest)) => (part, rest.get(1..).unwrap_or_default()),
            None => (*chunk, Default::default()),
        };
        *chunk = rest;
        if self.kept.len().saturating_add(part.len()) > self.limit {
            return Err(TooLong);
        }
        if end.is_none() {
            self.kept.extend_from_slice(part);
            return Ok(None);
        }
        if self.kept.is_empty() {
            return Ok(Some(Bytes::copy_from_slice(part)));
        }
        self.kept.extend_from_slice(part);
        Ok(Some(Bytes::from(std::mem::take(&mut self.kept))))
    }

    /// Whether a line was begun and not ended.
    pub(crate) fn is_torn(&self) -> bool {
        !self.kept.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]], limit: usize) -> (Vec<Vec<u8>>, bool) {
        let mut lines = Lines::new(limit);
        let mut out = Vec::new();
        for chunk in chunks {
            let mut rest = *chunk;
            loop {
                match lines.next(&mut rest) {
                    Ok(Some(line)) => out.push(line.to_vec()),
                    Ok(None) => break,
                    Err(TooLong) => return (out, true),
                }
            }
        }
        (out, false)
    }

    #[test]
    fn a_line_is_the_same_however_it_is_cut() {
        let text = "{\"a\":\"é\"}\n\n[1]\r\nlast\n".as_bytes();
        let whole = split(&[text], 64);
        for at in 0..=text.len() {
            let (left, right) = text.split_at(at);
            assert_eq!(split(&[left, right], 64), whole, "cut at {at}");
        }
        assert_eq!(whole.0.len(), 4);
    }

    #[test]
    fn u1_a_line_over_the_limit_is_refused_before_it_ends() {
        assert_eq!(split(&[b"1234\n", b"12345"], 4), (vec![b"1234".to_vec()], true));
        assert_eq!(split(&[b"123", b"45\n"], 4), (vec![], true));
    }

    #[test]
    fn an_unended_line_is_torn() {
        let mut lines = Lines::new(8);
        let mut rest: &[u8] = b"a\nb";
        assert_eq!(lines.next(&mut rest), Ok(Some(Bytes::from_static(b"a"))));
        assert!(!lines.is_torn());
        assert_eq!(lines.next(&mut rest), Ok(None));
        assert!(lines.is_torn());
    }
}
