//! The same job named twice in `needs`.

use std::collections::HashMap;

use crate::diag::{Diagnostic, Severity};

use super::context::Context;
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "duplicate-need",
    summary: "the same job named twice in `needs`",
    severity: Severity::Warning,
    why: "\
The second mention does nothing, so probably another job was meant, which this one then does not wait for. Ids of jobs ignore
case.",
    bad: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    steps: [{run: ./build}]
  test:
    runs-on: ubuntu-latest
    steps: [{run: ./test}]
  publish:
    needs: [build, build]
    runs-on: ubuntu-latest
    steps: [{run: ./publish}]
",
    ),
    good: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    steps: [{run: ./build}]
  test:
    runs-on: ubuntu-latest
    steps: [{run: ./test}]
  publish:
    needs: [build, test]
    runs-on: ubuntu-latest
    steps: [{run: ./publish}]
",
    ),
    run,
};

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for job in context.bodies.iter().filter_map(|body| body.job) {
        let mut seen = HashMap::new();
        for need in job.needs() {
            let Some(name) = need.text() else { continue };
            if let Some(first) = seen.insert(name.to_ascii_lowercase(), need.span) {
                let message = format!("job `{}` needs `{name}` twice", job.id());
                let finding = Diagnostic::warning(CHECK.code, need.span, message)
                    .related(first, "first named here")
                    .help("remove it, or name the job that was meant");
                found.push(finding);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(needs: &str, expected: &[&str]) {
        let text = format!(
            "on: push\njobs:\n  a: {{runs-on: x}}\n  b: {{runs-on: x, needs: a}}\n  \
             c: {{runs-on: x, needs: {needs}}}\n"
        );
        testing::check("duplicate-need", &text, expected);
    }

    #[test]
    fn a_second_mention_is_found() {
        check("[a, b, a]", &["5:33 job `c` needs `a` twice"]);
        check("[a, b]", &[]);
        check("a", &[]);
    }
}
