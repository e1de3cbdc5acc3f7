//! Looks an expression over when it is read: names, functions, fields and patterns that don't exist, loops within loops,
//! and how much work it can make. Evaluates nothing.

use std::collections::HashMap;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, SelectExpr, operators};
use cel::{IdedExpr, ParseErrors, Program};
use regex::{Regex, RegexBuilder};

use super::Problem;

mod names;

/// Parts of an expression, macros expanded.
const MAX_NODES: u64 = 512;
/// Nesting of an expression, macros expanded. Evaluation recurses over it.
const MAX_DEPTH: usize = 64;
/// Loops (`all`, `exists`, `map`, `filter`) of an expression.
const MAX_LOOPS: usize = 4;
/// Loops within loops.
const MAX_NESTED: usize = 2;
/// Bytes of a pattern once it is compiled.
const MAX_PATTERN: usize = 256 * 1024;
/// Loop levels that are told apart: the nested ones, and one more for operations that are a loop themselves.
const LEVELS: usize = MAX_NESTED + 2;

/// What is known of an expression.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// Whether it reads the arguments.
    pub(super) arguments: bool,
    /// Whether it reads the principal.
    pub(super) principal: bool,
    pub(super) nodes: u64,
    /// How many of its nodes stand within no loop, one loop, and so on.
    pub(super) weights: [u64; LEVELS],
    /// The patterns of its `matches`.
    pub(super) patterns: HashMap<Box<str>, Regex>,
}

/// The problems of a text that can't be parsed.
pub(super) fn unreadable(text: &str, errors: &ParseErrors) -> Vec<Problem> {
    let mut all: Vec<Problem> = errors
        .errors
        .iter()
        .take(5)
        .map(|error| Problem {
            offset: byte_of(text, error.pos),
            what: format!("is no CEL expression: {}", error.msg.lines().next().unwrap_or_default()),
            fix: "correct the expression".into(),
        })
        .collect();
    if all.is_empty() {
        all.push(Problem {
            offset: 0,
            what: "is no CEL expression".into(),
            fix: "correct the expression".into(),
        });
    }
    all
}

/// The byte of a line and column, both from 1; the column counts characters.
fn byte_of(text: &str, (line, column): (isize, isize)) -> usize {
    let lines = usize::try_from(line.saturating_sub(1)).unwrap_or(0);
    let start: usize = text.split_inclusive('\n').take(lines).map(str::len).sum();
    let rest = text.get(start..).unwrap_or_default();
    let column = usize::try_from(column.saturating_sub(1)).unwrap_or(0);
    start + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at)
}

/// Checks an expression.
pub(super) fn check(program: &Program, text: &str) -> Result<Checked, Vec<Problem>> {
    let mut walk = Walk {
        program,
        text,
        bound: Vec::new(),
        checked: Checked::default(),
        loops: 0,
        problems: Vec::new(),
    };
    let root = program.expression();
    walk.node(root, 0, 0);
    if let Some(what) = never_boolean(&root.expr) {
        walk.report(root.id, what, "compare it with something");
    }
    if walk.checked.nodes > MAX_NODES {
        walk.report(root.id, "the expression has too many parts", "split it into several rules");
    }
    if walk.loops > MAX_LOOPS {
        walk.report(root.id, "the expression has more than four loops", "split it into several rules");
    }
    if walk.problems.is_empty() { Ok(walk.checked) } else { Err(walk.problems) }
}

/// Why an expression can't give a boolean, where that is plain to see.
fn never_boolean(expr: &Expr) -> Option<&'static str> {
    match expr {
        Expr::Literal(LiteralValue::Boolean(_)) => None,
        Expr::Literal(_) | Expr::List(_) | Expr::Map(_) => Some("a constant is no condition"),
        Expr::Call(call) => match call.func_name.as_str() {
            operators::ADD
            | operators::SUBSTRACT
            | operators::MULTIPLY
            | operators::DIVIDE
            | operators::MODULO
            | operators::NEGATE => Some("arithmetic is no condition"),
            "size" | "string" | "int" | "uint" | "double" => Some("this function gives no boolean"),
            _ => None,
        },
        Expr::Ident(name) if names::ROOTS.contains(&name.as_str()) => {
            Some("a variable alone is no condition")
        }
        _ => None,
    }
}

struct Walk<'a> {
    program: &'a Program,
    text: &'a str,
    bound: Vec<&'a str>,
    checked: Checked,
    loops: usize,
    problems: Vec<Problem>,
}

impl<'a> Walk<'a> {
    fn report(&mut self, id: u64, what: impl Into<String>, fix: impl Into<String>) {
        let start = self.program.source_info().offset_for(id).map_or(0, |(start, _)| start);
        let offset = self.text.floor_char_boundary(usize::try_from(start).unwrap_or(0));
        if self.problems.len() < 10 {
            self.problems.push(Problem { offset, what: what.into(), fix: fix.into() });
        }
    }

    fn node(&mut self, node: &'a IdedExpr, depth: usize, level: usize) {
        self.checked.nodes += 1;
        self.weigh(&node.expr, level);
        // Past the bound nothing is looked at: one report is enough, and recursion ends.
        if depth > MAX_DEPTH {
            self.report(node.id, "the expression is nested too deeply", "split it into several rules");
            return;
        }
        let down = depth + 1;
        match &node.expr {
            Expr::Unspecified => self.report(node.id, "an empty expression", "write a condition"),
            Expr::Literal(_) => {}
            Expr::Ident(name) => self.ident(node.id, name),
            Expr::Select(select) => {
                self.select(node.id, select);
                self.node(&select.operand, down, level);
            }
            Expr::Call(call) => {
                self.call(node.id, call);
                for part in call.target.as_deref().into_iter().chain(&call.args) {
                    self.node(part, down, level);
                }
            }
            Expr::List(list) => list.elements.iter().for_each(|part| self.node(part, down, level)),
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.node(&entry.key, down, level);
                        self.node(&entry.value, down, level);
                    }
                }
            }
            Expr::Struct(made) => {
                self.report(
                    node.id,
                    format!("unknown type '{}'", made.type_name),
                    "conditions know no messages",
                );
            }
            Expr::Comprehension(inner) => self.comprehension(node.id, inner, (down, level)),
        }
    }

    /// Counts a node at its level; an operation that goes through a whole list counts as a loop.
    fn weigh(&mut self, expr: &Expr, level: usize) {
        let literal = |call: &CallExpr| call.args.iter().any(|arg| matches!(arg.expr, Expr::Literal(_)));
        let listed = |call: &CallExpr| matches!(call.args.last().map(|arg| &arg.expr), Some(Expr::List(_)));
        let loops = match expr {
            Expr::Call(call) => match call.func_name.as_str() {
                operators::IN => !listed(call),
                operators::EQUALS | operators::NOT_EQUALS | operators::ADD => !literal(call),
                _ => false,
            },
            _ => false,
        };
        if let Some(weight) = self.checked.weights.get_mut((level + usize::from(loops)).min(LEVELS - 1)) {
            *weight += 1;
        }
    }

    fn comprehension(&mut self, id: u64, inner: &'a ComprehensionExpr, (depth, level): (usize, usize)) {
        self.loops += 1;
        if level + 1 > MAX_NESTED {
            self.report(id, "loops are nested more than two deep", "split the rule");
        }
        self.node(&inner.iter_range, depth, level);
        self.node(&inner.accu_init, depth, level);
        let before = self.bound.len();
        self.bound.push(&inner.accu_var);
        self.node(&inner.result, depth, level);
        self.bound.push(&inner.iter_var);
        self.bound.extend(inner.iter_var2.as_deref());
        let within = (level + 1).min(LEVELS - 1);
        self.node(&inner.loop_cond, depth, within);
        self.node(&inner.loop_step, depth, within);
        self.bound.truncate(before);
    }

    fn ident(&mut self, id: u64, name: &str) {
        if self.bound.contains(&name) || names::TYPES.contains(&name) {
            return;
        }
        match name {
            "args" => self.checked.arguments = true,
            "principal" => self.checked.principal = true,
            _ if names::ROOTS.contains(&name) => {}
            _ => self.report(id, format!("unknown variable '{name}'"), names::among(name, names::ROOTS)),
        }
    }

    /// A field of something of which all fields are known.
    fn select(&mut self, id: u64, select: &SelectExpr) {
        let Some(path) = self.root_path(&select.operand) else { return };
        self.field(id, &path, &select.field);
    }

    fn field(&mut self, id: u64, path: &str, field: &str) {
        match names::fields(path) {
            names::Fields::Any => {}
            names::Fields::None => {
                self.report(id, format!("'{path}' has no fields"), format!("use '{path}' itself"));
            }
            names::Fields::These(known) if known.contains(&field) => {}
            names::Fields::These(known) => {
                self.report(id, format!("'{path}' has no field '{field}'"), names::among(field, known));
            }
        }
    }

    /// The dotted path of fields of a known variable.
    fn root_path(&self, operand: &IdedExpr) -> Option<String> {
        match &operand.expr {
            Expr::Ident(name)
                if !self.bound.contains(&name.as_str()) && names::ROOTS.contains(&name.as_str()) =>
            {
                Some(name.clone())
            }
            Expr::Select(select) if !select.test => {
                Some(format!("{}.{}", self.root_path(&select.operand)?, select.field))
            }
            _ => None,
        }
    }

    fn call(&mut self, id: u64, call: &CallExpr) {
        let name = call.func_name.as_str();
        let given = (call.target.is_some(), call.args.len());
        if matches!(name, operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT) {
            if let [operand, field] = call.args.as_slice()
                && let Expr::Literal(LiteralValue::String(field)) = &field.expr
                && let Some(path) = self.root_path(operand)
            {
                self.field(id, &path, field.inner());
            }
            return;
        }
        if names::is_operator(name) {
            return;
        }
        match names::function(name) {
            None => self.report(
                id,
                format!("unknown function '{name}'"),
                names::among(name, names::FUNCTION_NAMES),
            ),
            Some(forms) if !forms.contains(&given) => {
                self.report(id, format!("'{name}' is not called like this"), names::forms(name, forms));
            }
            Some(_) if name == "matches" => self.pattern(id, call),
            Some(_) => {}
        }
    }

    fn pattern(&mut self, id: u64, call: &CallExpr) {
        let Some(Expr::Literal(LiteralValue::String(pattern))) = call.args.last().map(|arg| &arg.expr) else {
            return self.report(
                id,
                "the pattern of 'matches' is no constant",
                "write it as a text in quotes",
            );
        };
        match RegexBuilder::new(pattern.inner()).size_limit(MAX_PATTERN).dfa_size_limit(MAX_PATTERN).build() {
            Ok(regex) => {
                self.checked.patterns.insert(pattern.inner().into(), regex);
            }
            Err(regex::Error::CompiledTooBig(_)) => {
                self.report(id, "the pattern is too large once compiled", "use smaller repetitions");
            }
            Err(_) => {
                self.report(id, "the pattern is no regular expression (RE2 syntax)", "correct the pattern")
            }
        }
    }
}
