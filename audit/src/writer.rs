//! The journal's writing side: opens a log, takes records in order, and closes it. No call may go on whose record was
//! not taken; nothing is dropped silently, reordered, or written twice.

mod caller;
mod head;
mod sealer;
mod shared;
mod slot;
mod snapshot;
mod start;
mod thread;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::{Clock, SystemClock};
use crate::costs::{Totals, unknown};
use crate::entry::{Entry, Kind, Text};
use crate::error::Unavailable;
use crate::hash::Digest;
use crate::key::{SigningKey, VerifierKey};
use crate::storage::{Disk, Lock, Storage};
use head::Item;
use shared::Shared;
pub use slot::{Attempt, Receipt, Ticket, block_on};
use slot::{Slot, Waiting};
pub use start::{Fork, fork};

/// When a record counts as taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is written; it is synced within 50 ms. Survives a killed process, not a power cut.
    #[default]
    Buffered,
    /// When it is synced.
    Strict,
}

/// Sees every record as it is written, in order, under the journal's lock: it must be quick and must not call back.
pub trait Watch: Send + Sync {
    /// A record was appended.
    fn appended(&self, entry: &Entry, receipt: &Receipt);
    /// A sync took this many nanoseconds.
    fn synced(&self, nanos: u64) {
        let _ = nanos;
    }
    /// Something went wrong while all was well, or, with none, all is well again.
    fn fault(&self, why: Option<&str>) {
        let _ = why;
    }
}

/// Called with a failpoint's name.
pub type Hook = Arc<dyn Fn(&'static str) + Send + Sync>;
/// Called once with the reason when the journal is lost to this process, which should then end.
pub type OnFatal = Arc<dyn Fn(&str) + Send + Sync>;

/// How a journal is opened.
#[derive(Clone)]
pub struct Options {
    /// The directory of all instances.
    pub dir: PathBuf,
    /// This instance's directory in it, and part of the log's id.
    pub instance: String,
    /// How many processes may share the instance's name: each takes the first free of `{instance}-0`,
    /// `{instance}-1`, … 1: the name is taken as it is.
    pub slots: usize,
    /// First part of a new log's id, for example a host name.
    pub deployment: String,
    /// When a record counts as taken.
    pub durability: Durability,
    /// The signing key.
    pub key: Arc<SigningKey>,
    /// The key that a rotation had chosen when the process ended ([`crate::key::next_path`]).
    pub next_key: Option<Arc<SigningKey>>,
    /// A directory on another volume for the newest checkpoint of each instance.
    pub guard: Option<PathBuf>,
    /// What a new log continues.
    pub fork: Option<Fork>,
    /// Disk.
    pub storage: Arc<dyn Storage>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Who sees the records.
    pub watch: Vec<Arc<dyn Watch>>,
    /// Places of the queue: records that wait, and outcomes of calls in flight.
    pub queue: usize,
    /// A segment ends with the record that passes this length, in bytes.
    pub segment_bytes: u64,
    /// A segment ends at this age, in nanoseconds.
    pub segment_ns: u64,
    /// `buffered`: how long records are gathered before a sync.
    pub sync_interval: Duration,
    /// How long an idle run's totals are kept, in milliseconds of running processes.
    pub keep_runs_ms: u64,
    /// Runs what waits for the disk on a caller's thread: a runtime may want to know, and whether it should be quick.
    pub aside: fn(bool, &mut dyn FnMut()),
    /// Called when the process should end.
    pub on_fatal: Option<OnFatal>,
    /// Failpoints, for tests.
    pub hook: Option<Hook>,
}

impl Options {
    /// The usual options: `buffered`, segments of 64 MiB or an hour, 16,384 places, runs kept for two days.
    pub fn new(dir: impl Into<PathBuf>, instance: impl Into<String>, key: Arc<SigningKey>) -> Options {
        Options {
            dir: dir.into(),
            instance: instance.into(),
            slots: 1,
            deployment: "tollgate".to_owned(),
            durability: Durability::Buffered,
            key,
            next_key: None,
            guard: None,
            fork: None,
            storage: Arc::new(Disk::default()),
            clock: Arc::new(SystemClock::new()),
            watch: Vec::new(),
            queue: 16 * 1024,
            segment_bytes: 64 << 20,
            segment_ns: 3_600_000_000_000,
            sync_interval: Duration::from_millis(25),
            keep_runs_ms: 48 * 3_600_000,
            aside: |_, work| work(),
            on_fatal: None,
            hook: None,
        }
    }
}

/// What was found when the journal was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The log was made.
    pub new: bool,
    /// The instance's directory.
    pub dir: PathBuf,
    /// Bytes that were cut after the last whole record.
    pub bytes_dropped: u64,
    /// Calls that had no outcome and got `unknown`.
    pub orphans: usize,
    /// `next_key` was the log's: it should now take the place of the key's file.
    pub next_key_used: bool,
    /// A guard is configured and had no checkpoint of this log, though the log is not new.
    pub guard_missing: bool,
}

/// Figures for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records of the log.
    pub records: u64,
    /// Of these synced.
    pub synced: u64,
    /// Of these under a checkpoint.
    pub signed: u64,
    /// Time since the last checkpoint while there are records without one, in nanoseconds.
    pub checkpoint_lag_ns: u64,
    /// Records that wait to be written.
    pub queued: usize,
    /// Free places of the queue.
    pub places: usize,
    /// What is wrong now.
    pub fault: Option<String>,
}

/// Where a log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadOfLog {
    /// The log's id.
    pub log: Arc<str>,
    /// Records.
    pub size: u64,
    /// Leaf hash of the last.
    pub leaf: Digest,
}

pub(crate) enum Command {
    Checkpoint(Arc<Slot<Arc<str>>>),
    Key(Arc<SigningKey>, Arc<Slot<Arc<str>>>),
}

impl Command {
    fn refuse(self, why: &Unavailable) {
        match self {
            Command::Checkpoint(slot) | Command::Key(_, slot) => slot.complete(Err(why.clone())),
        }
    }
}

/// An open log. Cheap to share; closing it, or dropping the last, writes `close` and waits for the thread.
pub struct Journal {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    opened: Opened,
    log: Arc<str>,
    first_key: VerifierKey,
    _lock: Box<dyn Lock>,
}

impl Journal {
    /// Queues a record. When few calls are under way it is written at once and here, else by whoever asks for it
    /// (`buffered`) or by the thread (`strict`).
    fn submit(&self, item: Item) -> Result<Ticket, Unavailable> {
        let slot = item.slot.clone();
        self.shared.push(item)?;
        match self.shared.options.durability {
            Durability::Strict if self.shared.settle_here() => {}
            Durability::Strict => self.shared.poke(),
            Durability::Buffered if self.shared.busy() => return Ok(Ticket::gathering(slot, &self.shared)),
            Durability::Buffered => self.shared.drain(),
        }
        Ok(Ticket::new(slot))
    }

    /// Records that a call is about to be sent, and keeps the place of its outcome. Waits for room in the queue, for
    /// the write (`buffered`) or for the sync (`strict`). Who stops waiting has sent nothing and is charged nothing: its
    /// outcome is `cancelled` with reason `unsent`.
    ///
    /// # Errors
    /// The call must not be sent.
    pub async fn intent(
        self: &Arc<Journal>,
        entry: impl Into<Box<Entry>>,
    ) -> Result<(Receipt, OutcomeSlot), Unavailable> {
        let mut entry = entry.into();
        entry.kind = Kind::Intent;
        // Whoever leaves before this has returned has sent nothing.
        let mut waiting = Waiting(Some(&self.shared));
        self.shared.places.take(2).await;
        waiting.0 = None;
        let intent = Slot::new();
        let fallback = Some(Box::new(unknown(&entry, "abandoned")));
        let mut guard = OutcomeSlot { journal: self.clone(), intent: intent.clone(), fallback, sent: false };
        let item = Item { entry, slot: intent.clone(), keep: false, after: None, place: true };
        let receipt = match self.submit(item) {
            Ok(ticket) => ticket.await,
            Err(error) => Err(error),
        };
        match receipt {
            Ok(receipt) => {
                guard.sent = true;
                Ok((receipt, guard))
            }
            Err(error) => {
                guard.release();
                Err(error)
            }
        }
    }

    /// Records anything else. Waits as [`Journal::intent`] does.
    ///
    /// # Errors
    /// It is not recorded.
    pub async fn record(&self, entry: impl Into<Box<Entry>>) -> Result<Receipt, Unavailable> {
        let entry = entry.into();
        self.shared.places.take(1).await;
        let item = Item { entry, slot: Slot::new(), keep: false, after: None, place: true };
        self.submit(item)?.await
    }

    /// Counts a refusal that is too frequent for a record of its own: once a second one `denied_count` for each reason.
    pub fn count_denied(&self, reason: &'static str) {
        self.shared.count(reason);
    }

    /// Syncs and signs now.
    ///
    /// # Errors
    /// It can't be done; the ticket's value is the newest checkpoint's note.
    pub fn checkpoint(&self) -> Result<Ticket<Arc<str>>, Unavailable> {
        self.shared.command(Command::Checkpoint)
    }

    /// Begins the next key epoch in a new segment. The key must be durable elsewhere before, and take the old one's place
    /// after. The ticket's value is the new verifier key.
    ///
    /// # Errors
    /// It can't be done; the old key goes on.
    pub fn rotate_key(&self, next: Arc<SigningKey>) -> Result<Ticket<Arc<str>>, Unavailable> {
        self.shared.command(|slot| Command::Key(next, slot))
    }

    /// The newest checkpoint that this process signed.
    pub fn last_checkpoint(&self) -> Option<Arc<str>> {
        self.shared.last_checkpoint()
    }

    /// What was found at the start.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// The log's id.
    pub fn log(&self) -> &Arc<str> {
        &self.log
    }

    /// The key of the log's first epoch: what a verifier is given.
    pub fn first_key(&self) -> &VerifierKey {
        &self.first_key
    }

    /// Figures for metrics.
    pub fn stats(&self) -> Stats {
        self.shared.stats()
    }

    /// Where the log ends.
    pub fn head(&self) -> HeadOfLog {
        let (size, leaf) = self.shared.with_head(|head| (head.seq, head.prev));
        HeadOfLog { log: self.log.clone(), size, leaf }
    }

    /// Looks at the totals. Nothing is written meanwhile: be quick.
    pub fn totals<R>(&self, look: impl FnOnce(&Totals) -> R) -> R {
        self.shared.with_head(|head| look(&head.totals))
    }

    /// Writes `close`, syncs, signs, and ends the thread. Later records are refused.
    pub fn close(&self) {
        self.shared.stop();
        if let Some(thread) = self.thread.lock().take() {
            // A panic of the thread was its own and has ended the journal.
            let _ = thread.join();
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.close();
    }
}

/// The place that an intent keeps for its outcome. Dropped without [`OutcomeSlot::finish`] it records `unknown`.
pub struct OutcomeSlot {
    journal: Arc<Journal>,
    intent: Arc<Slot>,
    /// The outcome if nobody tells another.
    fallback: Option<Box<Entry>>,
    /// The call may have been sent.
    sent: bool,
}

impl OutcomeSlot {
    /// Records how the call ended. Never waits; the ticket may be awaited (`strict`: before the answer) or dropped. A
    /// record that can't be written now is written when that is possible again.
    pub fn finish(mut self, entry: impl Into<Box<Entry>>) -> Ticket {
        self.fallback = None;
        self.send(entry.into())
    }

    /// The same, of the call that the intent named: `tell` says how it ended.
    pub fn end(mut self, tell: impl FnOnce(&mut Entry)) -> Ticket {
        let mut entry = self.fallback.take().unwrap_or_default();
        (entry.outcome, entry.reason, entry.cost_nanousd, entry.charged_bytes) = (None, None, None, None);
        tell(&mut entry);
        self.send(entry)
    }

    fn send(&self, mut entry: Box<Entry>) -> Ticket {
        entry.kind = Kind::Outcome;
        let slot = Slot::new();
        let after = (!self.intent.done() || self.intent.failed()).then(|| self.intent.clone());
        let item = Item { entry, slot: slot.clone(), keep: true, after, place: true };
        // Refused only when the journal has ended; the slot says so.
        self.journal.submit(item).unwrap_or_else(|_| Ticket::new(slot))
    }

    /// The intent was not written: there is no outcome.
    fn release(mut self) {
        self.fallback = None;
        self.journal.shared.places.give(1);
    }
}

impl Drop for OutcomeSlot {
    fn drop(&mut self) {
        let Some(mut entry) = self.fallback.take() else { return };
        if !self.sent {
            (entry.outcome, entry.reason) =
                (Some(Text::Borrowed("cancelled")), Some(Text::Borrowed("unsent")));
            (entry.cost_nanousd, entry.charged_bytes, entry.day) = (None, None, None);
        }
        drop(self.send(entry));
    }
}
