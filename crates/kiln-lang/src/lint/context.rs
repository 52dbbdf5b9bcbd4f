//! What checks look at: the places of a document, collected once for all of them.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::expr::Expr;
use crate::expr::analysis::{ContextPath, context_paths};
use crate::schema::FoundKind;
use crate::source::{SourceMap, Span};
use crate::workflow::{Document, FileKind, Job, Step};
use crate::yaml::{Entry, Kind, Node};

use super::reads::Reads;
use super::script::{self, Script};

/// How many findings of one check a scalar may have. Placing one costs time in proportion to the
/// scalar, and the first few make the point.
pub(super) const MAX_IN_SCALAR: usize = 20;

/// A document with its expressions and scripts.
pub(super) struct Context<'d> {
    pub(super) document: &'d Document,
    pub(super) sources: &'d SourceMap,
    /// The jobs of a workflow, or the one list of steps of a composite action.
    pub(super) bodies: Vec<Body<'d>>,
    pub(super) expressions: Vec<Expression<'d>>,
    pub(super) scripts: Vec<Script<'d>>,
    /// Whether an expression could not be read, so that nobody knows what it uses.
    pub(super) some_unread: bool,
    reads: OnceCell<Reads>,
}

/// Steps that run one after the other, and the job they belong to unless it is an action.
pub(super) struct Body<'d> {
    pub(super) job: Option<Job<'d>>,
    pub(super) steps: Vec<Step<'d>>,
    /// The first step of each id, in lower case.
    pub(super) ids: HashMap<String, usize>,
}

impl<'d> Body<'d> {
    fn new(job: Option<Job<'d>>, steps: Vec<Step<'d>>) -> Self {
        let mut ids = HashMap::new();
        for (at, step) in steps.iter().enumerate() {
            if let Some(id) = step.id().and_then(|id| id.text()) {
                ids.entry(id.to_ascii_lowercase()).or_insert(at);
            }
        }
        Self { job, steps, ids }
    }
}

/// A scalar that holds expressions, and where it stands.
pub(super) struct Expression<'d> {
    pub(super) node: &'d Arc<Node>,
    pub(super) found: &'d FoundKind,
    pub(super) place: Place,
    /// The ways into contexts that its expressions take.
    pub(super) paths: Vec<ContextPath>,
}

/// Which body something stands in, and which of its steps.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    pub(super) body: Option<usize>,
    pub(super) step: Option<usize>,
}

impl<'d> Expression<'d> {
    pub(super) fn exprs(&self) -> Vec<&'d Expr> {
        match self.found {
            FoundKind::Template(template) => template.parts.iter().map(|part| &part.expr).collect(),
            FoundKind::Condition(condition) => condition.exprs.iter().collect(),
        }
    }
}

impl<'d> Context<'d> {
    pub(super) fn new(document: &'d Document, sources: &'d SourceMap) -> Self {
        let mut context = Self {
            document,
            sources,
            bodies: bodies(document),
            expressions: Vec::new(),
            scripts: Vec::new(),
            some_unread: false,
            reads: OnceCell::new(),
        };
        context.collect_expressions();
        context.scripts = script::collect(&context);
        context
    }

    /// The span of a part of a scalar's text.
    pub(super) fn span(&self, node: &Node, range: Range<usize>) -> Span {
        node.locate(range, self.sources)
    }

    pub(super) fn is_workflow(&self) -> bool {
        self.document.kind == FileKind::Workflow
    }

    /// The job that a place belongs to.
    pub(super) fn job(&self, place: Place) -> Option<Job<'d>> {
        self.bodies[place.body?].job
    }

    pub(super) fn listens_to(&self, event: &str) -> bool {
        self.document.event(event).is_some()
    }

    /// The inputs that a workflow or an action declares.
    pub(super) fn inputs(&self) -> Vec<&'d Entry> {
        let declared: Vec<&'d Arc<Node>> = if self.is_workflow() {
            ["workflow_call", "workflow_dispatch"]
                .into_iter()
                .filter_map(|event| self.document.event(event).flatten()?.get("inputs"))
                .collect()
        } else {
            self.document.root.get("inputs").into_iter().collect()
        };
        declared.into_iter().flat_map(|inputs| inputs.entries()).collect()
    }

    /// Whether an expression reads a place such as `needs.build.outputs.x`, or all of a mapping
    /// that contains it. Names are in lower case.
    pub(super) fn reads(&self, wanted: &[&str]) -> bool {
        let paths = || self.expressions.iter().flat_map(|expression| &expression.paths);
        self.reads.get_or_init(|| Reads::new(paths())).contains(wanted)
    }

    /// Every environment in the file: of the workflow, of jobs, containers and steps.
    pub(super) fn environments(&self) -> Vec<&'d Arc<Node>> {
        let mut found: Vec<&'d Arc<Node>> = self.document.root.get("env").into_iter().collect();
        for body in &self.bodies {
            found.extend(body.job.and_then(|job| job.get("env")));
            found.extend(body.steps.iter().filter_map(|step| step.get("env")));
        }
        found
    }

    fn collect_expressions(&mut self) {
        let root = &self.document.root;
        for entry in root.entries() {
            match entry.name() {
                "jobs" if self.is_workflow() => {}
                "runs" if !self.is_workflow() => self.walk_body(&entry.value, 0),
                _ => self.walk_entry(entry, Place::default()),
            }
        }
        if self.is_workflow() {
            for index in 0..self.bodies.len() {
                if let Some(job) = self.bodies[index].job {
                    self.walk_body(job.node, index);
                }
            }
        }
    }

    fn walk_body(&mut self, node: &'d Arc<Node>, body: usize) {
        let place = Place { body: Some(body), step: None };
        for entry in node.entries().iter().filter(|entry| entry.name() != "steps") {
            self.walk_entry(entry, place);
        }
        for step in 0..self.bodies[body].steps.len() {
            let node = self.bodies[body].steps[step].node;
            self.walk(node, Place { step: Some(step), ..place });
        }
    }

    fn walk_entry(&mut self, entry: &'d Entry, place: Place) {
        self.walk(&entry.key, place);
        let unread_condition = entry.name() == "if"
            && place.body.is_some()
            && self.document.checked.at(&entry.value).is_none();
        self.some_unread |= unread_condition;
        self.walk(&entry.value, place);
    }

    /// The reader bounds the depth of the tree and the number of its nodes.
    fn walk(&mut self, node: &'d Arc<Node>, place: Place) {
        match &node.kind {
            Kind::Scalar(scalar) => match self.document.checked.at(node) {
                Some(found) => self.expressions.push(expression(node, found, place)),
                None => self.some_unread |= scalar.text.contains("${{"),
            },
            Kind::Sequence(items) => {
                for item in items {
                    self.walk(item, place);
                }
            }
            Kind::Mapping(entries) => {
                for entry in entries {
                    self.walk_entry(entry, place);
                }
            }
        }
    }
}

fn bodies(document: &Document) -> Vec<Body<'_>> {
    match document.kind {
        FileKind::Workflow => {
            document.jobs().map(|job| Body::new(Some(job), job.flat_steps())).collect()
        }
        _ => vec![Body::new(None, document.action_steps())],
    }
}

fn expression<'d>(node: &'d Arc<Node>, found: &'d FoundKind, place: Place) -> Expression<'d> {
    let mut expression = Expression { node, found, place, paths: Vec::new() };
    expression.paths = expression.exprs().into_iter().flat_map(context_paths).collect();
    expression
}
