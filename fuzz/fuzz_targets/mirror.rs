//! Mirrored headers: an encoded value decodes to itself and is safe in a header; what a header says is only
//! accepted when the body says the same; schemas and arguments of strangers never panic.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use mcp::json::{Limits, Raw};
use mcp::{method, mirror, param};

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        let encoded = mirror::encode_value(text);
        assert!(encoded.bytes().all(|b| (0x20..0x7f).contains(&b) || b == b'\t'));
        assert_eq!(mirror::decode_value(&encoded).ok().as_deref(), Some(text));
        let _ = mirror::decode_value(text);
    }
    let Some((header, body)) = split(data) else { return };
    let Ok(params) = Raw::parse(Bytes::copy_from_slice(body), &Limits::REQUEST) else { return };
    let received = mirror::Received { version: &[b"2026-07-28"], method: &[b"tools/call"], name: &[header] };
    let says = mirror::Body {
        version: Some("2026-07-28"),
        method: method::TOOLS_CALL,
        params: Some(&params),
        required: true,
    };
    if mirror::check_standard(&received, &says).is_ok() {
        // A body without a name is refused for that, later.
        if let Some(name) = params.get("name").and_then(|name| name.string()) {
            let text = std::str::from_utf8(header).expect("accepted header that is no text");
            assert_eq!(mirror::decode_value(text.trim_matches([' ', '\t'])).ok(), Some(name));
        }
    }
    if let Some(schema) = params.get("inputSchema")
        && let Ok(headers) = param::from_schema(&schema)
    {
        for (name, value) in headers.build(params.get("arguments").as_ref()) {
            assert!(name.starts_with("Mcp-Param-"));
            assert!(value.bytes().all(|b| (0x20..0x7f).contains(&b) || b == b'\t'));
        }
    }
});

/// The part before the first newline and the part after it.
fn split(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = data.iter().position(|b| *b == b'\n')?;
    Some((&data[..at], &data[at + 1..]))
}
