//! Who calls, as plain facts that a credential proved, and which callers a task admits. Nothing here comes from headers
//! or from what a client says of itself.

use serde_json::{Map, Value};

use crate::flaw::{Flaw, steps};
use crate::glob::{Glob, GlobSet};
use crate::rate::key;

/// A caller, as verified.
#[derive(Clone, Debug, PartialEq)]
pub struct Caller {
    /// The credential.
    pub proof: Proof,
    /// The scopes held, with those that they imply.
    pub scopes: Vec<Box<str>>,
    /// The groups, as the issuer's group claim names them.
    pub groups: Vec<Box<str>>,
    /// The tenant, as the issuer's tenant claim names it.
    pub tenant: Option<Box<str>>,
    /// All verified claims. Bounded by the size of the credential.
    pub claims: Map<String, Value>,
}

/// What proved a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A token of an issuer.
    Issuer {
        /// `iss`.
        issuer: Box<str>,
        /// `sub`.
        subject: Box<str>,
        /// `client_id` or `azp`.
        client: Option<Box<str>>,
    },
    /// A static token, by its configured name.
    Token(Box<str>),
    /// A client certificate, by its subject alternative names. The first stands for the principal.
    Certificate(Vec<Box<str>>),
    /// Nothing, over loopback.
    Anonymous,
}

impl Caller {
    /// A caller without scopes, groups and claims.
    pub fn new(proof: Proof) -> Caller {
        Caller { proof, scopes: Vec::new(), groups: Vec::new(), tenant: None, claims: Map::new() }
    }

    /// The name under which everything is counted and bound for this caller: issuer, subject, client and tenant, or the
    /// name of the token or certificate. Two callers with the same key are the same principal.
    pub fn key(&self) -> Box<str> {
        match &self.proof {
            Proof::Issuer { issuer, subject, client } => {
                let (client, tenant) = (client.as_deref(), self.tenant.as_deref());
                // An absent part is not an empty one.
                let marks = match (client, tenant) {
                    (None, None) => "--",
                    (Some(_), None) => "c-",
                    (None, Some(_)) => "-t",
                    (Some(_), Some(_)) => "ct",
                };
                key(
                    "oauth",
                    &[issuer, subject, client.unwrap_or_default(), tenant.unwrap_or_default(), marks],
                )
            }
            Proof::Token(name) => key("token", &[name]),
            Proof::Certificate(names) => key("certificate", &[names.first().map_or("", |n| n)]),
            Proof::Anonymous => "anonymous".into(),
        }
    }

    /// Whether all these scopes are held.
    pub fn holds(&self, scopes: &[Box<str>]) -> bool {
        scopes.iter().all(|scope| self.scopes.contains(scope))
    }
}

/// Which callers a task admits, as configured. Callers with an issuer's token must meet everything that is said about
/// them; tokens, certificates and anonymous callers are admitted by name or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrincipalSpec {
    /// Issuers, any of them.
    pub issuers: Vec<String>,
    /// Groups, any of them.
    pub groups: Vec<String>,
    /// Claims by name, or by JSON Pointer when the name begins with `/`; each must hold any of its values.
    pub claims: Vec<(String, Vec<String>)>,
    /// Scopes, all of them.
    pub scopes: Vec<String>,
    /// Client ids, any of them.
    pub clients: Vec<String>,
    /// Names of static tokens.
    pub tokens: Vec<String>,
    /// Globs over certificates' names.
    pub certificates: Vec<String>,
    /// Whether callers without a credential are admitted, on loopback.
    pub anonymous: bool,
}

/// The compiled rule.
#[derive(Debug)]
pub struct Principals {
    spec: Option<PrincipalSpec>,
    certificates: GlobSet,
}

impl Principals {
    /// Compiles a rule; none admits every caller with a credential, and those without on loopback.
    ///
    /// # Errors
    /// All malformed patterns and empty lists, below `principals`.
    pub fn compile(spec: Option<PrincipalSpec>) -> Result<Principals, Vec<Flaw>> {
        let mut flaws = Vec::new();
        let mut globs = Vec::new();
        for (n, text) in spec.iter().flat_map(|s| s.certificates.iter()).enumerate() {
            match Glob::parse(text) {
                Ok(glob) => globs.push(glob),
                Err(bad) => {
                    let at = steps!["principals", "certificates", n];
                    flaws.push(Flaw::new(at, bad.what, "correct the pattern").at_byte(bad.offset));
                }
            }
        }
        for (name, values) in spec.iter().flat_map(|s| s.claims.iter()) {
            let at = steps!["principals", "claims", name.as_str()];
            if values.is_empty() {
                flaws.push(Flaw::new(
                    at,
                    "no value can be held",
                    "name at least one value, or leave the claim out",
                ));
            } else if name.starts_with('/') && !crate::price::is_pointer(name) {
                flaws.push(Flaw::new(at, "is no JSON Pointer", "escape '~' as '~0'"));
            }
        }
        let certificates = GlobSet::new(&globs).unwrap_or_else(|_| {
            let at = steps!["principals", "certificates"];
            flaws.push(Flaw::new(at, "the patterns are too large together", "write fewer"));
            GlobSet::none()
        });
        if flaws.is_empty() { Ok(Principals { spec, certificates }) } else { Err(flaws) }
    }

    /// No rule.
    pub(crate) fn anybody() -> Principals {
        Principals { spec: None, certificates: GlobSet::none() }
    }

    /// Whether a caller is admitted. `loopback`: whether the connection came over loopback; anonymous callers never
    /// come in any other way.
    pub fn admit(&self, caller: &Caller, loopback: bool) -> bool {
        let Some(spec) = &self.spec else { return caller.proof != Proof::Anonymous || loopback };
        match &caller.proof {
            Proof::Anonymous => spec.anonymous && loopback,
            Proof::Token(name) => spec.tokens.iter().any(|t| **t == **name),
            Proof::Certificate(names) => names.iter().any(|name| self.certificates.any(name)),
            Proof::Issuer { issuer, client, .. } => spec.admits_token(caller, issuer, client.as_deref()),
        }
    }

    /// Whether a rule names callers without a credential, so that they are admitted beside those who have one.
    pub fn names_anonymous(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.anonymous)
    }

    /// Whether anybody could be admitted at all.
    pub fn admits_somebody(&self) -> bool {
        self.spec.as_ref().is_none_or(|spec| {
            spec.asks_of_tokens()
                || spec.anonymous
                || !spec.tokens.is_empty()
                || !spec.certificates.is_empty()
        })
    }
}

impl PrincipalSpec {
    fn asks_of_tokens(&self) -> bool {
        !(self.issuers.is_empty()
            && self.groups.is_empty()
            && self.claims.is_empty()
            && self.scopes.is_empty()
            && self.clients.is_empty())
    }

    fn admits_token(&self, caller: &Caller, issuer: &str, client: Option<&str>) -> bool {
        let any = |wanted: &[String], held: &dyn Fn(&str) -> bool| {
            wanted.is_empty() || wanted.iter().any(|w| held(w))
        };
        self.asks_of_tokens()
            && any(&self.issuers, &|w| w == issuer)
            && any(&self.groups, &|w| caller.groups.iter().any(|g| &**g == w))
            && any(&self.clients, &|w| client == Some(w))
            && self.scopes.iter().all(|w| caller.scopes.iter().any(|s| **s == **w))
            && self.claims.iter().all(|(name, values)| {
                let claim = claim(&caller.claims, name);
                claim.is_some_and(|claim| values.iter().any(|value| holds(claim, value)))
            })
    }
}

/// A claim by name, or by JSON Pointer.
fn claim<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let Some(rest) = name.strip_prefix('/') else { return claims.get(name) };
    let (first, rest) = rest.split_once('/').map_or((rest, None), |(first, rest)| (first, Some(rest)));
    let value = claims.get(&first.replace("~1", "/").replace("~0", "~"))?;
    rest.map_or(Some(value), |rest| value.pointer(&format!("/{rest}")))
}

/// A claim holds a value when it is it, or is a list that holds it. Numbers and booleans are compared as written.
fn holds(claim: &Value, value: &str) -> bool {
    match claim {
        Value::String(text) => text == value,
        Value::Bool(flag) => value == if *flag { "true" } else { "false" },
        Value::Number(number) => number.to_string() == value,
        Value::Array(all) => all.iter().any(|one| !one.is_array() && holds(one, value)),
        Value::Null | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests;
