//! A workflow as a graph to draw: what is in each box and what leads to it.

mod canvas;
pub(crate) mod dot;
mod layout;
pub(crate) mod mermaid;
pub(crate) mod svg;
pub(crate) mod text;

use kiln_core::graph::Graph as NeedsGraph;
use kiln_core::plan::{Job, JobKind, Plan, Strategy, Workflow};

use crate::output::{one_line, plan_json};

/// Workflows may call each other this deep; the compiler refuses more.
const MAX_CALLS: usize = 16;

/// Longer labels are cut.
const MAX_LABEL: usize = 36;

#[derive(Debug, Clone)]
pub(crate) struct Graph {
    pub(crate) title: String,
    pub(crate) nodes: Vec<Node>,
}

/// One job.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) label: String,
    /// Where it runs, or what it calls.
    pub(crate) detail: String,
    /// `×3`, or `×?` when only the run knows; empty without a matrix.
    pub(crate) times: String,
    pub(crate) needs: Vec<usize>,
    /// The jobs of the called workflow.
    pub(crate) inner: Option<Graph>,
}

impl Graph {
    pub(crate) fn of(plan: &Plan) -> Self {
        Self::of_workflow(plan, plan.root(), 0)
    }

    fn of_workflow(plan: &Plan, workflow: &Workflow, depth: usize) -> Self {
        let count = workflow.jobs.len();
        Self {
            title: one_line(workflow.name.as_deref().unwrap_or(&workflow.path)),
            nodes: workflow.jobs.iter().map(|job| node(plan, job, count, depth)).collect(),
        }
    }

    pub(crate) fn levels(&self) -> Vec<usize> {
        let needs: Vec<_> = self.nodes.iter().map(|node| node.needs.clone()).collect();
        levels(&needs)
    }
}

fn node(plan: &Plan, job: &Job, count: usize, depth: usize) -> Node {
    let name = job.name.as_ref().map(|name| plan_json::text(&plan_json::template(name)));
    let (detail, inner) = match &job.kind {
        JobKind::Steps(steps) => (plan_json::text(&plan_json::data(&steps.runs_on)), None),
        JobKind::Call(call) => {
            let callee = call.workflow.and_then(|index| plan.workflows.get(index));
            let callee = callee.filter(|_| depth < MAX_CALLS);
            (call.uses.clone(), callee.map(|callee| Graph::of_workflow(plan, callee, depth + 1)))
        }
    };
    Node {
        label: shorten(&name.unwrap_or_else(|| job.id.clone())),
        detail: match &job.kind {
            JobKind::Steps(_) => shorten(&detail),
            JobKind::Call(_) => shorten_path(&detail),
        },
        times: match &job.strategy {
            Strategy::Single => String::new(),
            Strategy::Legs { legs, .. } => format!("×{}", legs.len()),
            Strategy::Matrix { .. } | Strategy::Expr(_) => "×?".into(),
        },
        needs: job.needs.iter().copied().filter(|&need| need < count).collect(),
        inner,
    }
}

/// One line that fits into a box.
fn shorten(text: &str) -> String {
    let text = one_line(text);
    if text.chars().count() <= MAX_LABEL {
        return text;
    }
    let start: String = text.chars().take(MAX_LABEL - 1).collect();
    start.trim_end().to_owned() + "…"
}

/// As [`shorten`], but the end of a path says more than its start.
fn shorten_path(path: &str) -> String {
    let path = one_line(path);
    match path.chars().count().checked_sub(MAX_LABEL) {
        None | Some(0) => path,
        Some(over) => std::iter::once('…').chain(path.chars().skip(over + 1)).collect(),
    }
}

/// For each job, the length of the longest chain of needs before it.
pub(crate) fn levels(needs: &[Vec<usize>]) -> Vec<usize> {
    needs_graph(needs).levels().unwrap_or_else(|_| vec![0; needs.len()])
}

/// The jobs so that each comes after its needs.
fn topological(needs: &[Vec<usize>]) -> Vec<usize> {
    needs_graph(needs).order().unwrap_or_default()
}

/// The compiler refuses needs that are no jobs, and cycles; drawings of either come out flat.
fn needs_graph(needs: &[Vec<usize>]) -> NeedsGraph {
    NeedsGraph::new(needs.to_vec()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{call, job, sample, workflow};

    #[test]
    fn a_cycle_comes_out_flat() {
        assert_eq!(levels(&[vec![], vec![0], vec![0, 1]]), [0, 1, 2]);
        assert_eq!(levels(&[vec![1], vec![0]]), [0, 0]);
    }

    #[test]
    fn boxes_say_how_often_and_where() {
        let graph = Graph::of(&sample());
        let shown: Vec<_> = graph
            .nodes
            .iter()
            .map(|node| format!("{} {} {}", node.label, node.times, node.detail))
            .collect();
        assert_eq!(shown[1], "test ×3 ${{ matrix.os }}");
        assert_eq!(shown[2], "build  ./.github/workflows/build.yml");
        assert_eq!(shown[3], "e2e ×? ubuntu-latest");
        assert_eq!(graph.nodes[2].inner.as_ref().map(|inner| inner.nodes.len()), Some(2));
    }

    #[test]
    fn calls_without_end_are_cut() {
        let plan = Plan {
            workflows: vec![workflow("a.yml", "A", vec![call("a", &[], "./a.yml", Some(0))])],
        };
        let mut depth = 0;
        let mut graph = Some(&Graph::of(&plan)).cloned();
        while let Some(inner) = graph {
            depth += 1;
            graph = inner.nodes.into_iter().next().and_then(|node| node.inner);
        }
        assert_eq!(depth, MAX_CALLS + 1);
    }

    #[test]
    fn long_names_are_cut_and_needs_outside_are_dropped() {
        let mut long = job("x", &[7]);
        long.id = "a".repeat(100);
        let graph = Graph::of(&Plan { workflows: vec![workflow("a.yml", "A", vec![long])] });
        assert_eq!(graph.nodes[0].label.chars().count(), MAX_LABEL);
        assert!(graph.nodes[0].needs.is_empty());
        let path = shorten_path("octo/shared/.github/workflows/scan.yml@v3");
        assert_eq!(path, "…hared/.github/workflows/scan.yml@v3");
        assert_eq!(path.chars().count(), MAX_LABEL);
    }
}
