//! Answers to everything but tool calls. Never looks at what carried the request.

use serde_json::Value;

use super::{Era, Peer, Rpc};
use crate::client::MODERN;
use crate::json;

impl Peer {
    pub(super) fn answer(&self, rpc: &Rpc, session: &str) -> String {
        match (self.era, rpc.method.as_str()) {
            (Era::Modern, "server/discover") => self.discover(rpc),
            (Era::Legacy, "initialize") => self.initialize(rpc, session),
            (Era::Legacy, "ping") => rpc.result("{}"),
            (Era::Legacy, "logging/setLevel") => {
                self.state.lock().levels.insert(session.into(), rpc.text(&["level"]));
                rpc.result("{}")
            }
            (_, "tools/list") => self.list(rpc, "tools", &self.tools.lock()),
            (_, "prompts/list") => self.list(rpc, "prompts", &self.prompts.lock()),
            (_, "resources/list") => self.list(rpc, "resources", &self.resources.lock()),
            (_, "resources/templates/list") => self.list(rpc, "resourceTemplates", &self.templates.lock()),
            (_, "resources/read") => self.read(rpc),
            (_, "prompts/get") => self.prompt(rpc),
            (_, "completion/complete") => rpc.result(&self.dress(
                r#"{"completion":{"values":["one","two"],"total":2,"hasMore":false,"futureField":1.0}}"#,
                false,
            )),
            (_, other) => rpc.error(-32601, &format!("Method not found: {other}")),
        }
    }

    /// Adds what the era demands of every result.
    pub(super) fn dress(&self, result: &str, cacheable: bool) -> String {
        if self.era == Era::Legacy {
            return result.to_owned();
        }
        let rest = result.strip_prefix('{').expect("an object");
        let comma = if rest == "}" { "" } else { "," };
        let cache = if cacheable {
            format!(r#""ttlMs":{},"cacheScope":"public","#, self.ttl_ms)
        } else {
            String::new()
        };
        format!(r#"{{{}"resultType":"complete"{comma}{rest}"#, cache)
    }

    fn discover(&self, rpc: &Rpc) -> String {
        let body = format!(
            r#"{{"supportedVersions":["{MODERN}"],"capabilities":{},"instructions":"Use {} well.","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"{}","version":"1.0"}}}}}}"#,
            self.capabilities, self.name, self.name
        );
        rpc.result(&self.dress(&body, true))
    }

    fn initialize(&self, rpc: &Rpc, session: &str) -> String {
        let mut state = self.state.lock();
        state.ready.insert(session.into(), false);
        state.counters.remove(session);
        drop(state);
        rpc.result(&format!(
            r#"{{"protocolVersion":"{}","capabilities":{},"serverInfo":{{"name":"{}","version":"1.0"}},"instructions":"Use {} well."}}"#,
            self.revision, self.capabilities, self.name, self.name
        ))
    }

    fn list(&self, rpc: &Rpc, member: &str, entries: &[String]) -> String {
        self.state.lock().lists += 1;
        let from = match rpc.param(&["cursor"]) {
            Some(Value::String(cursor)) => cursor.trim_start_matches("page-").parse().unwrap_or(0),
            _ => 0usize,
        };
        let size = if self.page == 0 { entries.len() } else { self.page };
        let to = (from + size).min(entries.len());
        let next = if to < entries.len() { format!(r#","nextCursor":"page-{to}""#) } else { String::new() };
        let page = entries.get(from..to).unwrap_or_default().join(",");
        rpc.result(&self.dress(&format!(r#"{{"{member}":[{page}]{next}}}"#), true))
    }

    fn read(&self, rpc: &Rpc) -> String {
        let uri = rpc.text(&["uri"]);
        let known =
            self.resources.lock().iter().any(|r| json::at(r, &["uri"]) == Some(Value::from(uri.as_str())));
        if !known && !uri.starts_with("file:///notes/") {
            let code = if self.era == Era::Legacy { -32002 } else { -32602 };
            return rpc.error(code, "Resource not found");
        }
        let uri = Value::from(uri);
        rpc.result(&self.dress(
            &format!(
                r#"{{"contents":[{{"uri":{uri},"mimeType":"text/plain","text":"from {}","futureField":1.50}}],"_meta":{{"com.example/r":1.0}}}}"#,
                self.name
            ),
            true,
        ))
    }

    fn prompt(&self, rpc: &Rpc) -> String {
        let name = rpc.text(&["name"]);
        if name != "greet" && name != "bare" {
            return rpc.error(-32602, "Unknown prompt");
        }
        let arguments = json::raw(&rpc.params, &["arguments"]).unwrap_or_else(|| "{}".into());
        let text = Value::from(arguments);
        rpc.result(&self.dress(
            &format!(
                r#"{{"description":"A greeting","messages":[{{"role":"user","content":{{"type":"text","text":{text}}}}}],"futureField":[1.0]}}"#
            ),
            false,
        ))
    }
}
