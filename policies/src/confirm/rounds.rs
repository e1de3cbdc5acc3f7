//! What a server asks in the middle of a call (MCP 2026-07-28, multi round-trip requests), remembered in the sealed state
//! so that answers can be held against it: what was never asked is no answer, and what is none is not passed on.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::schema::{Refusal, Schema};

/// Questions of one round that are remembered; a server that asks more is broken.
pub const MAX_ASKED: usize = 64;
/// Bytes of their schemas together that are remembered; answers to what is not are held to their form alone.
const MAX_SCHEMAS: usize = 16 * 1024;
/// Steps of holding one answer to its schema; more answers than one may come at once.
const MAX_STEPS: u64 = 200_000;
/// Bytes of a key.
const MAX_KEY: usize = 256;

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// Its key among `inputRequests`.
    pub key: String,
    /// `elicitation/create`, `sampling/createMessage` or `roots/list`.
    pub method: String,
    /// The `requestedSchema` of a form.
    pub schema: Option<String>,
}

/// The questions of one `inputRequests`. None when they are too many to be remembered.
pub fn asked(requests: &Map<String, Value>) -> Option<Vec<Waiting>> {
    if requests.len() > MAX_ASKED || requests.keys().any(|key| key.len() > MAX_KEY) {
        return None;
    }
    let mut left = MAX_SCHEMAS;
    let waiting = |(key, request): (&String, &Value)| {
        let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
        let schema = request.pointer("/params/requestedSchema").map(Value::to_string);
        let schema = schema.filter(|text| text.len() <= left);
        left -= schema.as_ref().map_or(0, String::len);
        Waiting { key: key.clone(), method: method.to_owned(), schema }
    };
    Some(requests.iter().map(waiting).collect())
}

/// What an answer is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// It goes to the server.
    Fits,
    /// Nobody has asked: it is left out, as a server would ignore it.
    NeverAsked,
    /// It is no answer to its question, for this reason.
    Unfit(&'static str),
}

/// Holds an answer against the questions.
pub fn worth(asked: &[Waiting], key: &str, answer: &Value) -> Worth {
    let Some(waiting) = asked.iter().find(|waiting| waiting.key == key) else { return Worth::NeverAsked };
    let Some(members) = answer.as_object() else { return Worth::Unfit("it is no object") };
    match waiting.method.as_str() {
        "elicitation/create" => elicited(members, waiting.schema.as_deref()),
        "roots/list" if !members.get("roots").is_some_and(Value::is_array) => Worth::Unfit("it has no roots"),
        "sampling/createMessage" if !members.get("role").is_some_and(Value::is_string) => {
            Worth::Unfit("it has no role")
        }
        _ => Worth::Fits,
    }
}

fn elicited(members: &Map<String, Value>, schema: Option<&str>) -> Worth {
    let action = members.get("action").and_then(Value::as_str);
    match (action, members.get("content")) {
        (Some("accept"), Some(content)) if !content.is_object() => Worth::Unfit("its content is no object"),
        (Some("accept"), Some(content)) => match schema.map(|schema| fits(schema, content)) {
            Some(false) => Worth::Unfit("its content does not match the requestedSchema"),
            None | Some(true) => Worth::Fits,
        },
        // Content that was asked for by a form may only be missing where nothing in it is required.
        (Some("accept"), None) => match schema.map(|schema| fits(schema, &Value::Object(Map::new()))) {
            Some(false) => Worth::Unfit("its content is missing"),
            None | Some(true) => Worth::Fits,
        },
        (Some("decline" | "cancel"), _) => Worth::Fits,
        _ => Worth::Unfit("its action is none of accept, decline and cancel"),
    }
}

/// A schema that can't be checked is the server's to check.
fn fits(schema: &str, content: &Value) -> bool {
    let Ok(schema) = Schema::compile(schema) else { return true };
    !matches!(schema.check_within(&content.to_string(), MAX_STEPS), Err(Refusal::Broken(_)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn questions() -> Vec<Waiting> {
        let form = json!({"message": "Who?", "requestedSchema": {"type": "object",
            "properties": {"name": {"type": "string", "maxLength": 3}}, "required": ["name"]}});
        let requests = json!({
            "who": {"method": "elicitation/create", "params": form},
            "say": {"method": "sampling/createMessage", "params": {"messages": []}},
            "where": {"method": "roots/list"},
            "link": {"method": "elicitation/create", "params": {"mode": "url", "url": "https://a/"}},
        });
        asked(requests.as_object().unwrap()).unwrap()
    }

    #[test]
    fn r2_what_was_never_asked_or_is_no_answer_is_not_passed_on() {
        let all = questions();
        let worth = |key, answer| worth(&all, key, &answer);
        assert_eq!(worth("who", json!({"action": "accept", "content": {"name": "abc"}})), Worth::Fits);
        assert_eq!(worth("who", json!({"action": "decline"})), Worth::Fits);
        assert_eq!(worth("who", json!({"action": "cancel", "content": {"name": 1}})), Worth::Fits);
        assert_eq!(worth("link", json!({"action": "accept"})), Worth::Fits);
        assert_eq!(worth("where", json!({"roots": []})), Worth::Fits);
        assert_eq!(worth("say", json!({"role": "assistant", "content": {}})), Worth::Fits);
        assert_eq!(worth("other", json!({"action": "accept"})), Worth::NeverAsked);
        for (key, bad) in [
            ("who", json!({"action": "yes"})),
            ("who", json!({"action": "accept"})),
            ("who", json!({"action": "accept", "content": {"name": "abcd"}})),
            ("who", json!({"action": "accept", "content": {"name": 1}})),
            ("who", json!({"action": "accept", "content": [1]})),
            ("who", json!({})),
            ("who", json!(7)),
            ("where", json!({})),
            ("say", json!({"content": {}})),
        ] {
            assert!(matches!(worth(key, bad.clone()), Worth::Unfit(_)), "{key} {bad}");
        }
    }

    #[test]
    fn k2_a_question_with_a_schema_that_doubles_is_not_checked_to_its_end() {
        let schema = (0..28).fold(json!({"unevaluatedProperties": true}), |inner, _| {
            json!({"type": "object", "allOf": [inner], "unevaluatedProperties": {"type": "string"}})
        });
        let requests = json!({"q": {"method": "elicitation/create", "params": {"requestedSchema": schema}}});
        let all = asked(requests.as_object().unwrap()).unwrap();
        assert!(all[0].schema.is_some());
        let answer = json!({"action": "accept", "content": {"zz": "y"}});
        assert_eq!(worth(&all, "q", &answer), Worth::Fits);
    }

    #[test]
    fn r2_what_is_remembered_is_bounded() {
        let many: Map<String, Value> = (0..=MAX_ASKED).map(|n| (n.to_string(), json!({}))).collect();
        assert_eq!(asked(&many), None);
        let long = json!({"k".repeat(MAX_KEY + 1): {}});
        assert_eq!(asked(long.as_object().unwrap()), None);
        let schema = json!({"title": "x".repeat(10_000)});
        let form = |key: &str| (key.to_owned(), json!({"params": {"requestedSchema": schema}}));
        let two = asked(&[form("a"), form("b")].into_iter().collect()).unwrap();
        assert!(two[0].schema.is_some() && two[1].schema.is_none());
    }
}
