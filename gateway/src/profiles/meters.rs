//! The handles of metrics that a task's calls count with. Looked up when the task is first used, and kept with it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use metrics::{Gauge, Metrics, Task};

/// Handles of one task.
#[derive(Default)]
pub struct Meters {
    task: OnceLock<Arc<Task>>,
    budgets: OnceLock<Box<[Gauge]>>,
}

impl Meters {
    /// The task of this name, which is the one that this belongs to.
    pub fn task(&self, metrics: &Metrics, name: &str) -> &Arc<Task> {
        self.task.get_or_init(|| metrics.task(name))
    }

    /// One gauge for each of its budgets, made when first asked for.
    pub fn budgets(&self, make: impl FnOnce() -> Box<[Gauge]>) -> &[Gauge] {
        self.budgets.get_or_init(make)
    }
}

impl fmt::Debug for Meters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meters")
    }
}
