//! Arguments of a call, checked against the tool's input schema before they are sent. A schema that can't be checked
//! makes its tool unfit, never its arguments valid; what is wrong is told without the value.

use crate::schema::{Refusal, Schema};

#[cfg(test)]
mod tests;

/// Longest pointer that is told, in bytes: its segments come from the caller.
const MAX_POINTER: usize = 256;

/// What is known of a tool's input schema. Compile the pinned one where a tool is pinned: it wins over what the server
/// publishes now.
#[derive(Debug)]
pub enum Arguments {
    /// Calls can be checked.
    Checkable(Schema),
    /// They can't be, for this reason: the tool belongs in quarantine.
    Unfit(&'static str),
}

/// Why a call isn't sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// The arguments are no JSON object.
    NoObject,
    /// They break the schema.
    Broken {
        /// The place, as a JSON Pointer (RFC 6901); empty for the whole.
        pointer: String,
        /// The keyword.
        keyword: String,
    },
    /// They are too large to be checked against this schema.
    TooCostly,
    /// The tool's schema can't be checked, for this reason.
    Unfit(&'static str),
}

impl Arguments {
    /// Compiles a tool's input schema.
    pub fn compile(schema: &str) -> Arguments {
        match Schema::compile(schema) {
            Ok(schema) => Arguments::Checkable(schema),
            Err(reason) => Arguments::Unfit(reason),
        }
    }

    /// Why the tool is unfit to be called.
    pub fn unfit(&self) -> Option<&'static str> {
        match self {
            Arguments::Checkable(_) => None,
            Arguments::Unfit(reason) => Some(reason),
        }
    }

    /// Whether checking so many bytes may take long enough to keep it off a thread that others wait for.
    pub fn is_heavy(&self, bytes: usize) -> bool {
        match self {
            Arguments::Checkable(schema) => schema.is_heavy(bytes),
            Arguments::Unfit(_) => false,
        }
    }

    /// Checks a call's arguments as JSON; absent ones are an empty object.
    ///
    /// # Errors
    /// Why the call must not be sent.
    pub fn check(&self, arguments: Option<&str>) -> Result<(), Rejected> {
        let schema = match self {
            Arguments::Checkable(schema) => schema,
            Arguments::Unfit(reason) => return Err(Rejected::Unfit(reason)),
        };
        let arguments = arguments.unwrap_or("{}");
        if !arguments.trim_start().starts_with('{') {
            return Err(Rejected::NoObject);
        }
        schema.check(arguments).map_err(|refusal| match refusal {
            Refusal::NoJson => Rejected::NoObject,
            Refusal::TooCostly => Rejected::TooCostly,
            Refusal::Broken(violation) => {
                Rejected::Broken { pointer: shown(&violation.at), keyword: violation.keyword }
            }
        })
    }
}

/// A pointer without control characters and not too long.
fn shown(pointer: &str) -> String {
    let visible = crate::controls::text(pointer, &crate::controls::Strip::ALL).text;
    let mut shown: String = visible.chars().filter(|c| !c.is_control()).collect();
    if shown.len() > MAX_POINTER {
        shown.truncate(shown.floor_char_boundary(MAX_POINTER));
        shown.push('…');
    }
    shown
}

impl std::fmt::Display for Rejected {
    /// The text of the tool error: where, and which keyword, never the value.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Rejected::NoObject => f.write_str("The arguments are no JSON object. The call was not sent."),
            Rejected::Broken { pointer, keyword } if pointer.is_empty() => {
                write!(f, "The arguments break '{keyword}' of the tool's input schema. The call was not sent.")
            }
            Rejected::Broken { pointer, keyword } => write!(
                f,
                "The argument at {pointer} breaks '{keyword}' of the tool's input schema. The call was not sent."
            ),
            Rejected::TooCostly => f.write_str(
                "The arguments are too large to be checked against the tool's input schema. The call was not sent.",
            ),
            Rejected::Unfit(reason) => {
                write!(f, "The tool can't be called: its input schema can't be checked ({reason}).")
            }
        }
    }
}

impl std::error::Error for Rejected {}
