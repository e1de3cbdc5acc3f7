//! What a task takes out of results and arguments: redaction and invisible characters.

use std::sync::Arc;

use policies::controls::Strip;
use policies::redact::{OwnRule, Redactor, Spec};

use super::origin;
use crate::config::context::Context;
use crate::config::place::At;
use crate::config::raw::tasks as raw;

/// The redactors made so far: compiling one takes long, and tasks tend to ask for the same.
#[derive(Default)]
pub(super) struct Redactors(Vec<(Spec, Option<Arc<Redactor>>)>);

/// What is taken out.
#[derive(Default)]
pub(super) struct Content {
    pub(super) redactor: Option<Arc<Redactor>>,
    pub(super) redact_arguments: bool,
    pub(super) strip: Option<Strip>,
}

/// Compiles what a task takes out.
pub(super) fn check(
    raw: &raw::Task,
    at: &At,
    (redactors, context): (&mut Redactors, &mut Context<'_>),
) -> Content {
    let strip = raw.strip.as_ref().and_then(strip);
    let (spec, redact_arguments) = match &raw.redact {
        None | Some(raw::Redact::Switch(false)) => return Content { strip, ..Content::default() },
        Some(raw::Redact::Switch(true)) => (Spec::default(), false),
        Some(raw::Redact::Rules(rules)) => (spec(rules), rules.arguments.unwrap_or(false)),
    };
    Content { redactor: redactors.get(spec, &at.key("redact"), context), redact_arguments, strip }
}

fn spec(raw: &raw::RedactRules) -> Spec {
    let own = |rule: &raw::RedactRule| OwnRule { name: rule.name.clone(), pattern: rule.pattern.clone() };
    Spec {
        groups: raw.groups.clone().unwrap_or_else(|| Spec::default().groups),
        rules: raw.rules.iter().flatten().map(own).collect(),
        keys: raw.keys.clone().unwrap_or_default(),
    }
}

fn strip(raw: &raw::Strip) -> Option<Strip> {
    let kinds = match raw {
        raw::Strip::Switch(on) => return on.then(Strip::default),
        raw::Strip::Kinds(kinds) => kinds,
    };
    let has = |kind| kinds.contains(&kind);
    (!kinds.is_empty()).then(|| Strip {
        controls: has(raw::StripKind::Controls),
        bidi: has(raw::StripKind::Bidi),
        zero_width: has(raw::StripKind::ZeroWidth),
        tags: has(raw::StripKind::Tags),
        variation_selectors: has(raw::StripKind::VariationSelectors),
    })
}

impl Redactors {
    fn get(&mut self, spec: Spec, at: &At, context: &mut Context<'_>) -> Option<Arc<Redactor>> {
        if let Some((_, known @ Some(_))) = self.0.iter().find(|(known, _)| *known == spec) {
            return known.clone();
        }
        let made = match Redactor::compile(&spec) {
            Ok(made) => Some(Arc::new(made)),
            Err(flaws) => {
                let origin = origin(at.clone(), context);
                context.problems.extend(flaws.iter().map(|flaw| origin.problem(flaw)));
                None
            }
        };
        self.0.push((spec, made.clone()));
        made
    }
}
