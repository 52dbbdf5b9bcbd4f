//! Inputs that nothing reads.

use crate::diag::{Diagnostic, Severity};
use crate::yaml::{Entry, Kind, Node};

use super::context::Context;
use super::{Check, action};

pub(super) const CHECK: Check = Check {
    code: "unused-input",
    summary: "an input that is declared and never read",
    severity: Severity::Warning,
    why: "\
Whoever starts a workflow or uses an action fills in its inputs and expects that they do something. Composite actions,
called workflows and dispatched ones can read an input only by an expression, so one that no expression mentions does
nothing. JavaScript and Docker actions read theirs in code and are left alone, as are inputs with a `deprecationMessage`
and workflows whose scripts read the event by themselves.",
    bad: action(
        "\
name: Set up
description: Installs the tools
inputs:
  version:
    description: The version to install
  mirror:
    description: Where to download from
runs:
  using: composite
  steps:
    - run: ./install \"$VERSION\"
      shell: bash
      env:
        VERSION: ${{ inputs.version }}
",
    ),
    good: action(
        "\
name: Set up
description: Installs the tools
inputs:
  version:
    description: The version to install
runs:
  using: composite
  steps:
    - run: ./install \"$VERSION\"
      shell: bash
      env:
        VERSION: ${{ inputs.version }}
",
    ),
    run,
};

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    if context.some_unread || reads_elsewhere(context) {
        return;
    }
    for input in context.inputs() {
        let name = input.name().to_ascii_lowercase();
        let of_event = ["github", "event", "inputs", &name];
        let used = context.reads(&["inputs", &name])
            || (context.is_workflow() && context.reads(&of_event));
        if !used && !is_deprecated(input) {
            let message = format!("nothing reads the input `{}`", input.name());
            let help = format!("remove it, or read it as `inputs.{}`", input.name());
            found.push(Diagnostic::warning(CHECK.code, input.key.span, message).help(help));
        }
    }
}

fn is_deprecated(input: &Entry) -> bool {
    input.value.get("deprecationMessage").is_some()
}

/// Whether code that no expression shows may read the inputs.
fn reads_elsewhere(context: &Context<'_>) -> bool {
    if context.is_workflow() {
        return mentions(&context.document.root, &["GITHUB_EVENT_PATH", "payload.inputs"]);
    }
    let using = context.document.root.get("runs").and_then(|runs| runs.get("using"));
    using.and_then(|using| using.text()) != Some("composite")
}

/// The reader bounds the depth of the tree.
fn mentions(node: &Node, words: &[&str]) -> bool {
    match &node.kind {
        Kind::Scalar(scalar) => words.iter().any(|word| scalar.text.contains(word)),
        Kind::Sequence(items) => items.iter().any(|item| mentions(item, words)),
        Kind::Mapping(entries) => entries.iter().any(|entry| mentions(&entry.value, words)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(script: &str, expected: &[&str]) {
        let text = format!(
            "on:\n  workflow_dispatch:\n    inputs:\n      Name:\n      flag: {{type: boolean}}\njobs:\n  a:\n    \
             runs-on: x\n    if: inputs.flag\n    steps:\n      - run: {script}\n"
        );
        testing::check("unused-input", &text, expected);
    }

    #[test]
    fn an_input_without_a_reader_is_found() {
        check("x", &["4:7 nothing reads the input `Name`"]);
        check("${{ github.event.action }}", &["4:7 nothing reads the input `Name`"]);
    }

    #[test]
    fn every_way_of_reading_counts() {
        for script in [
            "${{ inputs.name }}",
            "${{ github.event.inputs.name }}",
            "${{ toJSON(inputs) }}",
            "${{ toJSON(github.event) }}",
            "jq .inputs \"$GITHUB_EVENT_PATH\"",
        ] {
            check(script, &[]);
        }
    }

    #[test]
    fn a_javascript_action_reads_its_inputs_in_code() {
        let text = "name: n\ndescription: d\ninputs: {x: }\nruns: {using: node24, main: a.js}\n";
        testing::check("unused-input", text, &[]);
    }

    #[test]
    fn a_deprecated_input_may_do_nothing() {
        let text = "name: n\ndescription: d\ninputs: {x: {deprecationMessage: gone}, y: }\n\
                    runs: {using: composite, steps: [{run: x, shell: sh}]}\n";
        testing::check("unused-input", text, &["3:41 nothing reads the input `y`"]);
    }
}
