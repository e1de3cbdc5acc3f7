//! JSON for people's eyes: confirmation questions and log lines. Secrets are taken out before anything is cut, so that
//! no half of one is left; what comes out is one line without control characters.

use super::Redactor;
use crate::controls::{self, Strip};

/// `json` without secrets and hidden characters, on one line of at most `max_bytes`; a cut ends in `…`. What is no JSON
/// is not shown at all.
pub fn mask(json: &str, redactor: &Redactor, max_bytes: usize) -> String {
    let strip = Strip::ALL;
    let Ok(visible) = controls::json(json, &strip) else { return "[not shown: no JSON]".into() };
    let Ok(redacted) = redactor.json(&visible.text) else { return "[not shown: no JSON]".into() };
    let mut line: String = redacted
        .text
        .chars()
        // A text that only looks like JSON may hold control characters as they are.
        .map(|c| if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') { ' ' } else { c })
        .collect();
    if line.len() > max_bytes {
        let mark = "…";
        line.truncate(line.floor_char_boundary(max_bytes.saturating_sub(mark.len())));
        if max_bytes >= mark.len() {
            line.push_str(mark);
        }
    }
    line
}
