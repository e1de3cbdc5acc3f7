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
            ("base64 in lines three times", {
                let twice = lines(&make::base64(lines(&long, 76, "\n").as_bytes()), 76, "\n");
                lines(&make::base64(twice.as_bytes()), 76, "\n")
            }),
            ("base64 of a text with base64 in it", {
                let inner = make::base64(format!("export KEY={secret}").as_bytes());
                make::base64(format!("apiVersion: v1\nkind: Secret\ndata:\n  key: {inner}\n").as_bytes())
            }),
            ("percent, each character, twice", percent(&percent(&secret, "%"), "%")),
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

/// Beginnings of secrets without end: each costs once, and what costs too much is not passed on.
#[test]
fn g11_a_run_of_beginnings_is_judged_a_few_times_and_then_goes_whole() {
    let redactor = full();
    for unit in
        ["sk-", "-sk-", ".sk-ant-", "xapp-", "Authorization:", "SG.", "sk-sk-sk-sk-sk-sk-sk-sk-sk-sk-sk- "]
    {
        let text = unit.repeat(256 * 1024 / unit.len());
        let (hits, steps) = redactor.scan(text.as_bytes());
        assert!(steps < 40 * text.len(), "{unit}: {steps}");
        let all = hits.iter().map(|hit| hit.span.len()).sum::<usize>();
        assert!(unit.contains(' ') || all == 0 || all * 10 > text.len() * 9, "{unit}: {all} taken out");
    }
    // A secret behind a few of them is found for itself.
    let text = format!("sk-sk-sk-sk-{} end", &make::base64(b"0123456789abcdefghijklmnopqrstuvwxyz")[..44]);
    let out = redactor.text(&text).text.into_owned();
    assert!(out.contains("[redacted:openai]") && out.ends_with(" end"), "{out}");
}

/// Encodings in lines within each other, seen as lines and as one: the passes are counted and bounded.
#[test]
fn g11_layers_have_one_budget() {
    let redactor = full();
    let prose = "no secret in this line, only words and 42 ".repeat(6000);
    let lines = |text: &str| -> String {
        let lines: Vec<&str> = text.as_bytes().chunks(76).map(|l| std::str::from_utf8(l).unwrap()).collect();
        lines.join("\n")
    };
    let once = lines(&make::base64(prose.as_bytes()));
    let twice = lines(&make::base64(once.as_bytes()));
    let thrice = lines(&make::base64(twice.as_bytes()));
    for text in [&prose, &once, &twice, &thrice, &format!("%41{twice}")] {
        let (hits, steps) = redactor.scan(text.as_bytes());
        assert!(steps <= 34 * text.len(), "{steps} steps for {}: {text:.20}", text.len());
        assert!(hits.is_empty() || steps > 32 * text.len(), "{text:.20} has no secret");
    }
    assert!(redactor.scan(once.as_bytes()).0.is_empty());
}
