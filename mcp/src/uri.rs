//! Resource URIs as clients see them, and back, also inside results. Changes those strings alone; every other byte stays.

use crate::json::{Edit, Raw};
use crate::naming::is_server_id;

#[cfg(test)]
mod tests;

/// The scheme of MCP Apps: hosts look at it, so it stays in front.
const UI: &str = "ui://";

/// The exposed URI: `{server}+{uri}`; `ui://…` becomes `ui://{server}/…`; `https:` URIs stay, and who listed them is who
/// serves them.
pub fn expose(server: &str, uri: &str) -> String {
    if is_https(uri) {
        return uri.to_owned();
    }
    match uri.strip_prefix(UI) {
        Some(rest) => format!("{UI}{server}/{rest}"),
        None => format!("{server}+{uri}"),
    }
}

/// Server and its own URI of an exposed one. None for `https:` and for whatever names no server; the caller knows which
/// servers there are.
pub fn split(exposed: &str) -> Option<(String, String)> {
    let (server, uri) = match exposed.strip_prefix(UI) {
        Some(rest) => {
            let (server, rest) = rest.split_once('/')?;
            (server, format!("{UI}{rest}"))
        }
        None => {
            let (server, uri) = exposed.split_once('+')?;
            (server, uri.to_owned())
        }
    };
    (is_server_id(server) && !uri.is_empty()).then(|| (server.to_owned(), uri))
}

/// Schemes are case-insensitive (RFC 3986 section 3.1).
fn is_https(uri: &str) -> bool {
    uri.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"))
}

/// What a value is, and so where its URIs are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultKind {
    /// The result of `tools/call`: links and embedded resources in `content`.
    ToolCall,
    /// The result of `prompts/get`: the same in each message's `content`.
    Prompt,
    /// The result of `resources/read`: `contents[].uri`.
    Read,
    /// One entry of `tools/list`: `_meta.ui.resourceUri` and the older `_meta["ui/resourceUri"]` (MCP Apps).
    ToolEntry,
    /// The `data` of an error, or the params of `notifications/resources/updated`: `uri`.
    Uri,
}

/// Exposes the URIs inside a server's result. Shares the buffer when there are none.
pub fn expose_in_result(server: &str, result: &Raw, kind: ResultKind) -> Raw {
    match kind {
        ResultKind::ToolCall => within(result, "content", |items| content(server, items)),
        ResultKind::Prompt => within(result, "messages", |messages| {
            each(messages, |message| within(message, "content", |item| content(server, item)))
        }),
        ResultKind::Read => within(result, "contents", |items| {
            each(items, |item| within(item, "uri", |uri| exposed(server, uri)))
        }),
        ResultKind::ToolEntry => within(result, "_meta", |meta| {
            let meta = within(meta, "ui", |ui| within(ui, "resourceUri", |uri| exposed(server, uri)));
            within(&meta, "ui/resourceUri", |uri| exposed(server, uri))
        }),
        ResultKind::Uri => within(result, "uri", |uri| exposed(server, uri)),
    }
}

/// A content item, or an array of them.
fn content(server: &str, raw: &Raw) -> Raw {
    if raw.is_array() {
        return each(raw, |item| if item.is_array() { item.clone() } else { content(server, item) });
    }
    let Some(kind) = raw.get("type") else { return raw.clone() };
    if kind.is_text("resource_link") {
        within(raw, "uri", |uri| exposed(server, uri))
    } else if kind.is_text("resource") {
        within(raw, "resource", |resource| within(resource, "uri", |uri| exposed(server, uri)))
    } else {
        raw.clone()
    }
}

fn exposed(server: &str, uri: &Raw) -> Raw {
    match uri.string() {
        Some(text) if !is_https(&text) => Raw::from_str_value(&expose(server, &text)),
        _ => uri.clone(),
    }
}

/// Keeps what did not change, so that nothing is copied for it.
fn changed(old: &Raw, new: Raw) -> Edit {
    let same = old.bytes().as_ptr() == new.bytes().as_ptr() && old.len() == new.len();
    if same { Edit::Keep } else { Edit::Replace(new) }
}

fn within(object: &Raw, key: &str, change: impl Fn(&Raw) -> Raw) -> Raw {
    object.edit(&[], |member| {
        if !member.is(key) {
            return Edit::Keep;
        }
        let value = member.value();
        changed(&value, change(&value))
    })
}

fn each(array: &Raw, change: impl Fn(&Raw) -> Raw) -> Raw {
    array.edit_elements(|item| changed(item, change(item)))
}
