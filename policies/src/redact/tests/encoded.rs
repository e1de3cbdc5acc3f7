//! Case X3 for encodings that anchors don't see into.

use super::make::{self, Random};
use super::*;

/// Encodings that leave no anchor to see, at any place of a text.
#[test]
fn x3_hexadecimal_broken_base64_and_encodings_of_encodings_hide_nothing() {
    let redactor = full();
    for seed in 0..60 {
        let mut random = Random(seed + 1);
        let secret = make::github(&mut random, "ghp_");
        let lead = "key of the deploy account: ".repeat(usize::try_from(seed % 5).unwrap());
        let plain = format!("{lead}{secret}\nand more of it\n");
        let hex: String = plain.bytes().map(|b| format!("{b:02x}")).collect();
        let once = make::base64(plain.as_bytes());
        let twice = make::base64(once.as_bytes());
        let thrice = make::base64(twice.as_bytes());
        let lines = |text: &str, width: usize, end: &str| -> String {
            let lines: Vec<&str> =
                text.as_bytes().chunks(width).map(|l| std::str::from_utf8(l).unwrap()).collect();
            lines.join(end)
        };
        let percent =
            |text: &str, sign: &str| -> String { text.bytes().map(|b| format!("{sign}{b:02X}")).collect() };
        let long = make::base64(format!("{}{plain}", "padding ".repeat(30)).as_bytes());
        for (what, encoded) in [
            ("hex", hex.clone()),
            ("upper hex", hex.to_uppercase()),
            ("hex after 0x", format!("0x{hex}")),
            ("hex in lines", lines(&hex, 60, "\n")),
            ("base64 twice", twice.clone()),
            ("base64 three times", thrice),
            ("base64 of hex", make::base64(hex.as_bytes())),
            ("hex of base64", once.bytes().map(|b| format!("{b:02x}")).collect()),
            ("base64 in lines of 76", lines(&long, 76, "\r\n")),
            ("base64 in lines of 64", lines(&long, 64, "\n")),
            ("base64 in indented lines", lines(&long, 60, "\n    ")),
            ("base64 in lines, twice", make::base64(lines(&long, 76, "\r\n").as_bytes())),
            ("percent", percent(&secret, "%")),
            ("percent twice", percent(&secret, "%25")),
            ("percent three times", percent(&secret, "%2525")),
            ("percent of base64", percent(&once, "%")),
        ] {
            for text in [encoded.clone(), format!("see: {encoded}\nend."), format!("\"{encoded}\",")] {
                let out = redactor.text(&text);
                assert!(!out.counts.is_empty(), "{what}: {plain} {text}");
                let in_json = serde_json::json!({ "a": [text], "n": 1 }).to_string();
                let out = redactor.json(&in_json).unwrap();
                assert!(!out.counts.is_empty() && out.text.ends_with(r#""n":1}"#), "{what}: {}", out.text);
            }
        }
    }
}

/// The words around what was hidden stay.
#[test]
fn x3_only_the_encoded_run_is_taken_out() {
    let redactor = full();
    let plain = format!("{} {}", "padding ".repeat(20), make::github(&mut Random(3), "ghp_"));
    let encoded = make::base64(plain.as_bytes());
    let (first, rest) = encoded.split_at(76);
    let (second, rest) = rest.split_at(76);
    let text = format!("Before\nand\nthen:\n{first}\n{second}\n{rest}\nAfter it 100%25 more");
    let out = redactor.text(&text).text.into_owned();
    assert!(out.starts_with("Before\nand\nthen:\n") && out.ends_with("\nAfter it 100%25 more"), "{out}");
    assert!(!out.contains(&rest[..20]), "{out}");
}
