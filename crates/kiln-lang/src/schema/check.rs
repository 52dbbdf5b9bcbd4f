//! A document against the table: every fault found, every expression parsed once.

use std::collections::HashMap;
use std::sync::Arc;

use kiln_core::value::Value;

use crate::diag::Diagnostic;
use crate::expr::condition::{self, Condition};
use crate::expr::names::{Names, check_names};
use crate::expr::template::{self, Template, TemplateExpr};
use crate::expr::{Expr, ExprError};
use crate::source::{SourceMap, Span};
use crate::yaml::{Entry, Kind, Node};

use crate::suggest::closest;

use super::describe::{alternatives, expected, type_help, words_list};
use super::homes::{homes, is_kilns_own};
use crate::trigger::Support;

use super::{Allowed, Def, Key, Mapping, Shape, Variants, events};

/// The expressions of a checked document, found by their node.
#[derive(Debug, Default)]
pub struct Checked {
    pub found: Vec<Found>,
    by_node: HashMap<*const Node, usize>,
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
    let mut checker =
        Checker { sources, diagnostics, checked: Checked::default(), names: HashMap::new() };
    checker.visit(root, def, Allowed::NOTHING, first_line(root.span, sources));
    checker.checked
}

/// The first line of a span, for faults of a whole file or item.
fn first_line(span: Span, sources: &SourceMap) -> Span {
    let line = sources.snippet(span).lines().next().unwrap_or_default();
    Span { end: span.start + u32::try_from(line.trim_end().len()).unwrap_or(0), ..span }
}

/// How many faults are reported in one text. A place within a text is found by walking it, and a
/// text has room for thousands of faults.
const MAX_FAULTS: usize = 100;

pub(super) struct Checker<'s> {
    sources: &'s SourceMap,
    diagnostics: &'s mut Vec<Diagnostic>,
    checked: Checked,
    names: HashMap<Allowed, Names>,
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
                self.visit(&entry.value, rest.value, allowed, entry.key.span);
            } else {
                misspelt.extend(self.unknown_key(entry, mapping, what));
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

    fn misplaced(&mut self, entry: &Entry, what: &str) {
        let name = entry.name();
        let message = format!("`{name}` stands among {what}, but is none");
        let homes = homes(name).unwrap_or_default();
        let help = format!("`{name}` belongs to {}; check the indentation", alternatives(homes));
        let found = Diagnostic::error("misplaced-key", entry.key.span, message);
        self.report(found.label("does not belong here").help(help));
    }

    fn known_key(&mut self, entry: &Entry, key: &'static Key, allowed: Allowed) {
        if let Support::Refused(reason) = key.support {
            let message = format!("Kiln does not support `{}`: {reason}", key.name);
            self.report(Diagnostic::error("unsupported", entry.key.span, message));
        }
        self.visit(&entry.value, key.def, allowed, entry.key.span);
    }

    /// Reports an unknown key and returns the one that was probably meant.
    fn unknown_key(
        &mut self,
        entry: &Entry,
        mapping: &'static Mapping,
        what: &str,
    ) -> Option<&'static str> {
        let name = entry.name();
        // What is known elsewhere and as short as `if` is no slip of the hand.
        let meant = closest(name, mapping.keys.iter().map(|key| key.name))
            .filter(|_| name.len() > 2 || homes(name).is_none());
        let mut found = Diagnostic::error(
            "unknown-key",
            entry.key.span,
            format!("unknown key `{name}` in {what}"),
        );
        found = match (meant, homes(name)) {
            (Some(meant), _) => {
                found.label(format!("did you mean `{meant}`?")).help(format!("write `{meant}:`"))
            }
            (None, Some(homes)) => found.label("does not belong here").help(format!(
                "`{name}` belongs to {}; check the indentation",
                alternatives(homes)
            )),
            (None, None) if is_kilns_own(name) => found.help(format!(
                "`{name}` is Kiln's own: it stands in `.kiln/workflows/<same file name>`"
            )),
            (None, None) => {
                let names: Vec<&str> = mapping.keys.iter().map(|key| key.name).collect();
                found.help(format!("{what} takes {}", words_list(&names).replace(" or ", " and ")))
            }
        };
        self.report(found);
        meant
    }

    fn variants(
        &mut self,
        node: &Arc<Node>,
        variants: &'static Variants,
        allowed: Allowed,
        owner: Span,
    ) {
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

    /// None of the telling keys is there; perhaps one is misspelt.
    fn no_variant(
        &mut self,
        node: &Arc<Node>,
        variants: &'static Variants,
        allowed: Allowed,
        owner: Span,
    ) {
        let keys = || variants.choices.iter().map(|(key, _)| *key);
        let known = |name: &str| {
            variants
                .choices
                .iter()
                .any(|(_, mapping)| mapping.keys.iter().any(|key| key.name == name))
        };
        let mut slip = node.entries().iter().map(Entry::name).filter(|name| !known(name));
        let meant = slip.find_map(|name| closest(name, keys()));
        let (_, mapping) = variants
            .choices
            .iter()
            .find(|(key, _)| Some(*key) == meant)
            .unwrap_or(&variants.choices[0]);
        if let (None, Some(missing)) = (meant, variants.missing) {
            let unknown = node.entries().iter().map(Entry::name).find(|name| !known(name));
            let help = unknown.map(|name| format!("`{name}` is no key of {}", variants.what));
            self.report(Diagnostic::error("missing-key", owner, missing).maybe_help(help));
            return;
        }
        self.mapping(node, mapping, variants.what, allowed, owner);
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
        let found = match node.text() {
            Some("") if !node.is_null() => "an empty string",
            _ => node.describe(),
        };
        let message = format!("expected {wanted}, found {found}");
        // Nothing has no place of its own, and a whole collection would underline half the file.
        let span = if node.is_null() || node.scalar().is_none() { owner } else { node.span };
        let found = Diagnostic::error("wrong-type", span, message);
        self.report(found.maybe_help(type_help(node, def)));
    }

    /// Parses the expressions inside a string.
    fn template(&mut self, node: &Arc<Node>, allowed: Allowed) {
        let text = node.text().unwrap_or_default();
        if allowed.is_empty() {
            let at = text.find("${{").unwrap_or(0);
            let end = text[at..].find("}}").map_or(text.len(), |end| at + end + 2);
            let span = node.locate(at..end, self.sources);
            self.report(
                Diagnostic::error("expression-not-allowed", span, "no expression can stand here")
                    .help("this value is read before a run exists; write it out"),
            );
            return;
        }
        match template::parse(text) {
            Ok(Template::Literal(_)) => {}
            Ok(Template::Expr(parsed)) => {
                self.names(parsed.parts.iter().map(|part| &part.expr), node, allowed);
                self.keep(node, FoundKind::Template(parsed), allowed);
            }
            Err(errors) => self.expression_errors(node, &errors),
        }
    }

    /// A key that the author chooses may itself be an expression, or `${{ insert }}`.
    fn key_template(&mut self, entry: &Entry, allowed: Allowed) {
        let is_insert = entry
            .name()
            .trim()
            .strip_prefix("${{")
            .and_then(|rest| rest.strip_suffix("}}"))
            .is_some_and(|inner| inner.trim() == "insert");
        if entry.name().contains("${{") && (allowed.is_empty() || !is_insert) {
            self.template(&entry.key, allowed);
        }
    }

    fn condition(&mut self, node: &Arc<Node>, allowed: Allowed) {
        let Some(text) = node.text() else {
            let message = format!("expected a condition, found {}", node.describe());
            return self.report(Diagnostic::error("wrong-type", node.span, message));
        };
        match condition::effective(text) {
            Ok(parsed) => {
                self.names(parsed.exprs.iter(), node, allowed);
                self.keep(node, FoundKind::Condition(parsed), allowed);
            }
            Err(errors) => self.expression_errors(node, &errors),
        }
    }

    fn names<'e>(
        &mut self,
        exprs: impl Iterator<Item = &'e Expr>,
        node: &Arc<Node>,
        allowed: Allowed,
    ) {
        let names = self.names.entry(allowed).or_insert_with(|| allowed.names());
        let errors: Vec<ExprError> = exprs.flat_map(|expr| check_names(expr, names)).collect();
        self.expression_errors(node, &errors);
    }

    fn expression_errors(&mut self, node: &Node, errors: &[ExprError]) {
        for error in errors.iter().take(MAX_FAULTS) {
            let span = node.locate(error.span.clone(), self.sources);
            let found = Diagnostic::error("expression", span, error.message.clone());
            self.report(found.maybe_help(error.help.clone()));
        }
    }

    fn keep(&mut self, node: &Arc<Node>, kind: FoundKind, allowed: Allowed) {
        self.checked.by_node.insert(Arc::as_ptr(node), self.checked.found.len());
        self.checked.found.push(Found { node: node.clone(), kind, allowed });
    }
}

/// Numbers and booleans cannot hold `${{`; a plain scalar that does is a string.
fn holds_expression(node: &Node) -> bool {
    node.scalar()
        .is_some_and(|scalar| matches!(&scalar.value, Value::String(text) if text.contains("${{")))
}

/// Whether a key that should be an author's own name, such as that of a job, is one of the language
/// with something else below it: most likely a line at the wrong depth.
fn is_misplaced(entry: &Entry, def: &Def) -> bool {
    let Shape::Variants(variants) = &def.shape else { return false };
    let known = |name: &str| {
        variants.choices.iter().any(|(_, mapping)| mapping.keys.iter().any(|key| key.name == name))
    };
    homes(entry.name()).is_some()
        && !entry.value.entries().iter().any(|inner| known(inner.name()))
        && !entry.value.is_null()
}

/// Whether a node is of the kind that a place takes, without looking inside.
fn fits(node: &Node, def: &Def) -> bool {
    let value = node.scalar().map(|scalar| &scalar.value);
    match &def.shape {
        Shape::Null => node.is_null(),
        Shape::Boolean => matches!(value, Some(Value::Bool(_))),
        Shape::Number => matches!(value, Some(Value::Number(_))),
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
