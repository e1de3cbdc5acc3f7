//! One row for each kind of problem: the text, where the problem stands, and what is said.

use super::{SERVER, check};

/// `text` must have exactly these problems, each given as `line:column` and a part of its message.
fn expect(text: &str, want: &[(&str, &str)]) {
    let problems = check(text).err().unwrap_or_default();
    let shown: String = problems.iter().map(|problem| format!("{problem}\n")).collect();
    assert_eq!(problems.len(), want.len(), "{text}\n{shown}");
    for ((spot, part), problem) in want.iter().zip(&problems) {
        assert_eq!(*spot, format!("{}:{}", problem.line, problem.column), "{text}\n{shown}");
        assert!(problem.to_string().contains(part), "wanted {part:?} in {problem}\n{text}");
    }
}

/// The text behind a good `servers` line: problems start at line 2.
fn root(text: &str, want: &[(&str, &str)]) {
    expect(&format!("{SERVER}{text}\n"), want);
}

/// A server `a` in block form: its own line is 2, its keys start at line 3.
fn server(text: &str, want: &[(&str, &str)]) {
    let body: String = text.lines().map(|line| format!("    {line}\n")).collect();
    expect(&format!("servers:\n  a:\n{body}"), want);
}

#[test]
fn text() {
    expect("", &[("1:1", "the file is empty")]);
    expect("# nothing\n", &[("1:1", "the file is empty")]);
    expect("- a\n", &[("1:1", "a list is not what is needed here; write a mapping")]);
    expect("just text\n", &[("1:1", "text is not what is needed here")]);
    root("log:\n\tlevel: info", &[("3:1", "a tab in the indentation; indent with spaces")]);
    root("log: { level: info", &[("3:1", "not valid YAML")]);
    root("---\nlisten: 127.0.0.1:1", &[("2:1", "a second YAML document")]);
    root("drain: 1s\ndrain: 2s", &[("3:1", "drain: this key is there twice; keep one")]);
    root("log: &x { level: info }", &[("2:6", "an anchor")]);
    root("log: !!map { level: info }", &[("2:6", "a tag")]);
    root("drain: *x", &[("2:8", "not valid YAML")]);
    root(
        "log: &x { level: info }\nlegacy: *x",
        &[("2:6", "an anchor"), ("3:9", "legacy: an alias (`*name`)")],
    );
    root("<<: { drain: 1s }", &[("2:1", "a merge key")]);
    root("? [a]\n: b", &[("2:3", "a key that is itself a list")]);
    root("~: 1", &[("2:1", "a key without a name")]);
}

#[test]
fn shape() {
    root("listne: 127.0.0.1:1", &[("2:1", "listne: unknown key `listne`; did you mean `listen`?")]);
    root("session_ttl: 24h", &[("2:1", "it belongs to `legacy`")]);
    root("wholly_else: 1", &[("2:1", "known here: listen, public_url, admin")]);
    root(
        "tls:",
        &[("2:1", "tls: a key without a value; remove the key or give it a value: write a mapping")],
    );
    root("tls: { cert: c.pem }", &[("2:1", "tls: `key` is missing; add it: write text")]);
    root("listen: 8080", &[("2:9", "listen: a number is not what is needed here; put it in quotes")]);
    root("h2c: maybe", &[("2:6", "h2c: text is not what is needed here; write true or false")]);
    root("hosts: example.com", &[("2:8", "hosts: text is not what is needed here; write a list")]);
    root("hosts: [a, 1]", &[("2:12", "hosts[1]: a number is not what is needed here; put it in quotes")]);
    root(
        "log: { format: prety }",
        &[("2:16", "log.format: not one of the values known here; write one of: pretty, json")],
    );
    root("drain: soon", &[("2:8", "drain: not in the form that is needed here; write a duration such as")]);
    root("drain: 1.5", &[("2:8", "drain: a number is not what is needed here; write a duration")]);
    root("drain: -1", &[("2:8", "drain: not in the form")]);
    root("limits: { request_bytes: 4M }", &[("2:26", "write a size such as")]);
    root("admin: no", &[("2:8", "write `off`, or a mapping such as")]);
    root("admin: { lisen: x }", &[("2:10", "admin.lisen: unknown key `lisen`; did you mean `listen`?")]);
    expect("listen: 127.0.0.1:1\n", &[("1:1", "`servers` is missing; add it: write a mapping")]);
    expect("servers: []\n", &[("1:1", "servers: a list is not what is needed here")]);
    expect("servers:\n  a:\n", &[("2:3", "servers.a: a key without a value")]);
}

#[test]
fn sections_of_later_builds() {
    for key in ["pin", "quarantine"] {
        let want = format!("servers.a.{key}: `{key}` is not in this build of Tollgate yet");
        server(&format!("url: https://a/\n{key}: {{}}"), &[("4:5", &want)]);
    }
}

#[test]
fn the_meter() {
    root("meter: { placement: header }", &[("2:21", "meter.placement: not one of the values known here")]);
    root(
        "meter: { details: true }",
        &[("2:10", "meter.details: unknown key `details`; did you mean `detail`?")],
    );
    root("meter: { detail: 1 }", &[("2:18", "meter.detail")]);
}

#[test]
fn the_journal() {
    root("audit: { dir: '' }", &[("2:15", "audit.dir: not a path")]);
    root("audit: { instance: ../x }", &[("2:20", "audit.instance: not a log's name")]);
    root("audit: { deployment: 'a b' }", &[("2:22", "audit.deployment: not the name of a deployment")]);
    root("audit: { archive: { url: 'ftp://a/b' } }", &[("2:26", "audit.archive.url: no object store")]);
    root("audit: { dir: a, guard: a/b }", &[("2:25", "the guard is kept with the journal")]);
    root("audit: { segment: { bytes: 1KiB } }", &[("2:28", "audit.segment.bytes: 1KiB is out of range")]);
    root("audit: { durability: never }", &[("2:22", "audit.durability")]);
}

#[test]
fn listeners() {
    let refused =
        "listen: listen is 0.0.0.0:8080, which is not a loopback address, and no `auth` proves who calls";
    let tasks = "which is not a loopback address, and no `tasks` say what callers may do";
    root("listen: 0.0.0.0:8080", &[("2:9", refused), ("2:9", tasks)]);
    root("listen: '[::]:8080'", &[("2:9", "not a loopback address"), ("2:9", tasks)]);
    root(
        "listen: localhost",
        &[("2:9", "`localhost` is not a listen address; write an IP address and a port")],
    );
    root(
        "admin: { listen: 10.0.0.1:9 }",
        &[("2:18", "admin.listen: admin.listen is 10.0.0.1:9, which is not")],
    );
    root("admin: { listen: 127.0.0.1:8080 }", &[("2:18", "is the data listener's address too")]);
    root("h2c: true\nlisten: 0.0.0.0:1", &[("3:9", "not a loopback address"), ("3:9", "not a loopback")]);
    root("public_url: mcp.example.com", &[("2:13", "public_url: not an http or https URL")]);
    root("public_url: https://u:canary@a.example/", &[("2:13", "a URL with a user, a query or a fragment")]);
    root("hosts: ['*.example.com', ok.example, https://x]", &[("2:9", "not a host"), ("2:38", "not a host")]);
    root("origins: [https://A.example/]", &[("2:11", "not as browsers send it; write https://a.example")]);
    root("origins: ['*']", &[("2:11", "not an origin")]);
    root("origins: ['null']", &[("2:11", "not an origin")]);
}

#[test]
fn tls() {
    let want = [("2:14", "tls.cert: can't read /none/c.pem"), ("2:32", "tls.key: can't read /none/k.pem")];
    root("tls: { cert: /none/c.pem, key: /none/k.pem }", &want);
    root(
        "tls: { cert: /dev/null, key: /none/k.pem }\nh2c: true",
        &[
            ("2:14", "tls.cert: /dev/null holds no certificate"),
            ("2:30", "tls.key: can't read"),
            ("3:6", "h2c: h2c is HTTP/2 without TLS, and `tls` is set"),
        ],
    );
}

#[test]
fn servers() {
    expect(
        "servers:\n  My_Server: { url: 'https://a/' }\n",
        &[("2:3", "servers.My_Server: not a server id; ids begin")],
    );
    expect("servers:\n  a: {}\n", &[("2:3", "servers.a: neither `url` nor `command`; add `url")]);
    server("required: true", &[("2:3", "neither `url` nor `command`")]);
    server("url: https://a/\ncommand: x", &[("2:3", "servers.a: both `url` and `command`; keep the one")]);
    // A wrong value is still a value: no second problem about it.
    server("url: 5", &[("3:10", "servers.a.url: a number is not what is needed here; put it in quotes")]);
    server("url: ftp://a/", &[("3:10", "not an http or https URL")]);
    server(
        "url: https://me:canary@a/",
        &[("3:10", "a user or password in the URL; put the credential into `headers`")],
    );
    server("url: https://a/#x", &[("3:10", "a fragment")]);
    server("url: https://a/\ntype: stdio", &[("4:11", "write one of: auto, http, sse")]);
    server("url: https://a/\nargs: [x]", &[("4:5", "`args` belongs to servers with `command`; remove it")]);
    server(
        "command: sh\nca: x.pem\ntype: http",
        &[("4:9", "`ca` belongs to servers with `url`"), ("5:11", "`type` belongs")],
    );
    server("url: https://a/\nca: /none", &[("4:9", "ca: can't read /none")]);
    server("command: npx -y thing", &[("3:14", "a program and its arguments in one text; no shell is used")]);
    server("command: ''", &[("3:14", "not a program")]);
    server("command: sh\ncwd: /none", &[("4:10", "cwd: /none is not a folder")]);
    server(
        "command: sh\nargs: [-p, 80]",
        &[("4:16", "args[1]: a number is not what is needed here; put it in quotes")],
    );
    server(
        "command: sh\nenv: { A-B: x, '': y }",
        &[("4:12", "not the name of a variable"), ("4:20", "not the name")],
    );
    server(
        "command: sh\nenv: { A: true }",
        &[("4:15", "env.A: true or false is not what is needed here; put it in quotes")],
    );
    server("command: sh\ninherit_env: ['*']", &[("4:19", "inherit_env[0]: not the name of a variable")]);
    server(
        "command: sh\nmax_processes: 0",
        &[("4:20", "0 is out of range; write something from 1 to 10000")],
    );
}

#[test]
fn headers() {
    server(
        "url: https://a/\nheaders: { Authorization: Bearer canary }",
        &[("4:31", "headers.Authorization: a credential in the file itself; name where it is: env:NAME")],
    );
    server("url: https://a/\nheaders: { x-api-key: canary }", &[("4:27", "a credential in the file itself")]);
    server("url: https://a/\nheaders: { 'a b': x }", &[("4:16", "not the name of a header")]);
    server(
        "url: https://a/\nheaders: { Mcp-Session-Id: x, HOST: y, mcp-param-q: z }",
        &[
            ("4:16", "a header that the gateway sets itself"),
            ("4:35", "a header that the gateway sets itself"),
            ("4:44", "a header that the gateway sets itself"),
        ],
    );
    server("url: https://a/\nheaders: { X-A: x, x-a: y }", &[("4:24", "the same header twice")]);
    server("url: https://a/\nheaders: { X-A: \"a\\nb\" }", &[("4:21", "the value can't stand in a header")]);
}

#[test]
fn deadlines_and_bounds() {
    server(
        "url: https://a/\ntimeouts: { connect: 0s }",
        &[("4:26", "0s is out of range; write something from 10ms to 1d")],
    );
    server(
        "url: https://a/\ntimeouts: { call_idle: 20m }",
        &[("4:28", "call_idle is longer than call_total")],
    );
    server(
        "url: https://a/\ntools: { x: { timeouts: { call_total: 1m } } }",
        &[("4:43", "call_idle is longer than call_total")],
    );
    server("url: https://a/\ntools: { x: { timeouts: { reads: 1m } } }", &[("4:31", "unknown key `reads`")]);
    server(
        "url: https://a/\nlimits: { answer_bytes: 1 }",
        &[("4:29", "1B is out of range; write something from 1KiB to 1GiB")],
    );
    root(
        "limits: { depth: 1000 }",
        &[("2:18", "limits.depth: 1000 is out of range; write something from 8 to 128")],
    );
    root("limits: { header_bytes: 10MiB }", &[("2:25", "10MiB is out of range")]);
    root(
        "limits: { body_timeout: 1d }",
        &[("2:25", "1d is out of range; write something from 100ms to 10m")],
    );
    root("drain: 18446744073709551615d", &[("2:8", "drain: not a duration")]);
    root("names: { max: 10 }", &[("2:15", "10 is out of range; write something from 48 to 256")]);
    root("lists: { ttl: 60d }", &[("2:15", "lists.ttl: 60d is out of range")]);
    root("legacy: { until: 2027-02-30 }", &[("2:18", "legacy.until: not a date; write a day such as")]);
    root("legacy: { session_ids: some }", &[("2:24", "write one of: sealed, none")]);
    root("log: { level: prety }", &[("2:15", "log.level: not a log level; write trace, debug")]);
    root("default_task: support", &[("2:15", "there is no such task")]);
}

#[test]
fn keys() {
    root("keys: { seal: [] }", &[("2:9", "keys.seal: 0 keys; name 1 to 16 keys")]);
    root("keys: { seal: [AAAA] }", &[("2:16", "keys.seal[0]: a key in the file itself; name where it is")]);
    root(
        "keys: { seal: [env:SET] }",
        &[("2:16", "what it names is not 32 bytes in base64; make one with `openssl")],
    );
    root("keys: { seal: [env:KEY, env:KEY] }", &[("2:25", "keys.seal[1]: the same key twice")]);
    root("keys: { seal: [env:NONE] }", &[("2:16", "variable NONE is not set")]);
}

#[test]
fn all_at_once_in_the_order_of_the_lines() {
    let text = "\
listen: 0.0.0.0:1
drain: soon
servers:
  a: { url: 'https://a/', timeouts: { connect: x } }
  b: { url: 'https://b/', command: b }
  b: { url: 'https://b/' }
  C: { urll: 'https://c/' }
audit: { archive: {} }
keys: { seal: ['env:NONE', 5] }
legacy: { until: soon }
";
    expect(
        text,
        &[
            ("1:9", "no `auth` proves"),
            ("1:9", "no `tasks` say"),
            ("2:8", "drain: not in the form"),
            ("4:48", "servers.a.timeouts.connect: not in the form"),
            ("5:3", "both `url` and `command`"),
            ("6:3", "servers.b: this key is there twice"),
            ("7:3", "servers.C: not a server id"),
            ("7:3", "servers.C: neither `url` nor `command`"),
            ("7:8", "servers.C.urll: unknown key `urll`; did you mean `url`?"),
            ("8:10", "audit.archive: `url` is missing"),
            ("9:28", "keys.seal[1]: a number is not what is needed here"),
            ("10:18", "legacy.until: not a date"),
        ],
    );
}
