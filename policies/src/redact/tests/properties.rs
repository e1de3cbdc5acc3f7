//! What holds for any JSON: it stays JSON, what has no hit stays byte for byte, and a second pass finds nothing.

use serde_json::Value;

use super::make::{self, Random};
use super::*;

/// JSON text by chance, with odd white space, spellings and secrets; and the secrets in it.
fn value(random: &mut Random, depth: usize, secrets: &mut Vec<String>) -> String {
    let space = ["", "", " ", "\n\t"][random.below(4)];
    let inner = match random.below(if depth == 0 { 6 } else { 9 }) {
        0 => ["null", "true", "-0.50e+2", "1E400", "12345678901234567890123"][random.below(5)].to_owned(),
        1 => crate::splice::quoted(&random.text("abc é\"\\\n\u{1}😀/", 12)),
        2 => r#""\u00e9\/\ud83d\ude00 A""#.to_owned(),
        3 => {
            let secret = make::any(random).0;
            secrets.push(make::core(&secret).to_owned());
            crate::splice::quoted(&format!("x {secret} y"))
        }
        4 => crate::splice::quoted(&format!("{{\"in\":{}}}", value(random, 0, secrets))),
        5 => random.below(1 << 20).to_string(),
        6 => {
            let all: Vec<String> = (0..random.below(4)).map(|_| value(random, depth - 1, secrets)).collect();
            format!("[{}]", all.join(","))
        }
        _ => {
            let all: Vec<String> = (0..random.below(4))
                .map(|at| format!("{space}\"k{at}\"{space}:{}", value(random, depth - 1, secrets)))
                .collect();
            format!("{{{}}}", all.join(","))
        }
    };
    format!("{space}{inner}{space}")
}

#[test]
fn redaction_keeps_json_and_everything_that_is_no_secret() {
    let redactor = full();
    let mut random = Random(77);
    for round in 0..3000 {
        let mut secrets = Vec::new();
        let text = value(&mut random, 4, &mut secrets);
        let redacted = redactor.json(&text).unwrap();
        if secrets.is_empty() {
            assert!(
                matches!(redacted.text, Cow::Borrowed(_)) && redacted.counts.is_empty(),
                "{round}: {text}"
            );
        }
        for secret in &secrets {
            assert!(
                !redacted.text.contains(secret.as_str()),
                "{round}: {secret} is left in {}",
                redacted.text
            );
        }
        serde_json::from_str::<&serde_json::value::RawValue>(&redacted.text).unwrap();
        unchanged(&text, &redacted.text);
        let again = redactor.json(&redacted.text).unwrap();
        assert!(again.counts.is_empty(), "{round}: {} then {}", redacted.text, again.text);
    }
}

/// Token by token: all but strings with a marker have the same bytes, the white space between them too.
fn unchanged(before: &str, after: &str) {
    let tokens = |text: &str| {
        let mut tokens = crate::splice::Tokens::new(text);
        let mut all = Vec::new();
        let mut from = 0;
        while let Some(token) = tokens.next().unwrap() {
            all.push((text[from..token.span.start].to_owned(), text[token.span.clone()].to_owned()));
            from = token.span.end;
        }
        all
    };
    let (before, after) = (tokens(before), tokens(after));
    assert_eq!(before.len(), after.len());
    for (old, new) in before.iter().zip(&after) {
        assert_eq!(old.0, new.0);
        assert!(old.1 == new.1 || new.1.contains("[redacted:"), "{old:?} {new:?}");
    }
}

#[test]
fn where_a_text_is_split_doesnt_matter() {
    let redactor = full();
    let mut random = Random(99);
    for _ in 0..400 {
        let secret = make::any(&mut random).0;
        let whole = format!("before {secret} after");
        let mut places = [0, random.below(whole.len()), random.below(whole.len()), whole.len()];
        places.sort_unstable();
        let mut joint = Joint::default();
        let mut said: Vec<String> = Vec::new();
        let mut given: Vec<String> = Vec::new();
        for pair in places.windows(2) {
            let chunk = joint.push(&redactor, &whole[pair[0]..pair[1]]);
            let mut behind = chunk.behind;
            // As a holder does: takes what is behind out of what it still holds.
            for (text, was) in said.iter_mut().zip(&given).rev() {
                let cut = behind.min(was.len());
                let left = &was[..was.len() - cut];
                if cut > 0 && text.len() > left.len() {
                    *text = redactor.text(left).text.into_owned();
                }
                behind -= cut;
            }
            given.push(whole[pair[0]..pair[1]].to_owned());
            said.push(chunk.text);
        }
        let core = make::core(&secret);
        assert!(!said.concat().contains(core), "{secret} at {places:?}: {said:?}");
    }
}

#[test]
fn numbers_keep_their_spelling_and_keys_their_order() {
    let text = r#"{"z":1.50,"a":0.1e-7,"s":"AKIAIOSFODNN7EXAMPLE","b":[1e3, 2]}"#;
    let out = json(&full(), text);
    assert_eq!(out, r#"{"z":1.50,"a":0.1e-7,"s":"[redacted:aws]","b":[1e3, 2]}"#);
    assert!(serde_json::from_str::<Value>(&out).is_ok());
}
