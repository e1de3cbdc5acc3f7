//! Server processes as pipes, within the caps on their number. How a process is started and ended is `adapters::child`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::core::Core;
use super::pipes::{NotOpened, Open, Opened, Pipes};
use crate::adapters::child::{Child, ServerSlots, Slots, StdioSpec};
use crate::config::StdioServer;

/// A process that does not read its stdin for so long is broken.
const WRITE: Duration = Duration::from_secs(10);

/// The server as processes.
pub(super) fn pipes(core: &Arc<Core>, spec: &StdioServer, slots: &Arc<Slots>) -> Arc<Pipes> {
    let env = spec.env.clone();
    let opener = Processes {
        spec: StdioSpec {
            command: spec.command.clone(),
            args: spec.args.clone(),
            env,
            inherit_env: spec.inherit_env.clone(),
            cwd: spec.cwd.clone(),
            line_bytes: core.spec.answer_bytes,
            write_timeout: WRITE,
        },
        server: Arc::clone(&core.server),
        slots: slots.server(&core.server, spec.max_processes),
    };
    Pipes::new(core, Box::new(opener), spec.isolation, spec.idle, None)
}

struct Processes {
    spec: StdioSpec,
    server: Arc<str>,
    slots: ServerSlots,
}

#[async_trait]
impl Open for Processes {
    async fn open(&self) -> Result<Opened, NotOpened> {
        let slot = self.slots.take().map_err(NotOpened::Full)?;
        let (pipe, incoming, _exit) =
            Child::start_in(&self.spec, &self.server, slot).map_err(NotOpened::Failed)?;
        Ok((pipe, incoming))
    }
}
