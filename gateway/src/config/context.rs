//! What the checks share: where things stand, what was found, and the world outside the file (variables, files).
//! The only place of the configuration that reads them; a value that it read never gets into a message.

mod reference;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use policies::money::NanoUsd;
use policies::rate::Quota;

use super::checked::Held;
use super::place::{At, Places};
use super::problem::Problem;
use super::raw::amounts::{Money, Rate};
use super::raw::{Size, Time};
use super::secret::Secret;
use super::units;

pub use reference::read_secret;
pub(crate) use reference::{Reference, variable_name};

/// Looks a variable of the environment up.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The world outside the file.
pub(crate) struct World<'a> {
    pub(crate) env: Env<'a>,
    /// Relative paths start here.
    pub(crate) base: PathBuf,
    /// The file is for another machine: nothing outside it is looked at.
    pub(crate) elsewhere: bool,
}

/// State of one check.
pub(crate) struct Context<'a> {
    pub(crate) file: &'a str,
    pub(crate) places: &'a Arc<Places>,
    pub(crate) world: World<'a>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
}

impl Context<'_> {
    /// Something that keeps the gateway from starting.
    pub(crate) fn problem(&mut self, at: &At, what: impl Into<String>, fix: impl Into<String>) {
        let problem = self.make(at, what.into(), fix.into());
        self.problems.push(problem);
    }

    /// Something that is allowed and worth saying.
    pub(crate) fn warning(&mut self, at: &At, what: impl Into<String>, fix: impl Into<String>) {
        let warning = self.make(at, what.into(), fix.into());
        self.warnings.push(warning);
    }

    /// [`Context::problem`] about a key itself and not its value.
    pub(crate) fn name_problem(&mut self, at: &At, what: impl Into<String>, fix: impl Into<String>) {
        let spot = self.places.key_spot(at);
        let problem = self.make(at, what.into(), fix.into());
        self.problems.push(Problem { line: spot.line, column: spot.column, ..problem });
    }

    fn make(&self, at: &At, what: String, fix: String) -> Problem {
        let spot = self.places.spot(at);
        Problem {
            file: self.file.to_owned(),
            line: spot.line,
            column: spot.column,
            path: at.shown().to_owned(),
            what,
            fix,
        }
    }

    /// A path of the file; relative ones start at the file's folder.
    pub(crate) fn path(&self, text: &str) -> PathBuf {
        self.world.base.join(Path::new(text))
    }

    /// A duration within its range, or its default.
    pub(crate) fn time(
        &mut self,
        at: &At,
        raw: Option<&Time>,
        default: Duration,
        range: RangeInclusive<Duration>,
    ) -> Duration {
        let value = match raw {
            None => return default,
            Some(Time::Number(seconds)) => {
                u32::try_from(*seconds).ok().map(|s| Duration::from_secs(s.into()))
            }
            Some(Time::Text(text)) => units::duration(text),
        };
        match value {
            None => self.problem(at, "not a duration", units::DURATION_FORM),
            Some(value) if range.contains(&value) => return value,
            Some(value) => {
                let what = format!("{} is out of range", units::show_duration(value));
                self.problem(at, what, between(&range, |d| units::show_duration(*d)));
            }
        }
        default
    }

    /// A size within its range, or its default.
    pub(crate) fn size(
        &mut self,
        at: &At,
        raw: Option<&Size>,
        default: usize,
        range: RangeInclusive<usize>,
    ) -> usize {
        let value = match raw {
            None => return default,
            Some(Size::Number(bytes)) => usize::try_from(*bytes).ok(),
            Some(Size::Text(text)) => units::size(text),
        };
        match value {
            None => self.problem(at, "not a size", units::SIZE_FORM),
            Some(value) if range.contains(&value) => return value,
            Some(value) => {
                let what = format!("{} is out of range", units::show_size(value));
                self.problem(at, what, between(&range, |n| units::show_size(*n)));
            }
        }
        default
    }

    /// A number within its range, or its default.
    pub(crate) fn count(
        &mut self,
        at: &At,
        raw: Option<u64>,
        default: usize,
        range: RangeInclusive<usize>,
    ) -> usize {
        let Some(number) = raw else { return default };
        match usize::try_from(number).ok().filter(|value| range.contains(value)) {
            Some(value) => value,
            None => {
                self.problem(at, format!("{number} is out of range"), between(&range, usize::to_string));
                default
            }
        }
    }

    /// A secret that may only stand here by reference, with the file that it came from.
    pub(crate) fn held(&mut self, at: &At, text: &str) -> Option<Held> {
        let Some(reference) = Reference::parse(text) else {
            self.problem(at, "a credential in the file itself", "name where it is: env:NAME or file:PATH");
            return None;
        };
        let secret = self.fetch(at, &reference)?;
        let file = match &reference {
            Reference::File(path) => Some(self.path(path)),
            Reference::Env(_) => None,
        };
        Some(Held { secret, file })
    }

    /// A count within its range, if there is one.
    pub(crate) fn bound(&mut self, at: &At, raw: Option<u64>, range: RangeInclusive<usize>) -> Option<usize> {
        let least = *range.start();
        raw.map(|raw| self.count(at, Some(raw), least, range))
    }

    /// An exact amount of dollars, unless there is a problem with it: the text as it was written counts, not a float
    /// made of it.
    pub(crate) fn money(&mut self, at: &At, raw: &Money) -> Option<NanoUsd> {
        let text = match raw {
            Money::Text(text) => text.clone(),
            Money::Number(number) => self.places.text(at).map_or_else(|| number.to_string(), str::to_owned),
        };
        let fault = |why| self.problem(at, format!("the amount {why}"), units::MONEY_FORM);
        NanoUsd::parse(&text).map_err(fault).ok()
    }

    /// A rate, unless there is a problem with it.
    pub(crate) fn rate(&mut self, at: &At, raw: &Rate) -> Option<Quota> {
        let (text, burst) = match raw {
            Rate::Text(text) => (text, None),
            Rate::Burst(both) => (&both.rate, both.burst),
        };
        let place = if matches!(raw, Rate::Text(_)) { at.clone() } else { at.key("rate") };
        let burst = burst.map(|burst| self.count(&at.key("burst"), Some(burst), 1, 1..=1_000_000_000));
        let burst = burst.map(|burst| u32::try_from(burst).unwrap_or(u32::MAX));
        let read = Quota::parse(text, burst);
        read.map_err(|what| self.problem(&place, what, "write a rate such as 60/min, 5/s or 1000/h")).ok()
    }

    /// What a reference stands for; a problem that names the variable or file when it can't be had. Away from the
    /// machine that the file is for, an empty stand-in.
    pub(crate) fn fetch(&mut self, at: &At, reference: &Reference) -> Option<Secret> {
        if let Err((what, fix)) = reference.valid() {
            self.problem(at, what, fix);
            return None;
        }
        if self.world.elsewhere {
            return Some(Secret::new(""));
        }
        match reference.read(&self.world) {
            Ok((secret, warning)) => {
                if let Some(what) = warning {
                    self.warning(at, what, "let only its owner read it (chmod 600)");
                }
                Some(secret)
            }
            Err((what, fix)) => {
                self.problem(at, what, fix);
                None
            }
        }
    }
}

fn between<T>(range: &RangeInclusive<T>, show: impl Fn(&T) -> String) -> String {
    format!("write something from {} to {}", show(range.start()), show(range.end()))
}
