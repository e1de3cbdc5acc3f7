//! Tests of conditions: what they see, what is told of a bad one, and what hostile arguments can do.

use std::time::Instant;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::caller::{Caller, Proof};
use crate::decide::Subject;
use crate::entry::{Entry, Hints, Kind};

/// 2026-07-28T12:00:00Z, a Tuesday.
const NOON: i64 = 1_785_240_000;

fn ann() -> Caller {
    let proof = Proof::Issuer { issuer: "https://idp".into(), subject: "ann".into(), client: None };
    let serde_json::Value::Object(claims) = json!({"department": "it", "level": 3}) else {
        panic!("an object")
    };
    Caller { groups: vec!["support".into()], scopes: vec!["mcp.read".into()], claims, ..Caller::new(proof) }
}

fn eval(text: &str, arguments: &str) -> Result<bool, Broken> {
    let condition = Language::new().condition(text).unwrap_or_else(|p| panic!("{text}: {p:?}"));
    let caller = ann();
    let subject = Subject { caller: &caller, run: "r1", now: NOON };
    let entry = Entry {
        server: "docs",
        kind: Kind::Tool,
        exposed: "docs__find",
        own: "find",
        hints: Hints::default(),
    };
    condition.holds(&Facts::new(&subject, "support", &entry, arguments))
}

fn problems(text: &str) -> Vec<(usize, String)> {
    let problems = Language::new().condition(text).err().unwrap_or_default();
    problems.into_iter().map(|p| (p.offset, format!("{}; {}", p.what, p.fix))).collect()
}

#[test]
fn conditions_see_the_facts() {
    let arguments =
        r#"{"q":"abc","n":5,"big":18446744073709551615,"f":0.5,"on":true,"list":["a","b"],"none":null}"#;
    for (text, want) in [
        ("args.q.size() <= 200", true),
        ("size(args.q) == 3 && args.n + 1 == 6", true),
        ("args.n <= 5 && args.n < 5.5 && args.big > 9u", true),
        ("args.f == 0.5 && args.on && args.none == null", true),
        ("'a' in args.list && !('c' in args.list)", true),
        ("args.list.all(x, x.matches('^[a-z]$'))", true),
        ("args.list.exists(x, x == 'c')", false),
        ("has(args.q) && !has(args.missing)", true),
        ("args.?limit.orValue(10) <= 10", true),
        ("principal.iss == 'https://idp' && principal.sub == 'ann' && principal.client == ''", true),
        ("'support' in principal.groups && 'mcp.read' in principal.scopes", true),
        ("principal.claims.department == 'it' && principal.claims['level'] == 3", true),
        ("task == 'support' && run == 'r1'", true),
        ("tool.name == 'docs__find' && tool.server == 'docs' && tool.own == 'find'", true),
        ("tool.annotations.destructiveHint && !tool.annotations.readOnlyHint", true),
        ("time.getHours() >= 9 && time.getHours('Europe/Berlin') == 14", true),
        ("time > timestamp('2026-01-01T00:00:00Z')", true),
        ("type(args.q) == string", true),
        ("args.q == 'abc' ? true : false", true),
    ] {
        assert_eq!(eval(text, arguments), Ok(want), "{text}");
    }
}

#[test]
fn what_fails_to_evaluate_does_not_hold() {
    for (text, arguments) in [
        ("args.q.size() <= 200", "{}"),
        ("args.q.size() <= 200", r#"{"q":5}"#),
        ("args.n < 5", r#"{"n":"4"}"#),
        ("args.n / args.m > 1", r#"{"n":1,"m":0}"#),
        ("args.n + 1 > 0", r#"{"n":9223372036854775807}"#),
        ("args.list[3] == 1", r#"{"list":[1]}"#),
        ("args.q", r#"{"q":"true"}"#),
        ("args.q", r#"{"q":null}"#),
        ("timestamp(args.t) < time", r#"{"t":"never"}"#),
        ("time.getHours(args.zone) > 1", r#"{"zone":"../../etc/passwd"}"#),
    ] {
        assert!(
            matches!(eval(text, arguments), Err(Broken::Failed(_) | Broken::NoBoolean)),
            "{text} {arguments}"
        );
    }
    for arguments in ["", "[]", "1", "{", r#"{"n":1e999}"#] {
        assert_eq!(eval("args.n == 1", arguments), Err(Broken::NoJson), "{arguments}");
    }
}

#[test]
fn names_that_do_not_exist_are_told_with_their_place() {
    for (text, offset, says) in [
        ("arg.q == 1", 0, "unknown variable 'arg'; did you mean 'args'?"),
        ("true && user.name == 'x'", 8, "unknown variable 'user'; known are: principal"),
        ("principal.subject == 'x'", 9, "'principal' has no field 'subject'; known are"),
        ("principal['subj'] == 'x'", 9, "'principal' has no field 'subj'"),
        ("tool.annotations.readonlyHint", 16, "did you mean 'readOnlyHint'?"),
        ("task.name == 'x'", 4, "'task' has no fields"),
        ("'ü' == args.x && args.q.length() > 1", 0, "unknown function 'length'"),
        ("args.q.startswith('a')", 0, "did you mean 'startsWith'?"),
        ("startsWith(args.q, 'a')", 0, "write x.startsWith(a)"),
        ("foo_bar(args.q)", 0, "unknown function 'foo_bar'"),
        ("args.list.all(x, y > 1)", 17, "unknown variable 'y'"),
        ("args.list.all(x, true) && x", 26, "unknown variable 'x'"),
        ("args.q.matches(args.p)", 0, "the pattern of 'matches' is no constant"),
        ("args.q.matches('(a')", 0, "no regular expression"),
        ("args.q.matches('^(a|a)*\\\\1$')", 0, "no regular expression"),
        ("args.q.matches('(a{0,1000}){0,1000}')", 0, "too large"),
        ("args.q.size()", 0, "gives no boolean"),
        ("args", 0, "a variable alone is no condition"),
        ("'yes'", 0, "a constant is no condition"),
        ("args.n + 1", 0, "arithmetic is no condition"),
        ("Foo{a: 1} == 1", 0, "unknown type"),
    ] {
        let found = problems(text);
        let hit = found.iter().any(|(at, what)| what.contains(says) && (offset == 0 || *at == offset));
        assert!(hit, "{text}: {found:?}");
    }
    let found = problems("a == 1 && b == 2");
    assert_eq!(found.len(), 2, "all at once: {found:?}");
    // Offsets are in bytes, also after longer characters.
    assert_eq!(
        problems("'äöü' == args.x && foo").first().map(|(at, _)| *at),
        Some("'äöü' == args.x && ".len())
    );
}

#[test]
fn what_is_no_expression_is_told_with_its_place() {
    for text in ["", "a &&", "args.q ==", "1 +* 2", "args.q = 1", "has(args)", "'open", "args.all(1, true)"] {
        let found = problems(text);
        assert!(!found.is_empty() && found.iter().all(|(at, _)| *at <= text.len()), "{text}: {found:?}");
    }
    assert_eq!(problems("args.q ==\n  *").first().map(|(at, _)| *at), Some(12));
    assert_eq!(problems("'äöü' == *").first().map(|(at, _)| *at), Some("'äöü' == ".len()));
}

#[test]
fn expressions_are_bounded() {
    assert!(problems(&format!("args.q == '{}'", "x".repeat(MAX_EXPRESSION)))[0].1.contains("longer than"));
    assert!(!problems(&format!("{}true{}", "(".repeat(500), ")".repeat(500))).is_empty());
    assert!(!problems(&format!("{}args.a", "[".repeat(70))).is_empty());
    assert!(!problems(&format!("{}true{}", "!(".repeat(70), ")".repeat(70))).is_empty());
    assert!(!problems(&["args.a"; 280].join("+")).is_empty());
    assert!(!problems(&format!("1{} == 2", "+1".repeat(900))).is_empty());
    assert_eq!(problems(&["args.n > 0"; 60].join(" && ")), [], "a long list of conditions is no deep one");
    let nested = "args.a.all(x, args.a.all(y, args.a.all(z, x == y)))";
    assert!(problems(nested)[0].1.contains("nested more than two"), "{:?}", problems(nested));
    let many = ["args.a.all(x, x == 1)"; 5].join(" && ");
    assert!(problems(&many)[0].1.contains("more than four loops"));
}

#[test]
fn what_could_take_long_is_refused_and_the_rest_is_quick() {
    let numbers: Vec<String> = (0..12_000).map(|n| n.to_string()).collect();
    let arguments = format!(r#"{{"a":[{}],"s":"{}"}}"#, numbers.join(","), "x".repeat(100_000));
    for (text, want) in [
        ("args.a.all(x, args.a.exists(y, y == x + 20000))", Err(Broken::TooCostly)),
        ("args.a.all(x, x in args.a)", Err(Broken::TooCostly)),
        ("args.a.all(x, args.a == args.a)", Err(Broken::TooCostly)),
        ("args.a.map(x, args.s + 'y').size() > 0", Err(Broken::TooCostly)),
        ("args.a.map(x, args.a).size() > 0", Err(Broken::TooCostly)),
        ("args.a.all(x, x >= 0)", Ok(true)),
        ("args.a.exists_one(x, x == 7)", Ok(true)),
        ("11999 in args.a && args.s.contains('xx')", Ok(true)),
    ] {
        let begin = clock();
        assert_eq!(eval(text, &arguments), want, "{text}");
        assert!(begin.elapsed().as_millis() < 3000, "{text}: {:?}", begin.elapsed());
    }
    let large = format!(r#"{{"s":"{}"}}"#, "x".repeat(MAX_ARGUMENTS));
    assert_eq!(eval("args.s == ''", &large), Err(Broken::TooLarge));
    assert_eq!(
        eval("task == 'support'", &large),
        Ok(true),
        "only conditions that look at arguments mind them"
    );
}

#[allow(clippy::disallowed_methods)]
fn clock() -> Instant {
    Instant::now()
}

/// Every function that is known to the check is known to the library as well.
#[test]
fn known_functions_exist() {
    for text in [
        "size('a') == 'a'.size()",
        "'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c') && 'abc'.matches('b')",
        "string(1) == '1' && int('1') == 1 && uint(1) == 1u && double('1') == 1.0 && bool('true') && bytes('a') == b'a'",
        "type(1) == int && dyn(1) == 1 && timestamp(0) + duration('1s') == timestamp(1)",
        "time.getFullYear() == 2026 && time.getMonth() == 6 && time.getDate() == 28 && time.getDayOfMonth() == 27",
        "time.getDayOfWeek() == 2 && time.getDayOfYear() == 208 && time.getMinutes('UTC') == 0",
        "time.getSeconds() == 0 && time.getMilliseconds() == 0 && !args.?a.hasValue() && args.?a.orValue(1) == 1",
        "[1, 2].exists_one(x, x == 1) && [1, 2].map(x, x + 1) == [2, 3] && [1, 2].filter(x, x > 1) == [2]",
    ] {
        assert_eq!(eval(text, "{}"), Ok(true), "{text}");
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|b| json!(b)),
        any::<i64>().prop_map(|n| json!(n)),
        any::<u64>().prop_map(|n| json!(n)),
        any::<f64>().prop_map(|n| json!(n)),
        ".{0,12}".prop_map(|s| json!(s)),
        prop_oneof!["9999-12-31T23:59:59Z", "-?[0-9]{1,20}s", "[A-Z][a-z]{2,6}/[A-Z][a-z]{2,6}"]
            .prop_map(|s| json!(s)),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|v| json!(v)),
            prop::collection::hash_map("[a-d]", inner, 0..4).prop_map(|m| json!(m)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever a caller sends, a condition holds, does not, or fails: it never panics.
    #[test]
    fn hostile_arguments_never_panic(a in any_json(), b in any_json()) {
        let arguments = json!({"a": a, "b": b}).to_string();
        for text in [
            "args.a + args.b == args.a", "args.a - args.b > args.a", "args.a * args.b < 0", "args.a / args.b > 1", "args.a % args.b == 0",
            "args.a == args.b", "args.a < args.b", "args.a in args.b", "args.a[args.b] == 1", "args.b[0].c == 1", "-args.a < 1", "!args.a",
            "args.a.size() > args.b", "args.a.contains(args.b)", "args.a.matches('^[a-z]+$')", "args.a.all(x, x == args.b)",
            "int(args.a) > 1", "uint(args.a) > 1u", "double(args.a) > 1.0", "string(args.a) == 'x'", "bytes(args.a) == b'x'",
            "timestamp(args.a) + duration(args.b) > time", "time - duration(args.a) < time", "time.getHours(args.a) > 2",
            "duration(args.a) + duration(args.b) > duration('1s')", "timestamp(args.a).getDayOfYear() > 2", "{args.a: args.b}.size() > 0",
            "args.?a.?b.orValue(args.b) == 1", "args.a ? args.b : false", "type(args.a) == type(args.b)", "args.a.map(x, x + args.b).size() > 1",
        ] {
            let _ = eval(text, &arguments);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-z.()'\\[\\]+!&|{}?:,0-9 \"ä]{0,40}") {
        let _ = Language::new().condition(&text);
    }
}

#[test]
fn k2_what_is_decided_at_once_is_bounded_by_the_conditions_work() {
    let of = |texts: &[&str]| {
        let language = Language::new();
        let all: Vec<Condition> = texts.iter().map(|text| language.condition(text).unwrap()).collect();
        quick(all.iter())
    };
    assert_eq!(of(&[]), MAX_ARGUMENTS);
    assert_eq!(of(&["run != 'x'", "args.q.size() <= 200"]), MAX_ARGUMENTS);
    let (one, two) =
        ("args.labels.all(l, args.body.contains(l))", "args.xs.all(x, args.xs.exists(y, y == x))");
    assert!((1024..32 * 1024).contains(&of(&[one])), "{}", of(&[one]));
    assert!((32..1024).contains(&of(&[two])), "{}", of(&[two]));
    assert!(of(&[one; 4]) < of(&[one]), "they are evaluated one after the other");
    let condition = Language::new().condition(one).ok().unwrap();
    let most = u64::try_from(of(&[one])).unwrap();
    assert!(condition.added(most) <= MAX_QUICK && condition.added(most + 8) > MAX_QUICK);
}
