//! Writing YAML: one value on one line, quoted wherever YAML could take it for something else.

/// A text as a YAML scalar.
pub(super) fn scalar(text: &str) -> String {
    let first = text.starts_with(|c: char| c.is_ascii_alphabetic() || "/._".contains(c));
    let rest = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-@+=".contains(&b));
    // Also what other readers of YAML take for truth values and numbers.
    let word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let number =
        text.trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit()) || text.starts_with('.');
    if first && rest && !number && !word.contains(&text.to_ascii_lowercase().as_str()) {
        return text.to_owned();
    }
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{FEFF}') => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A list on one line.
pub(super) fn list(items: &[String]) -> String {
    format!("[{}]", items.iter().map(|item| scalar(item)).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::document;

    #[test]
    fn read_back_as_the_same_text() {
        for text in [
            "",
            "npx",
            "-y",
            "@scope/pkg",
            "true",
            "No",
            "12",
            "1.5",
            ".5",
            "a: b",
            "a #b",
            "{x}",
            "[x]",
            "*a",
            "&a",
            "!t",
            "quote\"d",
            "back\\slash",
            "two\nlines",
            "tab\t",
            "\u{1}",
            "\u{85}",
            "\u{2028}",
            "ünï",
            "😀",
            "env:A",
            "~",
            "- a",
            "a,b",
            "null",
            "./x",
            "/srv/docs",
            "..",
            "%",
            "`",
            "\u{FEFF}",
            "\u{7f}",
            "\r",
        ] {
            let yaml = format!("a: {}\nb: {}\n", scalar(text), list(&[text.to_owned(), "x".into()]));
            let document =
                document::parse(yaml.as_bytes()).unwrap_or_else(|faults| panic!("{text:?}: {faults:?}"));
            assert_eq!(document.root, serde_json::json!({ "a": text, "b": [text, "x"] }), "{yaml}");
        }
    }
}
