//! Opens the journal for the commands that serve, and ends the process when the journal is lost to it: no call may go
//! through that leaves no record.

use std::io::{self, Write};
use std::sync::Arc;

use super::log;
use crate::adapters::journal::{Place, open as open_journal};
use crate::config::Checked;
use crate::ports::journal::Journal;

/// The log of `tollgate serve` and `demo`.
pub(super) const SERVE: Place = Place { instance: "gateway", slots: 1 };
/// The logs of `tollgate stdio`: hosts start as many as they like.
pub(super) const STDIO: Place = Place { instance: "stdio", slots: 64 };

/// Opens it, or says why it does not open.
pub(super) fn open(config: &Checked, place: Place, err: &mut dyn Write) -> Option<Arc<dyn Journal>> {
    match open_journal(config, place, Arc::new(lost)) {
        Ok((journal, said)) => {
            for line in said {
                writeln!(err, "{line}").ok();
            }
            Some(journal)
        }
        Err(error) => {
            writeln!(err, "tollgate: {error}").ok();
            None
        }
    }
}

fn lost(why: &str) {
    log::flush();
    writeln!(io::stderr(), "tollgate: the journal is lost to this process, so it ends: {why}").ok();
    std::process::exit(1);
}
