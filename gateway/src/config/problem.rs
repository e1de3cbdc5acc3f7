//! One thing that is wrong with a configuration: where, what, and what would be right. It never holds a secret's
//! value, only the name of the variable or file.

use std::fmt;

use serde::Serialize;

/// A problem (or a warning) of a configuration file. `Display`: `file:line:column: path: what; fix`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file as the user named it.
    pub file: String,
    /// From 1; 0 when the problem belongs to no line (the file can't be read, a command line override).
    pub line: usize,
    /// From 1, in characters; 0 like `line`.
    pub column: usize,
    /// Place in the document, like `servers.github.url`; empty for the whole document.
    pub path: String,
    /// What is wrong.
    pub what: String,
    /// What would be right; may be empty.
    pub fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}:{}", self.line, self.column)?;
        }
        f.write_str(": ")?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        plain(f, &self.what)?;
        if !self.fix.is_empty() {
            f.write_str("; ")?;
            plain(f, &self.fix)?;
        }
        Ok(())
    }
}

/// One line for a terminal: what the file's author wrote into keys must not steer it.
fn plain(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    text.chars().try_for_each(|c| match c.is_control() {
        true => write!(f, "{}", c.escape_default()),
        false => write!(f, "{c}"),
    })
}
