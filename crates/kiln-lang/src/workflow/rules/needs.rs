//! `needs` must name jobs of the same file and must not run in circles.

use std::collections::HashMap;

use kiln_core::graph::Graph;

use crate::diag::Diagnostic;
use crate::source::Span;
use crate::suggest::closest_of_many;
use crate::workflow::{Document, Job};

/// GitHub takes the ids as they are written: `needs: Build` is not the job `build`.
pub(super) fn check(document: &Document, found: &mut Vec<Diagnostic>) {
    let jobs: Vec<Job<'_>> = document.jobs().collect();
    let Some(node) = document.root.get("jobs").filter(|node| node.is_mapping()) else { return };
    if node.entries().is_empty() {
        let message = "a workflow needs at least one job";
        found.push(Diagnostic::error("missing-key", node.span, message));
        return;
    }
    let index: HashMap<&str, usize> =
        jobs.iter().enumerate().map(|(at, job)| (job.id(), at)).collect();
    let mut edges = vec![Vec::new(); jobs.len()];
    for (at, job) in jobs.iter().enumerate() {
        for need in job.needs() {
            let name = need.text().unwrap_or_default();
            match index.get(name) {
                Some(&other) => edges[at].push(other),
                // The table has already refused these.
                None if name.is_empty() || name.contains("${{") => {}
                None => {
                    let unknown = unknown(name, need.span, *job, &jobs, found.len());
                    found.push(unknown);
                }
            }
        }
    }
    circles(edges, &jobs, found);
}

/// How many circles are reported.
const MAX_CIRCLES: usize = 10;

/// Reports each circle that has no job in common with those before it.
fn circles(mut edges: Vec<Vec<usize>>, jobs: &[Job<'_>], found: &mut Vec<Diagnostic>) {
    for _ in 0..MAX_CIRCLES {
        let graph = Graph::new(edges.clone()).expect("every edge was found in the index of jobs");
        let Some(cycle) = graph.find_cycle() else { return };
        found.push(circle(&cycle, jobs));
        for at in cycle {
            edges[at].clear();
        }
    }
}

fn unknown(name: &str, span: Span, job: Job<'_>, jobs: &[Job<'_>], findings: usize) -> Diagnostic {
    let found = Diagnostic::error(
        "unknown-need",
        span,
        format!("job `{}` needs `{name}`, which is no job", job.id()),
    );
    let others = jobs.iter().map(Job::id).filter(|id| *id != job.id());
    match closest_of_many(name, others.clone(), findings) {
        Some(meant) => found.label(format!("did you mean `{meant}`?")),
        None => {
            let names: Vec<String> = others.take(12).map(|id| format!("`{id}`")).collect();
            if names.is_empty() {
                found
            } else {
                found.help(format!("the other jobs are {}", names.join(", ")))
            }
        }
    }
}

/// How many jobs of a circle are named.
const NAMED: usize = 6;

/// The cycle comes as jobs of which each needs the next, the last one the first.
fn circle(cycle: &[usize], jobs: &[Job<'_>]) -> Diagnostic {
    let first = jobs[cycle[0]];
    let mut names: Vec<&str> = cycle.iter().take(NAMED).map(|&at| jobs[at].id()).collect();
    names.extend((cycle.len() > NAMED).then_some("…"));
    names.push(first.id());
    let message = if cycle.len() == 1 {
        format!("job `{}` needs itself", first.id())
    } else {
        format!("jobs wait for each other in a circle: {}", names.join(" → "))
    };
    let place = |from: usize, to: usize| {
        let target = jobs[to].id();
        let need = jobs[from].needs().into_iter().find(|need| need.text() == Some(target));
        need.map_or(jobs[from].key.span, |need| need.span)
    };
    let next = |at: usize| cycle[(at + 1) % cycle.len()];
    let mut found = Diagnostic::error("needs-cycle", place(cycle[0], next(0)), message)
        .label(format!("`{}` waits for `{}`", first.id(), jobs[next(0)].id()));
    for at in 1..cycle.len().min(NAMED) {
        let label = format!("`{}` waits for `{}`", jobs[cycle[at]].id(), jobs[next(at)].id());
        found = found.related(place(cycle[at], next(at)), label);
    }
    found.help("remove one of these needs")
}
