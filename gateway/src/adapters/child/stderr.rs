//! A server's stderr, line by line into the log: bounded, escaped, rate limited, secrets masked. Always read to its
//! end, so that a talkative server never blocks on it; nothing in it is taken for a message or an error.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

use crate::adapters::pipe::Bucket;
use crate::config::Secret;

/// Bytes of one line that are looked at; the rest is dropped.
const LINE: usize = 8 * 1024;
/// Bytes of one line that are logged.
const SHOWN: usize = 2 * 1024;
/// Lines a second, and at once.
const RATE: (u32, u32) = (50, 200);
/// A shorter value is too common to be masked: it would hide unrelated text and so tell what it is.
const SECRET: usize = 6;

/// The last line that a server wrote, escaped: the likely reason when it ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastWords(Arc<Mutex<String>>);

impl LastWords {
    /// The line, empty when there was none.
    pub(crate) fn get(&self) -> String {
        self.0.lock().clone()
    }
}

/// Reads `stderr` to its end.
pub(crate) async fn log(
    mut stderr: impl AsyncRead + Unpin,
    server: Arc<str>,
    secrets: Vec<Secret>,
    last: LastWords,
) {
    let mut log = Log::new(server, secrets, last);
    let mut chunk = vec![0; 8 * 1024];
    while let Ok(read @ 1..) = stderr.read(&mut chunk).await {
        for (at, part) in chunk.get(..read).unwrap_or_default().split(|byte| *byte == b'\n').enumerate() {
            if at > 0 {
                log.end_line();
            }
            log.push(part);
        }
    }
    log.end_line();
    log.tell_suppressed();
}

struct Log {
    server: Arc<str>,
    secrets: Vec<Secret>,
    last: LastWords,
    line: Vec<u8>,
    bucket: Bucket,
    suppressed: u64,
}

impl Log {
    fn new(server: Arc<str>, secrets: Vec<Secret>, last: LastWords) -> Log {
        let secrets = secrets.into_iter().filter(|secret| secret.expose().len() >= SECRET).collect();
        let bucket = Bucket::new(RATE.0, RATE.1, Instant::now());
        Log { server, secrets, last, line: Vec::new(), bucket, suppressed: 0 }
    }

    fn push(&mut self, part: &[u8]) {
        let room = LINE.saturating_sub(self.line.len());
        self.line.extend_from_slice(part.get(..room).unwrap_or(part));
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(line.trim_ascii_end());
        if text.is_empty() {
            return;
        }
        let text = printable(&mask(text, &self.secrets), SHOWN);
        if self.bucket.take(Instant::now()) {
            self.tell_suppressed();
            tracing::info!(target: "tollgate::server_stderr", server = %self.server, line = %text);
        } else {
            self.suppressed += 1;
        }
        *self.last.0.lock() = text;
    }

    fn tell_suppressed(&mut self) {
        let lines = std::mem::take(&mut self.suppressed);
        if lines > 0 {
            tracing::info!(target: "tollgate::server_stderr", server = %self.server, lines, "lines left out: too many");
        }
    }
}

/// Hides every configured secret in `text`.
fn mask<'t>(text: Cow<'t, str>, secrets: &[Secret]) -> Cow<'t, str> {
    secrets.iter().filter(|secret| !secret.expose().is_empty()).fold(text, |text, secret| {
        if text.contains(secret.expose()) {
            Cow::Owned(text.replace(secret.expose(), "(hidden)"))
        } else {
            text
        }
    })
}

/// `text` for a log field (X6): one line, nothing that a terminal or a reader could be fooled by, at most about
/// `max` bytes of the original.
pub(crate) fn printable(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max) + 16);
    for (at, character) in text.char_indices() {
        if at >= max {
            let _ = write!(out, "… ({} bytes more)", text.len() - at);
            break;
        }
        if deceives(character) {
            out.extend(character.escape_unicode());
        } else {
            out.push(character);
        }
    }
    out
}

/// Control characters, line and paragraph separators, direction marks, invisible characters.
fn deceives(character: char) -> bool {
    let code = u32::from(character);
    character.is_control()
        || matches!(code, 0xAD | 0x61C | 0x180E | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F)
        || matches!(code, 0xFEFF | 0xFFF9..=0xFFFB | 0xE0000..=0xE0FFF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x6_a_logged_line_is_one_line_without_control_characters() {
        let nasty = "tool\n{\"level\":\"INFO\"}\r\u{1b}[31m\0\u{85}\u{2028}\u{202e}\u{e0041}é";
        let shown = printable(nasty, 1_000);
        assert!(!shown.chars().any(deceives), "{shown:?}");
        assert!(shown.starts_with("tool\\u{a}{\"level\"") && shown.ends_with('é'), "{shown}");
    }

    #[test]
    fn x6_a_long_line_is_cut_at_a_character() {
        let shown = printable(&"é".repeat(1 << 19), 101);
        assert_eq!(shown.chars().filter(|c| *c == 'é').count(), 51);
        assert!(shown.ends_with("bytes more)"), "{shown}");
    }

    #[tokio::test]
    async fn a_secret_in_stderr_is_masked_and_the_last_line_is_kept() {
        let last = LastWords::default();
        let secrets = vec![Secret::new("s3cr3t-token"), Secret::new("on")];
        let text = format!("one\nusing s3cr3t-token on port 1\r\n\n{}", "x".repeat(0));
        log(text.as_bytes(), Arc::from("s"), secrets, last.clone()).await;
        assert_eq!(last.get(), "using (hidden) on port 1");
    }

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn x6_stderr_becomes_one_log_line_a_line_with_the_server_s_name() {
        let sink = Sink::default();
        let writer = sink.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let guard = tracing::subscriber::set_default(subscriber);
        let text = b"first\n\x1b[31msecond \xff\rfake line\n".as_slice();
        log(text, Arc::from("files"), Vec::new(), LastWords::default()).await;
        drop(guard);
        let out = String::from_utf8(sink.0.lock().clone()).unwrap();
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 2, "{out}");
        assert!(lines.iter().all(|line| line.contains("server=files")), "{out}");
        assert!(lines[0].ends_with("line=first"), "{out}");
        assert!(lines[1].ends_with("line=\\u{1b}[31msecond \u{fffd}\\u{d}fake line"), "{out}");
    }

    #[tokio::test]
    async fn a_flood_of_stderr_is_read_to_its_end_in_bounded_memory() {
        let last = LastWords::default();
        let text = format!("{}\n{}end", "y\n".repeat(100_000), "z".repeat(100_000));
        log(text.as_bytes(), Arc::from("s"), Vec::new(), last.clone()).await;
        assert!(last.get().len() < SHOWN + 64 && last.get().starts_with("zzz"), "{}", last.get().len());
    }
}
