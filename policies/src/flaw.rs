//! What is wrong with a specification, and where: all problems are reported at once, each with its place below the
//! task, so that the caller can print the line. Knows no file format.

use std::fmt;

/// One step from a task down into its specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A member of a mapping.
    Key(Box<str>),
    /// A place in a list, from 0.
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Step {
        Step::Key(key.into())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Step {
        Step::Index(index)
    }
}

/// A path as it is written in messages, for example `rules[2].when`.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a>(pub &'a [Step]);

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if n == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// One problem of a specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// Where, below the task.
    pub at: Vec<Step>,
    /// Where in the text there, in bytes, when the text is a pattern or an expression.
    pub offset: Option<usize>,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub fix: String,
}

impl Flaw {
    /// A problem with no place inside a text.
    pub fn new(at: Vec<Step>, what: impl Into<String>, fix: impl Into<String>) -> Flaw {
        Flaw { at, offset: None, what: what.into(), fix: fix.into() }
    }

    /// The same problem at a byte of the text.
    #[must_use]
    pub fn at_byte(self, offset: usize) -> Flaw {
        Flaw { offset: Some(offset), ..self }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", Path(&self.at), self.what, self.fix)
    }
}

/// A path from keys and indexes.
macro_rules! steps {
    ($($step:expr),* $(,)?) => { vec![$($crate::flaw::Step::from($step)),*] };
}
pub(crate) use steps;
