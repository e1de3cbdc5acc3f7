//! Which servers a task can permit anything of at all. A server that it can't is, for the task's callers, none that
//! exists: what is said of a whole server (its instructions, its capabilities, that it failed) is for the others alone.

use crate::compile::Globs;
use crate::glob::relate::covered;
use crate::glob::{Glob, Token};
use crate::task::List;

/// The patterns of a task that allow something, and those that forbid it.
#[derive(Debug, Default)]
pub struct Reach {
    allow: Vec<Glob>,
    deny: Vec<Glob>,
    prompts: Vec<Glob>,
    resources: Vec<Glob>,
}

impl Reach {
    pub(crate) fn of(globs: Globs) -> Reach {
        let mut reach = Reach { prompts: globs.prompts, resources: globs.resources, ..Reach::default() };
        for (by, glob) in globs.tools {
            match by.list {
                List::Allow => reach.allow.push(glob),
                List::Deny => reach.deny.push(glob),
                _ => {}
            }
        }
        reach
    }

    /// Whether some name or URI of this server is allowed and not denied. Where that can't be told it is: `https:` URIs
    /// name no server, so a pattern over them reaches all.
    pub fn reaches(&self, server: &str) -> bool {
        let (named, under) = (format!("{server}__"), [format!("{server}+"), format!("ui://{server}/")]);
        let tools = self.allow.iter().flat_map(Glob::alternatives).any(|tokens| self.left(tokens, &named));
        let begins = |globs: &[Glob], prefix: &str| {
            globs.iter().flat_map(Glob::alternatives).any(|tokens| !rests(tokens, prefix).is_empty())
        };
        tools
            || begins(&self.prompts, &named)
            || under.iter().map(String::as_str).chain(["http:", "https:"]).any(|p| begins(&self.resources, p))
    }

    /// Whether something that begins with `prefix` is left of an allowed pattern after what is denied.
    fn left(&self, tokens: &[Token], prefix: &str) -> bool {
        rests(tokens, prefix).into_iter().any(|rest| {
            let whole: Vec<Token> = prefix.chars().map(Token::Char).chain(rest.iter().copied()).collect();
            !self.deny.iter().flat_map(Glob::alternatives).any(|denied| covered(denied, &whole))
        })
    }
}

/// What may follow on `prefix` in names that match, for each way to match it; nothing when none begins so.
fn rests<'t>(tokens: &'t [Token], prefix: &str) -> Vec<&'t [Token]> {
    // Sorted places in the tokens. A run stands at its place until it is left.
    let mut at = open(tokens, [0]);
    for c in prefix.chars() {
        let next = at.iter().filter_map(|place| match tokens.get(*place) {
            Some(Token::Run) => Some(*place),
            Some(Token::One) => Some(place + 1),
            Some(Token::Char(own)) if *own == c => Some(place + 1),
            _ => None,
        });
        at = open(tokens, next.collect::<Vec<_>>());
    }
    // What stands behind a run is among what the run itself stands for.
    let behind =
        |place: usize| place.checked_sub(1).filter(|before| tokens.get(*before) == Some(&Token::Run));
    let own = at.iter().filter(|place| behind(**place).is_none_or(|run| at.binary_search(&run).is_err()));
    own.filter_map(|place| tokens.get(*place..)).collect()
}

/// The places with those that stand behind a run that takes nothing.
fn open(tokens: &[Token], places: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut all: Vec<usize> = Vec::new();
    for mut place in places {
        all.push(place);
        while tokens.get(place) == Some(&Token::Run) {
            place += 1;
            all.push(place);
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Task;
    use crate::compile::TaskSpec;

    fn reach(allow: &[&str], deny: &[&str], prompts: &[&str], resources: &[&str]) -> Reach {
        let texts = |all: &[&str]| all.iter().map(|t| (*t).to_owned()).collect();
        let spec = TaskSpec {
            allow: texts(allow),
            deny: texts(deny),
            allow_prompts: texts(prompts),
            allow_resources: texts(resources),
            ..TaskSpec::named("t")
        };
        Task::compile(spec).unwrap().reach
    }

    #[test]
    fn a21_a_server_of_which_nothing_is_left_is_not_reached() {
        for (allow, deny, reached) in [
            (&["docs__*"][..], &[][..], true),
            (&["docs__search"], &[], true),
            (&["*"], &[], true),
            (&["{a,docs}__x"], &[], true),
            (&["d?cs__*"], &[], true),
            (&["*__read_*"], &[], true),
            (&["docs"], &[], false),
            (&["docs2__*", "doc__*", "Docs__*"], &[], false),
            (&[], &[], false),
            (&["*"], &["docs__*"], false),
            (&["*"], &["d*"], false),
            (&["*"], &["docs__read_*"], true),
            (&["docs__read_*"], &["docs__*"], false),
            (&["docs__{a,b}"], &["docs__a"], true),
            (&["docs__{a,b}"], &["docs__a", "docs__b"], false),
            // A tool may be called `x__read_y`.
            (&["*__read_*"], &["docs__read_*"], true),
            (&["*__read_*"], &["docs__*read_*"], false),
        ] {
            assert_eq!(reach(allow, deny, &[], &[]).reaches("docs"), reached, "{allow:?} {deny:?}");
        }
    }

    #[test]
    fn a21_prompts_and_resources_reach_too() {
        assert!(reach(&[], &["*"], &["docs__hello"], &[]).reaches("docs"));
        assert!(!reach(&[], &[], &["other__hello"], &[]).reaches("docs"));
        for (pattern, reached) in [
            ("docs+file:///*", true),
            ("ui://docs/*", true),
            ("https://docs.example.com/*", true),
            ("*", true),
            ("other+*", false),
            ("ui://other/*", false),
            ("ftp://docs/*", false),
        ] {
            assert_eq!(reach(&[], &[], &[], &[pattern]).reaches("docs"), reached, "{pattern}");
        }
    }

    /// Whatever a task allows belongs to a server that it reaches.
    #[test]
    fn a21_nothing_is_allowed_out_of_reach() {
        let globs = ["*", "a*", "*__*", "a__?", "{a,b}__x", "*x", "b__*y", "a_*", "?__x"];
        let names = ["a__x", "a__y", "b__x", "b__xy", "b__y", "a__"];
        let set = |mask: usize| -> Vec<&str> {
            globs.iter().enumerate().filter(|(n, _)| mask & (1 << n) != 0).map(|(_, g)| *g).collect()
        };
        for allow in 0..1 << globs.len() {
            let deny = (allow * 37 + 11) % (1 << globs.len());
            let reach = reach(&set(allow), &set(deny), &[], &[]);
            let matches = |globs: &[Glob], name: &str| {
                let name = Glob::parse(name).unwrap();
                globs.iter().any(|glob| glob.overlaps(&name))
            };
            for name in names {
                if matches(&reach.allow, name) && !matches(&reach.deny, name) {
                    assert!(reach.reaches(&name[..1]), "{name} {:?} {:?}", reach.allow, reach.deny);
                }
            }
        }
    }
}
