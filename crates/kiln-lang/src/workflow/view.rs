//! Views of jobs and steps into a document's tree.

use std::sync::Arc;

use crate::yaml::{Entry, Node};

/// A job: its id and what stands below it.
#[derive(Debug, Clone, Copy)]
pub struct Job<'d> {
    pub key: &'d Arc<Node>,
    pub node: &'d Arc<Node>,
}

impl<'d> Job<'d> {
    pub(super) fn new(entry: &'d Entry) -> Self {
        Self { key: &entry.key, node: &entry.value }
    }

    pub fn id(&self) -> &'d str {
        self.key.text().unwrap_or_default()
    }

    pub fn get(&self, key: &str) -> Option<&'d Arc<Node>> {
        self.node.get(key)
    }

    /// Whether it calls a reusable workflow.
    pub fn is_call(&self) -> bool {
        self.node.get("uses").is_some()
    }

    /// The nodes that name the jobs it needs.
    pub fn needs(&self) -> Vec<&'d Arc<Node>> {
        one_or_more(self.get("needs"))
    }

    pub fn steps(&self) -> Vec<Step<'d>> {
        self.get("steps").map_or_else(Vec::new, |steps| Step::list(steps))
    }

    /// All steps, the ones inside `parallel` blocks in place of the block.
    pub fn flat_steps(&self) -> Vec<Step<'d>> {
        let inner = |step: Step<'d>| match step.work() {
            Some(StepWork::Parallel(steps)) => Step::list(steps),
            _ => vec![step],
        };
        self.steps().into_iter().flat_map(inner).collect()
    }
}

/// A step of a job or of a composite action.
#[derive(Debug, Clone, Copy)]
pub struct Step<'d> {
    pub node: &'d Arc<Node>,
}

/// What a step does.
#[derive(Debug, Clone, Copy)]
pub enum StepWork<'d> {
    Run(&'d Arc<Node>),
    Uses(&'d Arc<Node>),
    Wait(&'d Arc<Node>),
    WaitAll(&'d Arc<Node>),
    Cancel(&'d Arc<Node>),
    Parallel(&'d Arc<Node>),
}

impl<'d> Step<'d> {
    /// The steps of a `steps` or `parallel` list.
    pub fn list(node: &'d Node) -> Vec<Self> {
        node.items().iter().map(|node| Self { node }).collect()
    }

    pub fn get(&self, key: &str) -> Option<&'d Arc<Node>> {
        self.node.get(key)
    }

    pub fn id(&self) -> Option<&'d Arc<Node>> {
        self.get("id")
    }

    pub fn work(&self) -> Option<StepWork<'d>> {
        type Wrap<'d> = fn(&'d Arc<Node>) -> StepWork<'d>;
        let kinds: [(&str, Wrap<'d>); 6] = [
            ("run", StepWork::Run),
            ("uses", StepWork::Uses),
            ("wait", StepWork::Wait),
            ("wait-all", StepWork::WaitAll),
            ("cancel", StepWork::Cancel),
            ("parallel", StepWork::Parallel),
        ];
        kinds.into_iter().find_map(|(key, work)| self.get(key).map(work))
    }
}

/// A value that may be one scalar or a list of them.
pub(crate) fn one_or_more(node: Option<&Arc<Node>>) -> Vec<&Arc<Node>> {
    match node {
        None => Vec::new(),
        Some(list) if list.is_sequence() => list.items().iter().collect(),
        Some(single) => vec![single],
    }
}
