//! Tests of `tollgate import`: where it writes, what it refuses to overwrite, and that `check` takes the result.

use super::*;
use crate::cli::check;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-import-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("mcp.json"), r#"{ "mcpServers": { "a": { "command": "sh" } } }"#).unwrap();
        Self(path)
    }

    fn run(&self, output: Option<&str>, force: bool) -> (u8, String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let output = output.map(|name| self.0.join(name));
        let code = run(&ImportArgs { file: self.0.join("mcp.json"), output, force }, &mut out, &mut err);
        (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn to_stdout() {
    let (code, out, err) = Folder::new("stdout").run(None, false);
    assert_eq!(code, 0);
    assert_eq!(out, "# Made by `tollgate import` from \"mcp.json\".\nservers:\n  a:\n    command: sh\n");
    assert_eq!(err, "1 server written\n");
}

#[test]
fn to_a_file_that_check_takes() {
    let folder = Folder::new("file");
    let (code, out, _) = folder.run(Some("t.yaml"), false);
    assert_eq!((code, out.as_str()), (0, ""));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args =
        check::CheckArgs { file: folder.0.join("t.yaml"), json: false, elsewhere: false, connect: false };
    assert_eq!(check::run(&args, &mut out, &mut err), 0, "{}", String::from_utf8_lossy(&out));
    assert!(String::from_utf8(out).unwrap().contains("a  stdio  sh"));
}

#[test]
fn never_over_a_file_without_force() {
    let folder = Folder::new("force");
    std::fs::write(folder.0.join("t.yaml"), "mine").unwrap();
    let (code, _, err) = folder.run(Some("t.yaml"), false);
    assert_eq!(code, 1);
    assert!(err.contains("t.yaml exists; --force overwrites it"), "{err}");
    assert_eq!(std::fs::read_to_string(folder.0.join("t.yaml")).unwrap(), "mine");
    assert_eq!(folder.run(Some("t.yaml"), true).0, 0);
    assert!(std::fs::read_to_string(folder.0.join("t.yaml")).unwrap().contains("servers:"));
}

#[test]
fn a_file_that_is_not_there() {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args = ImportArgs { file: "/none.json".into(), output: None, force: false };
    assert_eq!(run(&args, &mut out, &mut err), 1);
    assert_eq!(String::from_utf8(err).unwrap(), "/none.json: can't read it: entity not found\n");
    assert!(out.is_empty());
}
