//! Outputs of jobs that nobody reads.

use crate::diag::{Diagnostic, Severity};

use super::context::Context;
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "unused-output",
    summary: "a job's output that no other job reads",
    severity: Severity::Warning,
    why: "\
Only jobs that need this one, and the outputs of the workflow when others call it, can read a job's outputs. One that
nobody reads is left over, or its reader has a misspelt name. Expressions that take all outputs at once, such as
`toJSON(needs)`, count as reading each of them.",
    bad: workflow(
        "\
on: push
permissions: {}
jobs:
  version:
    runs-on: ubuntu-latest
    outputs:
      tag: ${{ steps.version.outputs.tag }}
      date: ${{ steps.version.outputs.date }}
    steps:
      - id: version
        run: ./version
  build:
    needs: version
    runs-on: ubuntu-latest
    steps:
      - run: ./build
        env:
          TAG: ${{ needs.version.outputs.tag }}
",
    ),
    good: workflow(
        "\
on: push
permissions: {}
jobs:
  version:
    runs-on: ubuntu-latest
    outputs:
      tag: ${{ steps.version.outputs.tag }}
    steps:
      - id: version
        run: ./version
  build:
    needs: version
    runs-on: ubuntu-latest
    steps:
      - run: ./build
        env:
          TAG: ${{ needs.version.outputs.tag }}
",
    ),
    run,
};

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    if context.some_unread {
        return;
    }
    for job in context.bodies.iter().filter_map(|body| body.job) {
        let Some(outputs) = job.get("outputs") else { continue };
        let id = job.id().to_ascii_lowercase();
        for output in outputs.entries().iter().filter(|output| !output.name().contains("${{")) {
            let name = output.name().to_ascii_lowercase();
            let reads = |context_name| context.reads(&[context_name, &id, "outputs", &name]);
            if !reads("needs") && !reads("jobs") {
                let message =
                    format!("nothing reads the output `{}` of job `{}`", output.name(), job.id());
                let help = format!(
                    "remove it, or read it as `needs.{}.outputs.{}`",
                    job.id(),
                    output.name()
                );
                found.push(Diagnostic::warning(CHECK.code, output.key.span, message).help(help));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(reader: &str, expected: &[&str]) {
        let text = format!(
            "on: push\njobs:\n  a:\n    runs-on: x\n    outputs:\n      One: '1'\n    steps: [{{run: x}}]\n  \
             b:\n    needs: a\n    runs-on: x\n    steps:\n      - run: x\n        env:\n          X: {reader}\n"
        );
        testing::check("unused-output", &text, expected);
    }

    const UNUSED: &str = "6:7 nothing reads the output `One` of job `a`";

    #[test]
    fn an_output_without_a_reader_is_found() {
        check("nothing", &[UNUSED]);
        check("${{ needs.a.result }}", &[UNUSED]);
        check("${{ needs.a.outputs.two }}", &[UNUSED]);
    }

    #[test]
    fn every_way_of_reading_counts() {
        for reader in [
            "${{ needs.a.outputs.one }}",
            "${{ needs.A['outputs'].ONE }}",
            "${{ toJSON(needs) }}",
            "${{ toJSON(needs.*.outputs) }}",
            "${{ needs.a.outputs[github.job] }}",
            "${{ needs[github.job].outputs.one }}",
        ] {
            check(reader, &[]);
        }
    }

    #[test]
    fn the_outputs_of_a_called_workflow_read_too() {
        let text = "on:\n  workflow_call:\n    outputs: {x: {value: '${{ jobs.a.outputs.x }}'}}\n\
                    jobs:\n  a:\n    runs-on: x\n    outputs: {x: y}\n    steps: [{run: x}]\n";
        testing::check("unused-output", text, &[]);
    }
}
