//! `env:NAME` and `file:PATH`: how a configuration names a secret without holding it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::World;
use crate::config::place::clip;
use crate::config::secret::Secret;

/// A secret longer than this is a wrong file.
const MAX_BYTES: u64 = 64 << 10;

/// Where a value is to be taken from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    Env(String),
    File(String),
}

/// What is wrong, and what would be right.
type Fault = (String, String);

impl Reference {
    /// A reference, if the text is one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let env = text.strip_prefix("env:").map(|name| Self::Env(name.to_owned()));
        env.or_else(|| text.strip_prefix("file:").map(|path| Self::File(path.to_owned())))
    }

    /// Whether what it names can exist at all.
    pub(super) fn valid(&self) -> Result<(), Fault> {
        match self {
            Self::Env(name) if !variable_name(name) => {
                let what = format!("`{}` can't be the name of a variable", clip(name, 64));
                Err((what, "write env:NAME with letters, digits and _".into()))
            }
            Self::File(path) if path.is_empty() || path.contains('\0') => {
                Err(("no path after file:".into(), "write file:PATH".into()))
            }
            _ => Ok(()),
        }
    }

    /// The value, and a warning about how it is kept.
    pub(super) fn read(&self, world: &World<'_>) -> Result<(Secret, Option<String>), Fault> {
        match self {
            Self::Env(name) => match (world.env)(name) {
                None => {
                    Err((format!("variable {name} is not set"), "set it where the gateway starts".into()))
                }
                Some(value) if value.is_empty() => {
                    Err((format!("variable {name} is empty"), "give it a value".into()))
                }
                Some(value) => Ok((Secret::new(value), None)),
            },
            Self::File(path) => read_file(&world.base.join(path)),
        }
    }
}

/// Whether a variable of the environment may be called so.
pub(crate) fn variable_name(name: &str) -> bool {
    let first = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    first && name.len() <= 256 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Reads a secret's file again.
///
/// # Errors
/// What is wrong with it, without any of its text.
pub fn read_secret(path: &Path) -> Result<Secret, String> {
    read_file(path).map(|(secret, _)| secret).map_err(|(what, _)| what)
}

fn read_file(path: &Path) -> Result<(Secret, Option<String>), Fault> {
    let shown = path.display();
    let fault = |what: String, fix: &str| Err((what, fix.to_owned()));
    // Looked at before it is opened: opening a pipe would wait for its writer.
    let kind = match path.metadata() {
        Ok(kind) => kind,
        Err(error) => {
            return fault(format!("can't read {shown}: {}", error.kind()), "check the path and its owner");
        }
    };
    if !kind.is_file() {
        return fault(format!("{shown} is not a file"), "name a regular file");
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        return fault(format!("can't read {shown}: {}", error.kind()), "check the path and its owner");
    }
    if bytes.len() as u64 > MAX_BYTES {
        return fault(format!("{shown} is larger than 64 KiB"), "name a file that holds the secret alone");
    }
    let Ok(text) = String::from_utf8(bytes) else {
        return fault(format!("{shown} is not UTF-8 text"), "keep the secret as text, keys in base64");
    };
    // Editors and `echo` end a file with a line end that is not meant.
    let text = text.strip_suffix('\n').map_or(text.as_str(), |rest| rest.strip_suffix('\r').unwrap_or(rest));
    if text.is_empty() {
        return fault(format!("{shown} is empty"), "put the secret into it");
    }
    Ok((Secret::new(text), readable_by_others(&kind).then(|| format!("others can read {shown}"))))
}

#[cfg(unix)]
fn readable_by_others(kind: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    kind.permissions().mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn readable_by_others(_: &std::fs::Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_reference() {
        assert_eq!(Reference::parse("env:A"), Some(Reference::Env("A".into())));
        assert_eq!(Reference::parse("file:/a"), Some(Reference::File("/a".into())));
        for text in ["", "ENV:A", "env", "environment:A", " env:A"] {
            assert_eq!(Reference::parse(text), None, "{text}");
        }
    }

    #[test]
    fn variable_names() {
        assert!(variable_name("_A9") && variable_name("a"));
        assert!(!variable_name("") && !variable_name("9A") && !variable_name("A-B") && !variable_name("A=B"));
    }
}
