//! How much is found among made-up secrets, and how little among texts without any (case G20).

use super::make::{self, Random};
use super::*;

/// Sentences, code and JSON with the kinds of long words that real ones have.
fn clean(random: &mut Random, bytes: usize) -> String {
    const HEX: &str = "0123456789abcdef";
    let mut out = String::with_capacity(bytes + 200);
    while out.len() < bytes {
        let hex = |random: &mut Random, n| random.text(HEX, n);
        let piece = match random.below(22) {
            0 => format!("commit {} by ann, ", hex(random, 40)),
            1 => format!("{}-{}-4{}-a{}-{} ", hex(random, 8), hex(random, 4), hex(random, 3), hex(random, 3), hex(random, 12)),
            2 => format!("sha256:{} ", hex(random, 64)),
            3 => format!("let {}_{} = compute({}, {});\n", random.text("abcdefgh", 6), random.text("xyz", 3), random.below(9999), random.below(99)),
            4 => format!("{{\"id\": {}, \"at\": \"2026-11-30T20:{:02}:00Z\", \"ns\": 17{}}}, ", random.below(1 << 30), random.below(60), random.text("0123456789", 17)),
            5 => format!("https://example.com/{}/{}?page={}&sort=asc ", random.text("abcdef", 5), random.text("abcdef-", 12), random.below(50)),
            6 => format!("<div class=\"sk-spinner sk-{}\" data-x=\"{}\"></div>\n", random.text("abcdefgh-", 20), random.below(100)),
            7 => format!("import {{ {} }} from \"@scope/{}\"; // v{}.{}.{}\n", random.text("abcdef", 8), random.text("abcdef", 8), random.below(20), random.below(20), random.below(20)),
            8 => format!("| {} | {} | {} | {} |\n", 1000 + random.below(9000), 1000 + random.below(9000), random.below(100), random.below(10)),
            9 => format!("{}.{} {}.{} ", random.below(90), random.text("0123456789", 14), random.below(180), random.text("0123456789", 15)),
            10 => "the authorization header and the Bearer scheme are described in section 2.1; a token is a secret. ".into(),
            11 => format!("integrity sha512-{}== ", random.text("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 86)),
            12 => format!("git@github.com:acme/{}.git foo@1.{}.3 @Component() ", random.text("abcdef", 8), random.below(40)),
            13 => format!("+49 30 {} {} ", 1000 + random.below(9000), 1000 + random.below(9000)),
            14 => "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n".into(),
            15 => format!("{} ", make::base64(random.text("the quick brown fox, lazy dog.", 60).as_bytes())),
            16 => format!("100%{} 20%25 a%20b ", random.below(10)),
            _ => "The server returns a list of documents, each with a title and a score between zero and one. ".into(),
        };
        out.push_str(&piece);
    }
    out
}

#[test]
fn g20_recall_on_made_up_secrets_is_at_least_995_in_1000() {
    let redactor = full();
    let mut random = Random(42);
    let (mut all, mut found, mut named, mut missed) = (0_u32, 0_u32, 0_u32, Vec::new());
    let mut misnamed = Vec::new();
    for _ in 0..6000 {
        let (secret, rule) = make::any(&mut random);
        let (before, after) =
            [(" ", " "), ("\"", "\""), ("key=", "\n"), ("(", ")."), ("é", "é"), ("", ""), ("> ", ",")]
                [random.below(7)];
        let text = format!("It said:{before}{secret}{after}");
        let redacted = redactor.text(&text);
        all += 1;
        let rules: Vec<&str> =
            redacted.counts.iter().map(|(rule, _)| redactor.names()[usize::from(rule)].as_str()).collect();
        if !redacted.text.contains(make::core(&secret)) && !rules.is_empty() {
            found += 1;
            named += u32::from(rules.contains(&rule));
            if !rules.contains(&rule) {
                misnamed.push((rule, rules.join("+")));
            }
        } else {
            missed.push(text);
        }
    }
    assert!(found * 1000 >= all * 995, "{found} of {all}; {:?}", &missed[..missed.len().min(8)]);
    assert!(
        named * 100 >= all * 97,
        "{named} of {all} by the rule that knows them: {:?}",
        &misnamed[..misnamed.len().min(12)]
    );
}

#[test]
fn g20_false_hits_on_clean_text_are_at_most_a_tenth_per_mebibyte() {
    let redactor = full();
    let mut random = Random(4242);
    let mebibytes = 12;
    let mut hits = Vec::new();
    for _ in 0..mebibytes * 4 {
        let text = clean(&mut random, 256 * 1024);
        let json = format!(r#"{{"content":[{{"type":"text","text":{}}}]}}"#, crate::splice::quoted(&text));
        let redacted = redactor.json(&json).unwrap();
        assert_eq!(redacted.counts.is_empty(), matches!(redacted.text, Cow::Borrowed(_)));
        for (rule, times) in redacted.counts.iter() {
            let at = redacted.text.find("[redacted").unwrap();
            let near = redacted.text.get(at.saturating_sub(60)..at + 60).unwrap_or_default().to_owned();
            hits.push((redactor.names()[usize::from(rule)].clone(), times, near));
        }
    }
    let total: u32 = hits.iter().map(|hit| hit.1).sum();
    assert!(total * 10 <= mebibytes, "{hits:?}");
}
