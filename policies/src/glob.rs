//! Globs over names and URIs: `*`, `?`, `{a,b}` and `\` before a special character. Many of them are matched at once, by
//! one automaton over the name, in time that does not grow with their number. Never backtracks.

mod parse;
pub(crate) mod relate;

use std::fmt;

use regex_automata::hybrid::dfa::{Cache, DFA, OverlappingState};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::util::pool::Pool;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};

pub(crate) use parse::Token;

/// Bytes of one set's automaton before it is run.
const MAX_AUTOMATON: usize = 16 * 1024 * 1024;
/// Bytes that one thread's cache of automaton states may take; when full, it is begun anew.
const CACHE: usize = 1024 * 1024;

/// A glob that is well formed.
///
/// `*` stands for any run of characters, also none and also across `_`, `/` and `:`; `?` for one character; `{a,b}` for
/// either, nested at most four deep. Everything else stands for itself, case and all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    text: Box<str>,
    alternatives: Vec<Vec<Token>>,
}

/// Why a text is no glob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The byte where it goes wrong.
    pub offset: usize,
    /// What is wrong.
    pub what: &'static str,
}

impl Glob {
    /// Reads a glob.
    ///
    /// # Errors
    /// Braces that don't close, a `\` before nothing, an empty text, or one that is too long, too deep or stands for too
    /// many alternatives.
    pub fn parse(text: &str) -> Result<Glob, Malformed> {
        Ok(Glob { text: text.into(), alternatives: parse::alternatives(text)? })
    }

    /// The glob as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether some name matches both. For reports: the time grows with the product of their lengths.
    pub fn overlaps(&self, other: &Glob) -> bool {
        relate::overlap(self, other)
    }

    /// The sequences of tokens that it stands for once its braces are expanded.
    pub(crate) fn alternatives(&self) -> &[Vec<Token>] {
        &self.alternatives
    }

    fn regex(&self) -> String {
        let mut out = String::from(r"\A(?:");
        for (n, alternative) in self.alternatives.iter().enumerate() {
            if n > 0 {
                out.push('|');
            }
            for token in alternative {
                token.push_regex(&mut out);
            }
        }
        out.push_str(r")\z");
        out
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The globs of a set are too large together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

type Caches =
    Pool<Cache, Box<dyn Fn() -> Cache + Send + Sync + std::panic::UnwindSafe + std::panic::RefUnwindSafe>>;

/// Many globs, matched together.
pub struct GlobSet {
    automaton: Option<(DFA, Caches)>,
    len: usize,
}

impl fmt::Debug for GlobSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobSet").field("len", &self.len).finish_non_exhaustive()
    }
}

impl GlobSet {
    /// Compiles a set. A glob is known by its place in the sequence afterwards.
    ///
    /// # Errors
    /// The globs need more than 16 MiB together.
    pub fn new<'a>(globs: impl IntoIterator<Item = &'a Glob>) -> Result<GlobSet, TooLarge> {
        let texts: Vec<String> = globs.into_iter().map(Glob::regex).collect();
        if texts.is_empty() {
            return Ok(GlobSet::none());
        }
        let config =
            DFA::config().match_kind(MatchKind::All).cache_capacity(CACHE).skip_cache_capacity_check(true);
        let nfa = thompson::Config::new()
            .utf8(false)
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(MAX_AUTOMATON));
        let built = DFA::builder()
            .configure(config)
            .thompson(nfa)
            // A star stands for bytes: names are valid UTF-8, and what follows a star begins at a character anyway.
            .syntax(syntax::Config::new().utf8(false))
            .build_many(&texts);
        let automaton = built.map_err(|_| TooLarge)?;
        let fresh = automaton.clone();
        let caches: Caches = Pool::new(Box::new(move || fresh.create_cache()));
        Ok(GlobSet { automaton: Some((automaton, caches)), len: texts.len() })
    }

    /// A set that matches nothing.
    pub fn none() -> GlobSet {
        GlobSet { automaton: None, len: 0 }
    }

    /// How many globs it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Tells the place of every glob that matches the name, in no particular order. The time grows with the length of
    /// the name and the number of matches.
    ///
    /// `false`: the search was given up, and not all were told. Whoever asks must then assume the worst.
    #[must_use]
    pub fn each(&self, name: &str, mut matched: impl FnMut(usize)) -> bool {
        let Some((automaton, caches)) = &self.automaton else { return true };
        let mut cache = caches.get();
        let input = Input::new(name).anchored(Anchored::Yes);
        let mut state = OverlappingState::start();
        loop {
            if automaton.try_search_overlapping_fwd(&mut cache, &input, &mut state).is_err() {
                return false;
            }
            match state.get_match() {
                Some(found) => matched(found.pattern().as_usize()),
                None => return true,
            }
        }
    }

    /// Whether any glob matches. A search that was given up is no match.
    pub fn any(&self, name: &str) -> bool {
        let mut any = false;
        self.each(name, |_| any = true) && any
    }
}

#[cfg(test)]
pub(crate) mod tests;
