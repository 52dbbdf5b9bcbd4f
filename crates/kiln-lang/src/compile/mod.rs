//! A workflow file and all it calls become a [`Plan`].
//!
//! Files come through a [`Library`], because this crate reads nothing itself. Each file is compiled
//! once, however often it is called; what a call must satisfy is checked at the call.

mod action;
mod call;
mod companion;
mod data;
mod interface;
mod job;
mod permissions;
mod repository;
mod resources;
mod step;
mod triggers;

use std::collections::HashMap;

use kiln_core::plan::{JobKind, Permissions, Place, Plan, Workflow};

use crate::diag::{self, Diagnostic, Severity};
use crate::source::{FileId, SourceMap, Span};
use crate::trigger::Trigger;
use crate::workflow::uses::CallTarget;
use crate::workflow::{self, Document, FileKind};

pub use action::{action, published_action};
pub use repository::{Files, Repository};
pub use triggers::triggers;

/// How deep reusable workflows may call each other; the triggered file is the first level.
pub const MAX_CALL_DEPTH: usize = 10;
/// How many different files one run may consist of.
pub const MAX_FILES: usize = 50;
/// How many jobs a run may have once every call is opened, matrices not counted.
pub const MAX_JOBS: usize = 10_000;

/// A file that was found.
#[derive(Debug, Clone)]
pub struct LoadedFile {
    /// The name that diagnostics show.
    pub path: String,
    pub text: String,
}

/// What a library answers.
#[derive(Debug, Clone)]
pub enum Lookup {
    Found(LoadedFile),
    /// It should be there and is not.
    Missing,
    /// It lies somewhere this library cannot look, so nothing can be said about it.
    OutOfReach,
}

/// Where the files that a workflow refers to come from.
pub trait Library {
    fn workflow(&self, target: &CallTarget) -> Lookup;

    /// The companion of a workflow file: what Kiln adds to it.
    fn companion(&self, workflow_path: &str) -> Option<LoadedFile>;
}

/// A library with nothing in reach.
#[derive(Debug, Clone, Copy)]
pub struct NoLibrary;

impl Library for NoLibrary {
    fn workflow(&self, _target: &CallTarget) -> Lookup {
        Lookup::OutOfReach
    }

    fn companion(&self, _workflow_path: &str) -> Option<LoadedFile> {
        None
    }
}

/// What came of a workflow file.
#[derive(Debug)]
pub struct Compiled {
    pub file: FileId,
    /// What was read, even when it has errors.
    pub document: Option<Document>,
    /// Absent when there are errors.
    pub plan: Option<Plan>,
    pub triggers: Vec<Trigger>,
    /// Of this file and of all files it calls.
    pub diagnostics: Vec<Diagnostic>,
}

/// Compiles a workflow file. `token` is what the job token may do where the file says nothing;
/// without it, calls are only held to what callers write out.
pub fn compile(
    sources: &mut SourceMap,
    path: &str,
    text: &str,
    library: &dyn Library,
    token: Option<&Permissions>,
) -> Compiled {
    let mut compiler = Compiler::new(sources, library);
    let file = compiler.sources.add(path, text);
    let document = compiler.root(file, path);
    permissions::check(&mut compiler, token);
    compiler.check_size(file);
    let Compiler { workflows, mut diagnostics, .. } = compiler;
    diag::tidy(&mut diagnostics);
    let valid =
        document.is_some() && !diagnostics.iter().any(|found| found.severity == Severity::Error);
    Compiled {
        file,
        triggers: document.as_ref().map(triggers).unwrap_or_default(),
        document,
        plan: valid.then_some(Plan {
            workflows: workflows.into_iter().map(|unit| unit.workflow).collect(),
        }),
        diagnostics,
    }
}

/// One file on its way into the plan.
#[derive(Debug, Default)]
struct Unit {
    workflow: Workflow,
    /// Where each job's id is written, for faults of calls.
    job_spans: Vec<Span>,
}

/// What is known of a file that was called before.
#[derive(Debug, Clone, Copy)]
enum Known {
    /// It is being compiled right now, so this call would close a circle.
    Open,
    /// Compiled, with how many levels of calls are below it.
    Done {
        index: usize,
        height: usize,
    },
    Broken,
}

struct Compiler<'a> {
    sources: &'a mut SourceMap,
    library: &'a dyn Library,
    workflows: Vec<Unit>,
    known: HashMap<String, Known>,
    diagnostics: Vec<Diagnostic>,
    depth: usize,
    /// How many levels of calls are below the file that is being compiled.
    height: usize,
}

impl<'a> Compiler<'a> {
    fn new(sources: &'a mut SourceMap, library: &'a dyn Library) -> Self {
        Self {
            sources,
            library,
            workflows: Vec::new(),
            known: HashMap::new(),
            diagnostics: Vec::new(),
            depth: 1,
            height: 0,
        }
    }

    fn root(&mut self, file: FileId, path: &str) -> Option<Document> {
        let (document, diagnostics) = workflow::read(file, FileKind::Workflow, self.sources);
        let broken = diagnostics.iter().any(|found| found.severity == Severity::Error);
        self.diagnostics.extend(diagnostics);
        let document = document?;
        self.known.insert(format!("./{}", path.trim_start_matches("./")), Known::Open);
        if !broken {
            self.document(&document, path);
        }
        Some(document)
    }

    /// Files that call each other often multiply: ten calls on each of eight levels are a hundred
    /// million jobs.
    fn check_size(&mut self, file: FileId) {
        let mut sizes = vec![0_usize; self.workflows.len()];
        // A called workflow always comes after its first caller, and all its own calls are settled
        // before it; going backwards, every callee of a file is known when the file is reached, but
        // for those that were compiled earlier, which a second look settles.
        for _ in 0..MAX_CALL_DEPTH {
            for (index, unit) in self.workflows.iter().enumerate().rev() {
                let called = unit.workflow.jobs.iter().filter_map(|job| match &job.kind {
                    JobKind::Call(call) => call.workflow,
                    JobKind::Steps(_) => None,
                });
                let inner = called.fold(0_usize, |all, callee| all.saturating_add(sizes[callee]));
                sizes[index] = unit.workflow.jobs.len().saturating_add(inner);
            }
        }
        if let Some(jobs) = sizes.first().filter(|jobs| **jobs > MAX_JOBS) {
            let message = format!("the run would have {jobs} jobs; at most {MAX_JOBS} are allowed");
            self.diagnostics.push(Diagnostic::error(
                "too-many-calls",
                Span::new(file, 0, 0),
                message,
            ));
        }
    }

    /// Compiles a document without errors and returns its place in the plan.
    fn document(&mut self, document: &Document, path: &str) -> usize {
        let index = self.workflows.len();
        self.workflows.push(Unit::default());
        let mut unit = Unit {
            workflow: header(document, path),
            job_spans: document.jobs().map(|job| job.key.span).collect(),
        };
        let ids: Vec<&str> = document.jobs().map(|job| job.id()).collect();
        for job in document.jobs() {
            let compiled = self.job(document, job, &ids);
            unit.workflow.jobs.push(compiled);
        }
        self.companion(&mut unit.workflow, path);
        self.workflows[index] = unit;
        index
    }
}

/// Everything of a workflow but its jobs.
fn header(document: &Document, path: &str) -> Workflow {
    let root = &document.root;
    let text =
        |key: &str| root.get(key).and_then(|node| node.text()).filter(|text| !text.is_empty());
    Workflow {
        path: path.to_owned(),
        name: text("name").map(str::to_owned),
        run_name: root.get("run-name").map(|node| data::text(document, node)),
        env: root.get("env").map(|node| data::text_map(document, node)),
        defaults: job::defaults(document, root),
        permissions: root.get("permissions").map(|node| permissions::read(node)),
        concurrency: root.get("concurrency").map(|node| job::concurrency(document, node)),
        dispatch_inputs: interface::dispatch(document),
        call: interface::call(document),
        jobs: Vec::new(),
    }
}

fn place(sources: &SourceMap, span: Span) -> Place {
    let start = sources.start(span);
    let clamp = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Place { line: clamp(start.line), column: clamp(start.column) }
}
