//! A Mermaid flowchart, which Markdown viewers draw.

use std::fmt::Write as _;

use super::{Graph, Node};

pub(crate) fn draw(graph: &Graph) -> String {
    let mut out = String::from("flowchart LR\n");
    nodes(graph, "j", 1, &mut out);
    out
}

/// Names are paths of indices (`j3_0`), which need no escaping and cannot clash.
fn nodes(graph: &Graph, prefix: &str, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    for (index, node) in graph.nodes.iter().enumerate() {
        let name = format!("{prefix}{index}");
        let label = label(node);
        match &node.inner {
            Some(inner) => {
                let _ = writeln!(out, "{indent}subgraph {name}[\"{label}\"]");
                nodes(inner, &format!("{name}_"), depth + 1, out);
                let _ = writeln!(out, "{indent}end");
            }
            None => drop(writeln!(out, "{indent}{name}[\"{label}\"]")),
        }
    }
    for (index, node) in graph.nodes.iter().enumerate() {
        for need in &node.needs {
            let _ = writeln!(out, "{indent}{prefix}{need} --> {prefix}{index}");
        }
    }
}

fn label(node: &Node) -> String {
    let mut label = escape(&node.label);
    if !node.times.is_empty() {
        let _ = write!(label, " {}", node.times);
    }
    if !node.detail.is_empty() {
        let _ = write!(label, "<br/>{}", escape(&node.detail));
    }
    label
}

/// Everything that Mermaid or the HTML it makes could take for markup becomes a character code.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_alphanumeric() || " -_./:,@×…".contains(c) {
            out.push(c);
        } else {
            let _ = write!(out, "#{};", u32::from(c));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::sample;

    #[test]
    fn jobs_lines_and_called_workflows_are_written() {
        let expect = "\
flowchart LR
  j0[\"lint<br/>ubuntu-latest\"]
  j1[\"test ×3<br/>#36;#123;#123; matrix.os #125;#125;\"]
  subgraph j2[\"build<br/>./.github/workflows/build.yml\"]
    j2_0[\"compile<br/>ubuntu-latest\"]
    j2_1[\"package<br/>ubuntu-latest\"]
    j2_0 --> j2_1
  end
  j3[\"e2e ×?<br/>ubuntu-latest\"]
  j4[\"Release #38; #34;publish#34; #60;it#62;<br/>ubuntu-latest\"]
  j5[\"docs<br/>ubuntu-latest\"]
  j0 --> j1
  j0 --> j2
  j2 --> j3
  j1 --> j4
  j2 --> j4
  j3 --> j4
";
        assert_eq!(draw(&Graph::of(&sample())), expect);
    }
}
