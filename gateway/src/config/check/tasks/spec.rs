//! What a task decides, as the plain specification that policies compile. Copies; what is wrong in it is found there.

use policies::caller::PrincipalSpec;
use policies::compile::{ConfirmSpec, RuleSpec, ScopeSpec, TaskSpec};
use policies::task::{Capabilities, Fallback, Root};

use crate::config::context::Context;
use crate::config::place::At;
use crate::config::raw::tasks as raw;

/// The specification of a task.
pub(super) fn spec(name: &str, raw: &raw::Task, at: &At, context: &Context<'_>) -> TaskSpec {
    let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    let rule = |rule: &raw::Rule| RuleSpec {
        tool: rule.tool.clone(),
        when: rule.when.clone(),
        message: rule.message.clone(),
    };
    let scopes = raw.scopes.iter().flat_map(|map| &map.0);
    // A rule of the wrong shape was reported and is gone: that must never read as "everybody".
    let closed = context.places.has(&at.key("principals")).then(PrincipalSpec::default);
    TaskSpec {
        name: name.to_owned(),
        principals: raw.principals.as_ref().map(principals).or(closed),
        allow: list(&raw.allow),
        deny: list(&raw.deny),
        allow_prompts: list(&raw.allow_prompts),
        allow_resources: list(&raw.allow_resources),
        scopes: scopes
            .map(|(tool, all)| ScopeSpec { tool: tool.clone(), scopes: all.all().to_vec() })
            .collect(),
        rules: raw.rules.iter().flatten().map(rule).collect(),
        confirm: match &raw.confirm {
            None | Some(raw::Confirm::Word(raw::ConfirmWord::Never)) => ConfirmSpec::Never,
            Some(raw::Confirm::Word(raw::ConfirmWord::Destructive)) => ConfirmSpec::Destructive,
            Some(raw::Confirm::Word(raw::ConfirmWord::Always)) => ConfirmSpec::Always,
            Some(raw::Confirm::Patterns(patterns)) => ConfirmSpec::Patterns(patterns.clone()),
        },
        confirm_fallback: match raw.confirm_fallback {
            Some(raw::Fallback::Allow) => Fallback::Allow,
            None | Some(raw::Fallback::Refuse) => Fallback::Refuse,
        },
        capabilities: raw.capabilities.as_ref().map(capabilities).unwrap_or_default(),
    }
}

fn principals(raw: &raw::Principals) -> PrincipalSpec {
    let list = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    let claims = raw.claims.iter().flat_map(|map| &map.0);
    PrincipalSpec {
        issuers: list(&raw.issuers),
        groups: list(&raw.groups),
        claims: claims.map(|(name, values)| (name.clone(), values.all().to_vec())).collect(),
        scopes: list(&raw.scopes),
        clients: list(&raw.clients),
        tokens: list(&raw.tokens),
        certificates: list(&raw.certificates),
        anonymous: raw.anonymous.unwrap_or(false),
    }
}

fn capabilities(raw: &raw::Capabilities) -> Capabilities {
    let root =
        |root: &raw::Root| Root { uri: root.uri.as_str().into(), name: root.name.as_deref().map(Into::into) };
    Capabilities {
        sampling: raw.sampling.unwrap_or(false),
        elicitation: raw.elicitation.unwrap_or(false),
        roots: raw.roots.iter().flatten().map(root).collect(),
    }
}
