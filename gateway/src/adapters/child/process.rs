//! The life of one child process and its group: waits for its end, or brings it about: stdin closed, then SIGTERM,
//! then SIGKILL, to the whole group, and reaps. Never leaves a process of the group behind within its lifetime.

use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpgid};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::supervise::Slot;
use super::{Exit, exit_of};

/// What processes that a dead leader left behind get after SIGTERM.
const SWEEP: Duration = Duration::from_secs(1);
/// How long after SIGKILL a process may take to be gone; longer means stuck in the kernel.
const KILLED: Duration = Duration::from_secs(5);
/// The same for orphans of the group. Shorter: where process 1 does not reap, their corpses stay for ever.
const ORPHANS: Duration = Duration::from_millis(500);
/// How often a group without its leader, of whose end nobody is told, is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Asks for a process to be ended.
#[derive(Debug)]
pub(crate) struct Ender(watch::Sender<Option<Instant>>);

impl Ender {
    pub(crate) fn new() -> Ender {
        Ender(watch::Sender::new(None))
    }

    /// Ends the process by force after `grace`. Of several graces the shortest counts.
    pub(crate) fn end(&self, grace: Duration) {
        let by = Instant::now() + grace;
        self.0.send_if_modified(|deadline| {
            let sooner = deadline.is_none_or(|deadline| by < deadline);
            if sooner {
                *deadline = Some(by);
            }
            sooner
        });
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Option<Instant>> {
        self.0.subscribe()
    }
}

/// The process group of a child. Killed when dropped before it is known to be empty: also when the runtime goes
/// away in the middle.
#[derive(Debug)]
pub(crate) struct Group {
    id: Pid,
    armed: bool,
}

impl Group {
    pub(crate) fn new(id: Pid) -> Group {
        Group { id, armed: true }
    }

    fn signal(&self, signal: Signal) {
        // ESRCH: the group is empty, which is what a signal is sent for.
        let _ = kill_process_group(self.id, signal);
    }

    /// Whether nothing is left in the group. Only to be asked once the leader has been reaped: its orphans may
    /// have become ours (the gateway is process 1 of a container), and are reaped here.
    fn is_empty(&self) -> bool {
        while let Ok(Some(_)) = waitpgid(self.id, WaitOptions::NOHANG) {}
        test_kill_process_group(self.id) == Err(rustix::io::Errno::SRCH)
    }

    async fn emptied(&self) {
        while !self.is_empty() {
            sleep(LOOK).await;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.armed {
            self.signal(Signal::KILL);
        }
    }
}

/// What [`Life::run`] works on.
pub(crate) struct Life {
    pub(crate) child: tokio::process::Child,
    pub(crate) group: Group,
    pub(crate) ending: watch::Receiver<Option<Instant>>,
    /// Closes stdin.
    pub(crate) stdin: CancellationToken,
    /// Told when the process itself has ended, before its group has.
    pub(crate) left: watch::Sender<Option<Exit>>,
    /// Told when the group is empty.
    pub(crate) exit: watch::Sender<Option<Exit>>,
    pub(crate) server: Arc<str>,
    pub(crate) slot: Option<Slot>,
}

impl Life {
    /// Runs until the process has ended and its group is empty.
    pub(crate) async fn run(mut self) {
        let started = Instant::now();
        let pid = self.group.id.as_raw_nonzero().get();
        let natural = tokio::select! {
            status = self.child.wait() => status.ok(),
            _ = self.ending.wait_for(Option::is_some) => None,
        };
        let asked = natural.is_none();
        self.stdin.cancel();
        let status = match natural {
            Some(status) => Some(status),
            None => self.end().await,
        };
        let exit = exit_of(status, asked, started.elapsed());
        self.left.send_replace(Some(exit));
        self.sweep().await;
        if asked {
            tracing::info!(server = %self.server, pid, %exit, "server process ended");
        } else {
            tracing::warn!(server = %self.server, pid, %exit, "server process ended by itself");
        }
        // The place is free before anybody hears of the end: whoever then starts a process finds it.
        drop(self.slot.take());
        self.exit.send_replace(Some(exit));
    }

    /// Waits half of the grace for the closed stdin to do it, the other half for SIGTERM, then kills.
    async fn end(&mut self) -> Option<ExitStatus> {
        let from = Instant::now();
        let mut termed = false;
        loop {
            let by = self.ending.borrow_and_update().unwrap_or(from);
            let step = if termed { by } else { from + by.saturating_duration_since(from) / 2 };
            tokio::select! {
                biased;
                status = self.child.wait() => return status.ok(),
                // An error means that nobody can ask for less time any more; the step's own time still counts.
                Ok(()) = self.ending.changed() => {}
                () = sleep_until(step) => {
                    if termed || by <= Instant::now() {
                        break;
                    }
                    self.group.signal(Signal::TERM);
                    termed = true;
                }
            }
        }
        self.group.signal(Signal::KILL);
        timeout(KILLED, self.child.wait()).await.ok().and_then(Result::ok)
    }

    /// Ends what the process left behind in its group. While anything is in it the kernel gives its id to no
    /// other process; the look right after the leader's end is what rules out signalling a stranger.
    async fn sweep(&mut self) {
        if !self.group.is_empty() {
            let by = self.ending.borrow().unwrap_or_else(|| Instant::now() + SWEEP);
            self.group.signal(Signal::TERM);
            tokio::select! {
                () = self.group.emptied() => {}
                () = sleep_until(by) => {
                    self.group.signal(Signal::KILL);
                    if timeout(ORPHANS, self.group.emptied()).await.is_err() {
                        tracing::debug!(server = %self.server, "orphans of the server were killed, not reaped");
                    }
                }
            }
        }
        self.group.armed = false;
    }
}
