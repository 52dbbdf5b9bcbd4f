//! A workflow or action file that was read and checked.
//!
//! [`Document`] keeps the tree and the parsed expressions; [`Job`] and [`Step`] are views into it
//! that later stages use instead of a second model. The table has vouched for shapes, so the views
//! answer with what is there and pass over what was already reported.

pub mod ids;
mod rules;
pub mod uses;
mod view;

use std::sync::Arc;

use crate::diag::{self, Diagnostic};
use crate::schema::{self, Checked, Def};
use crate::source::{FileId, SourceMap};
use crate::yaml::{self, Node};

pub(crate) use view::one_or_more;
pub use view::{Job, Step, StepWork};

/// Which table a file is read by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Workflow,
    Action,
    /// What Kiln adds to a workflow, in `.kiln/workflows/`.
    Companion,
}

impl FileKind {
    /// By its path: `action.yml` is an action, `.kiln/workflows/…` a companion, the rest workflows.
    pub fn of_path(path: &str) -> Self {
        let path = path.replace('\\', "/");
        let name = path.rsplit('/').next().unwrap_or_default();
        if matches!(name, "action.yml" | "action.yaml") {
            Self::Action
        } else if path.contains(".kiln/workflows/") {
            Self::Companion
        } else {
            Self::Workflow
        }
    }

    /// By its path, or by what it says when the path tells nothing: `runs` and no `jobs` is an
    /// action, whatever the file is called.
    pub fn of(path: &str, text: &str) -> Self {
        let by_path = Self::of_path(path);
        let has = |key: &str| text.lines().any(|line| line.starts_with(key));
        let in_place = path.replace('\\', "/").contains(".github/workflows/");
        if by_path == Self::Workflow && !in_place && has("runs:") && !has("jobs:") && !has("on:") {
            return Self::Action;
        }
        by_path
    }

    fn table(self) -> &'static Def {
        match self {
            Self::Workflow => &schema::WORKFLOW,
            Self::Action => &schema::ACTION,
            Self::Companion => &schema::COMPANION,
        }
    }
}

/// A file with its tree and its expressions.
#[derive(Debug)]
pub struct Document {
    pub file: FileId,
    pub kind: FileKind,
    pub root: Arc<Node>,
    pub checked: Checked,
}

/// Reads a file: syntax, table, then the rules that a table cannot say. All faults are reported, in
/// the order of the text; a document comes out whenever there is a tree at all.
pub fn read(
    file: FileId,
    kind: FileKind,
    sources: &SourceMap,
) -> (Option<Document>, Vec<Diagnostic>) {
    read_by(kind.table(), file, kind, sources)
}

/// Reads the file of an action that somebody else published, as loosely as GitHub's runner.
pub fn read_published_action(
    file: FileId,
    sources: &SourceMap,
) -> (Option<Document>, Vec<Diagnostic>) {
    read_by(&schema::PUBLISHED_ACTION, file, FileKind::Action, sources)
}

fn read_by(
    table: &'static Def,
    file: FileId,
    kind: FileKind,
    sources: &SourceMap,
) -> (Option<Document>, Vec<Diagnostic>) {
    let (root, mut diagnostics) = yaml::read(file, sources);
    let Some(root) = root else {
        if diagnostics.is_empty() {
            diagnostics.push(empty_file(file, kind));
        }
        return (None, diagnostics);
    };
    let checked = schema::check(&root, table, sources, &mut diagnostics);
    let document = Document { file, kind, root, checked };
    match kind {
        FileKind::Workflow => rules::workflow(&document, sources, &mut diagnostics),
        FileKind::Action => rules::action(&document, &mut diagnostics),
        FileKind::Companion => {}
    }
    diag::tidy(&mut diagnostics);
    (Some(document), diagnostics)
}

fn empty_file(file: FileId, kind: FileKind) -> Diagnostic {
    let span = crate::source::Span::new(file, 0, 0);
    let (what, needs) = match kind {
        FileKind::Workflow => ("workflow", "`on` and `jobs`"),
        FileKind::Action => ("action", "`name`, `description` and `runs`"),
        FileKind::Companion => ("companion", "`jobs`"),
    };
    Diagnostic::error("empty-file", span, "the file is empty")
        .help(format!("a {what} file needs at least {needs}"))
}

impl Document {
    /// The jobs in the order of the file.
    pub fn jobs(&self) -> impl Iterator<Item = Job<'_>> {
        let jobs = self.root.get("jobs").map_or(&[][..], |jobs| jobs.entries());
        jobs.iter().filter(|entry| entry.value.is_mapping()).map(Job::new)
    }

    pub fn job(&self, id: &str) -> Option<Job<'_>> {
        self.jobs().find(|job| job.id().eq_ignore_ascii_case(id))
    }

    /// The events named by `on`, each with its settings if it has any.
    pub fn events(&self) -> Vec<(&Arc<Node>, Option<&Arc<Node>>)> {
        let Some(on) = self.root.get("on") else { return Vec::new() };
        if on.is_mapping() {
            return on.entries().iter().map(|entry| (&entry.key, Some(&entry.value))).collect();
        }
        if on.is_sequence() {
            return on.items().iter().map(|item| (item, None)).collect();
        }
        vec![(on, None)]
    }

    /// The settings of one event: `None` when the workflow does not listen to it.
    pub fn event(&self, name: &str) -> Option<Option<&Arc<Node>>> {
        let found = self.events().into_iter().find(|(key, _)| key.text() == Some(name))?;
        Some(found.1.filter(|settings| !settings.is_null()))
    }

    /// The steps of a composite action.
    pub fn action_steps(&self) -> Vec<Step<'_>> {
        let runs = self.root.get("runs");
        let steps = runs.and_then(|runs| runs.get("steps"));
        steps.map_or_else(Vec::new, |steps| Step::list(steps))
    }
}
