//! `on`: the events, each with the keys it takes.

use std::sync::Arc;

use crate::diag::Diagnostic;
use crate::source::Span;
use crate::trigger::{EVENTS, EventSpec, FilterKey, Support, event};
use crate::yaml::{Entry, Node};

use super::check::Checker;
use super::describe::words_list;
use super::workflow_call::{CALL, DISPATCH, SCHEDULE};
use super::{Allowed, Def, NON_EMPTY_LIST, ONE_OR_MORE};
use crate::suggest::closest;

pub(super) fn check(checker: &mut Checker<'_>, on: &Arc<Node>, owner: Span) {
    if on.is_mapping() {
        for entry in on.entries() {
            if let Some(spec) = known(checker, &entry.key) {
                settings(checker, entry, spec);
            }
        }
    } else if on.is_sequence() {
        for item in on.items() {
            known(checker, item);
        }
    } else if on.is_null() {
        let message = "expected an event, a list of events or a mapping of events, found nothing";
        checker
            .report(Diagnostic::error("wrong-type", owner, message).help("for example `on: push`"));
    } else {
        known(checker, on);
    }
}

/// The event that a scalar names, or a report of what is wrong with it.
fn known(checker: &mut Checker<'_>, node: &Node) -> Option<&'static EventSpec> {
    let Some(name) = node.text() else {
        let message = format!("expected the name of an event, found {}", node.describe());
        let span = node.entries().first().map_or(node.span, |first| first.key.span);
        let help = "events with filters are a mapping: remove the `- ` before every event";
        checker.report(Diagnostic::error("wrong-type", span, message).help(help));
        return None;
    };
    let Some(spec) = event(name) else {
        let found =
            Diagnostic::error("unknown-event", node.span, format!("unknown event `{name}`"));
        let meant = closest(name, EVENTS.iter().map(|spec| spec.name));
        checker.report(match meant {
            Some(meant) => found.label(format!("did you mean `{meant}`?")),
            None => found.help(
                "the usual ones are `push`, `pull_request`, `schedule` and `workflow_dispatch`",
            ),
        });
        return None;
    };
    if let Support::Refused(reason) = spec.state {
        let message = format!("Kiln does not support the event `{name}`: {reason}");
        checker.report(Diagnostic::error("unsupported", node.span, message));
    }
    Some(spec)
}

fn settings(checker: &mut Checker<'_>, entry: &Entry, spec: &'static EventSpec) {
    let (node, owner) = (&entry.value, entry.key.span);
    let visit = |checker: &mut Checker<'_>, def: &'static Def| {
        checker.visit(node, def, Allowed::NOTHING, owner);
    };
    match spec.name {
        "schedule" => visit(checker, &SCHEDULE),
        _ if node.is_null() => {}
        "workflow_call" => visit(checker, &CALL),
        "workflow_dispatch" => visit(checker, &DISPATCH),
        _ if !node.is_mapping() => {
            let message = format!(
                "expected the filters of `{}` as a mapping, found {}",
                spec.name,
                node.describe()
            );
            let (span, help) = match node.text() {
                Some(text) if spec.accepts(FilterKey::Branches) => {
                    (node.span, format!("write `branches: [{text}]` below `{}`", spec.name))
                }
                _ => (owner, filters_help(spec)),
            };
            checker.report(Diagnostic::error("wrong-type", span, message).help(help));
        }
        _ => {
            for entry in node.entries() {
                filter(checker, entry, spec);
            }
        }
    }
}

/// The keys that a filter of an event may have.
fn names(key: FilterKey) -> &'static [&'static str] {
    match key {
        FilterKey::Types => &["types"],
        FilterKey::Branches => &["branches", "branches-ignore"],
        FilterKey::Tags => &["tags", "tags-ignore"],
        FilterKey::Paths => &["paths", "paths-ignore"],
        FilterKey::Workflows => &["workflows"],
        FilterKey::Names => &["names"],
        FilterKey::Versions => &["versions"],
        FilterKey::Schedule | FilterKey::Inputs | FilterKey::Secrets | FilterKey::Outputs => &[],
    }
}

pub(super) fn filter_names(spec: &EventSpec) -> Vec<&'static str> {
    spec.filters.iter().flat_map(|key| names(*key)).copied().collect()
}

fn filters_help(spec: &EventSpec) -> String {
    match filter_names(spec).as_slice() {
        [] => format!("`{}` takes no filters", spec.name),
        filters => {
            format!("`{}` takes {}", spec.name, words_list(filters).replace(" or ", " and "))
        }
    }
}

fn filter(checker: &mut Checker<'_>, entry: &Entry, spec: &'static EventSpec) {
    let name = entry.name();
    let known = filter_names(spec);
    if !known.contains(&name) {
        let message = format!("unknown key `{name}` for the event `{}`", spec.name);
        let found = Diagnostic::error("unknown-key", entry.key.span, message);
        checker.report(match closest(name, known.iter().copied()) {
            Some(meant) => found.label(format!("did you mean `{meant}`?")),
            None => found.help(filters_help(spec)),
        });
        return;
    }
    let custom_types = name == "types" && spec.types.is_empty();
    let def = if custom_types { &NON_EMPTY_LIST } else { &ONE_OR_MORE };
    checker.visit(&entry.value, def, Allowed::NOTHING, entry.key.span);
    if name == "types" && !custom_types {
        for node in crate::workflow::one_or_more(Some(&entry.value)) {
            activity(checker, node, spec);
        }
    }
}

fn activity(checker: &mut Checker<'_>, node: &Node, spec: &'static EventSpec) {
    let Some(name) = node.text().filter(|name| !spec.types.contains(name)) else { return };
    let message = format!("`{}` has no activity type `{name}`", spec.name);
    let found = Diagnostic::error("unknown-value", node.span, message);
    checker.report(match closest(name, spec.types.iter().copied()) {
        _ if name == "merged" => {
            found.help("listen to `closed` and test `github.event.pull_request.merged` in an `if`")
        }
        Some(meant) => found.label(format!("did you mean `{meant}`?")),
        None => found.help(format!("it has {}", words_list(spec.types).replace(" or ", " and "))),
    });
}
