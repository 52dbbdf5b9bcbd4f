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
    finish(workflow::read(file, FileKind::Action, sources), sources)
}

/// Compiles the `action.yml` of somebody else, which whoever uses it cannot mend: as loosely as
/// GitHub's runner reads it.
pub fn published_action(
    sources: &mut SourceMap,
    path: &str,
    text: &str,
) -> (Option<Action>, Vec<Diagnostic>) {
    let file = sources.add(path, text);
    let (document, mut diagnostics) = workflow::read_published_action(file, sources);
    let using = document.as_ref().and_then(|document| document.root.get("runs")?.get("using"));
    diagnostics.extend(using.filter(|using| !is_known(using)).map(|using| {
        let text = using.text().unwrap_or_default();
        let message = format!("nothing here runs `using: {text}`");
        Diagnostic::error("unknown-value", using.span, message)
            .help("expected `composite`, `docker` or `node` with its version")
    }));
    finish((document, diagnostics), sources)
}

/// Newer versions of Node than we know are looked for all the same.
fn is_known(using: &Node) -> bool {
    let using = using.text().unwrap_or_default().to_ascii_lowercase();
    let version = using.strip_prefix("node").map(str::parse::<u32>);
    matches!(using.as_str(), "composite" | "docker") || matches!(version, Some(Ok(_)))
}

fn finish(
    (document, diagnostics): (Option<Document>, Vec<Diagnostic>),
    sources: &SourceMap,
) -> (Option<Action>, Vec<Diagnostic>) {
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
    let using = text(runs, "using").unwrap_or_default().to_ascii_lowercase();
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
