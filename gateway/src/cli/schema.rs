//! `tollgate schema`: the JSON Schema of the configuration file, for editors and other checkers.

use std::io::Write;

use clap::Args;

use crate::config;

/// Print the JSON Schema of the configuration file.
#[derive(Debug, Args)]
pub struct SchemaArgs {}

/// Runs the command: 0, or 1 when `out` can't be written.
pub fn run(_: &SchemaArgs, out: &mut dyn Write, _: &mut dyn Write) -> u8 {
    let written = serde_json::to_string_pretty(&config::schema())
        .map_err(Into::into)
        .and_then(|text| writeln!(out, "{text}"));
    u8::from(written.is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_the_schema() {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        assert_eq!(run(&SchemaArgs {}, &mut out, &mut err), 0);
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&out).unwrap(), config::schema());
        assert!(err.is_empty());
    }
}
