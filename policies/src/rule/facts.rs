//! What conditions can ask about: values are made when a condition first asks, and once per decision.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use cel::Value;
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
use cel::objects::{Key, Map};
use serde_json::Value as Json;

use super::{Broken, MAX_ARGUMENTS};
use crate::caller::{Caller, Proof};
use crate::entry::Entry;

/// How large a value is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) nodes: u64,
    pub(super) bytes: u64,
}

type Made = OnceLock<Option<Box<dyn Val>>>;
type MadeArguments = Result<(Box<dyn Val>, Size), Broken>;

/// The facts of one decision.
pub(crate) struct Facts<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) task: &'a str,
    pub(crate) run: &'a str,
    /// Unix seconds.
    pub(crate) now: i64,
    pub(crate) entry: &'a Entry<'a>,
    arguments: &'a str,
    made: [Made; 5],
    made_arguments: OnceLock<MadeArguments>,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(
        subject: &crate::decide::Subject<'a>,
        task: &'a str,
        entry: &'a Entry<'a>,
        arguments: &'a str,
    ) -> Facts<'a> {
        Facts {
            caller: subject.caller,
            task,
            run: subject.run,
            now: subject.now,
            entry,
            arguments,
            made: Default::default(),
            made_arguments: OnceLock::new(),
        }
    }

    /// Makes the arguments' value, and tells its size.
    pub(super) fn arguments(&self) -> Result<Size, Broken> {
        self.read_arguments().map(|(_, size)| size)
    }

    fn read_arguments(&self) -> Result<(&dyn Val, Size), Broken> {
        let made = self.made_arguments.get_or_init(|| {
            if self.arguments.len() > MAX_ARGUMENTS {
                return Err(Broken::TooLarge);
            }
            let json: Json = serde_json::from_str(self.arguments).map_err(|_| Broken::NoJson)?;
            if !json.is_object() {
                return Err(Broken::NoJson);
            }
            let mut nodes = 0;
            let value = convert(&json, &mut nodes);
            let value = Box::<dyn Val>::try_from(value).map_err(|_| Broken::NoJson)?;
            Ok((value, Size { nodes, bytes: u64::try_from(self.arguments.len()).unwrap_or(u64::MAX) }))
        });
        made.as_ref().map(|(value, size)| (&**value, *size)).map_err(|broken| *broken)
    }

    /// About how many parts the principal's value has.
    pub(super) fn principal_nodes(&self) -> u64 {
        let mut nodes = 10 + self.caller.scopes.len() + self.caller.groups.len();
        for claim in self.caller.claims.values() {
            nodes = nodes.saturating_add(count(claim));
        }
        u64::try_from(nodes).unwrap_or(u64::MAX)
    }

    fn principal(&self) -> Value {
        let caller = self.caller;
        let (mut iss, mut sub, mut client, mut token) = (None, None, None, None);
        match &caller.proof {
            Proof::Issuer { issuer, subject, client: id } => {
                (iss, sub, client) = (Some(&**issuer), Some(&**subject), id.as_deref());
            }
            Proof::Token(name) => token = Some(&**name),
            Proof::Certificate(names) => sub = names.first().map(|n| &**n),
            Proof::Anonymous => {}
        }
        // What a caller has not is an empty text, so that a comparison with it does not fail.
        let text = |text: Option<&str>| Value::from(text.unwrap_or_default());
        let list = |all: &[Box<str>]| Value::List(Arc::new(all.iter().map(|t| Value::from(&**t)).collect()));
        let claims = caller.claims.iter().map(|(k, v)| (k.as_str(), convert(v, &mut 0))).collect::<Vec<_>>();
        map([
            ("iss", text(iss)),
            ("sub", text(sub)),
            ("client", text(client)),
            ("token", text(token)),
            ("tenant", text(caller.tenant.as_deref())),
            ("scopes", list(&caller.scopes)),
            ("groups", list(&caller.groups)),
            ("claims", map(claims)),
        ])
    }

    fn tool(&self) -> Value {
        let hints = &self.entry.hints;
        let annotations = map([
            ("readOnlyHint", Value::Bool(hints.is_read_only())),
            ("destructiveHint", Value::Bool(hints.is_destructive())),
            ("idempotentHint", Value::Bool(hints.is_idempotent())),
            ("openWorldHint", Value::Bool(hints.is_open_world())),
        ]);
        map([
            ("name", Value::from(self.entry.exposed)),
            ("own", Value::from(self.entry.own)),
            ("server", Value::from(self.entry.server)),
            ("annotations", annotations),
        ])
    }

    fn time(&self) -> Option<Value> {
        Some(Value::Timestamp(chrono::DateTime::from_timestamp(self.now, 0)?.fixed_offset()))
    }
}

impl VariableResolver for Facts<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let (place, make): (usize, &dyn Fn() -> Option<Value>) = match variable {
            "args" => return Some(CowVal::Borrowed(self.read_arguments().ok()?.0)),
            "principal" => (0, &|| Some(self.principal())),
            "tool" => (1, &|| Some(self.tool())),
            "task" => (2, &|| Some(Value::from(self.task))),
            "run" => (3, &|| Some(Value::from(self.run))),
            "time" => (4, &|| self.time()),
            _ => return None,
        };
        let made = self.made.get(place)?.get_or_init(|| Box::<dyn Val>::try_from(make()?).ok());
        Some(CowVal::Borrowed(&**made.as_ref()?))
    }
}

fn map<'k>(members: impl IntoIterator<Item = (&'k str, Value)>) -> Value {
    let members = members.into_iter().map(|(key, value)| (Key::String(Arc::new(key.to_owned())), value));
    Value::Map(Map { map: Arc::new(members.collect::<HashMap<_, _>>()) })
}

fn count(json: &Json) -> usize {
    match json {
        Json::Array(all) => all.iter().map(count).sum::<usize>() + 1,
        Json::Object(members) => members.values().map(count).sum::<usize>() + 1,
        _ => 1,
    }
}

/// JSON as CEL sees it: whole numbers are `int`, or `uint` when they are larger than that; all others `double`.
fn convert(json: &Json, nodes: &mut u64) -> Value {
    *nodes = nodes.saturating_add(1);
    match json {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => number
            .as_i64()
            .map(Value::Int)
            .or_else(|| number.as_u64().map(Value::UInt))
            .unwrap_or_else(|| Value::Float(number.as_f64().unwrap_or(f64::NAN))),
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(all) => Value::List(Arc::new(all.iter().map(|one| convert(one, nodes)).collect())),
        Json::Object(members) => {
            map(members.iter().map(|(key, value)| (key.as_str(), convert(value, nodes))).collect::<Vec<_>>())
        }
    }
}
