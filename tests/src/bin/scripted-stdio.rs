//! A scripted MCP server on stdin and stdout, well-behaved or bad as its arguments say. Always ends by itself
//! after two minutes, so that no failed test leaves it behind.
//!
//! `scripted-stdio [--era modern|legacy] [--name N] [--log FILE] [--tools a,b,…] [--bad WHAT]…`

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_tests::peer::{Era, Peer, Rpc, Sink, simple_tool};

struct Options {
    era: Era,
    name: String,
    log: Option<String>,
    tools: Option<Vec<String>>,
    bad: Vec<String>,
    flip: Option<String>,
}

fn options() -> Options {
    let mut options = Options {
        era: Era::Legacy,
        name: "child".into(),
        log: None,
        tools: None,
        bad: Vec::new(),
        flip: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().unwrap_or_default();
        match arg.as_str() {
            "--era" => options.era = if value() == "modern" { Era::Modern } else { Era::Legacy },
            "--name" => options.name = value(),
            "--log" => options.log = Some(value()),
            "--tools" => options.tools = Some(value().split(',').map(simple_tool).collect()),
            "--bad" => options.bad.push(value()),
            // The era is modern once this file exists when the process starts.
            "--flip" => options.flip = Some(value()),
            other => eprintln!("unknown argument {other}"),
        }
    }
    if options.flip.as_ref().is_some_and(|f| std::path::Path::new(f).exists()) {
        options.era = Era::Modern;
    }
    options
}

struct Stdout;

impl Sink for Stdout {
    fn emit(&mut self, message: String) {
        write(&message);
    }

    fn gone(&mut self) -> bool {
        false
    }
}

static OUT: Mutex<()> = Mutex::new(());

fn write(line: &str) {
    let _turn = OUT.lock();
    let mut out = std::io::stdout().lock();
    if out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()).is_err()
    {
        std::process::exit(0);
    }
}

fn note(log: Option<&str>, line: &str) {
    if let Some(path) = log
        && let Ok(mut file) = std::fs::OpenOptions::new().create(true).append(true).open(path)
    {
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}

fn note_state(log: Option<&str>, peer: &Peer) {
    for stopped in peer.stopped() {
        note(log, &format!("stopped {stopped}"));
    }
    for broken in peer.violations() {
        note(log, &format!("violation {broken}"));
    }
}

fn main() {
    std::thread::spawn(|| {
        std::thread::sleep(Duration::from_secs(120));
        std::process::exit(9);
    });
    let options = options();
    let log = options.log.as_deref();
    note(log, &format!("started {}", std::process::id()));
    let mut names: Vec<String> = std::env::vars().map(|(n, _)| n).collect();
    names.sort();
    note(log, &format!("env {}", names.join(" ")));
    eprintln!("hello from {}", options.name);
    let bad = |what: &str| options.bad.iter().any(|b| b == what);
    if bad("grandchild") {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("sleep");
        note(log, &format!("grandchild {}", child.id()));
        std::thread::spawn(move || child.wait());
    }
    if bad("exit-at-start") {
        std::process::exit(4);
    }
    let mut peer = Peer::new(options.era, &options.name);
    if let Some(tools) = &options.tools {
        peer = peer.tools(tools.clone());
    }
    let peer = Arc::new(peer);
    let (mut listened, mut listed) = (false, false);
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        note(log, &format!("< {line}"));
        let rpc = Rpc::parse(&line);
        if misbehave(&options, &rpc) {
            continue;
        }
        listened |= rpc.method == "subscriptions/listen";
        // Only calls may take time; all else keeps the order in which it came.
        if rpc.method != "tools/call" {
            peer.handle(&rpc, "stdio", &mut Stdout);
            listed |= rpc.method == "tools/list";
            // Grows a tool, and says so, once somebody has read its list and listens.
            if bad("grows") && listened && listed {
                peer.set_tools(["a", "b", "c"].map(simple_tool).to_vec());
                write(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
                (listened, listed) = (false, false);
            }
            note_state(log, &peer);
        } else {
            let peer = Arc::clone(&peer);
            let log = options.log.clone();
            std::thread::spawn(move || {
                peer.handle(&rpc, "stdio", &mut Stdout);
                note_state(log.as_deref(), &peer);
            });
        }
    }
    note(log, "eof");
    if bad("ignores-eof") {
        std::thread::sleep(Duration::from_secs(110));
    }
    note(log, "bye");
}

/// Does what a bad server does; true when the message is dealt with.
fn misbehave(options: &Options, rpc: &Rpc) -> bool {
    let bad = |what: &str| options.bad.iter().any(|b| b == what);
    let call = rpc.method == "tools/call";
    if bad("silent") && rpc.id.is_some() {
        return true;
    }
    if bad("exits-on-discover") && rpc.method == "server/discover" {
        std::process::exit(2);
    }
    if bad("mute-on-discover") && rpc.method == "server/discover" {
        return true;
    }
    if bad("stops-reading") && call {
        // The guard against forgotten children still ends it.
        loop {
            std::thread::park();
        }
    }
    if bad("silent-calls") && call {
        return true;
    }
    if bad("garbage") && call {
        write("this is not JSON");
        return true;
    }
    if bad("garbage-between") && call {
        write("npm WARN deprecated something");
        return false;
    }
    if bad("huge-line") && call {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"content":[{{"type":"text","text":"{}"}}]}}}}"#,
            rpc.id.as_deref().unwrap_or("1"),
            "x".repeat(40 << 20)
        );
        write(&line);
        return true;
    }
    if bad("endless-line") && call {
        let _turn = OUT.lock();
        let mut out = std::io::stdout().lock();
        let block = vec![b'x'; 1 << 16];
        while out.write_all(&block).is_ok() {}
        std::process::exit(0);
    }
    if bad("dies-in-call") && call {
        std::process::exit(5);
    }
    if bad("wrong-id") && call {
        write(r#"{"jsonrpc":"2.0","id":"not-yours","result":{"content":[]}}"#);
        return true;
    }
    if bad("floods-stderr") && call {
        for n in 0..20_000 {
            eprintln!("noise {n} {}", "y".repeat(100));
        }
        return false;
    }
    false
}
