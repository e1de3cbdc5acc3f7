//! Values of headers and variables: which are references to the host's environment, which are credentials, and
//! which variable takes their place.

use std::collections::BTreeMap;

use crate::config::check::{looks_secret, names_secret};
use crate::config::context::Reference;

/// Variables that the result refers to.
#[derive(Default)]
pub(super) struct Variables {
    /// Name → the credential that stood in the file (so that one name never means two values), or none.
    taken: BTreeMap<String, Option<String>>,
    lines: Vec<String>,
}

impl Variables {
    /// What to set, one line each.
    pub(super) fn names(&self) -> &[String] {
        &self.lines
    }

    /// A variable that the host's file names itself.
    fn named(&mut self, name: &str) -> String {
        if self.taken.insert(name.to_owned(), None).is_none() {
            self.lines.push(format!("{name}: the host's file refers to it"));
        }
        name.to_owned()
    }

    /// A variable for a value that stands in the file; `wanted` or, where that means something else, `wanted` with
    /// the server's id before it. `what` says in words what to set.
    fn made(&mut self, id: &str, wanted: &str, value: &str, what: &str) -> String {
        let long = format!("{}_{wanted}", upper(id));
        let numbered = (2..1_000).map(|n| format!("{long}_{n}"));
        let names = [wanted.to_owned(), long.clone()].into_iter().chain(numbered);
        let mut fitting = names.filter(|name| match self.taken.get(name) {
            None => true,
            Some(holds) => holds.as_deref() == Some(value),
        });
        let name = fitting.next().unwrap_or(long);
        if self.taken.insert(name.clone(), Some(value.to_owned())).is_none() {
            self.lines.push(format!("{name}: {what}"));
        }
        name
    }
}

/// `my-server` → `MY_SERVER`.
pub(super) fn upper(text: &str) -> String {
    let name: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    if name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() { format!("V_{name}") } else { name }
}

/// A piece of a text with `${...}` in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    /// `${NAME}`, `${env:NAME}`, `${NAME:-fallback}`, `${input:NAME}`.
    Variable {
        name: &'a str,
        fallback: Option<&'a str>,
    },
}

/// Cuts a text at its variables.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, behind)) = after.split_once('}') else { break };
        let (name, fallback) =
            inside.split_once(":-").map_or((inside, None), |(name, value)| (name, Some(value)));
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        pieces.push(Piece::Variable { name, fallback });
        rest = behind;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    pieces
}

/// Whether the text has variables in it.
pub(super) fn variable(text: &str) -> bool {
    pieces(text).iter().any(|piece| matches!(piece, Piece::Variable { .. }))
}

/// The variable that a `${...}` means: `env:NAME` as it is, an input's name in capitals.
fn environment(name: &str) -> String {
    match name.split_once(':') {
        Some(("env", name)) => upper_if_odd(name),
        Some((_, name)) => upper(name),
        None => upper_if_odd(name),
    }
}

fn upper_if_odd(name: &str) -> String {
    let good = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if good { name.to_owned() } else { upper(name) }
}

/// A value of `env` for our file: literal, or a reference in place of a variable or credential.
pub(super) fn env_value(id: &str, name: &str, text: &str, variables: &mut Variables) -> String {
    match pieces(text).as_slice() {
        [Piece::Variable { name, .. }] => format!("env:{}", variables.named(&environment(name))),
        pieces if pieces.iter().any(|piece| matches!(piece, Piece::Variable { .. })) => {
            let what = format!("the value of {name} for {id}, its `${{...}}` filled in");
            format!("env:{}", variables.made(id, &format!("{}_{}", upper(id), upper(name)), text, &what))
        }
        _ if text.is_empty() => String::new(),
        _ if names_secret(name) || looks_secret(text) || Reference::parse(text).is_some() => {
            let what = format!("the value of {name} for {id} in the host's file");
            format!("env:{}", variables.made(id, &upper_if_odd(name), text, &what))
        }
        _ => text.to_owned(),
    }
}

/// A value of `headers` for our file; a scheme such as `Bearer` stays in it.
pub(super) fn header_value(id: &str, name: &str, text: &str, variables: &mut Variables) -> String {
    let (scheme, rest) = match text.split_once(' ') {
        Some((word, rest)) if word.bytes().all(|b| b.is_ascii_alphanumeric()) && !rest.contains(' ') => {
            (format!("{word} "), rest)
        }
        _ => (String::new(), text),
    };
    match pieces(rest).as_slice() {
        [Piece::Variable { name, .. }] => {
            return format!("{scheme}env:{}", variables.named(&environment(name)));
        }
        pieces if pieces.iter().any(|piece| matches!(piece, Piece::Variable { .. })) => {}
        _ if names_secret(name) || looks_secret(text) || Reference::parse(rest).is_some() => {}
        _ => return text.to_owned(),
    }
    let short = if name.eq_ignore_ascii_case("authorization") { "TOKEN".to_owned() } else { upper(name) };
    let without = if scheme.is_empty() { String::new() } else { format!(" without `{}`", scheme.trim()) };
    let what = format!("the value of header {name} for {id} in the host's file{without}");
    let variable = variables.made(id, &format!("{}_{short}", upper(id)), rest, &what);
    format!("{scheme}env:{variable}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_texts() {
        let variable = |name, fallback| Piece::Variable { name, fallback };
        assert_eq!(pieces("a${B}c"), [Piece::Text("a"), variable("B", None), Piece::Text("c")]);
        assert_eq!(pieces("${env:B}"), [variable("env:B", None)]);
        assert_eq!(pieces("${B:-x:y}"), [variable("B", Some("x:y"))]);
        assert_eq!(pieces("${B"), [Piece::Text("${B")]);
        assert_eq!(pieces(""), []);
    }

    #[test]
    fn one_name_never_means_two_values() {
        let mut variables = Variables::default();
        assert_eq!(env_value("a", "API_KEY", "one", &mut variables), "env:API_KEY");
        assert_eq!(env_value("b", "API_KEY", "one", &mut variables), "env:API_KEY");
        assert_eq!(env_value("c", "API_KEY", "two", &mut variables), "env:C_API_KEY");
        assert_eq!(variables.names().len(), 2);
        assert!(!format!("{:?}", variables.names()).contains("one"));
    }

    #[test]
    fn headers_keep_their_scheme() {
        let mut variables = Variables::default();
        let mut value = |name, text| header_value("gh", name, text, &mut variables);
        assert_eq!(value("Authorization", "Bearer ${TOKEN}"), "Bearer env:TOKEN");
        assert_eq!(value("Authorization", "Bearer ghp_x"), "Bearer env:GH_TOKEN");
        assert_eq!(value("X-Api-Key", "${input:my-key}"), "env:MY_KEY");
        assert_eq!(value("X-Api-Key", "abc"), "env:GH_X_API_KEY");
        assert_eq!(value("X-Team", "platform"), "platform");
        assert_eq!(value("X-Team", "a-${B}"), "env:GH_X_TEAM");
    }
}
