//! `tollgate tools`: connects to all servers once and shows what a host would see, and which servers failed and
//! why. Calls nothing.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use mcp::entry::EntryKind;
use mcp::era::Era;
use policies::select::TaskOffer;
use serde_json::{Value, json};

use super::{load, names, principal, runtime, task_known};
use crate::assemble;
use crate::catalog::manifest::Listed;
use crate::catalog::member::Member;
use crate::config::Options;
use crate::gate::Gate;
use crate::profiles::{Door, Party};
use crate::stages::authorize;

/// Show the tools, prompts and resources that a host would see.
#[derive(Debug, Args)]
#[command(after_help = principal::SHAPES)]
pub struct ToolsArgs {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// The task to look as; without it the caller's own, or the default one.
    #[arg(long)]
    pub task: Option<String>,
    /// A JSON file that says who looks; without it a caller without a credential. See below.
    #[arg(long, value_name = "CLAIMS.json")]
    pub principal: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs the command: 1 when a server failed.
pub fn run(args: &ToolsArgs, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let Some(config) = load(&args.config, &Options::default(), err) else { return 1 };
    if !task_known(&config, args.task.as_deref(), err) {
        return 1;
    }
    let who = match principal::read(args.principal.as_deref(), &config) {
        Ok(who) => who,
        Err(what) => {
            writeln!(err, "tollgate: {what}").ok();
            return 2;
        }
    };
    // Before anything is connected: most tasks are for others.
    let profiles = assemble::profiles(&config);
    let offer = TaskOffer { claim: who.claims().0, url: args.task.as_deref(), header: None };
    let profile = match profiles.choose(&who.caller, offer) {
        Ok(profile) => profile,
        Err(why) => {
            let fix = "--task and --principal say who looks and as what";
            writeln!(err, "tollgate: {}; {fix}", why.public()).ok();
            return 1;
        }
    };
    let door = Door { credentials: config.auth.any(), http: true };
    if !door.admits(&who.caller, &profile) {
        let text = "over HTTP this task needs a credential; this is what a host of `tollgate stdio` sees";
        writeln!(err, "warning: {text}: --principal says who looks").ok();
    }
    let party = Party { who, profile };
    let Some(runtime) = runtime(err) else { return 1 };
    let seen = runtime.block_on(async {
        let gate = assemble::assemble(config)?;
        assemble::warm_up(Arc::clone(&gate)).await;
        let seen = look(&gate, &party).await;
        for warning in names::read(&gate).await.unmatched(&gate.snapshot.load().config) {
            writeln!(err, "warning: {warning}").ok();
        }
        gate.draining.cancel();
        assemble::shut_down(&gate, assemble::LAST_WORDS).await;
        Ok::<Seen, String>(seen)
    });
    let seen = match seen {
        Ok(seen) => seen,
        Err(error) => {
            writeln!(err, "tollgate: {error}").ok();
            return 1;
        }
    };
    let written = if args.json { writeln!(out, "{:#}", seen.json) } else { seen.print(out) };
    u8::from(written.is_err() || seen.failed)
}

struct Seen {
    json: Value,
    failed: bool,
}

async fn look(gate: &Gate, party: &Party) -> Seen {
    let snap = gate.snapshot.load_full();
    let mut servers = Vec::new();
    let mut failed = false;
    for member in snap.catalog.members() {
        let mut shown = crate::admin::server(member);
        let mut trouble = false;
        for kind in EntryKind::ALL {
            let key = kind.result_member();
            match entries(party, member, kind).await {
                Ok(entries) => set(&mut shown, key, Value::Array(entries)),
                Err(error) => {
                    trouble = true;
                    set(&mut shown, "error", Value::from(error));
                }
            }
        }
        failed |= trouble;
        servers.push(shown);
    }
    Seen { json: json!({ "task": party.task(), "servers": servers }), failed }
}

fn set(object: &mut Value, key: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(key.to_owned(), value);
    }
}

async fn entries(party: &Party, member: &Arc<Member>, kind: EntryKind) -> Result<Vec<Value>, String> {
    let client = assemble::nobody();
    let manifest = member.manifest(kind, &client, std::time::Duration::ZERO).await.map_err(|f| f.detail)?;
    let visible = |entry: &&Listed| authorize::visible(party, kind, member, entry);
    let shown =
        manifest.entries.iter().filter(visible).map(|entry| entry.for_client(kind, Era::Modern, false));
    Ok(shown.filter_map(|raw| serde_json::from_str(raw.as_str()).ok()).collect())
}

impl Seen {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let servers = self.json.get("servers").and_then(Value::as_array);
        for server in servers.into_iter().flatten() {
            let text = |key: &str| server.get(key).and_then(Value::as_str).unwrap_or("?");
            writeln!(out, "{} ({}, {}): {}", text("id"), text("transport"), text("era"), text("state"))?;
            if let Some(error) = server.get("error").and_then(Value::as_str) {
                writeln!(out, "  failed: {error}")?;
            }
            for kind in EntryKind::ALL {
                let entries = server.get(kind.result_member()).and_then(Value::as_array);
                for entry in entries.into_iter().flatten() {
                    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
                    let about: String =
                        text("description").lines().next().unwrap_or_default().chars().take(80).collect();
                    writeln!(out, "  {:10} {}  {about}", kind.result_member(), text(kind.id_member()))?;
                }
            }
            for dropped in server.get("dropped").and_then(Value::as_array).into_iter().flatten() {
                let text = |key: &str| dropped.get(key).and_then(Value::as_str).unwrap_or_default();
                writeln!(out, "  left out: {}: {}", text("entry"), text("reason"))?;
            }
        }
        Ok(())
    }
}
