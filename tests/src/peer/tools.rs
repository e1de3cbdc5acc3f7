//! The tools of a scripted server. Each shows one thing; none knows who asks.

use std::time::Duration;

use serde_json::Value;

use super::{Era, Peer, Rpc, Sink, simple_tool};
use crate::json;

impl Peer {
    pub(super) fn call(&self, rpc: &Rpc, session: &str, sink: &mut dyn Sink) {
        let ms = |name: &str| rpc.param(&["arguments", name]).and_then(|v| v.as_u64());
        let result = match rpc.text(&["name"]).as_str() {
            "echo" => self.echo(rpc),
            "slow" => {
                if !self.pause(rpc, Duration::from_millis(ms("ms").unwrap_or(1000)), sink) {
                    return;
                }
                text("slow but sure")
            }
            "progress" => {
                if !self.progress(rpc, ms("steps").unwrap_or(3), ms("ms").unwrap_or(10), sink) {
                    return;
                }
                text("all steps done")
            }
            "log" => {
                self.logs(rpc, session, sink);
                text("logged")
            }
            "fail" => {
                r#"{"content":[{"type":"text","text":"no such row"}],"isError":true,"futureField":1.0}"#
                    .into()
            }
            "rpc_error" => {
                let id = rpc.id.clone().unwrap_or_default();
                sink.emit(format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1234,"message":"own code","data":{{"why":1.0}}}}}}"#
                ));
                return;
            }
            "links" => links(),
            "blob" => text(&"x".repeat(usize::try_from(ms("bytes").unwrap_or(1000)).unwrap_or(0))),
            "whoami" => self.whoami(rpc, session),
            "count" => {
                let mut state = self.state.lock();
                let count = state.counters.entry(session.into()).or_default();
                *count += 1;
                text(&count.to_string())
            }
            "add_tool" => {
                self.tools.lock().push(simple_tool(&rpc.text(&["arguments", "name"])));
                sink.emit(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#.into());
                text("added")
            }
            "crash" => std::process::exit(3),
            other => {
                sink.emit(rpc.error(-32602, &format!("Unknown tool: {other}")));
                return;
            }
        };
        sink.emit(rpc.result(&self.dress(&result, false)));
    }

    fn echo(&self, rpc: &Rpc) -> String {
        let arguments = json::raw(&rpc.params, &["arguments"]).unwrap_or_else(|| "{}".into());
        format!(
            r#"{{"content":[{{"type":"text","text":{},"annotations":{{"priority":0.50}},"_meta":{{"com.example/c":1.0}}}}],"structuredContent":{{"server":"{}","arguments":{arguments}}},"isError":false,"futureField":{{"n":1.0e0,"big":123456789012345678901234567890,"__proto__":{{"x":1}}}},"_meta":{{"com.example/r":[1.0,-0]}}}}"#,
            Value::from(arguments.as_str()),
            self.name
        )
    }

    fn whoami(&self, rpc: &Rpc, session: &str) -> String {
        let meta = json::raw(&rpc.params, &["_meta"]).unwrap_or_else(|| "{}".into());
        format!(
            r#"{{"content":[{{"type":"text","text":"{}"}}],"structuredContent":{{"session":{},"meta":{meta}}}}}"#,
            self.name,
            Value::from(session)
        )
    }

    fn progress(&self, rpc: &Rpc, steps: u64, ms: u64, sink: &mut dyn Sink) -> bool {
        let token = json::raw(&rpc.params, &["_meta", "progressToken"]);
        for step in 1..=steps {
            if !self.pause(rpc, Duration::from_millis(ms), sink) {
                return false;
            }
            if let Some(token) = &token {
                sink.emit(format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{step}.50,"total":{steps}.50,"message":"step {step}","futureField":1.0}}}}"#
                ));
            }
        }
        true
    }

    fn logs(&self, rpc: &Rpc, session: &str, sink: &mut dyn Sink) {
        let asked = match self.era {
            Era::Modern => {
                Some(rpc.text(&["_meta", "io.modelcontextprotocol/logLevel"])).filter(|l| !l.is_empty())
            }
            Era::Legacy => self.state.lock().levels.get(session).cloned().or(Some("debug".into())),
        };
        let Some(asked) = asked else { return };
        let order = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
        let rank = |l: &str| order.iter().position(|o| *o == l).unwrap_or(0);
        for level in ["debug", "info", "error"] {
            if rank(level) >= rank(&asked) {
                sink.emit(format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","logger":"peer","data":{{"v":1.0,"at":"{level}"}}}}}}"#
                ));
            }
        }
    }
}

fn text(value: &str) -> String {
    format!(r#"{{"content":[{{"type":"text","text":{}}}]}}"#, Value::from(value))
}

fn links() -> String {
    r#"{"content":[{"type":"resource_link","uri":"file:///notes/a.txt","name":"a","x":1.0},{"type":"resource","resource":{"uri":"file:///notes/b.txt","text":"uri: file:///notes/b.txt","x":-0}},{"type":"resource_link","uri":"ui://app/main","name":"ui"},{"type":"resource_link","uri":"https://example.com/doc?a=1#x","name":"doc"}],"structuredContent":{"uri":"file:///notes/a.txt"}}"#.into()
}
