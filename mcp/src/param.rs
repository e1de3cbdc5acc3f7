//! Tool arguments mirrored into `Mcp-Param-*` headers (`x-mcp-header`, SEP-2243): which, how they are built, whether
//! received ones agree. Never repeats an argument's value in an error.

use crate::json::{Kind, Limits, Raw};
use crate::mirror::{MirrorError, decode_value, encode_value, printable};

mod number;
#[cfg(test)]
mod tests;

/// The annotation.
const KEYWORD: &str = "x-mcp-header";
/// What header names start with.
const HEADER: &str = "Mcp-Param-";
/// Longest name of an annotation, in bytes: a header line is bounded.
const MAX_NAME: usize = 128;
/// Deepest schema looked into; recursion is bounded by it.
const MAX_DEPTH: usize = 128;

/// One mirrored argument.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Param {
    /// `Mcp-Param-…` as the schema spells it.
    header: String,
    /// Property names from the root of the arguments.
    path: Vec<String>,
}

/// The mirrored arguments of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamHeaders(Vec<Param>);

/// Reads the annotations of an input schema.
///
/// # Errors
/// Why the tool must be left out: an annotation that is no header token, repeats another but for case, is on anything
/// but a string, an integer or a boolean, or is not reached through `properties` alone.
pub fn from_schema(input_schema: &Raw) -> Result<ParamHeaders, &'static str> {
    let mut found = ParamHeaders::default();
    let text = input_schema.bytes();
    // Nearly no schema has any; an escape could hide the keyword's spelling.
    let absent = |needle: &str| memchr::memmem::find(text, needle.as_bytes()).is_none();
    if !(absent(KEYWORD) && absent("\\u")) {
        collect(input_schema, Place::Chain(&mut Vec::new()), 0, &mut found.0)?;
    }
    Ok(found)
}

/// Where in a schema a subschema stands.
enum Place<'a> {
    /// Reached by `properties` alone, along these names.
    Chain(&'a mut Vec<String>),
    /// Anywhere else.
    Elsewhere,
}

impl Place<'_> {
    fn again(&mut self) -> Place<'_> {
        match self {
            Place::Chain(path) => Place::Chain(path),
            Place::Elsewhere => Place::Elsewhere,
        }
    }
}

fn collect(
    schema: &Raw,
    mut place: Place<'_>,
    depth: usize,
    out: &mut Vec<Param>,
) -> Result<(), &'static str> {
    if depth > MAX_DEPTH {
        return Err("input schema is nested too deeply");
    }
    for element in schema.elements() {
        collect(&element, Place::Elsewhere, depth + 1, out)?;
    }
    for member in schema.view() {
        let value = member.value();
        match member.name().as_ref() {
            KEYWORD => out.push(annotation(schema, &value, &mut place, out)?),
            "properties" => {
                for (name, property) in value.members() {
                    let Place::Chain(path) = &mut place else {
                        collect(&property, Place::Elsewhere, depth + 1, out)?;
                        continue;
                    };
                    path.push(name.to_string());
                    collect(&property, place.again(), depth + 1, out)?;
                    if let Place::Chain(path) = &mut place {
                        path.pop();
                    }
                }
            }
            // Their member names are names of the author, not keywords.
            "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies" => {
                for (_, subschema) in value.members() {
                    collect(&subschema, Place::Elsewhere, depth + 1, out)?;
                }
            }
            // Values, not schemas: whatever they hold annotates nothing.
            "default" | "const" | "enum" | "examples" => {}
            _ => collect(&value, Place::Elsewhere, depth + 1, out)?,
        }
    }
    Ok(())
}

fn annotation(
    schema: &Raw,
    value: &Raw,
    place: &mut Place<'_>,
    known: &[Param],
) -> Result<Param, &'static str> {
    let Place::Chain(path) = place else {
        return Err("x-mcp-header is not reached through properties alone");
    };
    if path.is_empty() {
        return Err("x-mcp-header stands at the root of the schema");
    }
    let name = value.string().ok_or("x-mcp-header is not a string")?;
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_token) {
        return Err("x-mcp-header is not an HTTP token of at most 128 bytes");
    }
    let kind = schema.get("type").and_then(|kind| kind.string());
    if !matches!(kind.as_deref(), Some("string" | "integer" | "boolean")) {
        return Err("x-mcp-header is on a property that is no string, integer or boolean");
    }
    let header = format!("{HEADER}{name}");
    if known.iter().any(|param| param.header.eq_ignore_ascii_case(&header)) {
        return Err("x-mcp-header is used twice");
    }
    Ok(Param { header, path: path.clone() })
}

/// `tchar` of RFC 9110.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}

impl Param {
    /// The argument, when it is there and not null.
    fn argument(&self, arguments: Option<&Raw>) -> Option<Raw> {
        let path: Vec<&str> = self.path.iter().map(String::as_str).collect();
        arguments?.at(&path).filter(|value| !value.is_null())
    }
}

/// The text of a value as a header carries it before encoding; none for objects and arrays, which the schema forbids.
fn text_of(value: &Raw) -> Option<String> {
    match value.kind() {
        Kind::String => value.string(),
        Kind::Number => {
            Some(number::integer_text(value.as_str()).unwrap_or_else(|| value.as_str().to_owned()))
        }
        Kind::Bool => Some(value.as_str().to_owned()),
        Kind::Object | Kind::Array | Kind::Null => None,
    }
}

/// Whether a decoded header value stands for this argument. Numbers are compared as numbers.
fn stands_for(header: &str, value: &Raw) -> bool {
    if value.kind() == Kind::Number {
        let parsed =
            Raw::parse(bytes::Bytes::copy_from_slice(header.as_bytes()), &Limits { depth: 0, nodes: 1 });
        return parsed.is_ok_and(|number| {
            number.len() == header.len()
                && number.kind() == Kind::Number
                && number::equal(header, value.as_str())
        });
    }
    text_of(value).is_some_and(|text| text == header)
}

impl ParamHeaders {
    /// Whether the tool mirrors no argument.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The headers for a call with these arguments: names as the schema spells them, values encoded. An argument that is
    /// absent or null has none.
    pub fn build(&self, arguments: Option<&Raw>) -> Vec<(String, String)> {
        let header = |param: &Param| {
            let text = text_of(&param.argument(arguments)?)?;
            Some((param.header.clone(), encode_value(&text)))
        };
        self.0.iter().filter_map(header).collect()
    }

    /// Checks received headers (names in lower case, every value of each) against the arguments. Headers that the schema
    /// does not know are not looked at.
    ///
    /// # Errors
    /// The first header that is missing, repeated, malformed, different, or there without its argument.
    pub fn check(
        &self,
        arguments: Option<&Raw>,
        received: &[(String, Vec<String>)],
    ) -> Result<(), MirrorError> {
        self.0.iter().try_for_each(|param| {
            let fail = |what: &str| Err(MirrorError(format!("{} header {what}", param.header)));
            let argument = param.argument(arguments);
            let mut values = received
                .iter()
                .filter(|(name, _)| name.eq_ignore_ascii_case(&param.header))
                .flat_map(|(_, values)| values);
            match (values.next(), argument) {
                (None, None) => Ok(()),
                (None, Some(argument)) if text_of(&argument).is_none() => Ok(()),
                (None, Some(_)) => fail("is missing"),
                (Some(_), None) => fail("is given, but the body has no such argument"),
                (Some(_), Some(_)) if values.next().is_some() => fail("is given more than once"),
                (Some(value), Some(argument)) => {
                    let Some(value) = printable(value.as_bytes()) else {
                        return fail("has invalid characters");
                    };
                    let Ok(value) = decode_value(value) else { return fail("holds malformed Base64") };
                    if stands_for(&value, &argument) { Ok(()) } else { fail("does not match the body") }
                }
            }
        })
    }
}
