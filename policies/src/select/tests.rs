//! Tests of which task and which run a request works under.

use super::*;
use crate::caller::{PrincipalSpec, Proof};
use crate::compile::TaskSpec;

fn tasks() -> Tasks {
    let task = |name: &str, token: &str| {
        let principals = PrincipalSpec { tokens: vec![token.to_owned()], ..PrincipalSpec::default() };
        let spec =
            TaskSpec { principals: Some(principals), allow: vec!["*".into()], ..TaskSpec::named(name) };
        Task::compile(spec).unwrap().task
    };
    Tasks::new([task("support", "ci"), task("finance", "cfo")], Some("support"))
}

fn ci() -> Caller {
    Caller::new(Proof::Token("ci".into()))
}

fn choose(claim: Option<&str>, url: Option<&str>, header: Option<&str>) -> Result<String, NoTask> {
    let tasks = tasks();
    tasks.choose(&ci(), true, TaskOffer { claim, url, header }).map(|t| t.name().to_owned())
}

#[test]
fn the_strongest_name_is_taken() {
    assert_eq!(choose(None, None, None), Ok("support".into()));
    assert_eq!(choose(None, Some("support"), Some("finance")), Ok("support".into()));
    assert_eq!(choose(Some("support"), None, Some("finance")), Ok("support".into()));
    assert_eq!(choose(None, None, Some("finance")), Err(NoTask::Forbidden));
    assert_eq!(Tasks::default().choose(&ci(), true, TaskOffer::default()).unwrap_err(), NoTask::Unnamed);
}

#[test]
fn a_claim_and_a_url_that_disagree_are_refused() {
    assert_eq!(choose(Some("support"), Some("finance"), None), Err(NoTask::Disagree));
    assert_eq!(choose(Some("nothing"), Some("support"), None), Err(NoTask::Disagree));
    assert_eq!(choose(Some("support"), Some("support"), None), Ok("support".into()));
}

#[test]
fn a21_a_task_that_is_forbidden_reads_like_one_that_does_not_exist() {
    let (forbidden, unknown) = (choose(None, Some("finance"), None), choose(None, Some("nothing"), None));
    assert_eq!((&forbidden, &unknown), (&Err(NoTask::Forbidden), &Err(NoTask::Unknown)));
    assert_eq!(forbidden.unwrap_err().public(), unknown.unwrap_err().public());
}

#[test]
fn the_strongest_run_is_taken_and_a_bad_one_is_not_passed_over() {
    let of = |claim, header, meta| choose_run(RunOffer { claim, header, meta }, "derived-1");
    assert_eq!(of(Some("a"), Some("b"), Some("c")), Ok(("a", RunSource::Claim)));
    assert_eq!(of(None, Some("b"), Some("c")), Ok(("b", RunSource::Header)));
    assert_eq!(of(None, None, Some("c")), Ok(("c", RunSource::Meta)));
    assert_eq!(of(None, None, None), Ok(("derived-1", RunSource::Derived)));
    assert_eq!(of(None, Some("b b"), Some("c")), Err(BadRun(RunSource::Header)));
}

#[test]
fn run_ids_have_a_grammar() {
    for (text, good) in [("A.b_c:d-9", true), ("", false), ("a/b", false), ("ä", false), ("a\n", false)] {
        assert_eq!(is_run(text), good, "{text}");
    }
    assert!(is_run(&"a".repeat(128)) && !is_run(&"a".repeat(129)));
}

#[test]
fn l5_two_principals_never_share_a_run() {
    let other = Caller::new(Proof::Token("ci2".into()));
    assert_ne!(run_key(&ci().key(), "support", "r"), run_key(&other.key(), "support", "r"));
    assert_ne!(run_key("a", "b|1:c", "d"), run_key("a|1:b", "c", "d"));
}
