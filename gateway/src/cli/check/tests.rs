//! Tests of `tollgate check`: codes, the human form, the JSON form.

use super::*;

fn temp(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("tollgate-check-{}-{name}.yaml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

fn ran(name: &str, text: &str, json: bool) -> (u8, String, String) {
    let file = temp(name, text);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code =
        run(&CheckArgs { file: file.clone(), json, elsewhere: true, connect: false }, &mut out, &mut err);
    std::fs::remove_file(&file).unwrap();
    let shown =
        |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&file.display().to_string(), "FILE");
    (code, shown(out), shown(err))
}

#[test]
fn a_good_file() {
    let text = "servers:\n  a: { url: 'https://a.example/mcp?token=canary' }\n  files: { command: npx, args: [canary], required: true }\nkeys: { seal: [env:X] }\n";
    let (code, out, err) = ran("good", text, false);
    assert_eq!((code, err.as_str()), (0, ""));
    let want = "\
warning: FILE:2:13: servers.a.url: what looks like a credential in the URL; use `headers` with a reference if the server allows it: URLs end up in logs
warning: FILE:1:1: no tasks: the implicit task `default` allows every caller everything; write `tasks` with what each may call
FILE is good
  clients  http://127.0.0.1:8080/mcp
  admin    http://127.0.0.1:9090/status
  eras     modern, legacy until 2027-07-28
  servers  2
    a      http or sse  https://a.example/mcp?…
    files  stdio  npx (1 argument)  (required)
";
    assert_eq!(out, want);
}

#[test]
fn a_bad_file() {
    let (code, out, err) = ran("bad", "listen: x\nservers:\n  a: {}\n", false);
    assert_eq!((code, err.as_str()), (1, ""));
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines.len(), 3, "{out}");
    assert!(lines[0].starts_with("FILE:1:9: listen: `x` is not a listen address; write an IP address"));
    assert!(lines[1].starts_with("FILE:3:3: servers.a: neither `url` nor `command`; add"));
    assert_eq!(lines[2], "2 problems");
}

#[test]
fn json_for_programs() {
    let (code, out, _) = ran("json", "servers:\n  a: {}\n", true);
    let value: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, value.as_array().unwrap().len()), (1, 1));
    assert_eq!((value[0]["line"].as_u64(), value[0]["path"].as_str()), (Some(3 - 1), Some("servers.a")));
    let (code, out, err) = ran("json-good", "servers:\n  a: { command: x }\n", true);
    assert_eq!((code, out.as_str()), (0, "[]\n"));
    assert!(err.contains("warning: FILE:1:1: no keys.seal"));
}

#[test]
fn a_file_that_is_not_there() {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args = CheckArgs { file: "/none.yaml".into(), json: false, elsewhere: false, connect: false };
    assert_eq!(run(&args, &mut out, &mut err), 1);
    assert!(String::from_utf8(out).unwrap().starts_with("/none.yaml: can't read it"));
}
