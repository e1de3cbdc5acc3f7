//! How texts, amounts and tables are printed: nothing that a stranger wrote can steer a terminal.

use std::borrow::Cow;
use std::io::{self, Write};

use policies::money::NanoUsd;

/// A text with everything escaped that a terminal could act on or that could reorder a line: control characters,
/// line and paragraph separators, directional and invisible format characters.
pub(super) fn safe(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if steers(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Dollars, exactly.
pub(super) fn usd(nanos: u64) -> String {
    NanoUsd::from_nanos(nanos).to_string()
}

/// Columns of texts, the numeric ones to the right.
pub(super) struct Table {
    right: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these headings; one that begins with `>` is of a column whose texts stand to the right.
    pub(super) fn new<'a>(headings: impl IntoIterator<Item = &'a str>) -> Table {
        let mut table = Table { right: Vec::new(), rows: vec![Vec::new()] };
        let mut first = Vec::new();
        for heading in headings {
            table.right.push(heading.starts_with('>'));
            first.push(heading.trim_start_matches('>').to_uppercase());
        }
        table.rows = vec![first];
        table
    }

    /// Adds a row; texts are made safe.
    pub(super) fn row<'a>(&mut self, cells: impl IntoIterator<Item = Cow<'a, str>>) {
        self.rows.push(cells.into_iter().map(|cell| safe(&cell).into_owned()).collect());
    }

    /// Prints it.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let wide = |row: &Vec<String>, at: usize| row.get(at).map_or(0, |cell| cell.chars().count());
        let widths: Vec<usize> = (0..self.right.len())
            .map(|at| self.rows.iter().map(|row| wide(row, at)).max().unwrap_or(0))
            .collect();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, width), right) in row.iter().zip(&widths).zip(&self.right) {
                let cell = if *right { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
                line.push_str(&cell);
                line.push_str("  ");
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_printed_steers_a_terminal() {
        assert_eq!(safe("docs/search é 日本"), "docs/search é 日本");
        for hostile in ["\u{1b}[2J", "a\nb", "\r", "\u{7f}", "\u{9b}31m", "\u{202e}", "\u{2028}", "\u{200b}"]
        {
            let shown = safe(hostile);
            assert!(!shown.chars().any(steers), "{hostile:?}: {shown:?}");
            assert!(shown.contains("\\u{"), "{shown:?}");
        }
    }

    #[test]
    fn columns_line_up_and_amounts_are_exact() {
        let mut table = Table::new(["name", ">usd"]);
        table.row(["a".into(), usd(1).into()]);
        table.row(["longer\u{1b}".into(), usd(2_000_000_000).into()]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() == lines[0].chars().count()), "{text}");
        assert!(lines[1].ends_with("0.000000001"), "{text}");
    }
}
