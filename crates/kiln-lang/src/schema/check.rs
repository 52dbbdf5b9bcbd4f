//! A document against the table: every fault found, every expression parsed once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kiln_core::value::Value;

use crate::diag::Diagnostic;
use crate::expr::condition::Condition;
use crate::expr::names::Names;
use crate::expr::template::TemplateExpr;
use crate::source::{SourceMap, Span};
use crate::yaml::{Entry, Kind, Node};

use crate::suggest::closest;

use super::describe::{expected, type_help, words_list};
use super::expressions::is_insert;
use super::keys::is_misplaced;
use crate::trigger::Support;

use super::{Allowed, Def, Key, Mapping, Shape, Variants, events};

/// The expressions of a checked document, found by their node.
#[derive(Debug, Default)]
pub struct Checked {
    pub found: Vec<Found>,
    pub(super) by_node: HashMap<*const Node, usize>,
}

/// A scalar that holds expressions.
#[derive(Debug)]
pub struct Found {
    pub node: Arc<Node>,
    pub kind: FoundKind,
    pub allowed: Allowed,
}

#[derive(Debug)]
pub enum FoundKind {
    Template(TemplateExpr),
    Condition(Condition),
}

impl Checked {
    pub fn at(&self, node: &Node) -> Option<&FoundKind> {
        self.by_node.get(&std::ptr::from_ref(node)).map(|&index| &self.found[index].kind)
    }

    /// The expressions inside a scalar that is not a condition.
    pub fn template(&self, node: &Node) -> Option<&TemplateExpr> {
        match self.at(node)? {
            FoundKind::Template(template) => Some(template),
            FoundKind::Condition(_) => None,
        }
    }

    pub fn condition(&self, node: &Node) -> Option<&Condition> {
        match self.at(node)? {
            FoundKind::Condition(condition) => Some(condition),
            FoundKind::Template(_) => None,
        }
    }
}

/// Checks a document against a table.
pub fn check(
    root: &Arc<Node>,
    def: &'static Def,
    sources: &SourceMap,
    diagnostics: &mut Vec<Diagnostic>,
) -> Checked {
    let mut checker = Checker {
        sources,
        diagnostics,
        checked: Checked::default(),
        names: HashMap::new(),
        read: HashSet::new(),
    };
    checker.visit(root, def, Allowed::NOTHING, first_line(root.span, sources));
    checker.checked
}

/// The first line of a span, for faults of a whole file or item.
fn first_line(span: Span, sources: &SourceMap) -> Span {
    let line = sources.snippet(span).lines().next().unwrap_or_default();
    Span { end: span.start + u32::try_from(line.trim_ascii_end().len()).unwrap_or(0), ..span }
}

pub(super) struct Checker<'s> {
    pub(super) sources: &'s SourceMap,
    diagnostics: &'s mut Vec<Diagnostic>,
    pub(super) checked: Checked,
    pub(super) names: HashMap<Allowed, Names>,
    /// Scalars that were read, and with what their expressions may use.
    pub(super) read: HashSet<(*const Node, Allowed)>,
}

impl Checker<'_> {
    pub(super) fn report(&mut self, found: Diagnostic) {
        self.diagnostics.push(found);
    }

    /// Checks one node. `owner` is what a missing part is reported at: the key it stands behind.
    pub(super) fn visit(
        &mut self,
        node: &Arc<Node>,
        def: &'static Def,
        outer: Allowed,
        owner: Span,
    ) {
        let allowed = outer.and(def.allowed);
        match &def.shape {
            Shape::Condition => return self.condition(node, allowed),
            Shape::Events => return events::check(self, node, owner),
            _ => {}
        }
        if holds_expression(node) {
            return self.template(node, allowed);
        }
        match &def.shape {
            Shape::Mapping(mapping) if node.is_mapping() => {
                self.mapping(node, mapping, mapping.what, allowed, owner);
            }
            Shape::Variants(variants) if node.is_mapping() => {
                self.variants(node, variants, allowed, owner);
            }
            Shape::Sequence(item) if node.is_sequence() => {
                for child in node.items() {
                    self.visit(child, item, allowed, first_line(child.span, self.sources));
                }
            }
            Shape::OneOf(choices) => match choices.iter().find(|choice| fits(node, choice)) {
                Some(choice) => self.visit(node, choice, allowed, owner),
                None => self.wrong_type(node, def, owner),
            },
            Shape::Anything => self.anything(node, allowed),
            Shape::Word(words) if node.scalar().is_some() && !node.is_null() => {
                self.word(node, words);
            }
            _ if fits(node, def) => {}
            _ => self.wrong_type(node, def, owner),
        }
    }

    fn anything(&mut self, node: &Arc<Node>, allowed: Allowed) {
        match &node.kind {
            Kind::Scalar(_) => {}
            Kind::Sequence(items) => {
                for item in items {
                    self.visit(item, &super::ANYTHING, allowed, item.span);
                }
            }
            Kind::Mapping(entries) => {
                for entry in entries {
                    self.key_template(entry, allowed);
                    self.visit(&entry.value, &super::ANYTHING, allowed, entry.key.span);
                }
            }
        }
    }

    pub(super) fn mapping(
        &mut self,
        node: &Arc<Node>,
        mapping: &'static Mapping,
        what: &str,
        allowed: Allowed,
        owner: Span,
    ) {
        let mut misspelt: Vec<&str> = Vec::new();
        // The keys that are not there yet, found once and only when something is wrong.
        let mut free: Option<Vec<&'static str>> = None;
        // Keys that are no scalars were refused while reading.
        for entry in node.entries().iter().filter(|entry| entry.key.scalar().is_some()) {
            let name = entry.name();
            if let Some(key) = mapping.keys.iter().find(|key| key.name == name) {
                self.known_key(entry, key, allowed);
            } else if let Some(rest) = &mapping.rest {
                if is_misplaced(entry, rest.value) {
                    self.misplaced(entry, what);
                    continue;
                }
                self.key_template(entry, allowed);
                // Only a matrix takes in a mapping that is written out; `env` wants an expression.
                let takes_mapping = matches!(rest.value.shape, Shape::Sequence(_));
                if takes_mapping && is_insert(entry) && entry.value.is_mapping() {
                    self.mapping(&entry.value, mapping, what, allowed, entry.key.span);
                } else {
                    self.visit(&entry.value, rest.value, allowed, entry.key.span);
                }
            } else {
                let free = free.get_or_insert_with(|| {
                    let names = mapping.keys.iter().map(|key| key.name);
                    names.filter(|name| node.get(name).is_none()).collect::<Vec<_>>()
                });
                let meant = self.unknown_key(entry, mapping, free, what);
                misspelt.extend(meant);
                // A misspelt key hides nothing below it, as long as it can be what was meant.
                let key = mapping.keys.iter().find(|key| Some(key.name) == meant);
                if let Some(key) = key.filter(|key| fits(&entry.value, key.def)) {
                    self.visit(&entry.value, key.def, allowed, entry.key.span);
                }
            }
        }
        for key in mapping.keys.iter().filter(|key| key.required) {
            if node.get(key.name).is_none() && !misspelt.contains(&key.name) {
                let message = format!("{what} needs the key `{}`", key.name);
                let help = format!("add `{}: …`: {}", key.name, lower_first(key.doc));
                self.report(Diagnostic::error("missing-key", owner, message).help(help));
            }
        }
    }

    fn known_key(&mut self, entry: &Entry, key: &'static Key, allowed: Allowed) {
        if let Support::Refused(reason) = key.support {
            let message = format!("Kiln does not support `{}`: {reason}", key.name);
            self.report(Diagnostic::error("unsupported", entry.key.span, message));
        }
        self.visit(&entry.value, key.def, allowed, entry.key.span);
    }

    fn variants(
        &mut self,
        node: &Arc<Node>,
        variants: &'static Variants,
        allowed: Allowed,
        owner: Span,
    ) {
        let told = variants.told_by.and_then(|(key, choice)| choice(node.get(key)?.text()?));
        if let Some((_, mapping)) = told.and_then(|index| variants.choices.get(index)) {
            return self.mapping(node, mapping, mapping.what, allowed, owner);
        }
        let present: Vec<&(&str, &'static Mapping)> =
            variants.choices.iter().filter(|(key, _)| node.get(key).is_some()).collect();
        if let [(first, _), (second, _), ..] = present[..] {
            let (first, second) = (node.entry(first), node.entry(second));
            let (Some(first), Some(second)) = (first, second) else { return };
            let (earlier, later) = if first.key.span.start < second.key.span.start {
                (first, second)
            } else {
                (second, first)
            };
            self.report(
                Diagnostic::error(
                    "conflicting-keys",
                    later.key.span,
                    format!(
                        "{} has either `{}` or `{}`, not both",
                        variants.what,
                        earlier.name(),
                        later.name()
                    ),
                )
                .related(earlier.key.span, "the other one is here"),
            );
            return;
        }
        let Some((_, mapping)) = present.first() else {
            return self.no_variant(node, variants, allowed, owner);
        };
        self.mapping(node, mapping, mapping.what, allowed, owner);
    }

    fn word(&mut self, node: &Node, words: &[&'static str]) {
        let text = node.text().unwrap_or_default();
        if words.contains(&text) {
            return;
        }
        let message = format!("unknown value `{text}`: expected {}", words_list(words));
        let found = Diagnostic::error("unknown-value", node.span, message);
        self.report(match closest(text, words.iter().copied()) {
            Some(meant) => found.label(format!("did you mean `{meant}`?")),
            None => found,
        });
    }

    fn wrong_type(&mut self, node: &Node, def: &Def, owner: Span) {
        let wanted = expected(def);
        let found = match (node.scalar().map(|scalar| &scalar.value), &def.shape) {
            // It is a number, but which one is what matters.
            (Some(Value::Number(_)), Shape::Positive) => {
                format!("`{}`", node.text().unwrap_or_default())
            }
            (Some(Value::String(text)), _) if text.is_empty() => "an empty string".to_owned(),
            _ => node.describe().to_owned(),
        };
        let message = format!("expected {wanted}, found {found}");
        // Nothing has no place of its own, and a whole collection would underline half the file.
        let span = if node.is_null() || node.scalar().is_none() { owner } else { node.span };
        let found = Diagnostic::error("wrong-type", span, message);
        self.report(found.maybe_help(type_help(node, def)));
    }
}

/// Numbers and booleans cannot hold `${{`; a plain scalar that does is a string.
fn holds_expression(node: &Node) -> bool {
    node.scalar()
        .is_some_and(|scalar| matches!(&scalar.value, Value::String(text) if text.contains("${{")))
}

/// Whether a node is of the kind that a place takes, without looking inside.
fn fits(node: &Node, def: &Def) -> bool {
    let value = node.scalar().map(|scalar| &scalar.value);
    match &def.shape {
        Shape::Null => node.is_null(),
        Shape::Boolean => matches!(value, Some(Value::Bool(_))),
        Shape::Number => matches!(value, Some(Value::Number(_))),
        Shape::Positive => {
            matches!(value, Some(Value::Number(number)) if *number > 0.0 && number.is_finite())
        }
        Shape::Text | Shape::Condition => value.is_some(),
        Shape::NonEmptyText => node.text().is_some_and(|text| !text.is_empty()) && !node.is_null(),
        Shape::Word(_) => value.is_some() && !node.is_null(),
        Shape::Sequence(_) => node.is_sequence(),
        Shape::Mapping(_) | Shape::Variants(_) => node.is_mapping(),
        Shape::OneOf(choices) => choices.iter().any(|choice| fits(node, choice)),
        Shape::Events | Shape::Anything => true,
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.trim_end_matches('.').chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}
