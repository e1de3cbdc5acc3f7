//! Tests of the whole check: each kind of problem with its line, defaults, references, overrides, shipped examples.

mod auth;
mod damaged;
mod examples;
mod hostile;
mod problems;
mod secrets;
mod tasks;
mod tracing;

use std::time::Duration;

use super::*;

/// A minimal good file; one line.
const SERVER: &str = "servers: { a: { url: \"https://a.example/mcp\" } }\n";

fn env(name: &str) -> Option<String> {
    match name {
        "SET" => Some("canary-value".into()),
        "EMPTY" => Some(String::new()),
        "KEY" => Some("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=".into()),
        "PATH" => Some("/usr/bin:/bin".into()),
        _ => None,
    }
}

fn check_with(text: &str, options: &Options) -> Result<Checked, Vec<Problem>> {
    let base = std::env::temp_dir();
    check_text(&Source { name: "t.yaml", bytes: text.as_bytes(), base: &base }, options, &env)
}

fn check(text: &str) -> Result<Checked, Vec<Problem>> {
    check_with(text, &Options::default())
}

fn good(text: &str) -> Checked {
    check(text).unwrap_or_else(|problems| {
        panic!("{text}\n{}", problems.iter().map(|p| format!("{p}\n")).collect::<String>())
    })
}

#[test]
fn defaults() {
    let checked = good(SERVER);
    assert_eq!(checked.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(checked.admin.map(|a| a.to_string()).as_deref(), Some("127.0.0.1:9090"));
    assert_eq!(checked.limits, FrontLimits::default());
    assert_eq!((checked.limits.request_bytes, checked.limits.header_bytes), (4_194_304, 32_768));
    assert_eq!(checked.limits.depth, 64);
    assert_eq!(checked.hosts, ["localhost", "127.0.0.1", "[::1]"]);
    assert!(checked.origins.is_empty() && checked.tls.is_none() && !checked.h2c);
    assert_eq!(checked.names_max, 64);
    assert_eq!(checked.lists, Lists::default());
    assert_eq!(checked.legacy.until, Some(jiff::civil::date(2027, 7, 28)));
    assert_eq!(checked.legacy.session_ttl, Duration::from_secs(86_400));
    assert_eq!(checked.legacy.resume_grace, Duration::from_secs(10));
    assert_eq!(checked.legacy.session_ids, SessionIds::Sealed);
    assert!(checked.keys.made && checked.keys.seal.len() == 1);
    assert_eq!(checked.log, Log { format: LogFormat::Pretty, level: "info".into() });
    let [task] = checked.tasks.as_slice() else { panic!("{:?}", checked.tasks) };
    assert!(task.implicit && task.name == "default" && task.profile.task.is_open());
    assert_eq!(checked.default_task.as_deref(), Some("default"));
    let server = &checked.servers[0];
    assert_eq!((server.id.as_str(), server.line, server.answer_bytes), ("a", 1, 16 << 20));
    assert_eq!(server.timeouts, Timeouts::default());
}

/// Every section at once.
const EVERYTHING: &str = "\
listen: localhost:0
public_url: https://mcp.example.com:8443/gw
admin: off
hosts: [Gateway.internal, 'gateway.internal:81']
origins: [https://app.example.com]
h2c: true
servers:
  z:
    url: http://127.0.0.1:9/mcp
    type: sse
    headers: { X-Team: platform, Authorization: Bearer env:SET }
    required: true
    timeouts: { connect: 250ms, call_idle: 5m, call_total: 1h30m }
    tools: { 'build_*': { timeouts: { call_total: 24h } } }
    limits: { answer_bytes: 1MB }
  a:
    command: sh
    args: [-c, 'exit 0']
    env: { MODE: fast, TOKEN: env:SET }
    inherit_env: [PATH, HOME]
    cwd: .
    isolation: session
    idle: 90
    max_processes: 3
names: { max: 80 }
lists: { ttl: 5s, grace: 1h, page_size: 10, max_pages: 2, max_entries: 20, max_bytes: 256KiB }
limits: { request_bytes: 1MiB, header_bytes: 16KiB, depth: 32, header_timeout: 5s, body_timeout: 7s, connections: 9 }
legacy: { until: never, session_ttl: 1h, session_ids: none, resume_grace: 0s }
keys: { seal: [env:KEY] }
log: { format: json, level: 'info,tollgate=debug' }
drain: 1m
default_task: default
";

#[test]
fn everything_set() {
    let checked = good(EVERYTHING);
    assert_eq!(
        (checked.listen.to_string().as_str(), checked.admin, checked.h2c),
        ("127.0.0.1:0", None, true)
    );
    let hosts = [
        "localhost",
        "127.0.0.1",
        "[::1]",
        "mcp.example.com:8443",
        "gateway.internal",
        "gateway.internal:81",
    ];
    assert_eq!(checked.hosts, hosts);
    assert_eq!((checked.names_max, checked.limits.depth, checked.lists.max_bytes), (80, 32, 256 << 10));
    assert_eq!((checked.legacy.until, checked.legacy.session_ids), (None, SessionIds::None));
    assert!(!checked.keys.made);
    assert_eq!(checked.drain, Duration::from_secs(60));
    let ids: Vec<_> = checked.servers.iter().map(|s| (s.id.as_str(), s.line, s.required)).collect();
    assert_eq!(ids, [("z", 8, true), ("a", 16, false)]);
    let Transport::Http(http) = &checked.servers[0].transport else { panic!() };
    assert_eq!(http.kind, HttpKind::Sse);
    let values: Vec<_> = http.header_values();
    assert_eq!(values[1].1.to_str().unwrap(), "Bearer canary-value");
    assert!(values[1].1.is_sensitive());
    let server = &checked.servers[0];
    assert_eq!(server.call_timeouts("build_x"), (Duration::from_secs(300), Duration::from_secs(86_400)));
    assert_eq!(server.answer_bytes, 1_000_000);
    let Transport::Stdio(stdio) = &checked.servers[1].transport else { panic!() };
    assert_eq!(stdio.args, ["-c", "exit 0"]);
    assert_eq!(stdio.env[1].1.expose(), "canary-value");
    assert_eq!((stdio.isolation, stdio.idle), (Some(Isolation::Session), Duration::from_secs(90)));
    assert_eq!(stdio.cwd.as_deref(), Some(std::env::temp_dir().join(".").as_path()));
}

#[test]
fn the_journal_is_on_by_default_and_off_only_with_a_warning() {
    let audit = good(SERVER).audit;
    let meter = |text: &str| good(&format!("{text}\n{SERVER}")).meter;
    assert_eq!(meter(""), Meter { placement: Placement::Result, detail: false });
    assert_eq!(
        meter("meter: { placement: \"off\", detail: true }"),
        Meter { placement: Placement::Off, detail: true }
    );
    assert_eq!(meter("meter: { placement: meta }").placement, Placement::Meta);
    assert_eq!(audit.durability, Durability::Buffered);
    assert_eq!(audit.dir, std::env::temp_dir().join("var/audit"));
    assert_eq!(audit.key, audit.dir.join("signing-key"));
    assert_eq!((audit.segment_bytes, audit.segment_age), (64 << 20, Duration::from_secs(3_600)));
    let off = good(&format!("audit: {{ durability: off }}\n{SERVER}"));
    assert_eq!(off.audit.durability, Durability::Off);
    assert!(off.warnings.iter().any(|w| w.path == "audit.durability" && w.what.contains("no record")));
    let given =
        "audit: { dir: /d, key: k, guard: /g, instance: eu-1, deployment: example.com, durability: strict }";
    let audit = good(&format!("{given}\n{SERVER}")).audit;
    assert_eq!(
        (audit.dir.to_str(), audit.guard.as_deref().and_then(|g| g.to_str())),
        (Some("/d"), Some("/g"))
    );
    assert_eq!(audit.key, std::env::temp_dir().join("k"));
    assert_eq!(audit.durability, Durability::Strict);
    assert_ne!(good(SERVER).digest, good(&format!("{SERVER}\n")).digest, "the policy is the file's text");
}

#[test]
fn warnings_of_a_minimal_file() {
    let warnings: Vec<_> = good(SERVER).warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings.iter().any(|w| w.contains("the implicit task `default` allows every caller everything"))
    );
    assert!(warnings.iter().any(|w| w.contains("no keys.seal")));
}

#[test]
fn the_command_line_wins_and_is_checked_too() {
    let over = |listen: &str| Options { listen: Some(listen.into()), elsewhere: false };
    let text = format!("listen: 127.0.0.1:1\n{SERVER}");
    assert_eq!(check_with(&text, &over("[::1]:7")).unwrap().listen.to_string(), "[::1]:7");
    let problems = check_with(&text, &over("0.0.0.0:7")).unwrap_err();
    assert!(
        problems[0].to_string().starts_with("--listen: --listen is 0.0.0.0:7, which is not a loopback"),
        "{problems:?}"
    );
    // What it replaces does not matter any more.
    assert!(check_with(&format!("listen: 0.0.0.0:1\n{SERVER}"), &over("127.0.0.1:7")).is_ok());
}

#[test]
fn admin_can_be_off_in_either_spelling() {
    assert_eq!(good(&format!("admin: off\n{SERVER}")).admin, None);
    assert_eq!(good(&format!("admin: false\n{SERVER}")).admin, None);
    assert_eq!(good(&format!("admin: {{}}\n{SERVER}")).admin, good(SERVER).admin);
}

#[test]
fn made_keys_differ() {
    assert_ne!(good(SERVER).keys, good(SERVER).keys);
}

#[test]
fn elsewhere_looks_at_nothing_outside() {
    let text = "tls: { cert: /none/c.pem, key: /none/k.pem }\nkeys: { seal: [env:NONE] }\nservers:\n  a: { url: 'https://a/', ca: /none, headers: { Cookie: env:NONE } }\n  b: { command: /none, cwd: /none, env: { T: 'file:/none' } }\n";
    assert_eq!(check(text).unwrap_err().len(), 7);
    let checked = check_with(text, &Options { elsewhere: true, ..Options::default() }).unwrap();
    assert_eq!(checked.servers.len(), 2);
}

#[test]
fn load_names_the_file_that_is_not_there() {
    let problems = load(Path::new("/none/tollgate.yaml")).unwrap_err();
    assert!(
        problems[0].to_string().starts_with("/none/tollgate.yaml: can't read it: entity not found"),
        "{problems:?}"
    );
    let folder = load(&std::env::temp_dir()).unwrap_err();
    assert!(folder[0].to_string().contains("a folder, not a file"));
}
