//! What conditions can ask about: values are made when a condition first asks, and once per decision.

use std::collections::HashMap;
use std::sync::OnceLock;

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelTimestamp, CelUInt,
};
use cel::common::value::{CowVal, Val};
use cel::context::VariableResolver;
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

/// Values are made straight as the evaluator holds them: its public `Value` would be copied whole to become one.
type Boxed = Box<dyn Val>;
type Made = OnceLock<Option<Boxed>>;
type MadeArguments = Result<(Boxed, Size), Broken>;

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
            let value = convert(json, &mut nodes);
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

    fn principal(&self) -> Boxed {
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
        let text = |text: Option<&str>| text_of(text.unwrap_or_default());
        let list = |all: &[Box<str>]| list_of(all.iter().map(|t| text_of(t)).collect());
        let claims = caller.claims.iter().map(|(k, v)| (k.clone(), convert(v.clone(), &mut 0)));
        map([
            ("iss", text(iss)),
            ("sub", text(sub)),
            ("client", text(client)),
            ("token", text(token)),
            ("tenant", text(caller.tenant.as_deref())),
            ("scopes", list(&caller.scopes)),
            ("groups", list(&caller.groups)),
            ("claims", map_of(claims)),
        ])
    }

    fn tool(&self) -> Boxed {
        let hints = &self.entry.hints;
        let annotations = map([
            ("readOnlyHint", bool_of(hints.is_read_only())),
            ("destructiveHint", bool_of(hints.is_destructive())),
            ("idempotentHint", bool_of(hints.is_idempotent())),
            ("openWorldHint", bool_of(hints.is_open_world())),
        ]);
        map([
            ("name", text_of(self.entry.exposed)),
            ("own", text_of(self.entry.own)),
            ("server", text_of(self.entry.server)),
            ("annotations", annotations),
        ])
    }

    fn time(&self) -> Option<Boxed> {
        let time = chrono::DateTime::from_timestamp(self.now, 0)?.fixed_offset();
        Some(Box::new(CelTimestamp::from(time)))
    }
}

impl VariableResolver for Facts<'_> {
    fn resolve<'b>(&'b self, variable: &str) -> Option<CowVal<'b, 'b>> {
        let (place, make): (usize, &dyn Fn() -> Option<Boxed>) = match variable {
            "args" => return Some(CowVal::Borrowed(self.read_arguments().ok()?.0)),
            "principal" => (0, &|| Some(self.principal())),
            "tool" => (1, &|| Some(self.tool())),
            "task" => (2, &|| Some(text_of(self.task))),
            "run" => (3, &|| Some(text_of(self.run))),
            "time" => (4, &|| self.time()),
            _ => return None,
        };
        let made = self.made.get(place)?.get_or_init(make);
        Some(CowVal::Borrowed(&**made.as_ref()?))
    }
}

fn text_of(text: &str) -> Boxed {
    Box::new(CelString::from(text.to_owned()))
}

fn bool_of(flag: bool) -> Boxed {
    Box::new(CelBool::from(flag))
}

fn list_of(all: Vec<Boxed>) -> Boxed {
    Box::new(CelList::from(all))
}

fn map<const N: usize>(members: [(&str, Boxed); N]) -> Boxed {
    map_of(members.into_iter().map(|(key, value)| (key.to_owned(), value)))
}

fn map_of(members: impl Iterator<Item = (String, Boxed)>) -> Boxed {
    let members = members.map(|(key, value)| (CelMapKey::from(key), value));
    Box::new(CelMap::from(members.collect::<HashMap<_, _>>()))
}

fn count(json: &Json) -> usize {
    match json {
        Json::Array(all) => all.iter().map(count).sum::<usize>() + 1,
        Json::Object(members) => members.values().map(count).sum::<usize>() + 1,
        _ => 1,
    }
}

/// JSON as CEL sees it: whole numbers are `int`, or `uint` when they are larger than that; all others `double`.
fn convert(json: Json, nodes: &mut u64) -> Boxed {
    *nodes = nodes.saturating_add(1);
    match json {
        Json::Null => Box::new(CelNull),
        Json::Bool(flag) => bool_of(flag),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => Box::new(CelInt::from(whole)),
            (None, Some(whole)) => Box::new(CelUInt::from(whole)),
            (None, None) => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
        },
        Json::String(text) => Box::new(CelString::from(text)),
        Json::Array(all) => list_of(all.into_iter().map(|one| convert(one, nodes)).collect()),
        Json::Object(members) => map_of(members.into_iter().map(|(key, value)| (key, convert(value, nodes)))),
    }
}
