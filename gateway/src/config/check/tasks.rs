//! The `tasks` section: from what is written to compiled profiles, all problems of all tasks at once, and what is no
//! problem and still surely not meant. Decides nothing itself; that is in `policies`.

mod content;
mod limits;
mod review;
mod spec;

use std::sync::Arc;
use std::time::Duration;

use mcp::json::{ArrayWriter, ObjectWriter, Raw};
use policies::compile::{Compiled, TaskSpec};
use policies::rate::Rates;
use policies::task::Capabilities;

use super::bounds::seconds;
use super::{server, valid_id};
use crate::config::checked::{Origin, Task, ToolTimeouts};
use crate::config::context::Context;
use crate::config::place::At;
use crate::config::raw;
use crate::profiles::{CONFIRM_WITHIN, Meters, Profile, RUNS};

pub(super) use review::Ground;

/// The task that exists without a `tasks` section.
const IMPLICIT_TASK: &str = "default";
/// More are a mistake.
const MAX_TASKS: usize = 1000;
/// Findings of this section that are said at most.
const MAX_WARNINGS: usize = 200;

/// The tasks, and the one of callers who name none.
pub(super) struct Tasks {
    pub(super) all: Vec<Task>,
    pub(super) default: Option<String>,
}

/// All but the compiled task.
struct Parts {
    name: String,
    spec: TaskSpec,
    rest: Rest,
    origin: Origin,
}

/// What a profile has besides its decisions.
struct Rest {
    rates: Rates,
    limits: limits::Limits,
    content: content::Content,
    timeouts: ToolTimeouts,
    confirm_within: Duration,
}

/// All tasks; what is incomplete was reported.
pub(super) fn check(raw: &raw::File, ground: &Ground<'_>, context: &mut Context<'_>) -> Tasks {
    let at = At::root().key("tasks");
    let Some(tasks) = raw.tasks.as_ref().filter(|tasks| !tasks.0.is_empty()) else {
        if raw.tasks.is_some() {
            context.problem(&at, "no task in it", "name one, or remove the section");
        }
        return implicit(raw, context);
    };
    if tasks.0.len() > MAX_TASKS {
        context.problem(&at, format!("more than {MAX_TASKS} tasks"), "let tasks be shared by more callers");
        return Tasks { all: Vec::new(), default: None };
    }
    let mut redactors = content::Redactors::default();
    let mut parts = Vec::new();
    for (name, task) in &tasks.0 {
        parts.extend(one(name, task, &at.key(name), (&mut redactors, context)));
    }
    let found = context.warnings.len();
    let specs: Vec<TaskSpec> = parts.iter().map(|part| part.spec.clone()).collect();
    let compiled = policies::Task::compile_all(specs);
    let all = parts.into_iter().zip(compiled);
    let all = all.filter_map(|(part, compiled)| join(part, compiled, ground, context)).collect();
    let more = context.warnings.len().saturating_sub(found + MAX_WARNINGS);
    if more > 0 {
        context.warnings.truncate(found + MAX_WARNINGS);
        context.warning(&at, format!("{more} more like these"), "correct those first");
    }
    Tasks { all, default: default_task(raw, context) }
}

fn implicit(raw: &raw::File, context: &mut Context<'_>) -> Tasks {
    if raw.default_task.as_deref().is_some_and(|name| name != IMPLICIT_TASK) {
        let fix = "remove it, or write the task: without `tasks` there is `default` alone";
        context.problem(&At::root().key("default_task"), "there is no such task", fix);
    }
    let fix = "write `tasks` with what each may call";
    context.warning(&At::root(), "no tasks: the implicit task `default` allows every caller everything", fix);
    let task = Task {
        name: IMPLICIT_TASK.to_owned(),
        implicit: true,
        profile: Arc::new(Profile::bare(Arc::new(policies::Task::open(IMPLICIT_TASK)))),
        origin: Arc::new(origin(At::root(), context)),
    };
    Tasks { all: vec![task], default: Some(IMPLICIT_TASK.to_owned()) }
}

/// Judged by the text: a task with a problem is still one of this name.
fn default_task(raw: &raw::File, context: &mut Context<'_>) -> Option<String> {
    let at = At::root().key("default_task");
    let Some(name) = &raw.default_task else {
        let fix = "name one, unless every caller names a task";
        context.warning(&At::root(), "no default_task: callers who name no task are refused", fix);
        return None;
    };
    if !context.places.has(&At::root().key("tasks").key(name)) {
        context.problem(&at, "there is no such task", "name one of `tasks`");
    }
    Some(name.clone())
}

fn origin(at: At, context: &Context<'_>) -> Origin {
    Origin {
        file: context.file.to_owned(),
        at,
        places: Arc::clone(context.places),
        scopes: Vec::new(),
        tools: Vec::new(),
        budgets: Vec::new(),
    }
}

fn one(
    name: &str,
    raw: &raw::tasks::Task,
    at: &At,
    (redactors, context): (&mut content::Redactors, &mut Context<'_>),
) -> Option<Parts> {
    if !valid_id(name) {
        let fix = "names begin with a-z, go on with a-z, 0-9 or -, and have at most 32 characters";
        context.name_problem(at, "not the name of a task", fix);
    }
    let spec = spec::spec(name, raw, at, context);
    let (rate_spec, limits) = limits::check(raw.limits.as_ref(), &at.key("limits"), context);
    let keys = |map: Vec<&String>, at: At| map.into_iter().map(|key| at.key(key)).collect();
    let scopes = raw.scopes.iter().flat_map(|map| map.0.iter().map(|(key, _)| key)).collect();
    let tools = rate_spec.tools.iter().map(|(key, _)| key).collect();
    let origin = Origin {
        scopes: keys(scopes, at.key("scopes")),
        tools: keys(tools, at.key("limits").key("tools")),
        budgets: limits.budget_places.clone(),
        ..origin(at.clone(), context)
    };
    let within = at.key("confirm_within");
    let confirm_within =
        context.time(&within, raw.confirm_within.as_ref(), CONFIRM_WITHIN, seconds(1, 86_400));
    let content = content::check(raw, at, (redactors, context));
    let timeouts = server::tool_timeouts(raw.timeouts.as_ref(), &at.key("timeouts"), context);
    context.problems.extend(limits.budgets.flaws().iter().map(|flaw| origin.problem(flaw)));
    let rates = match Rates::compile(rate_spec) {
        Ok(rates) => rates,
        Err(flaws) => {
            context.problems.extend(flaws.iter().map(|flaw| origin.problem(flaw)));
            return None;
        }
    };
    let rest = Rest { rates, limits, content, timeouts, confirm_within };
    Some(Parts { name: name.to_owned(), spec, rest, origin })
}

/// The answer to `roots/list`.
fn roots(capabilities: &Capabilities) -> Option<Raw> {
    let mut all = ArrayWriter::new();
    for root in &capabilities.roots {
        let mut one = ObjectWriter::new();
        one.string("uri", &root.uri);
        if let Some(name) = &root.name {
            one.string("name", name);
        }
        all.push(&one.finish());
    }
    let mut answer = ObjectWriter::new();
    answer.raw("roots", &all.finish());
    (!capabilities.roots.is_empty()).then(|| answer.finish())
}

fn join(
    part: Parts,
    compiled: Result<Compiled, Vec<policies::flaw::Flaw>>,
    ground: &Ground<'_>,
    context: &mut Context<'_>,
) -> Option<Task> {
    let Parts { name, spec, rest, origin } = part;
    let compiled = match compiled {
        Ok(compiled) => compiled,
        Err(flaws) => {
            context.problems.extend(flaws.iter().map(|flaw| origin.problem(flaw)));
            return None;
        }
    };
    let more = review::review(&spec, &compiled.warnings, ground);
    context.warnings.extend(compiled.warnings.iter().chain(&more).map(|flaw| origin.problem(flaw)));
    let reached = ground.servers.iter().filter(|id| compiled.reach.reaches(id));
    let profile = Profile {
        roots: roots(compiled.task.capabilities()),
        servers: Some(reached.map(|id| (*id).into()).collect()),
        rates: rest.rates,
        budgets: rest.limits.budgets,
        runs: rest.limits.runs.unwrap_or(RUNS),
        caps: rest.limits.caps,
        redactor: rest.content.redactor,
        redact_arguments: rest.content.redact_arguments,
        strip: rest.content.strip,
        call_idle: rest.timeouts.call_idle,
        call_total: rest.timeouts.call_total,
        confirm_within: rest.confirm_within,
        meters: Meters::default(),
        task: Arc::new(compiled.task),
    };
    Some(Task { name, implicit: false, profile: Arc::new(profile), origin: Arc::new(origin) })
}
