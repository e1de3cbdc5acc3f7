//! `tollgate check FILE`: every problem of a configuration, or what it would serve. Listens nowhere and writes nothing;
//! connects to the servers only where it is told to.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::{names, runtime};
use crate::assemble;
use crate::config::{self, Checked, HttpKind, Options, Problem, Server, Transport};

/// Check a configuration file and say everything that is wrong with it, each problem with its line.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The configuration file.
    pub file: PathBuf,
    /// Print problems as a JSON array of {file, line, column, path, what, fix}.
    #[arg(long)]
    pub json: bool,
    /// The file is for another machine: don't look at its variables, secret files, certificates and programs.
    #[arg(long)]
    pub elsewhere: bool,
    /// Ask the servers for their lists, and say which patterns of tasks match nothing.
    #[arg(long, conflicts_with = "elsewhere")]
    pub connect: bool,
}

/// Runs the command: 0 when the file is good, 1 when it is not (or `out` can't be written). Problems and the summary
/// go to `out`, warnings of the human form too; with `--json` the array goes to `out` and warnings to `err`.
pub fn run(args: &CheckArgs, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let options = Options { listen: None, elsewhere: args.elsewhere };
    let mut result = config::load_with(&args.file, &options);
    if let (true, Ok(checked)) = (args.connect, &mut result)
        && let Err(error) = connect(checked, err)
    {
        writeln!(err, "tollgate: {error}").ok();
        return 1;
    }
    let written = match &result {
        Ok(checked) if args.json => json_out(&[], out).and_then(|()| warnings(checked, err)),
        Ok(checked) => summary(checked, args, out),
        Err(problems) if args.json => json_out(problems, out),
        Err(problems) => human(problems, out),
    };
    u8::from(result.is_err() || written.is_err())
}

/// Asks all servers, and adds what is found to the warnings.
fn connect(checked: &mut Checked, err: &mut dyn Write) -> Result<(), String> {
    let runtime = runtime(err).ok_or("no runtime")?;
    let names = runtime.block_on(async {
        let gate = assemble::assemble(checked.clone())?;
        assemble::warm_up(Arc::clone(&gate)).await;
        let names = names::read(&gate).await;
        gate.draining.cancel();
        assemble::shut_down(&gate, assemble::LAST_WORDS).await;
        Ok::<_, String>(names)
    })?;
    for (id, why) in &names.failed {
        writeln!(err, "warning: server {id} failed, so patterns were not compared with names: {why}").ok();
    }
    let found = names.unmatched(checked);
    checked.warnings.extend(found);
    Ok(())
}

fn json_out(problems: &[Problem], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", serde_json::to_string_pretty(problems)?)
}

fn human(problems: &[Problem], out: &mut dyn Write) -> io::Result<()> {
    for problem in problems {
        writeln!(out, "{problem}")?;
    }
    let count = problems.len();
    writeln!(out, "{count} problem{}", if count == 1 { "" } else { "s" })
}

fn warnings(checked: &Checked, out: &mut dyn Write) -> io::Result<()> {
    checked.warnings.iter().try_for_each(|warning| writeln!(out, "warning: {warning}"))
}

fn summary(checked: &Checked, args: &CheckArgs, out: &mut dyn Write) -> io::Result<()> {
    warnings(checked, out)?;
    writeln!(out, "{} is good", args.file.display())?;
    let scheme = if checked.tls.is_some() { "https" } else { "http" };
    writeln!(out, "  clients  {scheme}://{}/mcp", checked.listen)?;
    match checked.admin {
        Some(admin) => writeln!(out, "  admin    http://{admin}/status")?,
        None => writeln!(out, "  admin    off")?,
    }
    match checked.legacy.until {
        Some(until) => writeln!(out, "  eras     modern, legacy until {until}")?,
        None => writeln!(out, "  eras     modern, legacy")?,
    }
    tasks(checked, out)?;
    writeln!(out, "  servers  {}", checked.servers.len())?;
    let width = checked.servers.iter().map(|server| server.id.len()).max().unwrap_or(0);
    for server in &checked.servers {
        let required = if server.required { "  (required)" } else { "" };
        writeln!(out, "    {:width$}  {}{required}", server.id, reach(server))?;
    }
    Ok(())
}

fn tasks(checked: &Checked, out: &mut dyn Write) -> io::Result<()> {
    if checked.tasks.iter().all(|task| task.implicit) {
        return Ok(());
    }
    let names: Vec<_> = checked.tasks.iter().map(|task| task.name.as_str()).collect();
    let default = checked.default_task.as_deref().map(|name| format!(" (default: {name})"));
    writeln!(out, "  tasks    {}{}", names.join(", "), default.unwrap_or_default())
}

/// How a server is reached, without anything that may be a secret: no query of its URL, no arguments, no variables.
fn reach(server: &Server) -> String {
    match &server.transport {
        Transport::Http(http) => {
            let kind = match http.kind {
                HttpKind::Auto => "http or sse",
                HttpKind::StreamableHttp => "http",
                HttpKind::Sse => "sse",
            };
            format!("{kind}  {}", http.shown_url())
        }
        Transport::Stdio(stdio) => {
            let args = match stdio.args.len() {
                0 => String::new(),
                1 => " (1 argument)".into(),
                count => format!(" ({count} arguments)"),
            };
            let command: String = stdio.command.chars().filter(|c| !c.is_control()).collect();
            format!("stdio  {command}{args}")
        }
    }
}

#[cfg(test)]
mod tests;
