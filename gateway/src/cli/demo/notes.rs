//! The demo's legacy server: revision 2025-11-25 over stdin and stdout, one process per session, with notes that
//! live as long as the process. A server in its own right, as simple as they come.

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

use crate::answers::VERSION;

/// Serves until stdin ends.
pub(super) fn serve(input: &mut dyn BufRead, output: &mut dyn Write) -> io::Result<()> {
    let mut notes = Vec::new();
    for line in input.lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else { continue };
        let (Some(id), Some(method)) = (message.get("id"), message.get("method").and_then(Value::as_str))
        else {
            continue;
        };
        let params = message.get("params").unwrap_or(&Value::Null);
        let answer = match answer(method, params, &mut notes) {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err((code, text)) => {
                json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } })
            }
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

fn answer(method: &str, params: &Value, notes: &mut Vec<String>) -> Result<Value, (i64, &'static str)> {
    match method {
        "initialize" => Ok(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "notes", "version": VERSION },
        })),
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({ "tools": [
            {
                "name": "write",
                "description": "Keeps a note for this session.",
                "inputSchema": {
                    "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"],
                },
            },
            {
                "name": "read",
                "description": "All notes of this session.",
                "inputSchema": { "type": "object" },
                "annotations": { "readOnlyHint": true },
            },
        ] })),
        "tools/call" => call(params, notes),
        _ => Err((-32601, "Method not found")),
    }
}

fn call(params: &Value, notes: &mut Vec<String>) -> Result<Value, (i64, &'static str)> {
    let text = match params.get("name").and_then(Value::as_str) {
        Some("write") => match params.pointer("/arguments/text").and_then(Value::as_str) {
            Some(text) => {
                notes.push(text.chars().take(1000).collect());
                format!("{} notes", notes.len())
            }
            None => {
                return Ok(
                    json!({ "content": [{ "type": "text", "text": "text is missing" }], "isError": true }),
                );
            }
        },
        Some("read") => notes.join("\n"),
        _ => return Err((-32602, "Unknown tool")),
    };
    Ok(json!({ "content": [{ "type": "text", "text": text }] }))
}
