//! Action files.

use kiln_core::plan::{Action, ActionInput, ActionRuns, Condition, Script};

use crate::diag::{Diagnostic, Severity};
use crate::source::SourceMap;
use crate::workflow::{self, Document, FileKind};
use crate::yaml::{Entry, Node};

use super::{data, step};

/// Compiles an `action.yml`; there is an action unless there are errors.
pub fn action(
    sources: &mut SourceMap,
    path: &str,
    text: &str,
) -> (Option<Action>, Vec<Diagnostic>) {
    let file = sources.add(path, text);
    let (document, diagnostics) = workflow::read(file, FileKind::Action, sources);
    let broken = diagnostics.iter().any(|found| found.severity == Severity::Error);
    let action = document.filter(|_| !broken).and_then(|document| compile(&document, sources));
    (action, diagnostics)
}

fn compile(document: &Document, sources: &SourceMap) -> Option<Action> {
    let root = &document.root;
    let entries = |key: &str| root.get(key).map_or(&[][..], |node| node.entries());
    let output = |entry: &Entry| {
        let value = entry.value.get("value").map(|node| data::text(document, node));
        (entry.name().to_owned(), value)
    };
    Some(Action {
        name: text(root, "name").unwrap_or_default(),
        inputs: entries("inputs").iter().map(|entry| input(document, entry)).collect(),
        outputs: entries("outputs").iter().map(output).collect(),
        runs: runs(document, root.get("runs")?, sources),
    })
}

fn text(node: &Node, key: &str) -> Option<String> {
    node.get(key).and_then(|node| node.text()).map(str::to_owned)
}

fn input(document: &Document, entry: &Entry) -> ActionInput {
    ActionInput {
        name: entry.name().to_owned(),
        default: entry.value.get("default").map(|node| data::text(document, node)),
        deprecation: text(&entry.value, "deprecationMessage"),
    }
}

fn runs(document: &Document, runs: &Node, sources: &SourceMap) -> ActionRuns {
    let using = text(runs, "using").unwrap_or_default();
    if using == "composite" {
        return ActionRuns::Composite(step::steps(sources, document, &document.action_steps()));
    }
    if let Some(node) = using.strip_prefix("node") {
        return ActionRuns::JavaScript {
            node: node.parse().unwrap_or(20),
            main: text(runs, "main").unwrap_or_default(),
            pre: script(document, runs, "pre", "pre-if"),
            post: script(document, runs, "post", "post-if"),
        };
    }
    let env = runs.get("env").map_or(&[][..], |node| node.entries());
    ActionRuns::Docker {
        image: text(runs, "image").unwrap_or_default(),
        entrypoint: text(runs, "entrypoint"),
        args: runs
            .get("args")
            .map_or(&[][..], |node| node.items())
            .iter()
            .map(|node| data::text(document, node))
            .collect(),
        env: env
            .iter()
            .map(|entry| (entry.name().to_owned(), data::text(document, &entry.value)))
            .collect(),
        pre: script(document, runs, "pre-entrypoint", "pre-if"),
        post: script(document, runs, "post-entrypoint", "post-if"),
    }
}

/// Unlike other conditions, these mean what they say: nothing is added, and without one it is
/// `always()`.
fn script(document: &Document, runs: &Node, key: &str, condition: &str) -> Option<Script> {
    let written = runs.get(condition).and_then(|node| document.checked.condition(node));
    let text = written.map_or("always()", |found| found.written.as_str());
    Some(Script { path: self::text(runs, key)?, condition: Condition { text: text.into() } })
}
