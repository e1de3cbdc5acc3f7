//! From a task's specification, as plain values, to the task. All problems are found in one pass.

use crate::caller::{PrincipalSpec, Principals};
use crate::flaw::{Flaw, Step, steps};
use crate::glob::{Glob, GlobSet};
use crate::reach::Reach;
use crate::rule::{Language, quick};
use crate::task::{By, Capabilities, Confirm, Fallback, List, Patterns, Rule, Task};

/// Patterns of one list.
const MAX_PATTERNS: usize = 10_000;
/// Bytes of a rule's message.
const MAX_MESSAGE: usize = 1000;

/// A task as it is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSpec {
    /// Its name; the grammar is that of server ids, and the caller's to check.
    pub name: String,
    /// Who may use it; none: everybody with a credential, and on loopback those without.
    pub principals: Option<PrincipalSpec>,
    /// Globs over tools.
    pub allow: Vec<String>,
    /// Globs over tools; they win over `allow`.
    pub deny: Vec<String>,
    /// Globs over prompts.
    pub allow_prompts: Vec<String>,
    /// Globs over resource URIs.
    pub allow_resources: Vec<String>,
    /// Scopes that tools need.
    pub scopes: Vec<ScopeSpec>,
    /// Conditions on calls.
    pub rules: Vec<RuleSpec>,
    /// When a person is asked.
    pub confirm: ConfirmSpec,
    /// What if the client can't ask.
    pub confirm_fallback: Fallback,
    /// What servers may ask of the client.
    pub capabilities: Capabilities,
}

/// Scopes that some tools need, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScopeSpec {
    /// A glob over tools.
    pub tool: String,
    /// The scopes.
    pub scopes: Vec<String>,
}

/// A condition on calls of some tools: it must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSpec {
    /// A glob over tools.
    pub tool: String,
    /// The condition in CEL.
    pub when: String,
    /// What a caller is told when it does not hold.
    pub message: Option<String>,
}

/// When a person is asked before a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ConfirmSpec {
    /// Never.
    #[default]
    Never,
    /// For tools that may destroy something.
    Destructive,
    /// For every tool.
    Always,
    /// For tools that any of these globs matches.
    Patterns(Vec<String>),
}

impl TaskSpec {
    /// A specification that allows nothing.
    pub fn named(name: impl Into<String>) -> TaskSpec {
        TaskSpec { name: name.into(), ..TaskSpec::default() }
    }
}

/// A task, and what is surely not meant about it.
#[derive(Debug)]
pub struct Compiled {
    /// The task.
    pub task: Task,
    /// See [`crate::review`].
    pub warnings: Vec<Flaw>,
    /// Which servers it can permit anything of.
    pub reach: Reach,
}

impl Task {
    /// Compiles a specification.
    ///
    /// # Errors
    /// All problems.
    pub fn compile(spec: TaskSpec) -> Result<Compiled, Vec<Flaw>> {
        Compiler::default().task(spec)
    }

    /// Compiles the tasks of a configuration, each with the same language of conditions: for each the task, or all its
    /// problems.
    pub fn compile_all(specs: impl IntoIterator<Item = TaskSpec>) -> Vec<Result<Compiled, Vec<Flaw>>> {
        let language = Language::new();
        specs.into_iter().map(|spec| Compiler::new(language.clone()).task(spec)).collect()
    }
}

/// The patterns of a specification, well formed.
#[derive(Debug, Default)]
pub(crate) struct Globs {
    /// Over tools, with what each is for.
    pub(crate) tools: Vec<(By, Glob)>,
    pub(crate) prompts: Vec<Glob>,
    pub(crate) resources: Vec<Glob>,
}

struct Compiler {
    language: Language,
    flaws: Vec<Flaw>,
    globs: Globs,
}

impl Default for Compiler {
    fn default() -> Compiler {
        Compiler::new(Language::new())
    }
}

impl Compiler {
    fn new(language: Language) -> Compiler {
        Compiler { language, flaws: Vec::new(), globs: Globs::default() }
    }

    fn task(mut self, spec: TaskSpec) -> Result<Compiled, Vec<Flaw>> {
        self.tool_patterns(&spec);
        self.globs.prompts = self.list("allow_prompts", &spec.allow_prompts);
        self.globs.resources = self.list("allow_resources", &spec.allow_resources);
        self.roots(&spec.capabilities);
        let rules: Vec<Rule> =
            spec.rules.iter().enumerate().filter_map(|(n, rule)| self.rule(n, rule)).collect();
        let principals = Principals::compile(spec.principals.clone()).unwrap_or_else(|flaws| {
            self.flaws.extend(flaws);
            Principals::anybody()
        });
        let tools = self.globs.tools.iter().map(|(_, glob)| glob);
        let sets =
            [GlobSet::new(tools), GlobSet::new(&self.globs.prompts), GlobSet::new(&self.globs.resources)];
        let [Ok(tools), Ok(prompts), Ok(resources)] = sets else {
            self.flaws.push(Flaw::new(
                Vec::new(),
                "the patterns are too large together",
                "write fewer or shorter ones",
            ));
            return Err(self.flaws);
        };
        if !self.flaws.is_empty() {
            return Err(self.flaws);
        }
        let confirm = match &spec.confirm {
            ConfirmSpec::Never => Confirm::Never,
            ConfirmSpec::Destructive => Confirm::Destructive,
            ConfirmSpec::Always => Confirm::Always,
            ConfirmSpec::Patterns(_) => Confirm::Patterns,
        };
        let meaning = self.globs.tools.iter().map(|(by, _)| *by).collect();
        let scopes =
            spec.scopes.iter().map(|s| s.scopes.iter().map(|t| t.as_str().into()).collect()).collect();
        let task = Task {
            name: spec.name.into(),
            open: false,
            quick: quick(rules.iter().map(|rule| &rule.condition)),
            principals,
            tools: Patterns { set: tools, meaning },
            prompts,
            resources,
            scopes,
            rules,
            confirm,
            fallback: spec.confirm_fallback,
            capabilities: spec.capabilities,
        };
        let warnings = crate::review::within(&task, &self.globs);
        Ok(Compiled { task, warnings, reach: Reach::of(self.globs) })
    }

    fn tool_patterns(&mut self, spec: &TaskSpec) {
        let lists = [(List::Allow, "allow", &spec.allow), (List::Deny, "deny", &spec.deny)];
        for (list, key, texts) in lists {
            self.bounded(key, texts.len());
            for (n, text) in texts.iter().enumerate() {
                self.tool(By::at(list, n), steps![key, n], text);
            }
        }
        for (n, scope) in spec.scopes.iter().enumerate() {
            self.tool(By::at(List::Scopes, n), steps!["scopes", n, "tool"], &scope.tool);
            if scope.scopes.is_empty() || scope.scopes.iter().any(|s| !is_scope(s)) {
                let fix = "name at least one scope, in printable ASCII without spaces, '\"' and '\\'";
                self.flaws.push(Flaw::new(steps!["scopes", n, "scopes"], "these are no scopes", fix));
            }
        }
        for (n, rule) in spec.rules.iter().enumerate() {
            self.tool(By::at(List::Rules, n), steps!["rules", n, "tool"], &rule.tool);
        }
        if let ConfirmSpec::Patterns(texts) = &spec.confirm {
            for (n, text) in texts.iter().enumerate() {
                self.tool(By::at(List::ConfirmPatterns, n), steps!["confirm", n], text);
            }
        }
        self.bounded("scopes", spec.scopes.len());
        self.bounded("rules", spec.rules.len());
    }

    fn bounded(&mut self, key: &str, len: usize) {
        if len > MAX_PATTERNS {
            self.flaws.push(Flaw::new(
                steps![key],
                "more than 10000 entries",
                "write patterns that match more",
            ));
        }
    }

    fn tool(&mut self, by: By, at: Vec<Step>, text: &str) {
        if let Some(glob) = self.glob(at, text) {
            self.globs.tools.push((by, glob));
        }
    }

    fn list(&mut self, key: &str, texts: &[String]) -> Vec<Glob> {
        self.bounded(key, texts.len());
        texts.iter().enumerate().filter_map(|(n, text)| self.glob(steps![key, n], text)).collect()
    }

    fn glob(&mut self, at: Vec<Step>, text: &str) -> Option<Glob> {
        match Glob::parse(text) {
            Ok(glob) => Some(glob),
            Err(bad) => {
                self.flaws.push(Flaw::new(at, bad.what, "correct the pattern").at_byte(bad.offset));
                None
            }
        }
    }

    fn rule(&mut self, n: usize, spec: &RuleSpec) -> Option<Rule> {
        if spec.message.as_ref().is_some_and(|m| m.is_empty() || m.len() > MAX_MESSAGE) {
            let at = steps!["rules", n, "message"];
            self.flaws.push(Flaw::new(at, "the message is empty or too long", "write 1 to 1000 bytes"));
        }
        match self.language.condition(&spec.when) {
            Ok(condition) => {
                let message = spec.message.clone();
                let message =
                    message.unwrap_or_else(|| "A rule of this task does not allow this call.".to_owned());
                Some(Rule { condition, message: message.into() })
            }
            Err(problems) => {
                self.flaws.extend(problems.into_iter().map(|problem| Flaw {
                    at: steps!["rules", n, "when"],
                    offset: Some(problem.offset),
                    what: problem.what,
                    fix: problem.fix,
                }));
                None
            }
        }
    }

    fn roots(&mut self, capabilities: &Capabilities) {
        for (n, root) in capabilities.roots.iter().enumerate() {
            if !root.uri.starts_with("file://") {
                let at = steps!["capabilities", "roots", n, "uri"];
                self.flaws.push(Flaw::new(at, "is no file: URI", "write file:///the/directory"));
            }
        }
    }
}

/// Whether a text is a scope (RFC 6749, 3.3 `scope-token`).
fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

#[cfg(test)]
mod tests;
