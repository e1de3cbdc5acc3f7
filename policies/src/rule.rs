//! Conditions in CEL (the Common Expression Language): checked when the configuration is read, bounded when they are
//! evaluated. A condition that fails to evaluate, or gives no boolean, does not hold. No I/O, no clock.

mod check;
mod facts;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use cel::extractors::This;
use cel::{Context, Env, ExecutionError, Program, Value};
use regex::Regex;

pub(crate) use facts::Facts;

/// Bytes of arguments that a condition is evaluated over.
pub const MAX_ARGUMENTS: usize = 256 * 1024;
/// Bytes of an expression.
pub const MAX_EXPRESSION: usize = 2048;
/// Most work of one evaluation, see [`Condition::work`]: some tenths of a second at the very worst.
const MAX_WORK: u64 = 8_000_000;
/// Work of all conditions of a task together that is done at once, beyond what they are without arguments: milliseconds.
const MAX_QUICK: u64 = 100_000;
/// Bytes after which an operation on a whole value counts once more.
const CHUNK: u64 = 4096;

/// What is wrong with an expression, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The byte in the expression.
    pub offset: usize,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub fix: String,
}

/// Why a condition could not be decided. It never holds the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The evaluation failed, for example because a field is missing or a type is wrong.
    Failed(&'static str),
    /// It gave no boolean.
    NoBoolean,
    /// The arguments are larger than conditions are evaluated over.
    TooLarge,
    /// The arguments are so large that this condition could take too long.
    TooCostly,
    /// The arguments are no JSON.
    NoJson,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Broken::Failed(why) => why,
            Broken::NoBoolean => "the condition gave no boolean",
            Broken::TooLarge => "the arguments are larger than 256 KiB",
            Broken::TooCostly => "the arguments are too large for this condition",
            Broken::NoJson => "the arguments are no JSON",
        })
    }
}

/// A condition that is well formed and names nothing unknown.
pub(crate) struct Condition {
    program: Program,
    env: Arc<Env>,
    patterns: Option<Arc<HashMap<Box<str>, Regex>>>,
    checked: check::Checked,
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condition").field("checked", &self.checked).finish_non_exhaustive()
    }
}

/// The functions and types of the language, shared by all conditions of a configuration.
#[derive(Clone)]
pub(crate) struct Language(Arc<Env>);

impl Language {
    pub(crate) fn new() -> Language {
        Language(Arc::new(Env::stdlib()))
    }

    /// Reads a condition.
    ///
    /// # Errors
    /// Everything that is wrong with it, at least one.
    pub(crate) fn condition(&self, text: &str) -> Result<Condition, Vec<Problem>> {
        if text.len() > MAX_EXPRESSION {
            let what = format!("the expression is longer than {MAX_EXPRESSION} bytes");
            return Err(vec![Problem { offset: 0, what, fix: "split it into several rules".into() }]);
        }
        let program = self.0.compile(text).map_err(|errors| check::unreadable(text, &errors))?;
        let mut checked = check::check(&program, text)?;
        let patterns = std::mem::take(&mut checked.patterns);
        let patterns = (!patterns.is_empty()).then(|| Arc::new(patterns));
        Ok(Condition { program, env: Arc::clone(&self.0), patterns, checked })
    }
}

impl Condition {
    /// Whether the condition holds.
    ///
    /// # Errors
    /// Why that can't be told: then the call is not to be made.
    pub(crate) fn holds(&self, facts: &Facts<'_>) -> Result<bool, Broken> {
        let (mut nodes, mut bytes) = (self.checked.nodes, 0);
        if self.checked.arguments {
            let size = facts.arguments()?;
            (nodes, bytes) = (nodes.saturating_add(size.nodes), size.bytes);
        }
        if self.checked.principal {
            nodes = nodes.saturating_add(facts.principal_nodes());
        }
        if self.work(nodes, bytes) > MAX_WORK {
            return Err(Broken::TooCostly);
        }
        let mut context = Context::with_env(Arc::clone(&self.env));
        context.set_variable_resolver(facts);
        if let Some(patterns) = &self.patterns {
            let patterns = Arc::clone(patterns);
            let matches =
                move |This(text): This<Arc<String>>, pattern: Arc<String>| -> Result<bool, ExecutionError> {
                    let regex = patterns.get(pattern.as_str());
                    let regex =
                        regex.ok_or_else(|| ExecutionError::function_error("matches", "unknown pattern"))?;
                    Ok(regex.is_match(&text))
                };
            context
                .add_function("matches", matches)
                .map_err(|_| Broken::Failed("the pattern can't be used"))?;
        }
        match self.program.execute(&context) {
            Ok(Value::Bool(holds)) => Ok(holds),
            Ok(_) => Err(Broken::NoBoolean),
            Err(error) => Err(Broken::Failed(plain(&error))),
        }
    }

    /// What so many bytes of arguments add to the work at most.
    fn added(&self, bytes: u64) -> u64 {
        if !self.checked.arguments {
            return 0;
        }
        // A value takes two bytes at least: itself and what parts it from the next.
        let nodes = self.checked.nodes.saturating_add(1 + bytes / 2);
        let bare = self.work(self.checked.nodes, 0);
        self.work(nodes, bytes).min(MAX_WORK).saturating_sub(bare)
    }

    /// A bound on the steps of an evaluation: each node of the expression once for every turn of the loops around it,
    /// each time over everything there is.
    fn work(&self, nodes: u64, bytes: u64) -> u64 {
        let each = 1 + bytes / CHUNK;
        let mut turns = 1_u64;
        let mut sum = 0_u64;
        for weight in self.checked.weights {
            sum = sum.saturating_add(weight.saturating_mul(turns));
            turns = turns.saturating_mul(nodes.max(1));
        }
        sum.saturating_mul(each)
    }
}

/// The most bytes of arguments over which all these conditions are evaluated in milliseconds.
pub(crate) fn quick<'c>(conditions: impl Iterator<Item = &'c Condition> + Clone) -> usize {
    let fits = |bytes: usize| {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let all = conditions.clone().map(|condition| condition.added(bytes));
        all.fold(0, u64::saturating_add) <= MAX_QUICK
    };
    if fits(MAX_ARGUMENTS) {
        return MAX_ARGUMENTS;
    }
    let (mut low, mut high) = (0, MAX_ARGUMENTS);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    low
}

/// What went wrong, without the values that the library's own text shows.
fn plain(error: &ExecutionError) -> &'static str {
    match error {
        ExecutionError::NoSuchKey(_) => "a field that the condition reads is missing",
        ExecutionError::NoSuchOverload(_)
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::UnsupportedTargetType { .. }
        | ExecutionError::NotSupportedAsMethod { .. }
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::ValuesNotComparable(..) => "a value has another type than the condition expects",
        ExecutionError::DivisionByZero(_)
        | ExecutionError::RemainderByZero(_)
        | ExecutionError::Overflow(..) => "the condition's arithmetic failed",
        ExecutionError::IndexOutOfBounds(_) => "a list is shorter than the condition expects",
        _ => "the condition could not be evaluated",
    }
}

#[cfg(test)]
mod tests;
