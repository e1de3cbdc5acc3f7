//! A value that must never be shown: tokens, passwords, keys. It never appears in `Debug`, `Display`, an error or
//! a dump; reading it takes an explicit [`Secret::expose`].

use std::fmt;

/// Text that is handed to a server or a child process and shown to nobody else.
///
/// Equality is for noticing a changed configuration; it is not constant-time and must not judge a credential.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<str>);

impl Secret {
    /// Takes the value over. The text may be anything, also empty.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into().into_boxed_str())
    }

    /// The value itself. Whoever calls this answers for where it goes: a request to the server that it is meant
    /// for, or the environment of its child; never a log, metric, error or journal record.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    // Not even the length: it tells one kind of token from another.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;

    #[test]
    fn debug_and_display_tell_nothing() {
        let (short, long) = (Secret::new("a"), Secret::new("canary-0123456789"));
        assert_eq!(format!("{short:?}{short}"), format!("{long:?}{long}"));
        assert_eq!(long.expose(), "canary-0123456789");
        assert!(!format!("{:?}", Some(&long)).contains("canary"));
    }
}
