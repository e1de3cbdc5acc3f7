//! Headers that mirror the body (SEP-2243): their encoding, and proof that they agree with it. The body is what counts;
//! a header alone never decides anything.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::json::Raw;
use crate::method;

/// Marks a value that is Base64 of UTF-8; case-sensitive.
const PREFIX: &str = "=?base64?";
/// Ends it.
const SUFFIX: &str = "?=";
/// How much of a value an error repeats, in characters.
const SHOWN: usize = 64;

/// A header and the body disagree: the message of error -32020. Printable ASCII, bounded, fit for the sender.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("Header mismatch: {0}")]
pub struct MirrorError(pub(crate) String);

/// Every value received of each standard header, as bytes, so that repeated headers are seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received<'a> {
    /// `MCP-Protocol-Version`
    pub version: &'a [&'a [u8]],
    /// `Mcp-Method`
    pub method: &'a [&'a [u8]],
    /// `Mcp-Name`
    pub name: &'a [&'a [u8]],
}

/// What the body says.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a> {
    /// `_meta`'s protocol version. Without one only the header's own form is checked.
    pub version: Option<&'a str>,
    /// The method.
    pub method: &'a str,
    /// The params, where the mirrored name is.
    pub params: Option<&'a Raw>,
    /// Whether headers may not be missing: true for requests. For notifications the specification demands none, but
    /// those that are there must agree.
    pub required: bool,
}

/// Whether a value stands in a header as it is: visible ASCII, inner spaces and tabs, not like a marked value.
fn is_plain(value: &str) -> bool {
    let visible = value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
    let trimmed = value.trim_matches([' ', '\t']).len() == value.len();
    visible && trimmed && !(value.starts_with(PREFIX) && value.ends_with(SUFFIX))
}

/// A value as a header carries it.
pub fn encode_value(value: &str) -> String {
    if is_plain(value) { value.to_owned() } else { format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(value)) }
}

/// The value that a header carries. Decoded once only: a marked value inside a marked value is text.
///
/// # Errors
/// A marked value whose Base64 is not canonical or not UTF-8.
pub fn decode_value(value: &str) -> Result<String, MirrorError> {
    if !(value.starts_with(PREFIX) && value.ends_with(SUFFIX)) {
        return Ok(value.to_owned());
    }
    let bad = || MirrorError("a Base64 value is malformed".to_owned());
    let encoded = value.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)).ok_or_else(bad)?;
    let bytes = STANDARD.decode(encoded).map_err(|_| bad())?;
    String::from_utf8(bytes).map_err(|_| bad())
}

/// Checks `MCP-Protocol-Version`, `Mcp-Method` and, where the method has one, `Mcp-Name` against the body. Values are
/// case-sensitive; whitespace around them does not count. A body without the mirrored name passes: that is error
/// -32602 and another's to find.
///
/// # Errors
/// The first header that is missing, repeated, malformed or different.
pub fn check_standard(received: &Received<'_>, body: &Body<'_>) -> Result<(), MirrorError> {
    let version = single("MCP-Protocol-Version", received.version, body.required)?;
    if let (Some(header), Some(expected)) = (version, body.version) {
        agree("MCP-Protocol-Version", header, expected)?;
    }
    if let Some(header) = single("Mcp-Method", received.method, body.required)? {
        agree("Mcp-Method", header, body.method)?;
    }
    let Some(member) = method::mirrored_name(body.method) else { return Ok(()) };
    let expected = body.params.and_then(|params| params.get(member)).and_then(|name| name.string());
    let Some(expected) = expected else { return Ok(()) };
    if let Some(header) = single("Mcp-Name", received.name, body.required)? {
        let header =
            decode_value(header).map_err(|_| MirrorError("Mcp-Name holds malformed Base64".to_owned()))?;
        agree("Mcp-Name", &header, &expected)?;
    }
    Ok(())
}

fn agree(name: &str, header: &str, expected: &str) -> Result<(), MirrorError> {
    if header == expected {
        return Ok(());
    }
    let (header, expected) = (shown(header), shown(expected));
    Err(MirrorError(format!("{name} header value '{header}' does not match body value '{expected}'")))
}

/// The one value of a header, trimmed.
fn single<'a>(name: &str, values: &[&'a [u8]], required: bool) -> Result<Option<&'a str>, MirrorError> {
    match values {
        [] if required => Err(MirrorError(format!("{name} header is missing"))),
        [] => Ok(None),
        [value] => printable(value)
            .map(Some)
            .ok_or_else(|| MirrorError(format!("{name} header has invalid characters"))),
        _ => Err(MirrorError(format!("{name} header is given more than once"))),
    }
}

/// A header value without the whitespace around it, if all of it is visible ASCII, spaces and tabs.
pub(crate) fn printable(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?.trim_matches([' ', '\t']);
    text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')).then_some(text)
}

/// A value as an error may repeat it.
fn shown(value: &str) -> Cow<'_, str> {
    if value.len() <= SHOWN && value.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(value);
    }
    let safe = value.chars().take(SHOWN).map(|c| if matches!(c, ' '..='~') { c } else { '?' });
    Cow::Owned(safe.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Limits;

    fn check(version: &[&str], method: &[&str], name: &[&str], body: (&str, &str)) -> Result<(), String> {
        let bytes = |values: &[&'static str]| values.iter().map(|value| value.as_bytes()).collect::<Vec<_>>();
        let leak =
            |values: &[&str]| values.iter().map(|v| &*v.to_string().leak()).collect::<Vec<&'static str>>();
        let (version, method, name) = (bytes(&leak(version)), bytes(&leak(method)), bytes(&leak(name)));
        let params = Raw::parse(body.1.to_owned().into(), &Limits::REQUEST).unwrap();
        let received = Received { version: &version, method: &method, name: &name };
        let body =
            Body { version: Some("2026-07-28"), method: body.0, params: Some(&params), required: true };
        check_standard(&received, &body).map_err(|error| error.to_string())
    }

    const V: &[&str] = &["2026-07-28"];
    const CALL: (&str, &str) = ("tools/call", r#"{"name":"danger"}"#);

    #[test]
    fn m1_method_differs_from_the_body() {
        assert_eq!(check(V, &["tools/call"], &["danger"], CALL), Ok(()));
        let error = check(V, &["tools/list"], &["danger"], CALL).unwrap_err();
        assert_eq!(
            error,
            "Header mismatch: Mcp-Method header value 'tools/list' does not match body value 'tools/call'"
        );
        for method in
            [&["TOOLS/CALL"][..], &[], &["tools/call", "tools/call"], &["tools/call, tools/call"], &[""]]
        {
            assert!(check(V, method, &["danger"], CALL).is_err(), "{method:?}");
        }
        // A method is never marked Base64.
        assert!(check(V, &[&encode_value("tools/call\n")], &["danger"], CALL).is_err());
    }

    #[test]
    fn m2_name_differs_is_missing_doubled_cased_or_padded() {
        for name in [
            &["safe"][..],
            &[],
            &["danger", "danger"],
            &["safe", "danger"],
            &["Danger"],
            &["dan ger"],
            &["danger,danger"],
        ] {
            assert!(check(V, &["tools/call"], name, CALL).is_err(), "{name:?}");
        }
        assert_eq!(
            check(V, &["tools/call"], &[" \tdanger "], CALL),
            Ok(()),
            "outer whitespace does not count"
        );
        assert!(check(V, &["tools/call"], &["danger\u{a0}"], CALL).is_err());
        assert!(check(V, &["tools/call"], &["dan\u{0}ger"], CALL).is_err());
        let read = ("resources/read", r#"{"uri":"file:///a"}"#);
        assert_eq!(check(V, &["resources/read"], &["file:///a"], read), Ok(()));
        assert!(check(V, &["resources/read"], &["file:///b"], read).is_err());
        // Methods without a mirrored name ignore the header; a body without a name is another error.
        assert_eq!(check(V, &["tools/list"], &["x"], ("tools/list", "{}")), Ok(()));
        assert_eq!(check(V, &["tools/call"], &[], ("tools/call", r#"{"name":1}"#)), Ok(()));
    }

    #[test]
    fn m3_encoded_names_are_decoded_then_compared() {
        let named = |name: &str, header: &str| {
            let params = format!("{{\"name\":{}}}", Raw::from_str_value(name).as_str());
            check(V, &["tools/call"], &[header], ("tools/call", &params))
        };
        assert_eq!(named("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="), Ok(()));
        assert_eq!(named("danger", "=?base64?ZGFuZ2Vy?="), Ok(()), "needlessly encoded is still equal");
        assert_eq!(named("a\r\nb", "=?base64?YQ0KYg==?="), Ok(()));
        for (name, header) in [
            ("Hello", "=?base64?SGVsbG8?="),
            ("Hello", "=?base64?SGVs!!!bG8=?="),
            ("Hello", "=?base64?SGVsbG9=?="),
            ("Hello", "=?base64?SGVsbG8= ?="),
            ("Hello", "=?BASE64?SGVsbG8=?="),
            ("Hello", "=?base64?/w==?="),
            ("?", "=?base64?/w==?="),
            ("", "=?base64?="),
            ("=?base64?=", "=?base64?="),
            ("danger", "=?base64?PT9iYXNlNjQ/WkdGdVoyVnk/PQ==?="),
            ("a", "=?base64?YQ0KYg==?="),
            ("世界", "世界"),
        ] {
            assert!(named(name, header).is_err(), "{name} {header}");
        }
        // Without both marks it is plain text.
        assert_eq!(named("=?base64?SGVsbG8=", "=?base64?SGVsbG8="), Ok(()));
        assert_eq!(named("SGVsbG8=?=", "SGVsbG8=?="), Ok(()));
        assert_eq!(named("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="), Ok(()));
    }

    #[test]
    fn j12_version_header_is_absent_or_differs() {
        for version in [&[][..], &["2025-03-26"], &["2026-07-28", "2026-07-28"], &["2026-07-28x"]] {
            assert!(check(version, &["tools/call"], &["danger"], CALL).is_err(), "{version:?}");
        }
    }

    #[test]
    fn notifications_may_leave_headers_out_but_not_lie() {
        let body = Body { version: None, method: "notifications/cancelled", params: None, required: false };
        assert!(check_standard(&Received::default(), &body).is_ok());
        let received = Received { method: &[b"tools/call"], ..Received::default() };
        assert!(check_standard(&received, &body).is_err());
    }

    #[test]
    fn values_of_the_specification_encode_and_round_trip() {
        for (value, header) in [
            ("us-west1", "us-west1"),
            ("", ""),
            ("a b\tc", "a b\tc"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
            ("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="),
        ] {
            assert_eq!(encode_value(value), header);
            assert_eq!(decode_value(header).as_deref(), Ok(value));
        }
        for value in ["\u{7f}", "\0", "a\r", "\tx", "é"] {
            assert!(encode_value(value).starts_with(PREFIX), "{value:?}");
            assert_eq!(decode_value(&encode_value(value)).as_deref(), Ok(value));
        }
    }

    #[test]
    fn errors_are_printable_and_bounded() {
        let body = (("tools/call"), &*format!("{{\"name\":\"{}\"}}", "é".repeat(5000)));
        let error = check(V, &["tools/call"], &["x"], body).unwrap_err();
        assert!(error.len() < 300 && error.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{error}");
    }
}
