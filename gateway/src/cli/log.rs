//! Log lines on their way to stderr: a bounded buffer and one thread that writes it. Whoever logs never waits, not
//! even when nobody reads stderr: what finds no room is dropped, counted, and the loss is said in the log.

mod json;
mod pretty;

use std::io::{self, Write};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, SystemTime};

use parking_lot::{Condvar, Mutex};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::{Log, LogFormat};
use crate::ports::clock::since_epoch;

/// Bytes that wait for the writer.
const ROOM: usize = 1 << 20;
/// Lines are gathered for so long, then written in one go.
const GATHER: Duration = Duration::from_millis(2);
/// At the end: what waits is written within this time, or lost.
const LAST_WORDS: Duration = Duration::from_millis(500);

static LINES: OnceLock<Lines> = OnceLock::new();

/// Sends log lines to stderr. A second call changes nothing.
pub(super) fn start(log: &Log) {
    if LINES.get().is_some() {
        return;
    }
    let lines = Lines::default();
    if LINES.set(lines.clone()).is_err() {
        return;
    }
    let filter = EnvFilter::try_new(&log.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let format = tracing_subscriber::fmt().with_env_filter(filter).with_writer(lines.clone());
    match log.format {
        LogFormat::Json => format.event_format(json::Json).try_init().ok(),
        LogFormat::Pretty => {
            let format = format.with_ansi(io::IsTerminal::is_terminal(&io::stderr()));
            format.event_format(pretty::Pretty).try_init().ok()
        }
    };
    // Without the thread lines are counted and dropped; that is no reason not to serve.
    thread::Builder::new().name("log".to_owned()).spawn(move || lines.write_to(io::stderr(), said)).ok();
}

/// Writes what waits, for a short time at most: the last step before the process ends.
pub(super) fn flush() {
    if let Some(lines) = LINES.get() {
        lines.flush();
    }
}

/// Says why a command failed: behind the lines that wait, or to `err` when nothing is logged yet.
pub(super) fn failed(error: &str, err: &mut dyn Write) {
    match LINES.get() {
        Some(lines) => lines.push(format!("tollgate: {error}\n").as_bytes()),
        None => drop(writeln!(err, "tollgate: {error}")),
    }
}

/// An error, so that it is told at every level.
fn said(dropped: u64) {
    tracing::error!(dropped, "log lines were dropped since the start: stderr is read too slowly");
}

/// Now, as a line begins with it.
fn stamp() -> String {
    let since = since_epoch(SystemTime::now());
    audit::clock::rfc3339(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The buffer, shared by those who log and the thread that writes.
#[derive(Clone, Default)]
struct Lines(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Something waits.
    more: Condvar,
    /// Nothing waits any more.
    done: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    writing: bool,
    dropped: u64,
}

impl Lines {
    fn push(&self, line: &[u8]) {
        let mut state = self.0.state.lock();
        if state.waiting.len() + line.len() > ROOM {
            state.dropped += 1;
            return;
        }
        let first = state.waiting.is_empty();
        state.waiting.extend_from_slice(line);
        if first {
            self.0.more.notify_one();
        }
    }

    /// Writes for ever. `said` is told of losses: the number since the start, so that a lost message about them
    /// loses nothing.
    fn write_to(&self, mut sink: impl Write, said: impl Fn(u64)) {
        let (mut batch, mut told) = (Vec::new(), 0);
        loop {
            let dropped = self.take(&mut batch);
            write_all(&mut sink, &batch);
            batch.clear();
            if dropped != told {
                told = dropped;
                said(dropped);
            }
        }
    }

    /// Waits for lines, then takes all; gives the number of those dropped so far.
    fn take(&self, batch: &mut Vec<u8>) -> u64 {
        let mut state = self.0.state.lock();
        state.writing = false;
        if state.waiting.is_empty() {
            self.0.done.notify_all();
        }
        while state.waiting.is_empty() {
            // The clock is a second way to wake up, nothing more.
            self.0.more.wait_for(&mut state, Duration::from_secs(60));
        }
        drop(state);
        thread::sleep(GATHER);
        let mut state = self.0.state.lock();
        state.writing = true;
        std::mem::swap(&mut state.waiting, batch);
        state.dropped
    }

    fn flush(&self) {
        let mut state = self.0.state.lock();
        let busy = |state: &mut State| state.writing || !state.waiting.is_empty();
        self.0.done.wait_while_for(&mut state, busy, LAST_WORDS);
    }
}

/// A host may have made the pipe non-blocking: then a full one is waited for. Any other failure loses the lines.
fn write_all(sink: &mut impl Write, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match sink.write(bytes) {
            Ok(0) => return,
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => thread::sleep(GATHER),
                _ => return,
            },
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

/// Takes one line, which comes in one piece.
struct Line<'a>(&'a Lines);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tracing_subscriber::Registry;
    use tracing_subscriber::fmt::FormatEvent;
    use tracing_subscriber::fmt::format::DefaultFields;

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What a format makes of the events.
    pub(super) fn written<F>(format: F, events: impl FnOnce()) -> String
    where
        F: FormatEvent<Registry, DefaultFields> + Send + Sync + 'static,
    {
        let page = Page::default();
        let writer = page.clone();
        let format = tracing_subscriber::fmt().with_ansi(false).event_format(format);
        tracing::subscriber::with_default(format.with_writer(move || writer.clone()).finish(), events);
        let bytes = page.0.lock().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// Gives what is written to the test; not before the test lets it.
    struct Sink(mpsc::Receiver<()>, mpsc::Sender<Vec<u8>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)?;
            self.1.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines() -> (Lines, mpsc::Sender<()>, mpsc::Receiver<Vec<u8>>) {
        let lines = Lines::default();
        let (go, gate) = mpsc::channel();
        let (out, written) = mpsc::channel();
        let (writer, noted) = (lines.clone(), lines.clone());
        let note = move |dropped| noted.push(format!("dropped {dropped}\n").as_bytes());
        thread::spawn(move || writer.write_to(Sink(gate, out), note));
        (lines, go, written)
    }

    #[test]
    fn lines_come_in_their_order_and_flush_waits_for_them() {
        let (lines, go, written) = lines();
        lines.push(b"one\n");
        lines.push(b"two\n");
        (0..9).for_each(|_| go.send(()).unwrap());
        lines.flush();
        assert_eq!(written.try_iter().flatten().collect::<Vec<_>>(), b"one\ntwo\n");
    }

    #[test]
    fn nobody_waits_for_a_sink_that_takes_nothing_and_the_loss_is_told() {
        let (lines, go, written) = lines();
        let line = [b'x'; 1024];
        // One batch is in the writer's hands, one waits, the rest is lost.
        (0..4 * ROOM / line.len()).for_each(|_| lines.push(&line));
        let lost = lines.0.state.lock().dropped;
        assert!(lost >= 2 * 1024, "{lost}");
        let before = std::time::Instant::now();
        lines.flush();
        assert!(before.elapsed() < LAST_WORDS * 4);
        (0..9).for_each(|_| go.send(()).unwrap());
        lines.flush();
        let all: Vec<u8> = written.try_iter().flatten().collect();
        assert!(String::from_utf8(all).unwrap().ends_with(&format!("dropped {lost}\n")));
    }
}
