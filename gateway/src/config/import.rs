//! The configuration that hosts already have (`mcpServers` of Claude Desktop, Claude Code, Cursor and others,
//! `servers` of VS Code) as ours. A credential that stands in it never gets into the result: it becomes a
//! reference, and a comment says which variable to set. What can't be carried over is said, never dropped in silence.

mod hosts;
mod server;
mod values;
mod yaml;

use std::collections::BTreeSet;
use std::path::Path;

use super::place::clip;
use super::{Options, Source, check_text};
use server::Converted;
use values::Variables;

/// Largest file that is read, in bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// The result of an import.
#[derive(Debug)]
pub struct Imported {
    /// Our YAML; it passes `tollgate check` once the variables are set.
    pub yaml: String,
    /// What the user has to know, one line each: renames, variables to set, what was left out. Without values.
    pub notes: Vec<String>,
    /// Servers carried over.
    pub servers: usize,
}

/// Turns a host's JSON into our YAML. `name` is the file's name, for the comment at the top.
///
/// # Errors
/// One line saying why nothing can be made of the file; it never quotes the file's values.
pub fn import(name: &str, bytes: &[u8]) -> Result<Imported, String> {
    let hosts::Found { servers: found, mut notes } = hosts::read(bytes)?;
    let mut variables = Variables::default();
    let mut ids = BTreeSet::new();
    let mut blocks = String::new();
    let mut servers = 0;
    for (given, value) in &found {
        let id = unique(&normal(given), &mut ids);
        let mut converted = server::convert(&id, value, &mut variables);
        if id != *given {
            converted.notes.insert(0, format!("was called {:?}", clip(given, 64)));
        }
        let good = judge(&id, &mut converted);
        servers += usize::from(good);
        notes.extend(converted.notes.iter().map(|note| format!("{id}: {note}")));
        blocks.push('\n');
        blocks.push_str(&block(&id, &converted, good));
    }
    let mut yaml = format!("# Made by `tollgate import` from {:?}.\n", clip(name, 120));
    if !variables.names().is_empty() {
        yaml.push_str("# Set before the gateway starts:\n");
        variables.names().iter().for_each(|line| yaml.push_str(&format!("#   {line}\n")));
        notes.extend(variables.names().iter().map(|line| format!("set {line}")));
    }
    yaml.push_str(if servers == 0 { "servers: {}\n" } else { "servers:" });
    yaml.push_str(if servers == 0 { blocks.trim_start_matches('\n') } else { &blocks });
    Ok(Imported { yaml, notes, servers })
}

/// Whether the server stands in the result; when our own check refuses it, the reasons become notes and the server
/// a comment.
fn judge(id: &str, converted: &mut Converted) -> bool {
    if converted.left_out {
        return false;
    }
    let text = format!("servers:\n{}", block(id, converted, true));
    let source = Source { name: "", bytes: text.as_bytes(), base: Path::new("/") };
    let options = Options { elsewhere: true, ..Options::default() };
    match check_text(&source, &options, &|_| None) {
        Ok(_) => true,
        Err(problems) => {
            let note = |p: &super::Problem| format!("left as a comment: {}; {}", p.what, p.fix);
            converted.notes.extend(problems.iter().map(note));
            false
        }
    }
}

fn block(id: &str, converted: &Converted, good: bool) -> String {
    let mut text = String::new();
    for note in &converted.notes {
        // The notes are one line each; a control character could end the comment.
        let line: String = note.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        text.push_str(&format!("  # {line}\n"));
    }
    let mut body = format!("  {id}:\n");
    converted.lines.iter().for_each(|line| body.push_str(&format!("    {line}\n")));
    if good {
        text.push_str(&body);
    } else {
        body.lines().for_each(|line| text.push_str(&format!("  #{line}\n")));
    }
    text
}

/// A host's name for a server under our rule: lower case letters, digits and dashes, a letter first.
fn normal(given: &str) -> String {
    let mut id = String::new();
    let mut hump = false;
    for c in given.chars() {
        if c.is_ascii_uppercase() && hump {
            id.push('-');
        }
        hump = c.is_ascii_lowercase();
        id.push(if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
        if id.len() >= 64 {
            break;
        }
    }
    let words: Vec<_> = id.split('-').filter(|word| !word.is_empty()).collect();
    let id = words.join("-");
    let id = if id.starts_with(|c: char| c.is_ascii_lowercase()) { id } else { format!("s-{id}") };
    // Cut early enough for a number behind it.
    let id = if super::check::valid_id(&id) { id } else { id.chars().take(28).collect() };
    id.trim_end_matches('-').to_owned()
}

fn unique(id: &str, taken: &mut BTreeSet<String>) -> String {
    let short: String = id.chars().take(26).collect();
    let numbered = (2..10_000).map(|n| format!("{short}-{n}"));
    let free = std::iter::once(id.to_owned()).chain(numbered).find(|id| !taken.contains(id));
    let free = free.unwrap_or_else(|| id.to_owned());
    taken.insert(free.clone());
    free
}

#[cfg(test)]
mod tests;
