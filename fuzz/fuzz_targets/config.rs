//! Configurations: whatever the text, the check ends with a gateway's worth of settings or with problems that stand
//! inside the text and say nothing of its secrets; a good text is judged the same twice, and its tasks can decide.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use policies::caller::{Caller, Proof};
use policies::{Entry, Hints, Kind, Subject};
use tollgate::config::{Checked, Options, Problem, Source, check_text};

const MAX_PROBLEMS: usize = 201;

fn check(bytes: &[u8]) -> Result<Checked, Vec<Problem>> {
    let options = Options { listen: None, elsewhere: true };
    check_text(&Source { name: "f.yaml", bytes, base: Path::new("/") }, &options, &|_| None)
}

fn inside(problem: &Problem, lines: usize) {
    assert!(problem.line >= 1 && problem.line <= lines && problem.column >= 1, "{problem}");
    let shown = problem.to_string();
    assert!(!shown.contains(['\n', '\u{1b}']) && shown.len() < 16_384, "{shown:?}");
}

fuzz_target!(|data: &[u8]| {
    // YAML ends lines at carriage returns as well, and a text may end with one.
    let lines = data.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() + 2;
    let checked = match check(data) {
        Ok(checked) => checked,
        Err(problems) => {
            assert!(!problems.is_empty() && problems.len() <= MAX_PROBLEMS);
            problems.iter().for_each(|problem| inside(problem, lines));
            assert_eq!(check(data).err().map(|again| again.len()), Some(problems.len()));
            return;
        }
    };
    checked.warnings.iter().for_each(|warning| inside(warning, lines));
    assert!(!checked.tasks.is_empty());
    let named = |name: &String| checked.tasks.iter().any(|task| task.name == *name);
    assert!(checked.default_task.as_ref().is_none_or(named));
    assert!(checked.listen.ip().to_canonical().is_loopback() || checked.auth.any());
    let caller = Caller::new(Proof::Anonymous);
    let subject = Subject { caller: &caller, run: "r", now: 0 };
    for task in checked.tasks.iter().take(8) {
        let entry =
            Entry { server: "a", kind: Kind::Tool, exposed: "a__b", own: "b", hints: Hints::default() };
        let task = &task.profile.task;
        let shown = task.decide(&subject, &entry, None).shown();
        // Arguments may refuse a call and never hide the tool.
        assert_eq!(task.decide(&subject, &entry, Some("{}")).shown(), shown);
    }
});
