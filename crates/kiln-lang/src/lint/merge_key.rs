//! Merge keys, which GitHub itself does not read.

use crate::diag::{Diagnostic, Severity};
use crate::source::Span;
use crate::yaml::{Entry, Kind, Node};

use super::context::Context;
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "merge-key",
    summary: "a merge key, which works on Kiln but not on GitHub",
    severity: Severity::Warning,
    why: "\
Anchors and aliases work on GitHub, the merge key `<<` does not: GitHub takes it for an unknown key and refuses the file. Kiln
merges. A file that is to run on both names whole values by aliases.",
    bad: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    env: &common
      MODE: release
    steps:
      - run: ./build
  test:
    runs-on: ubuntu-latest
    env:
      <<: *common
      LEVEL: all
    steps:
      - run: ./test
",
    ),
    good: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    env: &common
      MODE: release
    steps:
      - run: ./build
  test:
    runs-on: ubuntu-latest
    env: *common
    steps:
      - run: ./test
",
    ),
    run,
};

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    // Most files have none; the tree remembers only what came of them.
    let text = context.sources.file(context.document.file).text();
    if text.contains("<<") {
        visit(&context.document.root, context, found);
    }
}

/// The reader bounds the depth of the tree.
fn visit(node: &Node, context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    match &node.kind {
        Kind::Scalar(_) => {}
        Kind::Sequence(items) => {
            for item in items.iter().filter(|item| item.span.start >= node.span.start) {
                visit(item, context, found);
            }
        }
        Kind::Mapping(entries) => {
            if entries.iter().any(|entry| entry.merged) {
                let span = merge_key(node, context).unwrap_or(entries[0].key.span);
                let message = "GitHub does not know the merge key `<<` and refuses the file";
                found.push(
                    Diagnostic::warning(CHECK.code, span, message)
                        .help("write the keys out if the file is to run on GitHub, too"),
                );
            }
            // What an alias names stands earlier in the text and is visited there.
            let stands_here = |entry: &&Entry| entry.value.span.start >= entry.key.span.start;
            for entry in entries.iter().filter(|entry| !entry.merged).filter(stands_here) {
                visit(&entry.value, context, found);
            }
        }
    }
}

/// Where a mapping's own `<<` stands: outside all of its written values, and within its brackets or
/// below its first key. The span of a block that ends with an alias does not reach that far.
fn merge_key(node: &Node, context: &Context<'_>) -> Option<Span> {
    let file = context.sources.file(node.span.file);
    let (text, start) = (file.text(), node.span.start as usize);
    let column = file.position(start).column;
    let is_own = |at: usize| {
        let written = node.entries().iter().filter(|entry| !entry.merged);
        let in_value = written.map(|entry| entry.value.span.range()).any(|span| span.contains(&at));
        !in_value && (node.span.range().contains(&at) || file.position(at).column == column)
    };
    let is_key = |at: usize| text[at + 2..].trim_start_matches(' ').starts_with(':');
    let mut places = text[start..].match_indices("<<").map(|(at, _)| start + at);
    let at = places.find(|&at| is_key(at) && is_own(at))?;
    Some(Span::new(node.span.file, at, at + 2))
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        testing::check("merge-key", text, expected);
    }

    const MESSAGE: &str = "GitHub does not know the merge key `<<` and refuses the file";

    #[test]
    fn a_merge_key_is_found_where_it_stands() {
        check(
            "on: push\nenv: &e {A: b}\njobs:\n  a:\n    runs-on: x\n    env:\n      C: d\n      <<: *e\n",
            &[&format!("8:7 {MESSAGE}")],
        );
        check(
            "on: push\njobs:\n  a: &a\n    runs-on: x\n    env: &e {A: b}\n  b:\n    env: {<<: *e, X: y}\n    <<: *a\n",
            &[&format!("7:11 {MESSAGE}"), &format!("8:5 {MESSAGE}")],
        );
    }

    #[test]
    fn aliases_and_scripts_are_fine() {
        check("on: push\nenv: &e {A: b}\njobs:\n  a:\n    runs-on: x\n    env: *e\n", &[]);
        check(&testing::script("cat <<: file\n<<:\n"), &[]);
    }
}
