//! Texts made to hurt: none panics, none takes long, each is refused or read with a place and a reason.

use std::time::{Duration, Instant};

use super::{SERVER, check};
use crate::config::{Options, Source, check_text, document};

fn bytes(text: &[u8]) -> String {
    let base = std::env::temp_dir();
    let source = Source { name: "t.yaml", bytes: text, base: &base };
    let result = check_text(&source, &Options { elsewhere: true, ..Options::default() }, &|_| None);
    result.map(|_| String::new()).unwrap_or_else(|problems| {
        assert!(!problems.is_empty() && problems.len() <= 201, "{}", problems.len());
        problems.iter().map(|problem| format!("{problem}\n")).collect()
    })
}

#[test]
fn aliases_never_multiply() {
    let mut text = String::from("a: &a [x, x, x, x, x, x, x, x, x]\n");
    for (name, before) in ('b'..='z').zip('a'..) {
        text.push_str(&format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(", ")));
    }
    assert!(bytes(text.as_bytes()).contains("an anchor"));
}

#[test]
fn nesting_ends_early() {
    for open in ["[", "{a: ", "- ", "a:\n ", "? ", "[{", "!t [", "&a ["] {
        let text = open.repeat(100_000);
        assert!(!bytes(text.as_bytes()).is_empty(), "{open}");
    }
    let stairs: String = (0..500).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(bytes(stairs.as_bytes()).contains("nested deeper than 32 levels"));
}

#[test]
fn sizes_are_bounded() {
    let long = "x".repeat(900_000);
    assert!(bytes(format!("{SERVER}listen: {long}\n").as_bytes()).len() < 400);
    assert!(bytes(format!("{SERVER}{long}: 1\n").as_bytes()).len() < 600);
    assert!(bytes(format!("servers: {{ {long}: {{}} }}\n").as_bytes()).len() < 600);
    assert!(bytes(&vec![b'a'; (1 << 20) + 1]).contains("larger than 1 MiB"));
    assert!(
        bytes(format!("{SERVER}hosts: [{}]\n", "a,".repeat(200_000)).as_bytes())
            .contains("more than 100000 values")
    );
    let many: String = (0..20_000).map(|n| format!("k{n}: 1\n")).collect();
    assert!(!bytes(many.as_bytes()).is_empty());
    let twice = "a: 1\n".repeat(20_000);
    assert!(!bytes(twice.as_bytes()).is_empty());
}

#[test]
fn odd_bytes_are_placed() {
    for (text, want) in [
        (&b"servers:\n  a: \xFF\n"[..], "t.yaml:2:6: not UTF-8 here"),
        (b"\xFF\xFEs\0", "the file is UTF-16"),
        (b"servers: {}\nlisten: \"a\0b\"\n", "t.yaml:2:11: a control character"),
        (b"servers: {}\nlisten: \"a\x1b[31mb\"\n", "t.yaml:2:11: a control character"),
        (b"\xEF\xBB\xBFlisten: x\n", "t.yaml:1:1: `servers` is missing"),
        ("servers: { \u{202e}a: {} }".as_bytes(), "not a server id"),
    ] {
        let said = bytes(text);
        assert!(said.contains(want), "{said}");
        assert!(!said.contains('\u{1b}') && !said.contains('\u{202e}'), "{said:?}");
    }
}

/// Every cut and many small changes of a real file: read or refused, never a panic, never slow.
#[test]
fn mutations_never_panic() {
    let text = include_str!("../../../../examples/full.yaml");
    let started = Instant::now();
    for cut in (0..text.len()).step_by(7) {
        let _ = bytes(&text.as_bytes()[..cut]);
    }
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let odd = b"\t\n :-[]{}&*!|>'\"%@`#?,\\\0\xff~<=0a";
    for _ in 0..1_500 {
        let mut changed = text.as_bytes().to_vec();
        for _ in 0..=next(4) {
            let at = next(changed.len());
            changed[at] = odd[next(odd.len())];
        }
        let _ = document::parse(&changed);
    }
    // Generous: it bounds a hang, not a speed.
    assert!(started.elapsed() < Duration::from_secs(120), "{:?}", started.elapsed());
}

#[test]
fn fragments_of_syntax_never_panic() {
    let pieces = [
        "a", ":", " ", "\n", "- ", "[", "]", "{", "}", "&x ", "*x", "!t ", "|", ">", "'", "\"", "?", ",",
        "#", "---", "...", "%", "\t", "<<", "~",
    ];
    let mut state = 7_u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..12 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(pieces[usize::try_from(state >> 33).unwrap() % pieces.len()]);
        }
        let _ = document::parse(text.as_bytes());
    }
}

#[test]
fn block_scalars_and_quotes_are_plain_text() {
    let problems = check(&format!("{SERVER}listen: |\n  127.0.0.1:1\n  x\n")).unwrap_err();
    assert!(problems[0].to_string().contains("is not a listen address"));
}
