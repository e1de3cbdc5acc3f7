//! What is no problem of a task and still surely not meant, as far as the file alone tells: nobody can use it, or a
//! pattern names no configured server. Names that servers list are looked at where there is a connection.

use policies::caller::PrincipalSpec;
use policies::compile::{ConfirmSpec, TaskSpec};
use policies::flaw::{Flaw, Step};
use policies::glob::Glob;

/// Pairs of patterns and servers that are compared at most.
const MAX_PAIRS: usize = 200_000;

/// What the rest of the file says that tasks depend on.
#[derive(Clone, Debug, Default)]
pub(in crate::config::check) struct Ground<'a> {
    /// Whether the data listener is on a loopback address.
    pub(in crate::config::check) loopback: bool,
    /// The issuers whose tokens are taken.
    pub(in crate::config::check) issuers: Vec<&'a str>,
    /// The names of static tokens.
    pub(in crate::config::check) tokens: Vec<&'a str>,
    /// Whether client certificates are taken.
    pub(in crate::config::check) certificates: bool,
    /// The ids of the servers.
    pub(in crate::config::check) servers: Vec<&'a str>,
}

impl Ground<'_> {
    /// Whether anything proves callers.
    pub(in crate::config::check) fn credentials(&self) -> bool {
        !self.issuers.is_empty() || !self.tokens.is_empty() || self.certificates
    }
}

/// What is found beyond what `known` says already.
pub(super) fn review(spec: &TaskSpec, known: &[Flaw], ground: &Ground<'_>) -> Vec<Flaw> {
    let mut found = Vec::new();
    let told = |at: &[Step]| known.iter().any(|flaw| flaw.at == at);
    principals(spec, ground, &mut found);
    servers(spec, ground, &mut found);
    found.retain(|flaw| !told(&flaw.at));
    found
}

fn principals(spec: &TaskSpec, ground: &Ground<'_>, found: &mut Vec<Flaw>) {
    let Some(principals) = &spec.principals else {
        if !ground.credentials() && !ground.loopback {
            found.push(nobody(Vec::new()));
        }
        return;
    };
    let at = |list: &str, n: usize| vec![Step::from("principals"), Step::from(list), Step::from(n)];
    let missing = |list: &'static str, names: &[String], known: &[&str], what: &str| {
        let unknown = names.iter().enumerate().filter(|(_, name)| !known.contains(&name.as_str()));
        let flaw = |(n, _)| Flaw::new(at(list, n), format!("there is no such {what}"), "name one of `auth`");
        unknown.map(flaw).collect::<Vec<_>>()
    };
    found.extend(missing("issuers", &principals.issuers, &ground.issuers, "issuer"));
    found.extend(missing("tokens", &principals.tokens, &ground.tokens, "static token"));
    if !usable(principals, ground) {
        found.push(nobody(vec![Step::from("principals")]));
    }
}

fn nobody(at: Vec<Step>) -> Flaw {
    let what = "nobody can use the task: nothing that `auth` takes proves a caller whom it admits";
    Flaw::new(at, what, "configure what proves them, or `anonymous: true` on a loopback address")
}

fn usable(principals: &PrincipalSpec, ground: &Ground<'_>) -> bool {
    let of_issuers = !(principals.issuers.is_empty()
        && principals.groups.is_empty()
        && principals.claims.is_empty()
        && principals.scopes.is_empty()
        && principals.clients.is_empty());
    let known = |names: &[String], known: &[&str]| names.iter().any(|name| known.contains(&name.as_str()));
    let by_issuer = of_issuers
        && !ground.issuers.is_empty()
        && (principals.issuers.is_empty() || known(&principals.issuers, &ground.issuers));
    by_issuer
        || known(&principals.tokens, &ground.tokens)
        || (ground.certificates && !principals.certificates.is_empty())
        || (principals.anonymous && ground.loopback)
}

/// Patterns that name no configured server, whatever it will list.
fn servers(spec: &TaskSpec, ground: &Ground<'_>, found: &mut Vec<Flaw>) {
    let globs =
        |texts: Vec<String>| texts.iter().filter_map(|text| Glob::parse(text).ok()).collect::<Vec<_>>();
    let named = globs(ground.servers.iter().map(|id| format!("{id}__*")).collect());
    let places = ground.servers.iter().flat_map(|id| [format!("{id}+*"), format!("ui://{id}/*")]);
    // What a server lists under these keeps its URI.
    let places = globs(places.chain(["http{,s}:*", "tollgate:*"].map(str::to_owned)).collect());
    let tools = tool_patterns(spec);
    let list = |key: &'static str, texts: &'_ [String]| {
        let place = move |n| vec![Step::from(key), Step::from(n)];
        texts.iter().enumerate().map(move |(n, text)| (place(n), text.clone())).collect::<Vec<_>>()
    };
    let prompts = list("allow_prompts", &spec.allow_prompts);
    let resources = list("allow_resources", &spec.allow_resources);
    let count = (tools.len() + prompts.len()) * named.len() + resources.len() * places.len();
    if count > MAX_PAIRS {
        return;
    }
    let all = [(tools, &named), (prompts, &named), (resources, &places)];
    for (patterns, servers) in all {
        for (at, text) in patterns {
            let Ok(glob) = Glob::parse(&text) else { continue };
            if !servers.iter().any(|server| server.overlaps(&glob)) {
                let what = format!("'{glob}' matches nothing: it names no configured server");
                found.push(Flaw::new(at, what, "names are {server}__{name}, URIs {server}+{uri}"));
            }
        }
    }
}

fn tool_patterns(spec: &TaskSpec) -> Vec<(Vec<Step>, String)> {
    let mut all = Vec::new();
    let mut add = |at: Vec<Step>, text: &String| all.push((at, text.clone()));
    for (key, texts) in [("allow", &spec.allow), ("deny", &spec.deny)] {
        texts.iter().enumerate().for_each(|(n, text)| add(vec![Step::from(key), Step::from(n)], text));
    }
    for (n, scope) in spec.scopes.iter().enumerate() {
        add(vec![Step::from("scopes"), Step::from(n), Step::from("tool")], &scope.tool);
    }
    for (n, rule) in spec.rules.iter().enumerate() {
        add(vec![Step::from("rules"), Step::from(n), Step::from("tool")], &rule.tool);
    }
    if let ConfirmSpec::Patterns(texts) = &spec.confirm {
        texts.iter().enumerate().for_each(|(n, text)| add(vec![Step::from("confirm"), Step::from(n)], text));
    }
    all
}
