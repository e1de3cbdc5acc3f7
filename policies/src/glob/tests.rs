//! Tests of globs against a matcher that tries every way.

use proptest::prelude::*;

use super::relate::{covers, overlap};
use super::*;

/// Every way tried, on the text of one alternative without braces.
fn naive(pattern: &[char], name: &[char]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some(('*', rest)) => (0..=name.len()).any(|n| naive(rest, &name[n..])),
        Some(('?', rest)) => !name.is_empty() && naive(rest, &name[1..]),
        Some((c, rest)) => name.first() == Some(c) && naive(rest, &name[1..]),
    }
}

/// Expands the first innermost pair of braces, again and again.
fn expand(pattern: &str) -> Vec<String> {
    let Some(close) = pattern.find('}') else { return vec![pattern.to_owned()] };
    let open = pattern[..close].rfind('{').unwrap();
    pattern[open + 1..close]
        .split(',')
        .flat_map(|choice| expand(&format!("{}{choice}{}", &pattern[..open], &pattern[close + 1..])))
        .collect()
}

pub(crate) fn by_hand(pattern: &str, name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    expand(pattern).iter().any(|p| naive(&p.chars().collect::<Vec<_>>(), &name))
}

fn matching(patterns: &[&str], name: &str) -> Vec<usize> {
    let globs: Vec<Glob> = patterns.iter().map(|p| Glob::parse(p).unwrap()).collect();
    let mut found = Vec::new();
    assert!(GlobSet::new(&globs).unwrap().each(name, |n| found.push(n)));
    found.sort_unstable();
    found
}

fn one(pattern: &str, name: &str) -> bool {
    !matching(&[pattern], name).is_empty()
}

#[test]
fn globs_match_as_they_are_documented() {
    for (pattern, name, want) in [
        ("*", "", true),
        ("*", "docs__search", true),
        ("docs__*", "docs__search", true),
        ("docs__*", "docs__", true),
        ("docs__*", "docs_search", false),
        ("github__{get,list,search}_*", "github__list_issues", true),
        ("github__{get,list,search}_*", "github__delete_repo", false),
        ("a{b,c{d,e}}f", "acef", true),
        ("a{b,}c", "ac", true),
        ("?", "ä", true),
        ("?", "ab", false),
        ("docs+file:///a/*", "docs+file:///a/b/c", true),
        ("a.b", "axb", false),
        (r"a\*", "a*", true),
        (r"a\*", "ab", false),
        ("Docs", "docs", false),
        ("a,b", "a,b", true),
        ("x*\n", "x1\n", true),
    ] {
        assert_eq!(one(pattern, name), want, "{pattern} {name}");
    }
}

#[test]
fn all_that_match_are_told_once_each() {
    let found = matching(&["*", "docs__*", "x", "*search", "docs__search", "*"], "docs__search");
    assert_eq!(found, [0, 1, 3, 4, 5]);
}

#[test]
fn what_is_no_glob_is_told_with_its_place() {
    for (text, offset) in [("", 0), ("a{b", 1), ("a}b", 1), ("ab\\", 2), ("a\\b", 1), ("{{{{{a}}}}}", 4)] {
        assert_eq!(Glob::parse(text).unwrap_err().offset, offset, "{text}");
    }
    assert!(Glob::parse(&"a".repeat(1025)).is_err());
    assert!(Glob::parse(&"{a,b}".repeat(9)).is_err());
    assert!(Glob::parse(&"{a,b}".repeat(8)).is_ok());
}

#[test]
fn many_stars_in_many_patterns_take_no_more_than_bounded_memory() {
    // As a whole automaton this would have two states for each subset of the patterns.
    let texts: Vec<String> = (0..60).map(|n| format!("*w{n}*v{n}*")).collect();
    let globs: Vec<Glob> = texts.iter().map(|t| Glob::parse(t).unwrap()).collect();
    let set = GlobSet::new(&globs).unwrap();
    for round in 0..200 {
        let name: String =
            (0..20).map(|n| format!("w{}v{}", (n * 7 + round) % 60, (n * 11 + round) % 60)).collect();
        let mut found = Vec::new();
        assert!(set.each(&name, |n| found.push(n)));
        found.sort_unstable();
        let want: Vec<usize> = (0..60).filter(|n| by_hand(&texts[*n], &name)).collect();
        assert_eq!(found, want, "{name}");
    }
}

fn pattern() -> impl Strategy<Value = String> {
    "[ab*?]{0,5}(\\{[ab*]{0,2}(,[ab?]{0,2}){0,2}\\}){0,1}[ab*ä]{0,4}"
        .prop_filter("not empty", |p| !p.is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_set_matches_what_each_of_its_globs_matches(patterns in prop::collection::vec(pattern(), 1..12), name in "[abä]{0,8}") {
        let texts: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let want: Vec<usize> = (0..texts.len()).filter(|n| by_hand(texts[*n], &name)).collect();
        prop_assert_eq!(matching(&texts, &name), want);
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,40}") {
        if let Ok(glob) = Glob::parse(&text) {
            prop_assert!(GlobSet::new([&glob]).is_ok());
        }
    }

    #[test]
    fn how_globs_relate_is_true_of_names(a in pattern(), b in pattern(), name in "[abä]{0,5}") {
        let (ga, gb) = (Glob::parse(&a).unwrap(), Glob::parse(&b).unwrap());
        if by_hand(&a, &name) && by_hand(&b, &name) {
            prop_assert!(overlap(&ga, &gb));
        }
        if covers(&ga, &gb) && by_hand(&b, &name) {
            prop_assert!(by_hand(&a, &name));
        }
    }
}

#[test]
fn relations_that_reports_are_made_of() {
    let glob = |text| Glob::parse(text).unwrap();
    assert!(covers(&glob("*"), &glob("docs__*")));
    assert!(covers(&glob("docs__{a,b}*"), &glob("docs__ab")));
    assert!(!covers(&glob("docs__*"), &glob("*")));
    assert!(!overlap(&glob("docs__*"), &glob("github__*")));
    assert!(overlap(&glob("*_read"), &glob("docs__*")));
}
