//! Tests of the import: what hosts write, what becomes of it, and that the result passes our own check.

use super::*;
use crate::config::{Checked, Transport};

fn imported(json: &str) -> Imported {
    import("mcp.json", json.as_bytes()).unwrap()
}

/// The result must load once its variables are set.
fn loads(imported: &Imported) -> Checked {
    let source = Source { name: "t.yaml", bytes: imported.yaml.as_bytes(), base: Path::new("/tmp") };
    // The gateway's own switches are not among them.
    let set = |name: &str| (name != "TOLLGATE_COST_METER").then(|| format!("value-of-{name}"));
    check_text(&source, &Options::default(), &set).unwrap_or_else(|problems| {
        panic!("{}\n{}", imported.yaml, problems.iter().map(|p| format!("{p}\n")).collect::<String>())
    })
}

fn env<'a>(checked: &'a Checked, id: &str) -> Vec<(&'a str, &'a str)> {
    let Transport::Stdio(stdio) = &checked.server(id).unwrap().transport else { panic!() };
    stdio.env.iter().map(|(name, value)| (name.as_str(), value.expose())).collect()
}

fn headers<'a>(checked: &'a Checked, id: &str) -> Vec<(&'a str, &'a str)> {
    let Transport::Http(http) = &checked.server(id).unwrap().transport else { panic!() };
    http.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect()
}

#[test]
fn a_desktop_file() {
    let result = imported(
        r#"{
  "mcpServers": {
    "filesystem": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv/docs"] },
    "GitHub Server": {
      "command": "docker",
      "args": ["run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server"],
      "env": { "GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_canary0123456789", "GITHUB_HOST": "https://github.example", "DEBUG": 1 },
      "alwaysAllow": ["search"]
    },
    "remote": { "type": "streamable-http", "url": "https://a.example/mcp", "headers": { "Authorization": "Bearer canary" } }
  },
  "globalShortcut": "x"
}"#,
    );
    assert!(
        !result.yaml.contains("canary") && !result.notes.iter().any(|n| n.contains("canary")),
        "{}",
        result.yaml
    );
    let checked = loads(&result);
    let ids: Vec<_> = checked.servers.iter().map(|server| server.id.as_str()).collect();
    assert_eq!(ids, ["filesystem", "git-hub-server", "remote"]);
    let want = [
        ("GITHUB_PERSONAL_ACCESS_TOKEN", "value-of-GITHUB_PERSONAL_ACCESS_TOKEN"),
        ("GITHUB_HOST", "https://github.example"),
        ("DEBUG", "1"),
    ];
    assert_eq!(env(&checked, "git-hub-server"), want);
    assert_eq!(headers(&checked, "remote"), [("authorization", "Bearer value-of-REMOTE_TOKEN")]);
    for note in [
        "\"globalShortcut\" is not carried over",
        "git-hub-server: was called \"GitHub Server\"",
        "git-hub-server: \"alwaysAllow\" is not carried over",
        "set REMOTE_TOKEN: the value of header Authorization for remote in the host's file without `Bearer`",
        "set GITHUB_PERSONAL_ACCESS_TOKEN: the value of GITHUB_PERSONAL_ACCESS_TOKEN for git-hub-server in the host's file",
    ] {
        assert!(result.notes.iter().any(|n| n == note), "{note}\n{:#?}", result.notes);
    }
}

#[test]
fn a_code_file_with_variables() {
    let result = imported(
        r#"{ "mcpServers": {
  "api": { "type": "http", "url": "${API_URL:-https://api.example.com}/mcp", "headers": { "Authorization": "Bearer ${API_KEY}", "X-Env": "${STAGE}-eu" } },
  "db": { "type": "stdio", "command": "/opt/db", "args": ["--level", "${LEVEL:-info}", "${DB_NAME}"], "env": { "A": "${env:A_TOKEN}", "B": "${B}", "C": "x${C}y", "F": "file:local.db" } },
  "sse": { "type": "sse", "url": "https://s.example/sse" },
  "nowhere": { "url": "https://${HOST}/mcp" }
} }"#,
    );
    let checked = loads(&result);
    assert_eq!(checked.servers.len(), 3, "{}", result.yaml);
    assert_eq!(result.servers, 3);
    let want = [("authorization", "Bearer value-of-API_KEY"), ("x-env", "value-of-API_X_ENV")];
    assert_eq!(headers(&checked, "api"), want);
    let want = [("A", "value-of-A_TOKEN"), ("B", "value-of-B"), ("C", "value-of-DB_C"), ("F", "value-of-F")];
    assert_eq!(env(&checked, "db"), want);
    let Transport::Stdio(stdio) = &checked.server("db").unwrap().transport else { panic!() };
    assert_eq!(stdio.args, ["--level", "info", "${DB_NAME}"]);
    assert!(result.notes.iter().any(|n| n.starts_with("db: argument 3 has a variable in it")));
    assert!(result.yaml.contains("# left as a comment: url has a variable in it"), "{}", result.yaml);
    assert!(result.yaml.contains("#  nowhere:"));
}

#[test]
fn a_vs_code_file_with_comments_and_inputs() {
    let result = imported(
        r#"// workspace
{
  "inputs": [{ "type": "promptString", "id": "api-key", "password": true }],
  "servers": {
    "perplexity": { "type": "stdio", "command": "npx", "env": { "API_KEY": "${input:api-key}" }, "envFile": ".env", },
  },
}"#,
    );
    let checked = loads(&result);
    assert_eq!(env(&checked, "perplexity"), [("API_KEY", "value-of-API_KEY")]);
    assert!(result.notes.iter().any(|n| n.contains("\"envFile\" is not carried over")), "{:?}", result.notes);
    assert_eq!(imported(r#"{ "mcp": { "servers": { "a": { "url": "https://a/" } } } }"#).servers, 1);
    assert_eq!(imported(r#"{ "mcpServers": { "a": { "serverUrl": "https://a/" } } }"#).servers, 1);
}

#[test]
fn what_our_check_refuses_stays_as_a_comment() {
    let result = imported(
        r#"{ "mcpServers": {
  "both": { "url": "https://a/", "command": "x" },
  "neither": {},
  "text": "x",
  "off": { "command": "x", "disabled": true },
  "userinfo": { "url": "https://u:canary@a/" },
  "socket": { "type": "ws", "url": "wss://a/" },
  "fixed": { "url": "https://a/", "headers": { "Content-Type": "x" } },
  "good": { "command": "x", "cwd": "${workspaceFolder}" }
} }"#,
    );
    assert_eq!(result.servers, 1, "{}", result.yaml);
    assert_eq!(loads(&result).servers[0].id, "good");
    for id in ["both", "neither", "text", "off", "userinfo", "socket", "fixed"] {
        assert!(
            result.notes.iter().any(|n| n.starts_with(&format!("{id}: left as a comment"))),
            "{id} {:?}",
            result.notes
        );
    }
    assert!(result.notes.iter().any(|n| n == "off: left as a comment: the host has it switched off"));
}

#[test]
fn nothing_is_still_a_file() {
    for json in
        [r#"{ "mcpServers": {} }"#, r#"{ "mcpServers": { "a": { "command": "x", "disabled": true } } }"#]
    {
        assert_eq!(loads(&imported(json)).servers.len(), 0);
    }
}

#[test]
fn ids_follow_our_rule_and_stay_apart() {
    for (given, want) in [
        ("docs", "docs"),
        ("My Server", "my-server"),
        ("gitHub", "git-hub"),
        ("a__b", "a-b"),
        ("2fast", "s-2fast"),
        ("日本", "s"),
        ("", "s"),
        ("UPPER", "upper"),
        ("@scope/pkg", "scope-pkg"),
    ] {
        assert_eq!(normal(given), want, "{given}");
        assert!(crate::config::check::valid_id(&normal(given)), "{given}");
    }
    assert!(crate::config::check::valid_id(&normal(&"long-name-".repeat(50))));
    let result = imported(
        r#"{ "mcpServers": { "a b": { "command": "x" }, "a-b": { "command": "y" }, "A_B": { "command": "z" } } }"#,
    );
    let ids: Vec<_> = loads(&result).servers.iter().map(|s| s.id.clone()).collect();
    assert_eq!(ids, ["a-b", "a-b-2", "a-b-3"]);
}

#[test]
fn names_can_not_break_out_of_a_comment_or_a_line() {
    let result = imported(
        "{ \"mcpServers\": { \"a\\nservers: {}\": { \"command\": \"x\\ny: 1\", \"odd\\nkey\": 1, \"args\": [\"\\u0000\", \"\\u0085\", \"#\"] } } }",
    );
    assert_eq!(result.servers, 0, "{}", result.yaml);
    loads(&result);
    let result = imported(
        "{ \"mcpServers\": { \"a\\nb: {}\": { \"command\": \"x\", \"odd\\nlisten: 0\": 1, \"env\": { \"A\": \"l1\\nl2: #\" } } } }",
    );
    assert_eq!(env(&loads(&result), "a-b"), [("A", "l1\nl2: #")]);
}

#[test]
fn what_is_no_such_file_is_said_without_quoting_it() {
    for (bytes, want) in [
        (&b"canary"[..], "not JSON at line 1, column 1"),
        (b"[]", "not a JSON object"),
        (b"{}", "neither `mcpServers` nor `servers`"),
        (b"{ \"mcpServers\": [] }", "neither `mcpServers` nor `servers`"),
        (b"\xFF", "not UTF-8"),
    ] {
        assert!(import("x", bytes).unwrap_err().contains(want));
    }
    assert!(import("x", &vec![b' '; (1 << 20) + 1]).unwrap_err().contains("larger than 1 MiB"));
    assert!(import("x", "[".repeat(500_000).as_bytes()).is_err());
}
