//! `tollgate demo`: the gateway in front of two small servers that are part of this program: one of the modern era
//! over HTTP, one of the legacy era over stdio. Needs nothing but the binary; Ctrl-C ends everything.

mod modern;
mod notes;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use clap::Args;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::serve::{Addresses, serve};
use super::{journal, lanes, log, runtime};
use crate::config::{self, Checked, Options, Source};
use crate::edge;
use crate::lanes::Places;

/// Where to listen.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Listen here.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    pub listen: String,
    /// The admin listener.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9090")]
    pub admin: String,
}

/// Runs the command.
pub fn run(args: &DemoArgs, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let (Some(runtime), Some(lanes)) = (runtime(err), lanes(err)) else { return 1 };
    // Its journal is for looking at while it runs.
    let folder = std::env::temp_dir().join(format!("tollgate-demo-{}", Uuid::now_v7().simple()));
    let result = runtime.block_on(demo(args, &folder, lanes.places(), (out, err)));
    std::fs::remove_dir_all(&folder).ok();
    match result {
        Ok(()) => 0,
        Err(error) => {
            log::failed(&error, err);
            1
        }
    }
}

/// The legacy server of the demo, as the child process that the gateway starts.
pub fn server() -> u8 {
    u8::from(notes::serve(&mut io::stdin().lock(), &mut io::stdout().lock()).is_err())
}

async fn demo(
    args: &DemoArgs,
    folder: &Path,
    places: Places,
    (out, err): (&mut dyn Write, &mut dyn Write),
) -> Result<(), String> {
    let loopback = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let (listener, addr) = edge::bind(loopback).map_err(|e| e.to_string())?;
    let stop = CancellationToken::new();
    let clock = edge::serve(listener, edge::Options::default(), Arc::new(modern::Clock), stop.clone());
    let clock = tokio::spawn(clock);
    let config = configuration(args, addr, folder)?;
    log::start(&config.log);
    let journal = journal::open(&config, journal::SERVE, err).ok_or("no journal")?;
    let result = serve(config, journal, places, out, instructions).await;
    stop.cancel();
    clock.await.ok();
    result
}

fn configuration(args: &DemoArgs, clock: std::net::SocketAddr, folder: &Path) -> Result<Checked, String> {
    let program = std::env::current_exe().map_err(|e| format!("where is this program? {e}"))?;
    let yaml = format!(
        "listen: {}\nadmin: {{ listen: \"{}\" }}\nlog: {{ level: warn }}\naudit: {{ dir: {} }}\nservers:\n  \
         clock: {{ url: \"http://{clock}/mcp\" }}\n  notes: {{ command: {:?}, args: [demo-server] }}\n",
        serde_json::Value::from(args.listen.as_str()),
        args.admin,
        serde_json::Value::from(folder.join("audit").to_string_lossy()),
        program.display().to_string(),
    );
    let source = Source { name: "demo", bytes: yaml.as_bytes(), base: Path::new(".") };
    let checked = config::check_text(&source, &Options::default(), &|name| std::env::var(name).ok());
    checked.map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

/// What a newcomer needs next.
fn instructions(addresses: &Addresses, out: &mut dyn Write) -> io::Result<()> {
    let url = format!("{}://{}/mcp", addresses.scheme, addresses.data);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"clock__add","arguments":{"a":2,"b":3},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    writeln!(out, "\nTollgate is running: {url}")?;
    writeln!(out, "Behind it: clock (2026-07-28, HTTP) and notes (2025-11-25, child process).\n")?;
    writeln!(out, "Call a tool:\n")?;
    writeln!(out, "  curl -s {url} -H 'Content-Type: application/json' \\")?;
    writeln!(out, "    -H 'Accept: application/json, text/event-stream' \\")?;
    writeln!(out, "    -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' \\")?;
    writeln!(out, "    -H 'Mcp-Name: clock__add' \\")?;
    writeln!(out, "    -d '{call}'\n")?;
    writeln!(out, "Claude Code:\n\n  claude mcp add --transport http tollgate {url}\n")?;
    writeln!(out, "Cursor (~/.cursor/mcp.json):\n")?;
    writeln!(out, "  {{ \"mcpServers\": {{ \"tollgate\": {{ \"url\": \"{url}\" }} }} }}\n")?;
    writeln!(out, "VS Code (.vscode/mcp.json):\n")?;
    writeln!(out, "  {{ \"servers\": {{ \"tollgate\": {{ \"type\": \"http\", \"url\": \"{url}\" }} }} }}\n")?;
    if let Some(admin) = addresses.admin {
        writeln!(out, "What the servers are doing: http://{admin}/status\n")?;
    }
    writeln!(out, "Ctrl-C ends everything.")?;
    out.flush()
}
