//! The command line: `check`, `schema`, `tools`, `import`, help, completions and exit codes.

use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use tollgate_tests::gateway::{Start, run};
use tollgate_tests::json;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;

use crate::eras::Dir;
use crate::support::{http, yaml};

fn file(dir: &Dir, name: &str, text: &str) -> String {
    let path = dir.file(name);
    std::fs::write(&path, text).expect("write");
    path.to_string_lossy().into_owned()
}

fn both(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn tollgate(args: &[&str]) -> Output {
    run(args, Path::new("/"))
}

#[test]
fn check_names_every_problem_with_its_line() {
    let dir = Dir::new();
    let text = "listen: 127.0.0.1:8080\n\
                servers:\n\
                \x20 both: { url: \"http://127.0.0.1:1/mcp\", command: x }\n\
                \x20 neither: { required: true }\n\
                \x20 Bad_Name: { url: \"http://127.0.0.1:1/mcp\" }\n\
                \x20 typo: { url: \"http://127.0.0.1:1/mcp\", timeuots: { connect: 1s } }\n\
                \x20 odd: { url: \"ftp://127.0.0.1/mcp\" }\n\
                \x20 late: { url: \"http://127.0.0.1:1/mcp\", timeouts: { connect: soon } }\n\
                legacy: { until: tomorrow }\n\
                audit: { dirr: ./x }\n";
    let path = file(&dir, "bad.yaml", text);
    let output = tollgate(&["check", &path]);
    assert_eq!(output.status.code(), Some(1));
    let said = both(&output);
    for line in [3, 4, 5, 6, 7, 8, 9, 10] {
        assert!(said.contains(&format!("bad.yaml:{line}")), "line {line} is not named:\n{said}");
    }
    for word in ["url", "command", "timeuots", "timeouts", "audit"] {
        assert!(said.contains(word), "{word}:\n{said}");
    }
    let listed = tollgate(&["check", "--json", &path]);
    assert_eq!(listed.status.code(), Some(1));
    let problems = json::parse(&String::from_utf8_lossy(&listed.stdout));
    let lines: Vec<u64> =
        problems.as_array().expect("an array").iter().filter_map(|p| p["line"].as_u64()).collect();
    assert!([3, 4, 5, 6, 7, 8, 9, 10].iter().all(|l| lines.contains(l)), "{problems:#}");
}

#[test]
fn check_refuses_what_is_no_yaml_missing_or_unsafe() {
    let dir = Dir::new();
    for (what, text) in [
        ("no YAML", "servers: { a: [\n"),
        ("a list", "- a\n"),
        ("twice a key", "listen: 127.0.0.1:0\nlisten: 127.0.0.1:1\n"),
        (
            "twice a server",
            "servers:\n  a: { url: \"http://127.0.0.1:1/\" }\n  a: { url: \"http://127.0.0.1:2/\" }\n",
        ),
        ("an open address", "listen: 0.0.0.0:8080\nservers:\n  a: { url: \"http://127.0.0.1:1/\" }\n"),
        (
            "a secret in the file",
            "servers:\n  a: { url: \"http://127.0.0.1:1/\", headers: { Authorization: \"Bearer abcdefghijklmnop\" } }\n",
        ),
        (
            "a variable that is not set",
            "servers:\n  a: { url: \"http://127.0.0.1:1/\", headers: { Authorization: \"Bearer env:TG_TEST_NOT_SET\" } }\n",
        ),
        (
            "one port for both",
            "listen: 127.0.0.1:8080\nadmin: { listen: 127.0.0.1:8080 }\nservers:\n  a: { url: \"http://127.0.0.1:1/\" }\n",
        ),
        ("a short key", "keys: { seal: [\"env:PATH\"] }\nservers:\n  a: { url: \"http://127.0.0.1:1/\" }\n"),
        ("userinfo", "servers:\n  a: { url: \"http://user:pass@127.0.0.1:1/\" }\n"),
        (
            "a task with an unknown key",
            "tasks: { a: { alow: [\"*\"] } }\nservers:\n  a: { url: \"http://127.0.0.1:1/\" }\n",
        ),
    ] {
        let path = file(&dir, "one.yaml", text);
        let output = tollgate(&["check", &path]);
        assert_eq!(output.status.code(), Some(1), "{what}:\n{}", both(&output));
        assert!(both(&output).contains("one.yaml:"), "{what}:\n{}", both(&output));
        assert!(
            !both(&output).contains("abcdefghijklmnop") && !both(&output).contains("user:pass"),
            "{what}: a secret is shown"
        );
        assert!(Start::new(text).attempt().is_err(), "{what}: half a gateway was started");
    }
    let absent = tollgate(&["check", "/no/such/file.yaml"]);
    assert_eq!(absent.status.code(), Some(1), "{}", both(&absent));
}

#[test]
fn check_is_content_with_a_good_file_and_exit_codes_tell_usage_from_failure() {
    let dir = Dir::new();
    let good = file(
        &dir,
        "good.yaml",
        "servers:\n  a: { url: \"http://127.0.0.1:1/mcp\" }\n  b: { command: sh, args: [-c, cat] }\n",
    );
    let output = tollgate(&["check", &good]);
    assert_eq!(output.status.code(), Some(0), "{}", both(&output));
    for args in
        [&["check"][..], &["no-such-command"], &["serve", "--no-such-flag"], &["check", &good, "more"]]
    {
        assert_eq!(tollgate(args).status.code(), Some(2), "{args:?}");
    }
    for args in [
        &["--help"][..],
        &["serve", "--help"],
        &["stdio", "--help"],
        &["tools", "--help"],
        &["explain", "--help"],
        &["import", "--help"],
        &["demo", "--help"],
        &["--version"],
    ] {
        let output = tollgate(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(output.stdout.len() > 10, "{args:?}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let output = tollgate(&["completions", shell]);
        assert!(
            output.status.success() && String::from_utf8_lossy(&output.stdout).contains("tollgate"),
            "{shell}"
        );
    }
}

#[test]
fn schema_is_a_json_schema_of_the_file() {
    let output = tollgate(&["schema"]);
    assert_eq!(output.status.code(), Some(0));
    let schema = json::parse(&String::from_utf8_lossy(&output.stdout));
    assert!(schema["$schema"].as_str().is_some_and(|s| s.contains("json-schema.org")), "{schema:#}");
    for key in ["listen", "admin", "servers", "legacy", "limits", "keys"] {
        assert!(schema["properties"][key].is_object(), "{key}");
    }
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn tools_shows_what_a_host_would_see_and_which_servers_failed() {
    let up = Scripted::json(Peer::legacy("up"));
    let dir = Dir::new();
    let config = file(&dir, "c.yaml", &yaml("", &[http("up", &up, "")]));
    let plain = tollgate(&["tools", "--config", &config]);
    assert_eq!(plain.status.code(), Some(0), "{}", both(&plain));
    assert!(both(&plain).contains("echo"), "{}", both(&plain));
    let listed = tollgate(&["tools", "--config", &config, "--json"]);
    let value: Value = json::parse(&String::from_utf8_lossy(&listed.stdout));
    assert!(value.to_string().contains("up__echo"), "{value:#}");
    let broken = file(
        &dir,
        "b.yaml",
        &yaml("", &[http("up", &up, ""), "  gone: { url: \"http://127.0.0.1:1/mcp\" }\n".into()]),
    );
    let output = tollgate(&["tools", "--config", &broken]);
    assert_eq!(output.status.code(), Some(1), "{}", both(&output));
    assert!(both(&output).contains("gone") && both(&output).contains("echo"), "{}", both(&output));
}

#[test]
fn import_turns_mcp_servers_into_a_file_that_check_likes() {
    let dir = Dir::new();
    let host = json!({"mcpServers": {
        "files": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"], "env": {"LEVEL": "debug"}},
        "Remote Thing": {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer sk-super-secret-123"}},
        "old": {"type": "sse", "url": "https://old.example.com/sse"},
    }});
    let path = file(&dir, "mcp.json", &host.to_string());
    let output = tollgate(&["import", &path]);
    assert_eq!(output.status.code(), Some(0), "{}", both(&output));
    let yaml = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!both(&output).contains("sk-super-secret-123"), "the credential was written: {yaml}");
    assert!(yaml.contains("files") && yaml.contains("npx") && yaml.contains("mcp.example.com"), "{yaml}");
    let out = file(&dir, "imported.yaml", &yaml);
    let checked = tollgate(&["check", "--elsewhere", &out]);
    assert_eq!(checked.status.code(), Some(0), "{}\n{yaml}", both(&checked));
    let target = dir.file("new.yaml").to_string_lossy().into_owned();
    assert_eq!(tollgate(&["import", &path, "--output", &target]).status.code(), Some(0));
    assert_eq!(tollgate(&["import", &path, "--output", &target]).status.code(), Some(1), "overwritten");
    assert_eq!(tollgate(&["import", &path, "--output", &target, "--force"]).status.code(), Some(0));
    for bad in ["{", "[]", "{}", r#"{"mcpServers": 5}"#] {
        let path = file(&dir, "bad.json", bad);
        assert_eq!(tollgate(&["import", &path]).status.code(), Some(1), "{bad}");
    }
}

#[test]
fn serve_with_a_port_in_use_says_so_and_ends() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = taken.local_addr().expect("an address");
    let failed =
        Start::new(&format!("listen: {addr}\nservers:\n  a: {{ url: \"http://127.0.0.1:1/\" }}\n")).attempt();
    let said = failed.err().expect("the port is in use");
    assert!(said.contains(&addr.to_string()) || said.contains("in use"), "{said}");
}
