//! The rules of the tree, as tests: sizes, first lines, who may depend on and name whom, what never panics, which
//! error codes exist. Reads source text alone.

use std::path::{Path, PathBuf};

use crate::support::{allowed_code, read};

const CRATES: [&str; 6] = ["mcp", "policies", "auth", "metrics", "audit", "gateway"];
const LEAVES: [&str; 5] = ["mcp", "policies", "auth", "metrics", "audit"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.map_while(Result::ok).map(|e| e.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !matches!(name.as_str(), "target" | ".git" | "node_modules" | ".venv") {
                walk(&path, found);
            }
        } else {
            found.push(path);
        }
    }
}

struct Source {
    name: String,
    text: String,
}

impl Source {
    /// `tests.rs`, or a file that its neighbours declare under `#[cfg(test)]`.
    fn is_test(&self, declared: &[String]) -> bool {
        let module = |name: &String| {
            self.name.ends_with(&format!("/{name}.rs")) || self.name.contains(&format!("/{name}/"))
        };
        declared.iter().any(module)
    }

    /// The modules that exist in tests alone.
    fn test_modules(&self) -> Vec<String> {
        let after = self.text.split("#[cfg(test)]\nmod ").skip(1);
        after.filter_map(|rest| rest.lines().next()?.strip_suffix(';').map(str::to_owned)).collect()
    }

    /// The code without comments and without the inline test module.
    fn code(&self) -> String {
        let all = self.text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let strip = |line: &str| match line.trim_start().starts_with("//") {
            true => String::new(),
            false => line.split(" // ").next().unwrap_or_default().to_owned(),
        };
        all.lines().map(strip).collect::<Vec<_>>().join("\n")
    }
}

/// The sources of these crates that are no tests.
fn sources(crates: &[&str]) -> Vec<Source> {
    let root = root();
    let mut files = Vec::new();
    for name in crates {
        walk(&root.join(name).join("src"), &mut files);
    }
    let mut all: Vec<Source> = files
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == "rs"))
        .map(|p| Source {
            name: p.strip_prefix(&root).expect("inside").to_string_lossy().into_owned(),
            text: read(p),
        })
        .collect();
    let declared: Vec<String> =
        all.iter().flat_map(Source::test_modules).chain(["tests".to_owned()]).collect();
    all.retain(|s| !s.is_test(&declared));
    assert!(!all.is_empty(), "no sources of {crates:?}");
    all
}

fn none(what: &str, broken: &[String]) {
    assert!(broken.is_empty(), "{what}:\n  {}", broken.join("\n  "));
}

#[test]
fn files_are_short_and_begin_with_what_they_do() {
    let mut broken = Vec::new();
    for source in sources(&CRATES) {
        let lines = source.text.lines().count();
        if lines > 400 {
            broken.push(format!("{}: {lines} lines", source.name));
        }
        if !source.text.starts_with("//! ") {
            broken.push(format!("{}: the first line is no //!", source.name));
        }
    }
    none("files of at most 400 lines that begin with //!", &broken);
}

#[test]
fn functions_are_short() {
    let mut broken = Vec::new();
    for source in sources(&CRATES) {
        let lines: Vec<&str> = source.text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let bare = line.trim_start();
            let indent = line.len() - bare.len();
            let head = ["pub ", "pub(crate) ", "pub(super) ", "async ", "const "]
                .iter()
                .fold(bare, |l, p| l.strip_prefix(p).unwrap_or(l));
            let head = head.strip_prefix("async ").unwrap_or(head);
            if !head.starts_with("fn ") || bare.ends_with(';') || bare.ends_with('}') {
                continue;
            }
            let end = format!("{}}}", " ".repeat(indent));
            let length = lines[at..].iter().position(|l| *l == end).map_or(0, |n| n + 1);
            if length > 60 {
                broken.push(format!("{}:{}: {length} lines", source.name, at + 1));
            }
        }
    }
    none("functions of at most 60 lines", &broken);
}

/// The crates that each crate may use. A new one is a decision, made here.
fn allowed(name: &str) -> &'static [&'static str] {
    match name {
        "mcp" => &["base64", "bytes", "memchr", "smallvec", "thiserror"],
        "policies" => &[
            "aho-corasick",
            "cel",
            "chrono",
            "crc32fast",
            "jiff",
            "jsonschema",
            "memchr",
            "regex",
            "regex-automata",
            "regex-syntax",
            "serde",
            "serde_json",
            "smallvec",
        ],
        "auth" => &[
            "base64",
            "ipnet",
            "jsonwebtoken",
            "lru",
            "ring",
            "serde",
            "serde_json",
            "subtle",
            "thiserror",
            "url",
            "x509-parser",
            "zeroize",
        ],
        "metrics" => &["parking_lot", "prometheus"],
        "audit" => &[
            "base64",
            "crc32fast",
            "memchr",
            "parking_lot",
            "ring",
            "rustix",
            "serde",
            "serde_json",
            "thiserror",
        ],
        _ => &[
            "mcp",
            "policies",
            "auth",
            "metrics",
            "audit",
            "arc-swap",
            "async-trait",
            "base64",
            "bytes",
            "clap",
            "clap_complete",
            "futures-util",
            "governor",
            "h2",
            "http",
            "http-body",
            "http-body-util",
            "hyper",
            "hyper-rustls",
            "hyper-util",
            "ipnet",
            "jiff",
            "jsonschema",
            "lru",
            "memchr",
            "mimalloc",
            "object_store",
            "parking_lot",
            "pingora-core",
            "ring",
            "rustix",
            "rustls",
            "rustls-pki-types",
            "saphyr",
            "saphyr-parser",
            "schemars",
            "serde",
            "serde_json",
            "smallvec",
            "thiserror",
            "tokio",
            "tokio-util",
            "tower-service",
            "tracing",
            "tracing-subscriber",
            "url",
            "uuid",
            "webpki-roots",
        ],
    }
}

#[test]
fn crates_depend_on_what_they_may() {
    let mut broken = Vec::new();
    for name in CRATES {
        let manifest = read(&root().join(name).join("Cargo.toml"));
        let part = manifest
            .split("\n[dependencies]")
            .nth(1)
            .unwrap_or_default()
            .split("\n[")
            .next()
            .unwrap_or_default();
        for line in part.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#')) {
            let dependency = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if !allowed(name).contains(&dependency) {
                broken.push(format!("{name} -> {dependency}"));
            }
        }
        for other in LEAVES {
            if LEAVES.contains(&name)
                && manifest
                    .lines()
                    .any(|l| l.starts_with(&format!("{other}.")) || l.starts_with(&format!("{other} =")))
            {
                broken.push(format!("{name} -> {other}: leaves have no arrow among them"));
            }
        }
        if manifest.contains("rmcp") {
            broken.push(format!("{name} -> rmcp: a typed SDK drops what it doesn't know"));
        }
    }
    none("dependencies", &broken);
}

#[test]
fn only_the_edge_names_pingora() {
    let mut broken = Vec::new();
    for source in sources(&CRATES) {
        let edge = ["gateway/src/edge/", "gateway/src/edge.rs", "gateway/src/adapters/pingora_"];
        if source.code().contains("pingora") && !edge.iter().any(|e| source.name.starts_with(e)) {
            broken.push(source.name);
        }
    }
    none("Pingora outside the edge", &broken);
}

#[test]
fn leaves_meet_where_the_design_says() {
    // `catalog`, `pipeline` and `assemble` carry the compiled task to the stages; `who` is where a principal becomes a
    // policies' caller.
    let places = ["stages", "config", "adapters", "cli", "catalog", "pipeline", "gate", "assemble", "who"];
    let mut broken = Vec::new();
    for source in sources(&["gateway"]) {
        let code = source.code();
        let names = |leaf: &&&str| {
            code.contains(&format!("use {leaf}::"))
                || code.contains(&format!(" {leaf}::"))
                || code.contains(&format!("({leaf}::"))
        };
        let met: Vec<&&str> = LEAVES.iter().filter(names).collect();
        let inside = source.name.trim_start_matches("gateway/src/");
        if met.len() > 1 && !places.iter().any(|p| inside.starts_with(p)) {
            broken.push(format!("{}: {met:?}", source.name));
        }
    }
    none("leaves meet elsewhere", &broken);
}

#[test]
fn stages_and_ports_name_no_adapter() {
    let mut broken = Vec::new();
    for source in sources(&["gateway"]) {
        let inner =
            source.name.starts_with("gateway/src/stages") || source.name.starts_with("gateway/src/ports");
        if inner && source.code().contains("adapters") {
            broken.push(source.name);
        }
    }
    none("stages and ports know traits alone", &broken);
}

#[test]
fn the_request_path_never_panics() {
    let words = [".unwrap()", ".expect(", "panic!(", "unreachable!(", "todo!(", "unimplemented!(", "unsafe "];
    let mut broken = Vec::new();
    for source in sources(&CRATES) {
        for (at, line) in source.code().lines().enumerate() {
            // A constant that can't be computed doesn't compile.
            let constant = line.trim_start().trim_start_matches("pub ").starts_with("const ");
            if !constant && words.iter().any(|w| line.contains(w)) {
                broken.push(format!("{}:{}: {}", source.name, at + 1, line.trim()));
            }
        }
    }
    none("panics", &broken);
}

#[test]
fn waiting_and_time_go_through_their_ports() {
    let mut broken = Vec::new();
    for source in sources(&["mcp", "policies", "gateway"]) {
        let code = source.code();
        if code.contains("std::sync::Mutex") || code.contains("std::sync::RwLock") {
            broken.push(format!("{}: a std lock", source.name));
        }
        if code.contains("unbounded_channel") || code.contains("mpsc::unbounded") {
            broken.push(format!("{}: an unbounded channel", source.name));
        }
        let clock = source.name.contains("clock") || source.name.contains("/cli/");
        if code.contains("SystemTime::now()") && !clock {
            broken.push(format!("{}: the wall clock", source.name));
        }
    }
    none("time, locks and channels", &broken);
}

/// All whole numbers in a text that look like error codes.
fn codes(text: &str) -> Vec<i64> {
    let mut found = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let sign = bytes[at] == b'-';
        let from = at + usize::from(sign);
        let to = from + bytes[from..].iter().take_while(|b| b.is_ascii_digit() || **b == b'_').count();
        let word = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
        if to > from && !word {
            let number: i64 = text[from..to].replace('_', "").parse().unwrap_or(0);
            let number = if sign { -number } else { number };
            if (-32999..=-32000).contains(&number) || (7001..=7099).contains(&number) {
                found.push(number);
            }
        }
        at = to.max(at + 1);
    }
    found
}

#[test]
fn only_codes_of_the_table_are_emitted() {
    let mut broken = Vec::new();
    for source in sources(&CRATES) {
        for code in codes(&source.code()) {
            // Named so that a server's can be recognised, never sent.
            let recognised = matches!(
                (code, source.name.as_str()),
                (-32042, "mcp/src/code.rs") | (-32099, "mcp/src/bridge.rs")
            );
            if !allowed_code(code) && !recognised {
                broken.push(format!("{}: {code}", source.name));
            }
        }
    }
    none("error codes outside the table", &broken);
    let table = codes(&read(&root().join("mcp/src/code.rs")));
    for code in [
        -32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022, 7001, 7002, 7003, 7004, 7006, 7007,
        7008,
    ] {
        assert!(table.contains(&code), "{code} is missing in mcp/src/code.rs");
    }
}

#[test]
fn nothing_names_a_path_outside_the_project() {
    let mut files = Vec::new();
    walk(&root(), &mut files);
    let foreign = [
        concat!("..", "/shared"),
        concat!("/wo", "rk/"),
        concat!("/tmp/con", "tract"),
        concat!("/tmp/sp", "ec"),
        concat!("/ro", "ot/"),
    ];
    let mut broken = Vec::new();
    for path in files {
        let text = read(&path);
        for word in foreign.iter().filter(|w| text.contains(**w)) {
            broken.push(format!("{}: {word}", path.display()));
        }
    }
    none("paths outside the project", &broken);
}
