//! Entries of lists (tools, prompts, resources, templates): which are fit to be shown, and their exposed form. A bad
//! entry costs itself alone; names and texts are never judged, only what would break a client's parser.

use crate::era::Era;
use crate::json::{Edit, Kind, Member, Raw};
use crate::{method, param};

#[cfg(test)]
mod tests;

/// Longest tool or prompt name, in bytes.
pub const MAX_NAME: usize = 128;
/// Longest resource URI or template, in bytes.
pub const MAX_URI: usize = 8192;

/// What a list lists.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EntryKind {
    /// `tools/list`
    Tool,
    /// `prompts/list`
    Prompt,
    /// `resources/list`
    Resource,
    /// `resources/templates/list`
    Template,
}

impl EntryKind {
    /// All kinds.
    pub const ALL: [EntryKind; 4] =
        [EntryKind::Tool, EntryKind::Prompt, EntryKind::Resource, EntryKind::Template];

    /// The method that lists them.
    pub const fn list_method(self) -> &'static str {
        match self {
            EntryKind::Tool => method::TOOLS_LIST,
            EntryKind::Prompt => method::PROMPTS_LIST,
            EntryKind::Resource => method::RESOURCES_LIST,
            EntryKind::Template => method::TEMPLATES_LIST,
        }
    }

    /// The member of its result that holds them.
    pub const fn result_member(self) -> &'static str {
        match self {
            EntryKind::Tool => "tools",
            EntryKind::Prompt => "prompts",
            EntryKind::Resource => "resources",
            EntryKind::Template => "resourceTemplates",
        }
    }

    /// The member of an entry that it is called by.
    pub const fn id_member(self) -> &'static str {
        match self {
            EntryKind::Tool | EntryKind::Prompt => "name",
            EntryKind::Resource => "uri",
            EntryKind::Template => "uriTemplate",
        }
    }
}

/// An entry that is fit to be shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its name, URI or template, the server's own.
    pub key: String,
    /// Its bytes as the server sent them, but for optional members that are `null` (see [`check`]).
    pub raw: Raw,
}

/// The kind that an optional member must have.
fn optional(kind: EntryKind, member: &str) -> Option<Kind> {
    Some(match (kind, member) {
        (_, "title" | "description") => Kind::String,
        (_, "icons") => Kind::Array,
        (_, "_meta") => Kind::Object,
        (EntryKind::Tool, "annotations" | "outputSchema" | "execution") => Kind::Object,
        (EntryKind::Prompt, "arguments") => Kind::Array,
        (EntryKind::Resource | EntryKind::Template, "annotations") => Kind::Object,
        (EntryKind::Resource | EntryKind::Template, "mimeType") => Kind::String,
        (EntryKind::Resource, "size") => Kind::Number,
        _ => return None,
    })
}

/// Checks one entry against what the specification demands of it in any era: clients that check a whole list lose all of
/// it to one bad entry. Unknown members are not looked at. Optional members that are `null` are taken out, which
/// clients without a null for them would choke on; all else keeps its bytes.
///
/// # Errors
/// Why the entry is dropped, for logs and `/status`.
pub fn check(kind: EntryKind, raw: &Raw) -> Result<Entry, &'static str> {
    if !raw.is_object() {
        return Err("not an object");
    }
    let key = key(kind, raw)?;
    if matches!(kind, EntryKind::Resource | EntryKind::Template)
        && !raw.get("name").is_some_and(|name| name.is_string())
    {
        return Err("name is missing or not a string");
    }
    for member in raw.view() {
        let name = member.name();
        let Some(expected) = optional(kind, &name) else { continue };
        let value = member.value();
        if value.is_null() {
            continue;
        }
        if value.kind() != expected {
            return Err("an optional member has the wrong type");
        }
        inner(kind, &name, &value)?;
    }
    if kind == EntryKind::Tool {
        input_schema(raw)?;
    }
    let raw = raw.edit(&[], |member| tidy(kind, member));
    Ok(Entry { key, raw })
}

/// Takes out `null` where the specification has an optional member: in the entry, in annotations, icons and arguments.
fn tidy(kind: EntryKind, member: &Member<'_>) -> Edit {
    let name = member.name();
    if optional(kind, &name).is_none() {
        return Edit::Keep;
    }
    if member.is_null() {
        return Edit::Drop;
    }
    let old = member.value();
    let new = match name.as_ref() {
        "annotations" => without_nulls(&old),
        "icons" | "arguments" => old.edit_elements(|item| shorter(item, without_nulls(item))),
        _ => return Edit::Keep,
    };
    shorter(&old, new)
}

fn without_nulls(object: &Raw) -> Raw {
    object.edit(&[], |member| if member.is_null() { Edit::Drop } else { Edit::Keep })
}

fn shorter(old: &Raw, new: Raw) -> Edit {
    if new.len() < old.len() { Edit::Replace(new) } else { Edit::Keep }
}

fn key(kind: EntryKind, raw: &Raw) -> Result<String, &'static str> {
    let is_name = matches!(kind, EntryKind::Tool | EntryKind::Prompt);
    let max = if is_name { MAX_NAME } else { MAX_URI };
    let value = raw.get(kind.id_member()).ok_or("name or URI is missing")?;
    // At most six bytes of escape stand for one: what is longer needs no copy to be refused.
    let text = if value.len() > max * 6 + 2 { None } else { value.string() };
    let text = text.ok_or(if value.is_string() {
        "name or URI is too long"
    } else {
        "name or URI is not a string"
    })?;
    if text.len() > max {
        return Err("name or URI is too long");
    }
    if text.chars().any(char::is_control) {
        return Err("name or URI holds a control character");
    }
    if text.trim().is_empty() {
        return Err("name or URI is empty");
    }
    if kind == EntryKind::Resource && !has_scheme(&text) {
        return Err("URI has no scheme");
    }
    Ok(text)
}

/// RFC 3986 section 3: a URI begins with its scheme.
fn has_scheme(uri: &str) -> bool {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// What lies inside optional members, as far as clients' parsers look.
fn inner(kind: EntryKind, member: &str, value: &Raw) -> Result<(), &'static str> {
    let named = |item: Raw, key: &str| item.get(key).is_some_and(|name| name.is_string());
    match member {
        "icons" if !value.elements().all(|icon| named(icon, "src")) => Err("an icon has no src"),
        "arguments" if !value.elements().all(|argument| named(argument, "name")) => {
            Err("a prompt argument has no name")
        }
        "annotations" if kind == EntryKind::Tool => {
            let hints = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
            let bad = hints
                .iter()
                .filter_map(|hint| value.get(hint))
                .any(|hint| hint.boolean().is_none() && !hint.is_null());
            if bad { Err("an annotation is not a boolean") } else { Ok(()) }
        }
        _ => Ok(()),
    }
}

/// The input schema must be an object that describes objects; the rest of it is for a validator.
fn input_schema(raw: &Raw) -> Result<(), &'static str> {
    let schema = raw.get("inputSchema").ok_or("inputSchema is missing")?;
    if !schema.is_object() {
        return Err("inputSchema is not an object");
    }
    if !schema.get("type").is_some_and(|kind| kind.is_text("object")) {
        return Err("inputSchema is not of type object");
    }
    let properties = schema.get("properties");
    let subschema = |value: Raw| matches!(value.kind(), Kind::Object | Kind::Bool);
    if properties.is_some_and(|all| !all.is_object() || !all.members().all(|(_, value)| subschema(value))) {
        return Err("inputSchema.properties holds something that is no schema");
    }
    let required = schema.get("required");
    if required.is_some_and(|names| !names.is_array() || !names.elements().all(|name| name.is_string())) {
        return Err("inputSchema.required is not a list of names");
    }
    param::from_schema(&schema).map(drop)
}

/// The entry under another name, and with another description when one is given (added at the end if there was none).
/// All other bytes stay.
pub fn rewrite(entry: &Entry, kind: EntryKind, exposed_key: &str, description: Option<&str>) -> Raw {
    let described = entry.raw.view().any(|member| member.is("description"));
    let added: Vec<(&str, Raw)> = match description {
        Some(text) if !described => vec![("description", Raw::from_str_value(text))],
        _ => Vec::new(),
    };
    entry.raw.edit(&added, |member| {
        if member.is(kind.id_member()) {
            return Edit::Replace(Raw::from_str_value(exposed_key));
        }
        match description {
            Some(text) if member.is("description") => Edit::Replace(Raw::from_str_value(text)),
            _ => Edit::Keep,
        }
    })
}

/// What a client of this era can parse of a checked entry: to legacy clients an output schema is an object's (2025-11-25
/// and earlier), so one of another type is left out, and with it what the bridge leaves out of results.
pub fn for_client(raw: &Raw, kind: EntryKind, client: Era) -> Raw {
    if kind != EntryKind::Tool || client == Era::Modern {
        return raw.clone();
    }
    let of_objects = |schema: &Raw| schema.get("type").is_some_and(|kind| kind.is_text("object"));
    match raw.get("outputSchema") {
        Some(schema) if !of_objects(&schema) => raw.without("outputSchema"),
        _ => raw.clone(),
    }
}
