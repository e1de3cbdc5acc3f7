//! The cases X1 to X6, S6 and what redaction promises, on made-up secrets.

mod corpus;
mod encoded;
mod make;
mod properties;

use super::*;
use crate::flaw::Path;
use crate::schema::Schema;
use make::Random;

fn redactor(groups: &[&str]) -> Redactor {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    Redactor::compile(&Spec { groups, ..Spec::default() }).unwrap()
}

fn full() -> Redactor {
    redactor(&["secrets", "keys", "email", "card", "iban"])
}

fn own(pattern: &str) -> Result<Redactor, Vec<Flaw>> {
    let rules = vec![OwnRule { name: "own".into(), pattern: pattern.into() }];
    Redactor::compile(&Spec { rules, ..Spec::default() })
}

/// The redacted text, after checking that it is JSON and that something was counted.
fn json(redactor: &Redactor, text: &str) -> String {
    let redacted = redactor.json(text).unwrap();
    assert!(!redacted.counts.is_empty(), "nothing found in {text}");
    serde_json::from_str::<serde_json::Value>(&redacted.text).unwrap();
    redacted.text.into_owned()
}

#[test]
fn x1_a_pattern_without_a_longest_match_is_refused_with_the_reason() {
    for pattern in [".*[^A-Z]|[A-Z]", "a+", "x{3,}", "(ab)*c"] {
        let flaws = own(pattern).unwrap_err();
        assert_eq!(Path(&flaws[0].at).to_string(), "rules[0].pattern");
        assert!(flaws[0].what.contains("longest match"), "{flaws:?}");
        assert!(flaws[0].fix.contains("{1,64}"), "{flaws:?}");
    }
    assert!(own("(ab){0,20}c").is_ok());
    assert!(own("a{0,5}").unwrap_err()[0].what.contains("empty"));
}

#[test]
fn x1_steps_grow_no_faster_than_the_text() {
    let patterned = own("a{0,500}[^a]|a").unwrap();
    let (full, own_only) = (full(), &patterned);
    let jwt = make::jwt(&mut Random(7));
    let base64ed = make::base64(format!("x {jwt} AKIAABCDEFGHIJKLMNOP").as_bytes());
    for (redactor, unit) in [
        (&full, "A"),
        (&full, "AKIA"),
        (&full, "eyJhbGciOi.eyJ-"),
        (&full, "eyJ.eyJ_"),
        (&full, "-----BEGIN PRIVATE KEY-----!"),
        (&full, "-----BEGIN PRIVATE KEY-----"),
        (&full, "://a:b"),
        (&full, "ghp_"),
        (&full, "%41K"),
        (&full, "QUtJQUtJQ"),
        (&full, "Authorization: Bearer "),
        (&full, "4111 1111 1111 "),
        (&full, "a@a."),
        (&full, "DE89370400440532013"),
        (&full, base64ed.as_str()),
        (&full, make::base64(base64ed.as_bytes()).as_str()),
        (&full, "3637363837303566"),
        (&full, "QUtJQUtJQUtJQUtJQUtJQUtJQUtJQUtJQUtJQUtJQUtJ\n"),
        (&full, "%2525"),
        (own_only, "a"),
    ] {
        let steps = |bytes: usize| {
            let text = unit.repeat(bytes / unit.len());
            let (_, steps) = redactor.scan(text.as_bytes());
            u64::try_from(steps).unwrap().max(1)
        };
        let (small, large) = (steps(64 * 1024), steps(512 * 1024));
        let free = if std::ptr::eq(redactor, own_only) { 2 << 20 } else { 0 };
        assert!(large <= small * 10 + free, "{unit}: {small} steps, then {large}");
        let most = if std::ptr::eq(redactor, own_only) { 260 } else { 40 };
        assert!(large <= most * 512 * 1024 + free, "{unit}: {large} steps for half a mebibyte");
    }
}

#[test]
fn x1_what_would_cost_too_much_is_redacted_to_its_end() {
    let redactor = own("a{0,500}[^a]|a").unwrap();
    let text = "a".repeat(300_000);
    let redacted = redactor.text(&text);
    assert!(!redacted.text.contains('a') || redacted.text.replace("[redacted:own]", "").is_empty());
    assert!(redacted.counts.total() < 100_000);
}

#[test]
fn x2_patterns_that_compile_to_too_much_are_refused() {
    for pattern in [
        r"\w{3000}",
        "(a{0,1000}){0,1000}",
        "(?:[a-y]{40}|[b-z]{40}){1,50}",
        "((((((a{9}){9}){9}){9}){9}){9})",
    ] {
        let flaws = own(pattern).unwrap_err();
        assert!(
            Path(&flaws[0].at).to_string() == "rules[0].pattern" && !flaws[0].fix.is_empty(),
            "{flaws:?}"
        );
    }
    let large = (0..60).map(|n| format!("[a-f]{{20}}{n}[x-z]{{20}}")).collect::<Vec<_>>().join("|");
    let small: String = (0..200).map(|n| format!("(?:[a-f0-9]{{9}}|{n})?")).collect::<String>() + "x";
    for pattern in [large, small] {
        // Whatever its size, it is loaded within the bounds or refused.
        if let Err(flaws) = own(&pattern) {
            assert!(flaws[0].what.contains("262144") || flaws[0].what.contains("512"), "{flaws:?}");
        }
    }
}

#[test]
fn x3_a_token_at_the_very_beginning_of_a_text_is_found() {
    let redactor = full();
    let token = make::jwt(&mut Random(7));
    for text in [
        format!(r#"{{"v":"{token}"}}"#),
        format!(r#"{{"v":"{token} and more"}}"#),
        format!(r#"{{"{token}":1}}"#),
        format!(r#"["{token}"]"#),
    ] {
        assert!(!json(&redactor, &text).contains(&token), "{text}");
    }
    assert!(!redactor.text(&token).counts.is_empty());
}

#[test]
fn all_flaws_of_a_spec_are_told_at_once() {
    let spec = Spec {
        groups: vec!["secrets".into(), "sekrets".into()],
        rules: vec![
            OwnRule { name: "aws".into(), pattern: "a".into() },
            OwnRule { name: "ok".into(), pattern: "(".into() },
        ],
        keys: vec!["...".into()],
    };
    let at: Vec<String> =
        Redactor::compile(&spec).unwrap_err().into_iter().map(|flaw| Path(&flaw.at).to_string()).collect();
    assert_eq!(at, ["groups[1]", "rules[0].name", "rules[1].pattern", "keys[0]"]);
}

#[test]
fn x3_escapes_encodings_and_keys_hide_nothing() {
    let redactor = full();
    let id = "AKIAIOSFODNN7EXAMPLE";
    let token = make::github(&mut Random(1), "ghp_");
    let in_base64 = make::base64(format!("login: {token}\n").as_bytes());
    for (text, gone) in [
        (format!(r#"{{"a":"x \u0041KIA{} y"}}"#, &id[4..]), id),
        (format!(r#"{{"a":"x \u0041\u004b\u0049\u0041{} y"}}"#, &id[4..]), &id[4..]),
        (format!(r#"{{"a":"https://h/?k=%41KI%41{}&b=1"}}"#, &id[4..]), &id[4..]),
        (format!(r#"{{"a":"auth%3D{token}%26"}}"#), &token),
        (format!(r#"{{"a":"data {in_base64}"}}"#), &in_base64[8..24]),
        (format!(r#"{{"{token}":1,"x{id}":2}}"#), &token),
        (format!(r#"{{"code":-32000,"message":"bad token {token}","data":{{"seen":["{id}"]}}}}"#), &token),
        (format!(r#"{{"a":"line\n{id}\nline"}}"#), id),
        (format!(r#"{{"a":"log \\n{id}\\n"}}"#), id),
        (format!(r#"{{"a":"{{\"b\":\"\\u0041KIA{}\"}}"}}"#, &id[4..]), &id[4..]),
    ] {
        let out = json(&redactor, &text);
        assert!(!out.contains(gone), "{gone} is left in {out}");
        assert!(!out.contains("%41KI"), "{out}");
    }
    for (header, gone) in [
        ("Bearer abcdefgh12345678.xyz", "abcdefgh"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", "dXNl"),
        ("postgres://app:hunter2!x@db:5432/x", "hunter2"),
    ] {
        assert!(!redactor.text(header).text.contains(gone), "{header}");
    }
}

#[test]
fn x3_base64_is_looked_into_at_each_alignment_and_in_both_alphabets() {
    let redactor = full();
    for seed in 0..40 {
        let mut random = Random(seed + 1);
        let lead = "?>~ÿ".chars().cycle().take(usize::try_from(seed % 9).unwrap()).collect::<String>();
        let plain = format!("{lead} {} tail", make::any(&mut random).0);
        if !plain.contains("eyJ") && redactor.text(&plain).counts.is_empty() {
            panic!("{plain}");
        }
        for url_safe in [false, true] {
            let mut encoded = make::base64(plain.as_bytes());
            if url_safe {
                encoded = encoded.replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned();
            }
            let out = redactor.text(&encoded);
            // Others are found as well where what is before them is plain text.
            assert!(!out.counts.is_empty() || !make::found_in_base64(&plain), "{plain} {encoded}");
        }
    }
}

#[test]
fn x3_structured_content_and_its_text_form_stay_equal() {
    let redactor = full();
    let inner = format!(
        r#"{{"user":"ann","password":"hunter2","n":[1,{{"apiKey":12345}}],"note":"see {}"}}"#,
        make::github(&mut Random(3), "gho_")
    );
    let result = format!(
        r#"{{"content":[{{"type":"text","text":{}}}],"structuredContent":{inner}}}"#,
        crate::splice::quoted(&inner)
    );
    let out: serde_json::Value = serde_json::from_str(&json(&redactor, &result)).unwrap();
    let twin: serde_json::Value = serde_json::from_str(out["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(twin, out["structuredContent"]);
    assert_eq!(twin["password"], "[redacted:key]");
    assert_eq!(twin["n"][1]["apiKey"], "[redacted:key]");
    assert_eq!(twin["note"], "see [redacted:github]");
}

#[test]
fn values_of_telling_names_go_whole_and_schemas_stay() {
    let redactor = redactor(&["keys"]);
    let text = r#"{"token":"t","secret":5,"credentials":{"a":[1]},"password":"","cookie":null,"secrets":{},
        "nextPageToken":"abc","schema":{"properties":{"password":{"type":"string"}}}}"#;
    let out = json(&redactor, text);
    let all = r#"{"token":"[redacted:key]","secret":"[redacted:key]","credentials":"[redacted:key]","password":"","cookie":null,"secrets":{},
        "nextPageToken":"abc","schema":{"properties":{"password":{"type":"string"}}}}"#;
    assert_eq!(out, all);
    let again = redactor.json(all).unwrap();
    assert!(again.counts.is_empty() && matches!(again.text, Cow::Borrowed(_)));
}

/// Case R7: what is asked under such a name is a question, and its answer comes back under the same.
#[test]
fn r7_questions_under_telling_names_stay() {
    let text = r#"{"resultType":"input_required","inputRequests":{"api_key":{"method":"elicitation/create","params":{"message":"which?","password":"p"}}},"other":{"inputRequests":{"api_key":{"x":1}}}}"#;
    let out = json(&redactor(&["keys"]), text);
    let wanted = r#"{"resultType":"input_required","inputRequests":{"api_key":{"method":"elicitation/create","params":{"message":"which?","password":"[redacted:key]"}}},"other":{"inputRequests":{"api_key":"[redacted:key]"}}}"#;
    assert_eq!(out, wanted);
}

#[test]
fn s6_a_secret_over_two_content_items_is_taken_out_of_both() {
    let redactor = full();
    for seed in 1..60 {
        let mut random = Random(seed);
        let (secret, _) = make::any(&mut random);
        for cut in [1, 4, secret.len() / 2, secret.len() - 2] {
            let (head, tail) = secret.split_at(cut);
            let item = |text: &str| format!(r#"{{"type":"text","text":{}}}"#, crate::splice::quoted(text));
            let text =
                format!(r#"{{"content":[{},{}]}}"#, item(&format!("a {head}")), item(&format!("{tail} z")));
            let out: serde_json::Value = serde_json::from_str(&json(&redactor, &text)).unwrap();
            let said = |at: usize| out["content"][at]["text"].as_str().unwrap().to_owned();
            let whole = said(0) + &said(1);
            let core = make::core(&secret);
            assert!(!whole.contains(core), "{secret} at {cut}: {whole}");
            assert!(!said(0).ends_with(head) || head.len() < 2 || !said(1).starts_with(tail), "{secret}");
        }
    }
}

#[test]
fn s6_over_many_items_and_beside_other_content() {
    let redactor = full();
    let token = make::github(&mut Random(5), "ghs_");
    let items: Vec<String> = token.chars().map(|c| format!(r#"{{"type":"text","text":"{c}"}}"#)).collect();
    let text = format!(
        r#"{{"content":[{}]}}"#,
        items.join(r#",{"type":"image","data":"","mimeType":"image/png"},"#)
    );
    let out = json(&redactor, &text);
    assert_eq!(out.matches("[redacted:github]").count(), token.len());
}

#[test]
fn s6_a_secret_over_events_is_seen_where_it_goes_on() {
    let redactor = full();
    let token = make::github(&mut Random(6), "ghp_");
    for cut in 1..token.len() - 1 {
        let mut joint = Joint::default();
        let first = joint.push(&redactor, &format!("so far {}", &token[..cut]));
        assert!(first.open && first.behind == 0);
        let second = joint.push(&redactor, &format!("{} and on\n", &token[cut..]));
        assert_eq!((second.behind, second.open), (cut, false), "cut at {cut}");
        assert_eq!(second.text, "[redacted:github] and on\n");
        assert_eq!(second.counts.total(), 1);
    }
    let mut joint = Joint::default();
    for _ in 0..100 {
        joint.push(&redactor, &"é".repeat(3000));
        assert!(format!("{joint:?}").len() < 9000);
    }
}

#[test]
fn x4_a_redaction_that_breaks_the_output_schema_is_seen_by_checking_after_it() {
    let schema = Schema::compile(
        r#"{"type":"object","properties":{"id":{"type":"string","maxLength":20},"n":{"type":"integer"}}}"#,
    );
    let schema = schema.unwrap();
    let before = r#"{"id":"AKIAIOSFODNN7EXAMPLE","n":4111111111111111}"#;
    assert_eq!(schema.check(before), Ok(()));
    let after = json(&full(), before);
    assert_eq!(after, r#"{"id":"[redacted:aws]","n":"[redacted:card]"}"#);
    assert!(schema.check(&after).is_err());
    assert_eq!(schema.check(&json(&redactor(&["aws"]), before)), Ok(()));
}

#[test]
fn x5_x6_what_people_are_shown_has_no_secret_and_is_one_short_line() {
    let redactor = full();
    let token = make::github(&mut Random(9), "ghp_");
    let arguments =
        format!("{{\"a\":\"x\\u001b[31m \\u2028{token}\",\n\"password\":\"p\",\"e\":\"\\u202e\"}}");
    let shown = mask(&arguments, &redactor, 200);
    assert_eq!(shown, r#"{"a":"x  [redacted:github]", "password":"[redacted:key]","e":""}"#);
    for max in 0..80 {
        let cut = mask(&arguments, &redactor, max);
        assert!(cut.len() <= max && !cut.contains("ghp_"), "{cut}");
    }
    assert_eq!(mask("{", &redactor, 50), "[not shown: no JSON]");
    assert!(!mask("{\"a\u{1b}[2J\":\"b\u{7}\u{9b}\"}", &redactor, 50).contains(char::is_control));
    assert!(mask(&format!("\"{}\"", "x".repeat(1 << 20)), &redactor, 64).ends_with('…'));
}
#[test]
fn x7_rule_names_are_a_bounded_set() {
    let redactor = full();
    let text = format!(r#"{{"a":"{} AKIAIOSFODNN7EXAMPLE ASIAIOSFODNN7EXAMPLE"}}"#, "ann@example.com");
    let counts = redactor.json(&text).unwrap().counts;
    let named: Vec<(&str, u32)> =
        counts.iter().map(|(rule, n)| (redactor.names()[usize::from(rule)].as_str(), n)).collect();
    assert_eq!(named, [("email", 1), ("aws", 2)]);
    assert!(redactor.names().len() < 50);
}

#[test]
fn what_is_no_json_is_refused() {
    assert_eq!(full().json("{\"a\":"), Err(Malformed));
    assert_eq!(full().json(&"[".repeat(1000)), Err(Malformed));
}

#[test]
fn own_rules_find_texts_numbers_and_what_is_inside_base64() {
    let rules = vec![
        OwnRule { name: "employee".into(), pattern: "EMP-[0-9]{6}".into() },
        OwnRule { name: "desk".into(), pattern: "77[0-9]{4}".into() },
    ];
    let redactor = Redactor::compile(&Spec { groups: vec![], rules, keys: vec![] }).unwrap();
    let inside = make::base64(b"staff EMP-123456 left");
    let text = format!(r#"{{"a":"é EMP-000001 é","b":771234,"c":"x {inside}","d":"AKIAIOSFODNN7EXAMPLE"}}"#);
    let out = json(&redactor, &text);
    let wanted = r#"{"a":"é [redacted:employee] é","b":"[redacted:desk]","c":"x [redacted:employee]","d":"AKIAIOSFODNN7EXAMPLE"}"#;
    assert_eq!(out, wanted);
}
