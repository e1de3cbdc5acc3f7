//! The records of several logs in one order: by time, log and number. Each log's own order is kept whatever its clock
//! did. Holds a bounded number of records of each log.

use std::collections::VecDeque;
use std::io::{self, Write};

use audit::read::{Cursor, Filter, Record, each};

use super::select::Log;

/// Records of one log that are read at once.
const BATCH: usize = 256;

struct Tail<'a> {
    log: &'a Log,
    cursor: Cursor,
    waiting: VecDeque<Record>,
    ended: bool,
}

impl Tail<'_> {
    fn fill(&mut self, filter: &Filter) -> io::Result<()> {
        if self.ended || !self.waiting.is_empty() {
            return Ok(());
        }
        let waiting = &mut self.waiting;
        each(&*self.log.source, filter, &mut self.cursor, &mut |record| {
            waiting.push_back(record);
            waiting.len() < BATCH
        })?;
        self.ended = self.waiting.len() < BATCH;
        Ok(())
    }
}

/// Reads several logs as one.
pub(super) struct Merged<'a> {
    tails: Vec<Tail<'a>>,
    filter: Filter,
}

impl<'a> Merged<'a> {
    /// From the logs' beginnings.
    pub(super) fn new(logs: &'a [Log], filter: Filter) -> Merged<'a> {
        let tail = |log| Tail { log, cursor: Cursor::default(), waiting: VecDeque::new(), ended: false };
        Merged { tails: logs.iter().map(tail).collect(), filter }
    }

    /// The next record, until all logs end.
    ///
    /// # Errors
    /// A file can't be read.
    pub(super) fn next(&mut self) -> io::Result<Option<Record>> {
        for tail in &mut self.tails {
            tail.fill(&self.filter)?;
        }
        let front = |tail: &'_ &mut Tail<'_>| {
            tail.waiting.front().map(|r| (r.entry.ts.clone(), r.entry.log.clone(), r.entry.seq))
        };
        let next = self.tails.iter_mut().filter(|tail| !tail.waiting.is_empty()).min_by_key(front);
        Ok(next.and_then(|tail| tail.waiting.pop_front()))
    }

    /// After the end: look again for what was written since.
    pub(super) fn resume(&mut self) {
        self.tails.iter_mut().for_each(|tail| tail.ended = false);
    }

    /// Damaged lines that were passed over.
    pub(super) fn damaged(&self) -> u64 {
        self.tails.iter().map(|tail| tail.cursor.damaged).sum()
    }
}

/// Says that lines were passed over, if any were.
pub(super) fn say_damaged(damaged: u64, err: &mut dyn Write) {
    if damaged > 0 {
        let lines = if damaged == 1 { "line was" } else { "lines were" };
        // Nobody is left to tell when this fails.
        let _ = writeln!(
            err,
            "tollgate: {damaged} damaged {lines} passed over; `tollgate audit verify` names them"
        );
    }
}
