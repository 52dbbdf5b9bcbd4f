//! Graphviz.

use std::fmt::Write as _;

use super::{Graph, Node};

pub(crate) fn draw(graph: &Graph) -> String {
    let mut out = format!("digraph {} {{\n", quoted(&graph.title));
    out.push_str("  rankdir=LR;\n  compound=true;\n");
    out.push_str("  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
    out.push_str("  graph [fontname=\"sans-serif\"];\n");
    nodes(graph, "j", 1, &mut out);
    out.push_str("}\n");
    out
}

fn nodes(graph: &Graph, prefix: &str, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    for (index, node) in graph.nodes.iter().enumerate() {
        let name = format!("{prefix}{index}");
        match drawn_inside(node) {
            Some(inner) => {
                let _ = writeln!(out, "{indent}subgraph cluster_{name} {{");
                let _ = writeln!(out, "{indent}  label={};", label(node));
                nodes(inner, &format!("{name}_"), depth + 1, out);
                let _ = writeln!(out, "{indent}}}");
            }
            None => drop(writeln!(out, "{indent}{name} [label={}];", label(node))),
        }
    }
    for (index, node) in graph.nodes.iter().enumerate() {
        for &need in &node.needs {
            let (from, tail) = end(graph, prefix, need, "ltail");
            let (to, head) = end(graph, prefix, index, "lhead");
            let attributes: Vec<_> = [tail, head].into_iter().flatten().collect();
            let attributes = match attributes.as_slice() {
                [] => String::new(),
                some => format!(" [{}]", some.join(", ")),
            };
            let _ = writeln!(out, "{indent}{from} -> {to}{attributes};");
        }
    }
}

/// Graphviz draws lines between boxes only, so one that ends at a called workflow is led to a job
/// inside and cut at the border.
fn end(graph: &Graph, prefix: &str, index: usize, side: &str) -> (String, Option<String>) {
    let name = format!("{prefix}{index}");
    match drawn_inside(&graph.nodes[index]) {
        Some(inner) => {
            let inside = if side == "lhead" { 0 } else { inner.nodes.len() - 1 };
            let (leaf, _) = end(inner, &format!("{name}_"), inside, side);
            (leaf, Some(format!("{side}=cluster_{name}")))
        }
        None => (name, None),
    }
}

fn drawn_inside(node: &Node) -> Option<&Graph> {
    node.inner.as_ref().filter(|inner| !inner.nodes.is_empty())
}

fn label(node: &Node) -> String {
    let space = if node.times.is_empty() { "" } else { " " };
    quoted(&format!("{}{space}{}\n{}", node.label, node.times, node.detail))
}

fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample;

    #[test]
    fn jobs_lines_and_called_workflows_are_written() {
        let expect = r#"digraph "CI" {
  rankdir=LR;
  compound=true;
  node [shape=box, style=rounded, fontname="sans-serif"];
  graph [fontname="sans-serif"];
  j0 [label="lint\nubuntu-latest"];
  j1 [label="test ×3\n${{ matrix.os }}"];
  subgraph cluster_j2 {
    label="build\n./.github/workflows/build.yml";
    j2_0 [label="compile\nubuntu-latest"];
    j2_1 [label="package\nubuntu-latest"];
    j2_0 -> j2_1;
  }
  j3 [label="e2e ×?\nubuntu-latest"];
  j4 [label="Release & \"publish\" <it>\nubuntu-latest"];
  j5 [label="docs\nubuntu-latest"];
  j0 -> j1;
  j0 -> j2_0 [lhead=cluster_j2];
  j2_1 -> j3 [ltail=cluster_j2];
  j1 -> j4;
  j2_1 -> j4 [ltail=cluster_j2];
  j3 -> j4;
}
"#;
        assert_eq!(draw(&Graph::of(&sample())), expect);
    }

    #[test]
    fn quotes_and_backslashes_are_escaped() {
        assert_eq!(quoted("a\"b\\c\nd"), r#""a\"b\\c\nd""#);
    }
}
