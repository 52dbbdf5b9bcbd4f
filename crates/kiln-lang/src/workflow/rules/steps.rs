//! Ids, references and blocks of steps.

use std::collections::HashMap;
use std::sync::Arc;

use crate::diag::Diagnostic;
use crate::source::Span;
use crate::suggest::closest_of_many;
use crate::workflow::view::one_or_more;
use crate::workflow::{Step, StepWork, ids, uses};
use crate::yaml::Node;

pub(super) fn check(steps: &[Step<'_>], found: &mut Vec<Diagnostic>) {
    Steps { found, ids: HashMap::new() }.list(steps, false);
}

struct Steps<'f> {
    found: &'f mut Vec<Diagnostic>,
    /// Lower-cased ids so far, as written and where.
    ids: HashMap<String, (String, Span)>,
}

impl Steps<'_> {
    fn list(&mut self, steps: &[Step<'_>], in_parallel: bool) {
        for step in steps {
            if in_parallel {
                self.inside_parallel(*step);
            }
            self.work(*step);
            if let Some(id) = step.id() {
                self.id(id);
            }
        }
    }

    fn work(&mut self, step: Step<'_>) {
        match step.work() {
            Some(StepWork::Uses(node)) => {
                let fault = node
                    .text()
                    .filter(|text| !text.is_empty())
                    .and_then(|text| uses::action(text).err());
                self.found
                    .extend(fault.map(|fault| Diagnostic::error("uses-syntax", node.span, fault)));
            }
            Some(StepWork::Wait(node)) => {
                for target in one_or_more(Some(node)) {
                    self.target(target, step);
                }
            }
            Some(StepWork::Cancel(node)) => self.target(node, step),
            Some(StepWork::WaitAll(node)) if node.text() == Some("false") => {
                let message = "`wait-all` is `true` or empty; leave the step out instead";
                self.found.push(Diagnostic::error("unknown-value", node.span, message));
            }
            Some(StepWork::Parallel(node)) => {
                self.list(&Step::list(node), true);
            }
            _ => {}
        }
    }

    fn id(&mut self, node: &Arc<Node>) {
        let refused = |id: &&str| id.is_empty() || id.contains("${{");
        let Some(id) = node.text().filter(|id| !refused(id)) else { return };
        if let Some(fault) = ids::fault(id) {
            self.found.push(Diagnostic::error("invalid-id", node.span, fault));
            return;
        }
        if let Some((first, span)) = self.ids.get(&id.to_ascii_lowercase()) {
            let message = if first == id {
                format!("two steps have the id `{id}`")
            } else {
                format!("the step ids `{first}` and `{id}` differ only in case")
            };
            let duplicate = Diagnostic::error("duplicate-id", node.span, message);
            self.found.push(duplicate.related(*span, "first used here"));
            return;
        }
        self.ids.insert(id.to_ascii_lowercase(), (id.to_owned(), node.span));
    }

    /// A step can wait for or cancel only a step before it.
    fn target(&mut self, node: &Arc<Node>, step: Step<'_>) {
        let Some(name) = node.text().filter(|name| !name.is_empty()) else { return };
        let own = step.id().and_then(|id| id.text());
        if own.is_some_and(|own| own.eq_ignore_ascii_case(name)) {
            let message = format!("step `{name}` cannot refer to itself");
            self.found.push(Diagnostic::error("unknown-step", node.span, message));
        } else if !self.ids.contains_key(&name.to_ascii_lowercase()) {
            let message = format!("no step before this one has the id `{name}`");
            let unknown = Diagnostic::error("unknown-step", node.span, message);
            let known = self.ids.values().map(|(id, _)| id.as_str());
            let meant = closest_of_many(name, known, self.found.len());
            let unknown = match meant {
                Some(meant) => unknown.label(format!("did you mean `{meant}`?")),
                None => unknown.help("give the background step an `id` and name that one"),
            };
            self.found.push(unknown);
        }
    }

    fn inside_parallel(&mut self, step: Step<'_>) {
        for key in ["background", "wait", "wait-all", "cancel", "parallel"] {
            let Some(entry) = step.node.entry(key) else { continue };
            let message = format!("`{key}` cannot stand inside a `parallel` block");
            let reason = if key == "background" {
                "its steps already run at the same time"
            } else {
                "only `run` and `uses` steps can run in parallel"
            };
            self.found
                .push(Diagnostic::error("misplaced-step", entry.key.span, message).help(reason));
        }
    }
}
