//! References and what is said about them: the name always, the value never.

use std::fs;
use std::path::PathBuf;

use super::{SERVER, check, check_text, good};
use crate::config::{Checked, Options, Problem, Source, Transport};

/// A folder of its own that ends with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-config-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, bytes: &[u8], mode: u32) {
        use std::os::unix::fs::PermissionsExt as _;
        fs::write(self.0.join(name), bytes).unwrap();
        fs::set_permissions(self.0.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn check(&self, text: &str) -> Result<Checked, Vec<Problem>> {
        let source = Source { name: "t.yaml", bytes: text.as_bytes(), base: &self.0 };
        check_text(&source, &Options::default(), &super::env)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn token(reference: &str) -> String {
    format!("servers: {{ a: {{ url: 'https://a/', headers: {{ X-Token: '{reference}' }} }} }}\n")
}

fn header(checked: &Checked) -> &str {
    let Transport::Http(http) = &checked.servers[0].transport else { panic!() };
    http.headers[0].1.expose()
}

#[test]
fn a_file_beside_the_configuration() {
    let folder = Folder::new("beside");
    folder.write("token", b"canary-file\r\n", 0o600);
    let checked = folder.check(&token("file:token")).unwrap();
    assert_eq!(header(&checked), "canary-file");
    assert!(!checked.warnings.iter().any(|w| w.what.contains("others")));
    assert_eq!(header(&folder.check(&token("Bearer file:./token")).unwrap()), "Bearer canary-file");
}

#[test]
fn a_file_that_others_can_read_is_a_warning() {
    let folder = Folder::new("mode");
    folder.write("token", b"canary", 0o644);
    let checked = folder.check(&token("file:token")).unwrap();
    let warning = checked.warnings.iter().find(|w| w.what.contains("others can read")).unwrap();
    assert_eq!((warning.line, warning.path.as_str()), (1, "servers.a.headers.X-Token"));
    assert!(warning.what.contains("/token"));
}

#[test]
fn what_can_not_be_had_is_named() {
    let folder = Folder::new("faults");
    folder.write("empty", b"\n", 0o600);
    folder.write("binary", &[0xFF, 0xFE, 0x00], 0o600);
    folder.write("large", &[b'a'; 65_537], 0o600);
    for (reference, want) in [
        ("env:NONE", "variable NONE is not set; set it where the gateway starts"),
        ("env:EMPTY", "variable EMPTY is empty"),
        ("env:", "`` can't be the name of a variable"),
        ("env:A-B", "`A-B` can't be the name of a variable"),
        ("file:", "no path after file:"),
        ("file:none", "none: entity not found"),
        ("file:.", "is not a file"),
        ("file:empty", "empty is empty"),
        ("file:binary", "binary is not UTF-8 text"),
        ("file:large", "large is larger than 64 KiB"),
    ] {
        let problems = folder.check(&token(reference)).unwrap_err();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].to_string().contains(want), "{} / {want}", problems[0]);
        assert!(
            problems[0].to_string().starts_with("t.yaml:1:56: servers.a.headers.X-Token: "),
            "{}",
            problems[0]
        );
    }
}

/// Canaries in every place that may hold a secret, right and wrong: none comes back.
#[test]
fn no_value_of_a_secret_is_ever_said() {
    let folder = Folder::new("canary");
    folder.write("key", b"canary-key", 0o644);
    let wrong = "\
servers:
  a:
    url: https://canary:canary@a/?token=canary#canary
    headers: { Authorization: Bearer canary, Cookie: canary, X-Key: [canary], \"x\": \"canary\\nx\" }
  b:
    command: sh
    env: { TOKEN: canary, PIN: { canary: canary }, OTHER: \"canary\\0\" }
    args: [--token=ghp_canarycanarycanary, 5]
  c: { url: 'canary://canary' }
  d: { url: 'https://a/', type: canary, isolation: canary }
keys: { seal: [canary, 'file:key', 'env:SET'] }
public_url: https://canary:canary@x/
log: canary
drain: canary
tls: canary
";
    let problems = folder.check(wrong).unwrap_err();
    assert!(problems.len() >= 12, "{problems:#?}");
    for problem in &problems {
        let text = format!("{problem} {problem:?}").replace(&folder.0.display().to_string(), "");
        assert!(!text.contains("canary"), "{text}");
    }
    let right = "servers:\n  a: { url: 'https://a/?token=canary', headers: { X: env:SET } }\n  b: { command: sh, env: { TOKEN: canary } }\nkeys: { seal: [env:KEY] }\n";
    let checked = good(right);
    let said: String = checked.warnings.iter().map(|w| format!("{w} {w:?}")).collect();
    assert!(!said.contains("canary"), "{said}");
    let Transport::Stdio(stdio) = &checked.servers[1].transport else { panic!() };
    assert!(!format!("{stdio:?} {:?}", checked.keys).contains("canary"));
}

#[test]
fn credentials_that_stand_in_the_file_are_warned_of() {
    let text = "servers:\n  a: { command: sh, env: { API_TOKEN: abc, MODE: fast }, args: ['--t=ghp_0123456789abcdef', 'env:SET'] }\n  b: { url: 'http://b.example/?api_key=x', headers: { Authorization: 'Bearer env:SET', X-Id: ghp_0123456789abcdef } }\n";
    let checked = good(text);
    let said: Vec<_> =
        checked.warnings.iter().filter(|w| w.line > 1).map(|w| (w.line, w.path.as_str())).collect();
    let mut said = said;
    said.sort_unstable();
    assert_eq!(
        said,
        [
            (2, "servers.a.args[0]"),
            (2, "servers.a.args[1]"),
            (2, "servers.a.env.API_TOKEN"),
            (3, "servers.b.headers.X-Id"),
            (3, "servers.b.url"),
            (3, "servers.b.url"),
        ]
    );
}

#[test]
fn programs_that_are_not_there_are_warned_of() {
    let said = |server: &str| {
        let checked = good(&format!("servers: {{ a: {server} }}\n"));
        checked
            .warnings
            .iter()
            .filter(|w| w.path == "servers.a.command")
            .map(|w| w.what.clone())
            .collect::<String>()
    };
    assert_eq!(said("{ command: sh }"), "");
    assert_eq!(said("{ command: no-such-program }"), "no program no-such-program in PATH");
    assert_eq!(said("{ command: /none/x }"), "there is no program /none/x");
    assert_eq!(said("{ command: sh, inherit_env: [] }"), "the program is looked up in PATH and gets none");
    assert_eq!(said("{ command: sh, inherit_env: [], env: { PATH: /bin } }"), "");
}

#[test]
fn a_good_pair_of_keys_rotates() {
    let folder = Folder::new("rotate");
    folder.write("old", b"//79/Pv6+fj39vX08/Lx8O/u7ezr6uno5+bl5OPi4eA=\n", 0o600);
    let checked = folder.check(&format!("{SERVER}keys: {{ seal: [env:KEY, 'file:old'] }}\n")).unwrap();
    assert_eq!((checked.keys.seal.len(), checked.keys.made), (2, false));
    assert_eq!(checked.keys.seal[0][..4], [0, 1, 2, 3]);
    assert!(check(SERVER).unwrap().keys.made);
}
