//! The usual content of a scripted server: entries full of fields that no gateway knows, in spellings that
//! a re-serialisation would change.

pub(super) const CAPABILITIES: &str = r#"{"tools":{"listChanged":true},"prompts":{},"resources":{},"completions":{},"logging":{},"extensions":{"com.example/x":{"depth":1.0}}}"#;

/// The entry of the tool `echo`, byte for byte.
pub const ECHO: &str = r#"{"name":"echo","title":"Echo","description":"Says it again","inputSchema":{"type":"object","properties":{"text":{"type":"string"},"n":{"type":"number","minimum":-0.10,"maximum":1e3}},"x-vendor":[1.0,2.50]},"annotations":{"readOnlyHint":true,"vendorHint":{"a":1.0}},"execution":{"taskSupport":"forbidden"},"icons":[{"src":"https://example.com/i.png","sizes":["48x48"]}],"_meta":{"com.example/x":{"keep":12345678901234567890123,"f":0.1000}},"futureField":{"b":[null,true,-0]}}"#;

/// A tool without anything special.
pub fn simple_tool(name: &str) -> String {
    format!(r#"{{"name":"{name}","description":"The tool {name}","inputSchema":{{"type":"object"}}}}"#)
}

pub(super) fn tools() -> Vec<String> {
    let plain = [
        "slow",
        "progress",
        "log",
        "fail",
        "rpc_error",
        "links",
        "blob",
        "whoami",
        "count",
        "add_tool",
        "crash",
    ];
    std::iter::once(ECHO.to_owned()).chain(plain.iter().map(|n| simple_tool(n))).collect()
}

pub(super) fn prompts() -> Vec<String> {
    vec![
        r#"{"name":"greet","title":"Greet","description":"Greets someone","arguments":[{"name":"who","required":true,"x-order":1.0}],"futureField":[1e0]}"#.into(),
        r#"{"name":"bare"}"#.into(),
    ]
}

pub(super) fn resources() -> Vec<String> {
    vec![
        r#"{"uri":"file:///notes/a.txt","name":"a.txt","mimeType":"text/plain","size":12,"annotations":{"priority":0.50},"futureField":{"k":1.0}}"#.into(),
        r#"{"uri":"ui://app/main","name":"app","mimeType":"text/html;profile=mcp-app"}"#.into(),
        r#"{"uri":"https://example.com/doc?a=1#x","name":"doc"}"#.into(),
    ]
}

pub(super) fn templates() -> Vec<String> {
    vec![r#"{"uriTemplate":"file:///notes/{name}","name":"notes","futureField":2.0}"#.into()]
}
