//! Cuts a result down to its caps: whole items while they fit, then the beginning of a text, then a mark. The result
//! stays valid JSON, and says of itself that it was cut.

use std::fmt::Write;
use std::ops::Range;

use serde_json::Value;

use super::layout::{Item, Layout, members};
use super::{Capped, Caps, Cut, Structured, TooLarge};
use crate::splice;

/// Room for the marks, with the longest numbers in them.
const MARKS: usize = 512;
/// The key of the mark for programs.
const META: &str = "dev.tollgate/truncated";
/// Shortest beginning of a text that is worth keeping, in bytes.
const LEAST: usize = 32;

pub(super) fn cut<'a>(
    result: &'a str,
    layout: &Layout,
    caps: &Caps,
    promised: bool,
) -> Result<Capped<'a>, TooLarge> {
    let size = |part: &Option<Range<usize>>| part.as_ref().map_or(0, Range::len);
    let fixed = result.len() - size(&layout.content) - size(&layout.structured) + MARKS;
    let too_large = TooLarge::Bytes { has: result.len(), cap: caps.bytes };
    let mut room = caps.bytes.checked_sub(fixed).ok_or(too_large)?;
    let structured = match &layout.structured {
        None => Structured::None,
        Some(part) if part.len() <= room => {
            room -= part.len();
            Structured::Kept
        }
        Some(part) if promised && !layout.is_error => {
            return Err(TooLarge::Structured { has: part.len(), cap: caps.bytes });
        }
        Some(_) => Structured::Dropped,
    };
    let kept = items(result, layout, room, structured);
    let cut = Cut {
        bytes: result.len(),
        items: layout.items,
        kept_bytes: kept.iter().map(String::len).sum(),
        kept_items: kept.len(),
        structured,
    };
    let text = written(result, layout, kept, &cut)?;
    Ok(Capped::Cut(text, cut))
}

/// The items that fit, the last of them perhaps shortened.
fn items(result: &str, layout: &Layout, mut room: usize, structured: Structured) -> Vec<String> {
    let whole = structured_value(result, layout).filter(|_| structured == Structured::Kept);
    let mut kept = Vec::new();
    for item in layout.kept.iter().filter(|item| !item.over) {
        if item.span.len() < room {
            room -= item.span.len() + 1;
            kept.push(result.get(item.span.clone()).unwrap_or_default().to_owned());
            continue;
        }
        let Some(text) = &item.text else { continue };
        // Half the text form beside the whole structured content would say something else than it.
        if whole.as_ref().is_some_and(|whole| is_twin(result, text, whole)) {
            continue;
        }
        kept.extend(shortened(result, item, text, room));
        break;
    }
    kept
}

fn structured_value(result: &str, layout: &Layout) -> Option<Value> {
    serde_json::from_str(result.get(layout.structured.clone()?)?).ok()
}

fn is_twin(result: &str, text: &Range<usize>, structured: &Value) -> bool {
    let said = splice::unquoted(result, text);
    serde_json::from_str::<Value>(&said).is_ok_and(|value| value == *structured)
}

fn shortened(result: &str, item: &Item, text: &Range<usize>, room: usize) -> Option<String> {
    let around = item.span.len() - text.len();
    let room = room.checked_sub(around + 3).filter(|room| *room >= LEAST)?;
    let said = splice::unquoted(result, text);
    let mut used = 0;
    let end = said.char_indices().find_map(|(at, char)| {
        used += match char {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            control if u32::from(control) < 0x20 => 6,
            other => other.len_utf8(),
        };
        (used > room).then_some(at)
    });
    let start = splice::quoted(said.get(..end.unwrap_or(said.len()))?);
    let before = result.get(item.span.start..text.start)?;
    let after = result.get(text.end..item.span.end)?;
    Some(format!("{before}{start}{after}"))
}

/// The result from its members, with everything but the content, the structured content and `_meta` as it came.
fn written(result: &str, layout: &Layout, mut kept: Vec<String>, cut: &Cut) -> Result<String, TooLarge> {
    kept.push(format!(r#"{{"type":"text","text":{}}}"#, splice::quoted(&mark(cut))));
    let content = format!("[{}]", kept.join(","));
    let mut out = String::from("{");
    let mut member = |key: &str, value: &str| {
        let comma = if out.len() > 1 { "," } else { "" };
        // Writing to a string can't fail.
        let _ = write!(out, "{comma}{key}:{value}");
    };
    for part in &layout.members {
        let value = Some(&part.value);
        let key = result.get(part.key.clone()).unwrap_or_default();
        if value == layout.content.as_ref() {
            member(key, &content);
        } else if value == layout.meta.as_ref()
            || value == layout.structured.as_ref().filter(|_| dropped(cut))
        {
            continue;
        } else {
            member(key, result.get(part.value.clone()).unwrap_or_default());
        }
    }
    if layout.content.is_none() {
        member("\"content\"", &content);
    }
    member("\"_meta\"", &meta(result, layout, cut)?);
    out.push('}');
    Ok(out)
}

fn dropped(cut: &Cut) -> bool {
    cut.structured == Structured::Dropped
}

fn mark(cut: &Cut) -> String {
    let Cut { bytes, items, kept_bytes, kept_items, structured } = cut;
    let more = match structured {
        Structured::None => "",
        Structured::Kept => "; the structured content is whole",
        Structured::Dropped => "; the structured content is left out",
    };
    format!(
        "[truncated by the gateway: {kept_items} of {items} items and {kept_bytes} of {bytes} bytes are kept{more}]"
    )
}

/// `_meta` as it came, and the mark for programs. One that the server sent under the same key is left out.
fn meta(result: &str, layout: &Layout, cut: &Cut) -> Result<String, TooLarge> {
    let meta = layout.meta.clone().and_then(|span| result.get(span)).unwrap_or("{}");
    let mut out = String::from("{");
    for member in members(meta)? {
        if splice::unquoted(meta, &member.key) != META {
            let part = |span: Range<usize>| meta.get(span).unwrap_or_default();
            let _ = write!(out, "{}:{},", part(member.key), part(member.value));
        }
    }
    let structured = match cut.structured {
        Structured::None => "none",
        Structured::Kept => "kept",
        Structured::Dropped => "dropped",
    };
    let Cut { bytes, items, kept_bytes, kept_items, .. } = cut;
    let _ = write!(
        out,
        r#""{META}":{{"bytes":{bytes},"items":{items},"kept_bytes":{kept_bytes},"kept_items":{kept_items},"structured":"{structured}"}}}}"#
    );
    Ok(out)
}
