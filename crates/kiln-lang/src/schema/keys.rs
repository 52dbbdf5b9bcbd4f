//! Keys that a place does not take, and the ones that were meant.

use std::sync::Arc;

use crate::diag::Diagnostic;
use crate::source::Span;
use crate::suggest::closest;
use crate::yaml::{Entry, Node};

use super::check::Checker;
use super::describe::{alternatives, words_list};
use super::homes::{homes, is_kilns_own};
use super::{Allowed, Def, Mapping, Shape, Variants};

impl Checker<'_> {
    pub(super) fn misplaced(&mut self, entry: &Entry, what: &str) {
        let name = entry.name();
        let message = format!("`{name}` stands among {what}, but is none");
        let homes = homes(name).unwrap_or_default();
        let help = format!("`{name}` belongs to {}; check the indentation", alternatives(homes));
        let found = Diagnostic::error("misplaced-key", entry.key.span, message);
        self.report(found.label("does not belong here").help(help));
    }

    /// Reports an unknown key and returns the one that was probably meant.
    pub(super) fn unknown_key(
        &mut self,
        entry: &Entry,
        mapping: &'static Mapping,
        free: &[&'static str],
        what: &str,
    ) -> Option<&'static str> {
        let name = entry.name();
        // What is known elsewhere and as short as `if` is no slip of the hand.
        let meant =
            closest(name, free.iter().copied()).filter(|_| name.len() > 2 || homes(name).is_none());
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
            (None, None) if entry.value.get("runs-on").is_some() => {
                found.label("looks like a job").help("indent it by two spaces below `jobs:`")
            }
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

    /// None of the telling keys is there; perhaps one is misspelt.
    pub(super) fn no_variant(
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
            let unknown = node.entries().iter().find(|entry| !known(entry.name()));
            self.report(match unknown {
                Some(entry) => {
                    let message = format!("unknown key `{}` in {}", entry.name(), variants.what);
                    Diagnostic::error("unknown-key", entry.key.span, message).help(missing)
                }
                None => Diagnostic::error("missing-key", owner, missing),
            });
            return;
        }
        self.mapping(node, mapping, variants.what, allowed, owner);
    }
}

/// Whether a key that should be an author's own name, such as that of a job, is one of the language
/// with something else below it: most likely a line at the wrong depth.
pub(super) fn is_misplaced(entry: &Entry, def: &Def) -> bool {
    let Shape::Variants(variants) = &def.shape else { return false };
    let known = |name: &str| {
        variants.choices.iter().any(|(_, mapping)| mapping.keys.iter().any(|key| key.name == name))
    };
    homes(entry.name()).is_some()
        && !entry.value.entries().iter().any(|inner| known(inner.name()))
        && !entry.value.is_null()
}
