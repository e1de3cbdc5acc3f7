//! Stage 6: may this caller do this. Default deny; the same function filters every list. Only this file can make
//! a [`Permitted`], and `forward` takes nothing else. What comes from a server can narrow a decision and never widens
//! one.

use std::sync::Arc;
use std::time::SystemTime;

use mcp::entry::EntryKind;
use mcp::json::{Key, ObjectWriter, Raw};
use mcp::method;
use policies::arguments::Rejected;
use policies::{By, Decision, Entry, Hints, Kind, Subject};
use tokio::task::JoinHandle;

use crate::catalog::manifest::Listed;
use crate::catalog::member::{Found, Member, Name};
use crate::ports::clock::unix_seconds;
use crate::profiles::Party;
use crate::reject::{Reject, Why};
use crate::stages::decode;
use crate::stages::route::{Target, unknown};
use crate::stages::session::Bound;

/// Arguments above this are looked at off the worker thread; where a task's conditions are slow, smaller ones too.
const OFFLOAD: usize = 256 * 1024;

/// A call that the task allows, with the manifest entry that it is held to.
pub struct Permitted {
    target: Box<Target>,
    found: Option<Found>,
    /// Where the entry does not tell.
    exposed: Option<String>,
    by: By,
    confirm: bool,
}

impl Permitted {
    /// The call.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The entry that the call is held to; resources have none, since servers need not list them.
    pub fn found(&self) -> Option<&Found> {
        self.found.as_ref()
    }

    /// The name or URI as clients of `/mcp` see it, on every endpoint: patterns are written over this.
    pub fn exposed(&self) -> &str {
        match (&self.exposed, self.found().and_then(Found::entry)) {
            (Some(exposed), _) => exposed,
            (None, entry) => entry.map_or("", |entry| &entry.exposed),
        }
    }

    /// The part of the task that decided.
    pub fn by(&self) -> By {
        self.by
    }

    /// Whether a person has to agree first.
    pub fn must_confirm(&self) -> bool {
        self.confirm
    }

    /// Holds the call to the entry as it was read anew, where there is one.
    pub fn hold_to(&mut self, found: Option<Found>) {
        if found.is_some() {
            self.found = found;
        }
    }

    /// The members of `params`, for what a permitted call leaves out or masks.
    pub fn params_mut(&mut self) -> &mut Vec<(Key, Raw)> {
        &mut self.target.params
    }
}

/// Whether the caller is shown an entry: the list's side of the one decision.
pub fn visible(party: &Party, kind: EntryKind, member: &Member, entry: &Listed) -> bool {
    let about = Entry {
        server: &member.spec.id,
        kind: kind_of(kind),
        exposed: &entry.exposed,
        own: &entry.own,
        hints: entry.hints.believed(member.spec.policy.trusted_hints),
    };
    shown(party, &about)
}

fn kind_of(kind: EntryKind) -> Kind {
    match kind {
        EntryKind::Tool => Kind::Tool,
        EntryKind::Prompt => Kind::Prompt,
        EntryKind::Resource | EntryKind::Template => Kind::Resource,
    }
}

/// Without arguments no condition is evaluated, so neither run nor time matter.
fn shown(party: &Party, entry: &Entry<'_>) -> bool {
    let subject = Subject { caller: &party.who.caller, run: "", now: 0 };
    party.profile.task.decide(&subject, entry, None).shown()
}

/// Decides on a call and finds the entry that it is held to.
///
/// # Errors
/// What is hidden and what does not exist are refused with the same words; scopes that are missing, conditions that do
/// not hold, arguments that break the tool's schema; a server whose list can't be had is that server's failure.
pub async fn authorize(bound: &Bound, mut target: Box<Target>, now: SystemTime) -> Result<Permitted, Reject> {
    let found = match target.kind {
        EntryKind::Tool | EntryKind::Prompt => find(bound, &mut target).await?,
        EntryKind::Resource | EntryKind::Template => None,
    };
    let entry = found.as_ref().and_then(Found::entry);
    if let Some(entry) = entry {
        decode::check_params(&bound.identified.decoded, &entry.params)?;
    }
    let exposed = match entry {
        Some(_) => None,
        None if target.merged => Some(target.name.clone()),
        None => Some(target.member.exposed(target.kind, &target.own)),
    };
    let case = Case {
        party: &bound.identified.party,
        run: &bound.run.id,
        now: unix_seconds(now),
        member: &target.member,
        kind: target.kind,
        exposed: exposed.as_deref().or(entry.map(|entry| &*entry.exposed)).unwrap_or_default(),
        own: &target.own,
        found: found.as_ref(),
        arguments: target.arguments(),
        call: target.method == method::TOOLS_CALL,
    };
    let open = bound.identified.party.profile.task.is_open() && !target.member.spec.policy.check_arguments;
    let bytes = case.arguments.map_or(2, Raw::len);
    let checked = case.call && target.member.spec.policy.check_arguments;
    let heavy = checked && entry.is_some_and(|entry| entry.is_heavy_input(bytes));
    let quick = OFFLOAD.min(bound.identified.party.profile.task.quick_bytes());
    let verdict = match heavy || (bytes > quick && !open) {
        false => case.verdict(),
        true => case
            .elsewhere()
            .await
            .map_err(|e| Reject::new(Why::Internal, "the gateway failed").detail(e.to_string()))?,
    };
    match verdict {
        Verdict::Hidden => Err(unknown(target.era, target.kind, &target.name)),
        Verdict::Refused(reject) => Err(*reject),
        Verdict::Go { by, confirm } => Ok(Permitted { target, found, exposed, by, confirm }),
    }
}

/// The manifest entry of a tool or prompt. A name that the task hides is never looked for at the server: the answer
/// takes no longer than for one that nobody has.
async fn find(bound: &Bound, target: &mut Target) -> Result<Option<Found>, Reject> {
    let (party, member) = (&bound.identified.party, Arc::clone(&target.member));
    let failed = |fault| Reject::fault(&fault, &member.spec.id);
    let name = if target.merged { Name::Exposed(&target.name) } else { Name::Own(&target.own) };
    let exposed = if target.merged { target.name.clone() } else { member.exposed(target.kind, &target.own) };
    let about = Entry {
        server: &member.spec.id,
        kind: kind_of(target.kind),
        exposed: &exposed,
        own: &target.own,
        hints: Hints::default(),
    };
    let found = if shown(party, &about) {
        member.find(target.kind, &bound.client, name).await.map_err(failed)?.ok_or_else(|| missing(target))?
    } else if target.merged && member.may_be_short(&target.name) {
        // Patterns may be written over the name that this one is short for, which the list knows.
        let known = member.known(target.kind, &bound.client, name).await.map_err(failed)?;
        let whole = |found: &Found| found.entry().is_some_and(|e| visible(party, target.kind, &member, e));
        known.filter(whole).ok_or_else(|| unknown(target.era, target.kind, &target.name))?
    } else {
        return Err(unknown(target.era, target.kind, &target.name));
    };
    if let Some(entry) = found.entry()
        && entry.own != target.own
    {
        target.own.clone_from(&entry.own);
        rename(target, &entry.own);
    }
    Ok(Some(found))
}

/// Puts the server's own name where the client's was.
fn rename(target: &mut Target, own: &str) {
    let name = Raw::from_str_value(own);
    let completing = target.method == method::COMPLETE;
    for (key, value) in &mut target.params {
        match &**key {
            "name" if !completing => *value = name.clone(),
            "ref" if completing => *value = value.with("name", &name),
            _ => {}
        }
    }
}

/// The task allows the name and the server does not have it.
fn missing(target: &Target) -> Reject {
    let reject = unknown(target.era, target.kind, &target.name);
    if target.kind != EntryKind::Tool {
        return reject;
    }
    let mut data = ObjectWriter::new();
    data.string("reason", "capability_missing");
    if let Some(digest) = target.member.digest(target.kind) {
        data.string("manifest_digest", &digest);
    }
    Reject { why: Why::Missing, ..reject.data(data.finish()) }
}

/// Everything that a decision looks at.
#[derive(Clone, Copy)]
struct Case<'a> {
    party: &'a Party,
    run: &'a Arc<str>,
    now: i64,
    member: &'a Arc<Member>,
    kind: EntryKind,
    exposed: &'a str,
    own: &'a str,
    found: Option<&'a Found>,
    arguments: Option<&'a Raw>,
    /// Whether it is a `tools/call`: others have no arguments that conditions or schemas are about.
    call: bool,
}

enum Verdict {
    Hidden,
    Refused(Box<Reject>),
    Go { by: By, confirm: bool },
}

impl Case<'_> {
    /// The verdict, made on another thread.
    fn elsewhere(self) -> JoinHandle<Verdict> {
        let (party, run, member) = (self.party.clone(), Arc::clone(self.run), Arc::clone(self.member));
        let (exposed, own) = (self.exposed.to_owned(), self.own.to_owned());
        let (found, arguments) = (self.found.cloned(), self.arguments.cloned());
        let (now, kind, call) = (self.now, self.kind, self.call);
        tokio::task::spawn_blocking(move || {
            let (party, run, member, exposed, own) = (&party, &run, &member, &*exposed, &*own);
            let (found, arguments) = (found.as_ref(), arguments.as_ref());
            Case { party, run, now, member, kind, exposed, own, found, arguments, call }.verdict()
        })
    }

    fn verdict(self) -> Verdict {
        let policy = &self.member.spec.policy;
        let entry = self.found.and_then(Found::entry);
        let about = Entry {
            server: &self.member.spec.id,
            kind: kind_of(self.kind),
            exposed: self.exposed,
            own: self.own,
            hints: entry.map(|entry| entry.hints.believed(policy.trusted_hints)).unwrap_or_default(),
        };
        let subject = Subject { caller: &self.party.who.caller, run: self.run, now: self.now };
        let arguments = self.arguments.map_or("{}", Raw::as_str);
        let (by, confirm) = match self.party.profile.task.decide(&subject, &about, Some(arguments)) {
            Decision::Hidden => return Verdict::Hidden,
            Decision::NeedsScope { scopes, by } => return Verdict::Refused(lacking(&scopes, by).into()),
            Decision::Refused { by, text, broken } => {
                let detail = match broken {
                    Some(broken) => format!("{} could not be decided: {broken:?}", place(by)),
                    None => format!("{} does not hold", place(by)),
                };
                return Verdict::Refused(Reject::new(Why::Rule, text.to_owned()).detail(detail).into());
            }
            Decision::NeedsConfirm { by } => (by, true),
            Decision::Allowed { by } => (by, false),
        };
        if self.call
            && policy.check_arguments
            && let Err(reject) = self.check(entry)
        {
            return Verdict::Refused(reject.into());
        }
        Verdict::Go { by, confirm }
    }

    fn check(&self, entry: Option<&Listed>) -> Result<(), Reject> {
        let arguments = self.arguments.map(Raw::as_str);
        entry.map_or(Ok(()), |entry| fits(entry, arguments, self.party.profile.task.is_open()))
    }
}

/// Whether arguments keep a tool's input schema. A schema that can't be checked, and numbers that no checker can hold, are
/// passed over where everything is allowed anyway (`open`), and refused under a configured task.
///
/// # Errors
/// They don't.
pub fn fits(entry: &Listed, arguments: Option<&str>, open: bool) -> Result<(), Reject> {
    let Some(schema) = entry.input() else { return Ok(()) };
    match schema.check(arguments) {
        Ok(()) => Ok(()),
        Err(Rejected::Unfit(_) | Rejected::NoObject) if open => Ok(()),
        // They are an object, as `route` has seen.
        Err(Rejected::NoObject) => {
            let text = "The arguments hold a number that can't be checked. The call was not sent.";
            Err(Reject::new(Why::Arguments, text))
        }
        Err(rejected) => Err(Reject::new(Why::Arguments, rejected.to_string())),
    }
}

/// RFC 6750, 3.1: one challenge names all scopes of the call.
fn lacking(scopes: &[&str], by: By) -> Reject {
    let text = format!("this call needs the scopes: {}", scopes.join(" "));
    let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    Reject { scopes, ..Reject::new(Why::Scope, text).detail(place(by)) }
}

fn place(by: By) -> String {
    policies::flaw::Path(&by.path()).to_string()
}
