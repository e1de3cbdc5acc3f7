//! `tollgate explain`: what a task decides on a call of a tool, which part of the file decided it, and which limits and
//! budgets the call would meet. The decision is made by the function that decides calls; no tool is called.

mod ask;
mod limits;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use policies::select::{NoTask, TaskOffer};
use policies::task::{By, List};
use policies::{Decision, Entry, Hints, Kind, Subject};

use super::{load, principal, task_known};
use crate::assemble;
use crate::catalog::manifest::Listed;
use crate::config::{Checked, Options, Server, Task};
use crate::ports::clock::{Clock as _, SystemClock, unix_seconds};
use crate::profiles::{Door, Profiles, Unfit};
use crate::stages::authorize;
use crate::who::Who;
use ask::Told;

/// Longest `--args`.
const MAX_ARGS: usize = 1 << 20;
/// The run that is assumed: none is under way.
const RUN: &str = "explain";

/// Show what a task decides on a call, which line of the file decided it, and which limits would apply. Exit codes:
/// 0 the call would go ahead (a person may have to confirm it), 1 it would not, or the file is wrong, 2 the command line
/// is wrong.
#[derive(Debug, Args)]
#[command(after_help = principal::SHAPES)]
pub struct ExplainArgs {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// The task; without it the caller's own, or the default one.
    #[arg(long)]
    pub task: Option<String>,
    /// A JSON file that says who calls; without it a caller without a credential. See below.
    #[arg(long, value_name = "CLAIMS.json")]
    pub principal: Option<PathBuf>,
    /// The tool, as clients of /mcp see it: {server}__{name}.
    #[arg(long, value_name = "NAME")]
    pub tool: String,
    /// The arguments of the call, a JSON object. Without them conditions are not evaluated, as for a list. They are held
    /// against the tool's input schema with --connect alone.
    #[arg(long, value_name = "JSON")]
    pub args: Option<String>,
    /// Ask the tool's server whether it has the tool, and for its hints and its input schema.
    #[arg(long)]
    pub connect: bool,
}

/// Runs the command.
pub fn run(args: &ExplainArgs, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let object = |text: &String| {
        text.len() <= MAX_ARGS && serde_json::from_str::<serde_json::Map<_, serde_json::Value>>(text).is_ok()
    };
    if args.args.as_ref().is_some_and(|text| !object(text)) {
        writeln!(err, "tollgate: --args is no JSON object").ok();
        return 2;
    }
    // Without a connection no secret is needed, so that a file can be tried where it is not served.
    let options = Options { listen: None, elsewhere: !args.connect };
    let Some(config) = load(&args.config, &options, err) else { return 1 };
    if !task_known(&config, args.task.as_deref(), err) {
        return 2;
    }
    let who = match principal::read(args.principal.as_deref(), &config) {
        Ok(who) => who,
        Err(what) => {
            writeln!(err, "tollgate: {what}").ok();
            return 2;
        }
    };
    match explain(args, &config, &who, (out, err)) {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(error) => {
            writeln!(err, "tollgate: {error}").ok();
            1
        }
    }
}

/// Whether the call would go ahead.
fn explain(
    args: &ExplainArgs,
    config: &Checked,
    who: &Arc<Who>,
    (out, err): (&mut dyn Write, &mut dyn Write),
) -> io::Result<bool> {
    let shown = one_line(&args.tool);
    writeln!(out, "caller: {}", caller(who))?;
    let profiles = assemble::profiles(config);
    let task = match chosen(args, config, (who, &profiles)) {
        Ok(task) => task,
        Err(why) => {
            writeln!(out, "decision: refused: {}", why.public())?;
            writeln!(out, "  {}", hint(why))?;
            return Ok(false);
        }
    };
    let place = if task.implicit { "no `tasks` in the file".to_owned() } else { task.place(&[]) };
    writeln!(out, "task: {} ({place})", task.name)?;
    let named = mcp::naming::split(&args.tool);
    let Some((server, own)) = named.and_then(|(id, own)| Some((config.server(id)?, own))) else {
        writeln!(
            out,
            "decision: unknown tool: no configured server has the name that '{shown}' begins with"
        )?;
        return Ok(false);
    };
    let unfit = |entry: &Listed| {
        let arguments = args.args.as_deref().filter(|_| server.policy.check_arguments)?;
        let fits = authorize::fits(entry, Some(arguments), task.profile.task.is_open());
        fits.err().map(|reject| reject.public.into_owned())
    };
    let told = match args.connect {
        true => ask::ask(config, server, &args.tool, unfit, err).map_err(io::Error::other)?,
        false => Some(Told { own: own.to_owned(), hints: Hints::default(), unfit: None }),
    };
    let Some(Told { own, hints, unfit }) = told else {
        writeln!(out, "decision: unknown tool: server {} does not have '{shown}'", server.id)?;
        return Ok(false);
    };
    let entry = Entry {
        server: &server.id,
        kind: Kind::Tool,
        exposed: &args.tool,
        own: &own,
        hints: hints.believed(server.policy.trusted_hints),
    };
    let call = Call { task, server, who, entry, loopback: profiles.loopback, unfit };
    let ahead = call.decide(args, out)?;
    limits::print(&call, out)?;
    Ok(ahead)
}

/// A call that is explained.
struct Call<'a> {
    task: &'a Task,
    server: &'a Server,
    who: &'a Who,
    entry: Entry<'a>,
    loopback: bool,
    /// Why the arguments are refused whatever the task says.
    unfit: Option<String>,
}

impl Call<'_> {
    fn decide(&self, args: &ExplainArgs, out: &mut dyn Write) -> io::Result<bool> {
        let (task, profile) = (self.task, &self.task.profile);
        let subject = Subject { caller: &self.who.caller, run: RUN, now: unix_seconds(SystemClock.now()) };
        let found = profile.task.explain(&subject, self.loopback, &self.entry, args.args.as_deref());
        let place = |by: By| task.place(&by.path());
        let lines = found.lines(place);
        let (steps, decision) = lines.rsplit_once("decision: ").unwrap_or(("", &lines));
        out.write_all(steps.as_bytes())?;
        let ahead = matches!(found.decision, Decision::Allowed { .. } | Decision::NeedsConfirm { .. });
        // As in a call, what the task refuses is told first.
        if let (true, Some(unfit)) = (ahead, &self.unfit) {
            writeln!(out, "decision: refused, by the tool's input schema: {}", one_line(unfit))?;
            return Ok(false);
        }
        write!(out, "decision: {}", decision.trim_end())?;
        match found.by() {
            Some(By { list: List::Open, .. }) => writeln!(out, ", since there are no tasks")?,
            Some(by) => {
                writeln!(out, ", by {}: {}", place(by), policies::flaw::Path(&by.path()))?;
            }
            None => writeln!(out, ": nothing allows it")?,
        }
        match &found.decision {
            Decision::Hidden => writeln!(out, "  clients are told that the tool is unknown")?,
            Decision::NeedsConfirm { .. } => self.confirmation(args, out)?,
            _ if args.args.is_none() && found.steps.iter().any(|s| s.by.list == List::Rules) => {
                writeln!(out, "  without --args conditions were not evaluated")?;
            }
            _ => {}
        }
        if ahead && args.args.is_some() && !args.connect && self.server.policy.check_arguments {
            writeln!(out, "  the arguments were not held against the tool's input schema: see --connect")?;
        }
        Ok(ahead)
    }

    fn confirmation(&self, args: &ExplainArgs, out: &mut dyn Write) -> io::Result<()> {
        let fallback = match self.task.profile.task.confirm_fallback() {
            policies::task::Fallback::Refuse => "refused",
            policies::task::Fallback::Allow => "let through",
        };
        writeln!(out, "  a client that can't ask: {fallback}")?;
        if !args.connect && self.server.policy.trusted_hints {
            writeln!(out, "  the tool's own hints are trusted and may spare the question: see --connect")?;
        }
        Ok(())
    }
}

/// The task that the caller would work under.
fn chosen<'a>(
    args: &ExplainArgs,
    config: &'a Checked,
    (who, profiles): (&Who, &Profiles),
) -> Result<&'a Task, Unfit> {
    let offer = TaskOffer { claim: who.claims().0, url: args.task.as_deref(), header: None };
    let door = Door { credentials: config.auth.any(), http: true };
    let profile = profiles.admit(&who.caller, offer, door)?;
    let named = config.tasks.iter().find(|task| task.name == profile.task.name());
    named.ok_or(Unfit::Task(NoTask::Unknown))
}

fn hint(why: Unfit) -> &'static str {
    match why {
        Unfit::Credential => {
            "`auth` proves callers: say with --principal who calls (over HTTP a task admits others only with \
             `principals: { anonymous: true }`)"
        }
        Unfit::Task(NoTask::Disagree) => "the token's own task and --task differ",
        Unfit::Task(NoTask::Unnamed) => "nothing names a task and there is no default_task",
        Unfit::Task(NoTask::Unknown) => "there is no task of this name",
        Unfit::Task(NoTask::Forbidden) => "the task's `principals` do not admit this caller",
    }
}

/// What a server or a token says must not steer a terminal.
fn one_line(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

fn caller(who: &Who) -> String {
    let shown = match &who.principal {
        auth::Principal::Anonymous => "without a credential".to_owned(),
        auth::Principal::Token { name } => format!("token {}", &**name),
        auth::Principal::Certificate { .. } => format!("certificate {}", who.key),
        auth::Principal::Oauth(oauth) => {
            let client =
                oauth.client_id.as_ref().map(|id| format!(" by client {}", &**id)).unwrap_or_default();
            format!("{} of {}{client}, scopes [{}]", &*oauth.subject, &*oauth.issuer, oauth.scopes.text())
        }
    };
    one_line(&shown)
}
