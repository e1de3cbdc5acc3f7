//! The writer's thread: syncs what was written, wakes who waits for that, seals it, and writes the records that no
//! call asks for. One turn does everything that is due; a sync that failed is never tried again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::head::{Head, Item, Unsynced};
use super::sealer::{Fault, Sealer};
use super::slot::Slot;
use super::{Command, Durability, Shared};
use crate::entry::{Entry, Int, Kind, Text};
use crate::error::Unavailable;

/// Between two checkpoints, in nanoseconds.
pub(crate) const SIGN_NS: u64 = 1_000_000_000;
/// Between two heartbeats.
const HEARTBEAT_NS: u64 = 60_000_000_000;
/// The longest the thread sleeps.
const SLEEP: Duration = Duration::from_millis(500);

/// Callers that wait for one sync: from so many on the next one waits for more of them.
const CROWD: usize = 3;
/// For how long. A sync costs as much for one record as for many, and takes the time from calls: measured at 64 callers
/// between 0.1 and 3 ms, this lets most of them through.
const GATHER: Duration = Duration::from_millis(1);

pub(crate) struct Times {
    signed: u64,
    heartbeat: u64,
    segment: u64,
    /// `strict`: the last sync was waited for by a crowd.
    crowd: bool,
}

/// Runs until the journal is closed or lost.
pub(crate) fn run(shared: &Shared) {
    let now = shared.clock.mono_ns();
    let mut times = Times { signed: now, heartbeat: now, segment: now, crowd: false };
    let strict = shared.options.durability == Durability::Strict;
    loop {
        let gather = match (strict, times.crowd) {
            (false, _) => shared.options.sync_interval,
            (true, true) => GATHER,
            (true, false) => Duration::ZERO,
        };
        let (stop, mut commands) = shared.rest(gather, SLEEP);
        let result = {
            let mut sealer = shared.sealer.lock();
            let lost = shared.broken.lock().clone();
            let result = match lost {
                Some(why) => Err(Fault::Fatal(why)),
                None => turn(shared, &mut sealer, &mut times, &mut commands, stop),
            };
            if let Err(Fault::Fatal(why)) = &result {
                *shared.broken.lock() = Some(why.clone());
            }
            result
        };
        let why = result.as_ref().err().map(unavailable);
        let go_on = match result {
            Ok(()) if stop => shared.end(&Unavailable::Closed),
            Ok(()) => shared.note_fault(None),
            Err(Fault::Later(why)) if stop => shared.end(&Unavailable::Write(why)),
            Err(Fault::Later(why)) => shared.note_fault(Some(why)),
            Err(Fault::Fatal(why)) => shared.poison(&why),
        };
        // Those that were not reached.
        if let Some(why) = why {
            commands.into_iter().for_each(|c| c.refuse(&why));
        }
        if !go_on {
            break;
        }
    }
}

fn turn(
    shared: &Shared,
    sealer: &mut Sealer,
    times: &mut Times,
    commands: &mut Vec<Command>,
    stop: bool,
) -> Result<(), Fault> {
    due(shared, times, stop);
    if stop {
        shared.push_own(Entry::new(Kind::Close));
    }
    let now = shared.clock.mono_ns();
    loop {
        let wrote = shared.drain_blocking().map_err(Fault::Fatal)?;
        times.crowd = settle(shared, sealer)? >= CROWD;
        // `strict`: those who came during the sync are written now, as one batch. What could not be written waits.
        if !wrote || times.crowd || !shared.has_work() {
            break;
        }
        if shared.clock.mono_ns().saturating_sub(times.signed) >= SIGN_NS {
            break;
        }
    }
    if stop || now.saturating_sub(times.signed) >= SIGN_NS {
        times.signed = now;
        sign(shared, sealer)?;
    }
    for command in commands.drain(..) {
        obey(shared, sealer, times, command)?;
    }
    let age = now.saturating_sub(times.segment);
    let grown = sealer.offset >= shared.options.segment_bytes;
    let due = grown || (age >= shared.options.segment_ns && sealer.offset > 0);
    match sealer.preparing.take() {
        Some(preparing) if stop => preparing.leave(),
        preparing => sealer.preparing = preparing,
    }
    if !stop && (due || sealer.preparing.is_some()) && next_segment(shared, sealer)? {
        times.segment = now;
    }
    shared.publish(sealer);
    shared.places.nudge();
    Ok(())
}

/// Begins the next segment, or gets ready to; says whether it has begun.
fn next_segment(shared: &Shared, sealer: &mut Sealer) -> Result<bool, Fault> {
    let ready = sealer.prepared()?;
    if sealer.preparing.is_some() && !ready {
        return Ok(false);
    }
    shared.with_head(|head| {
        settle_locked(shared, sealer, head)?;
        if !ready {
            head.totals.forget(shared.options.keep_runs_ms);
            if sealer.prepare(head)? {
                return Ok(false);
            }
        }
        let header = Entry { epoch: Some(Int(sealer.epoch)), ..Entry::new(Kind::Rotate) };
        shared.at("rotate");
        sealer.rotate(head, header)?;
        shared.at("rotated");
        settle_locked(shared, sealer, head)?;
        Ok(true)
    })
}

/// Heartbeats and counted refusals; at the end whatever was counted since. While nothing can be written, counts stay
/// what they are, and one heartbeat waits that finds out when that is over.
fn due(shared: &Shared, times: &mut Times, stop: bool) {
    let now = shared.clock.mono_ns();
    if shared.failing() && !stop {
        if !shared.has_work() {
            times.heartbeat = now;
            shared.push_own(Entry::new(Kind::Heartbeat));
        }
        return;
    }
    if now.saturating_sub(times.heartbeat) >= HEARTBEAT_NS {
        times.heartbeat = now;
        shared.push_own(Entry::new(Kind::Heartbeat));
    }
    if stop || now.saturating_sub(times.signed) >= SIGN_NS {
        for (reason, count) in shared.take_counts() {
            let count = Some(Int(count));
            shared.push_own(Entry {
                reason: Some(Text::Borrowed(reason)),
                count,
                ..Entry::new(Kind::DeniedCount)
            });
        }
    }
}

/// Syncs what was written so far, wakes who waits for it, and reads it back. Others may write meanwhile. Says how many
/// waited.
pub(crate) fn settle(shared: &Shared, sealer: &mut Sealer) -> Result<usize, Fault> {
    let spare = std::mem::take(&mut sealer.spare);
    let (unsynced, end) =
        shared.with_head(|head| (std::mem::replace(&mut head.unsynced, spare), head.offset));
    let waited = unsynced.acks.len();
    sync(shared, sealer, unsynced, end).map(|()| waited)
}

fn settle_locked(shared: &Shared, sealer: &mut Sealer, head: &mut Head) -> Result<(), Fault> {
    let unsynced = std::mem::take(&mut head.unsynced);
    sync(shared, sealer, unsynced, head.offset)
}

fn sync(shared: &Shared, sealer: &mut Sealer, mut unsynced: Unsynced, end: u64) -> Result<(), Fault> {
    if unsynced.leaves.is_empty() {
        sealer.spare = unsynced;
        return Ok(());
    }
    shared.at("sync");
    let start = shared.clock.mono_ns();
    if let Err(e) = sealer.file.sync() {
        let why = format!("a sync failed: {e}");
        for (slot, _) in unsynced.acks.drain(..) {
            slot.complete(Err(Unavailable::Poisoned(why.clone())));
        }
        return Err(Fault::Fatal(why));
    }
    let took = shared.clock.mono_ns().saturating_sub(start);
    shared.sync_took.store(took, Ordering::Relaxed);
    shared.options.watch.iter().for_each(|w| w.synced(took));
    shared.at("synced");
    for (slot, receipt) in unsynced.acks.drain(..) {
        slot.complete(Ok(receipt));
    }
    shared.at("acknowledged");
    sealer.absorb(end, &unsynced.leaves)?;
    unsynced.leaves.clear();
    unsynced.bytes = 0;
    sealer.spare = unsynced;
    Ok(())
}

fn sign(shared: &Shared, sealer: &mut Sealer) -> Result<(), Fault> {
    shared.at("sign");
    sealer.sign(sealer.offset)?;
    shared.at("signed");
    shared.publish(sealer);
    Ok(())
}

fn obey(shared: &Shared, sealer: &mut Sealer, times: &mut Times, command: Command) -> Result<(), Fault> {
    match command {
        Command::Checkpoint(reply) => {
            let result = sign(shared, sealer);
            reply.complete(answer(&result, sealer.last.clone()));
            result
        }
        Command::Key(key, reply) => {
            shared.with_head(|head| {
                settle_locked(shared, sealer, head)?;
                let result = sealer.hand_over(head, key);
                reply.complete(match &result {
                    Ok(vkey) => Ok(vkey.to_string().into()),
                    Err(fault) => Err(unavailable(fault)),
                });
                result?;
                settle_locked(shared, sealer, head)
            })?;
            times.segment = shared.clock.mono_ns();
            sign(shared, sealer)
        }
    }
}

fn answer(result: &Result<(), Fault>, last: Option<Arc<str>>) -> Result<Arc<str>, Unavailable> {
    match result {
        Ok(()) => last.ok_or_else(|| Unavailable::Write("nothing is signed yet".into())),
        Err(fault) => Err(unavailable(fault)),
    }
}

fn unavailable(fault: &Fault) -> Unavailable {
    match fault {
        Fault::Fatal(why) => Unavailable::Poisoned(why.clone()),
        Fault::Later(why) => Unavailable::Write(why.clone()),
    }
}

/// A record of the journal's own, that takes no place.
pub(crate) fn own(entry: Entry) -> Item {
    Item { entry: entry.into(), slot: Slot::new(), keep: true, after: None, place: false }
}
