//! The jobs of a watched run as a graph, as far as the terminal has room for it.

use std::collections::BTreeMap;

use kiln_proto::api::{Job, RunDetail};

use super::super::words::{is_bad, standing};
use crate::graph::text::picture;
use crate::graph::{Graph, Node};
use crate::output::frame::Size;
use crate::output::one_line;
use crate::output::text::{fit, width};

/// The widest name in a box.
const NAME: usize = 24;

/// The graph, if there is one and it leaves half of the terminal to what runs and waits.
pub(super) fn lines(detail: &RunDetail, size: Size) -> Vec<String> {
    let graph = graph(detail);
    if graph.nodes.iter().all(|node| node.needs.is_empty()) {
        return Vec::new();
    }
    let lines: Vec<String> =
        picture(&graph).lines().map(|line| line.trim_end().to_owned()).collect();
    let fits = lines.len() <= size.rows / 2 && lines.iter().all(|line| width(line) < size.columns);
    if fits { lines } else { Vec::new() }
}

/// A box for each job of the workflow; the legs of a matrix share one.
fn graph(detail: &RunDetail) -> Graph {
    let mut by_node: BTreeMap<u32, Vec<&Job>> = BTreeMap::new();
    for job in &detail.jobs {
        by_node.entry(job.node).or_default().push(job);
    }
    let places: Vec<u32> = by_node.keys().copied().collect();
    let place = |node: &u32| places.binary_search(node).ok();
    let nodes = by_node.values().map(|legs| Node {
        label: label(legs),
        detail: progress(legs),
        times: if legs.len() > 1 { format!("×{}", legs.len()) } else { String::new() },
        needs: legs[0].needs.iter().filter_map(place).collect(),
        inner: None,
    });
    Graph { title: String::new(), nodes: nodes.collect() }
}

/// The mark of what one looks at first, and the name without the values of the matrix.
fn label(legs: &[&Job]) -> String {
    let first = |fits: &dyn Fn(&Job) -> bool| legs.iter().find(|job| fits(job)).copied();
    let told = first(&|job| is_bad(job.conclusion.as_deref()))
        .or_else(|| first(&|job| job.status == "in_progress"))
        .or_else(|| first(&|job| job.conclusion.is_none()))
        .unwrap_or(legs[0]);
    let mark = standing(&told.status, told.conclusion.as_deref()).mark;
    let name = one_line(&legs[0].name);
    let name = match name.split_once(" (") {
        Some((name, _)) if legs.len() > 1 => name.to_owned(),
        _ => name,
    };
    format!("{mark} {}", fit(&name, NAME))
}

/// How far it has come. It always takes as much room, so that the boxes stay where they are.
fn progress(legs: &[&Job]) -> String {
    let done = legs.iter().filter(|job| job.conclusion.is_some()).count();
    let text = match legs {
        [one] => standing(&one.status, one.conclusion.as_deref()).word,
        _ => format!("{done} of {} done", legs.len()),
    };
    format!("{text:<14}")
}

#[cfg(test)]
mod tests {
    use super::super::super::samples::{detail, job};
    use super::*;

    fn sample() -> RunDetail {
        let of = |name: &str, node: u32, needs: &[u32], status: &str, end: Option<&str>| Job {
            node,
            needs: needs.to_vec(),
            ..job(name, status, end)
        };
        detail(vec![
            of("build", 0, &[], "completed", Some("success")),
            of("test (a)", 1, &[0], "completed", Some("failure")),
            of("test (b)", 1, &[0], "in_progress", None),
            of("deploy", 2, &[1], "pending", None),
        ])
    }

    #[test]
    fn jobs_are_boxes_with_how_far_they_have_come() {
        let lines = lines(&sample(), Size { columns: 100, rows: 24 });
        let text = lines.join("\n");
        for part in ["✓ build", "✗ test ×2", "1 of 2 done", "○ deploy", "▶"] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
        assert_eq!(lines.len(), 4, "{text}");
    }

    #[test]
    fn without_room_or_needs_there_is_no_graph() {
        assert!(lines(&sample(), Size { columns: 30, rows: 24 }).is_empty());
        assert!(lines(&sample(), Size { columns: 100, rows: 6 }).is_empty());
        let flat = detail(vec![job("a", "queued", None), job("b", "queued", None)]);
        assert!(lines(&flat, Size { columns: 100, rows: 24 }).is_empty());
    }
}
