//! What the echo server offers: its answering tools, and made-up ones of realistic size for the list measurements.

use std::fmt::Write;
use std::sync::LazyLock;

use bytes::Bytes;

/// Servers in the list and scale measurements, and tools of each.
pub(crate) const MANY_SERVERS: usize = 200;
pub(crate) const TOOLS_PER_SERVER: usize = 25;

/// Tools of the servers that answer in all ways.
pub(crate) const ECHO_TOOLS: usize = 4;

/// Sizes of the results.
pub(crate) const KIB: usize = 1024;
pub(crate) const SIZES: [usize; 2] = [KIB, 100 * KIB];

static TEXT_1K: LazyLock<String> = LazyLock::new(|| text(KIB));
static TEXT_100K: LazyLock<String> = LazyLock::new(|| text(100 * KIB));
static BIG_LIST: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(tools(1..=MANY_SERVERS).join(",")));

/// The name of the tool that answers with `size` bytes as JSON or as an event stream.
pub(crate) fn echo_name(sse: bool, size: usize) -> String {
    format!("echo_{}_{}k", if sse { "sse" } else { "json" }, size / KIB)
}

/// How a tool answers: whether as a stream, and its text as a JSON string's inside. `None`: no such tool.
pub(crate) fn answer_of(tool: &str) -> Option<(bool, &'static str)> {
    match tool {
        "echo_json_1k" => Some((false, &TEXT_1K)),
        "echo_sse_1k" => Some((true, &TEXT_1K)),
        "echo_json_100k" => Some((false, &TEXT_100K)),
        "echo_sse_100k" => Some((true, &TEXT_100K)),
        _ if tool.starts_with("tool_") => Some((false, &TEXT_1K)),
        _ => None,
    }
}

/// The text that a result of `size` bytes must carry, as it stands inside a JSON string.
pub(crate) fn expected_text(size: usize) -> &'static str {
    if size == KIB { &TEXT_1K } else { &TEXT_100K }
}

/// Whether the echo server has an endpoint at this path.
pub(crate) fn knows(path: &str) -> bool {
    matches!(path, "/modern/mcp" | "/legacy/mcp" | "/list/mcp") || number_of(path).is_some()
}

/// The entries of `tools/list` for a path of the echo server, joined by commas.
pub(crate) fn list_of(path: &str) -> Bytes {
    match number_of(path) {
        Some(number) => tools(number..=number).join(",").into(),
        None if path == "/list/mcp" => BIG_LIST.clone(),
        None => echo_tools().join(",").into(),
    }
}

fn number_of(path: &str) -> Option<usize> {
    let number = path.strip_prefix("/s/")?.strip_suffix("/mcp")?.parse().ok()?;
    (1..=MANY_SERVERS).contains(&number).then_some(number)
}

/// Prose in lines of 80 characters, their ends escaped, `size` bytes once decoded.
fn text(size: usize) -> String {
    let words = "the quick brown fox jumps over a lazy dog and then writes down what it saw there ";
    let plain: String = words.chars().cycle().take(size).collect();
    let mut escaped = String::with_capacity(size + size / 40);
    for (at, character) in plain.chars().enumerate() {
        match at % 80 {
            79 => escaped.push_str("\\n"),
            _ => escaped.push(character),
        }
    }
    escaped
}

fn echo_tools() -> Vec<String> {
    let both = [(false, SIZES), (true, SIZES)];
    both.iter().flat_map(|(sse, sizes)| sizes.iter().map(|size| tool(&echo_name(*sse, *size)))).collect()
}

fn tools(servers: std::ops::RangeInclusive<usize>) -> Vec<String> {
    let numbers = servers.flat_map(|server| (1..=TOOLS_PER_SERVER).map(move |number| (server, number)));
    numbers.map(|(server, number)| tool(&format!("tool_{server:03}_{number:02}"))).collect()
}

/// A tool entry of about 700 bytes, as real servers have them.
fn tool(name: &str) -> String {
    let mut properties = String::new();
    for field in ["query", "path", "limit"] {
        let kind = if field == "limit" { "integer" } else { "string" };
        let comma = if properties.is_empty() { "" } else { "," };
        let about = format!("What {name} takes as its {field}, in the form that the service's manual gives");
        let _ = write!(properties, "{comma}\"{field}\":{{\"type\":\"{kind}\",\"description\":\"{about}\"}}");
    }
    format!(
        "{{\"name\":\"{name}\",\"title\":\"Tool {name}\",\"description\":\"Answers with a text of a known length, \
         whatever it is asked; stands for a search over documents.\",\"inputSchema\":{{\"type\":\"object\",\
         \"properties\":{{{properties}}},\"additionalProperties\":true}},\
         \"annotations\":{{\"readOnlyHint\":true,\"idempotentHint\":true}}}}"
    )
}
