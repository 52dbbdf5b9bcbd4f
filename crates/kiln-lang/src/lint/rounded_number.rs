//! Versions that YAML reads as numbers: `3.10` becomes `3.1`.

use std::sync::Arc;

use kiln_core::value::Value;

use crate::diag::{Diagnostic, Severity};
use crate::expr::coerce::to_text;
use crate::yaml::{Kind, Node, Style};

use super::context::Context;
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "rounded-number",
    summary: "a version that loses its last zero",
    severity: Severity::Warning,
    why: "\
YAML reads `3.10` as the number 3.1, and that is what an action, a variable or a matrix then gets. Quotes keep the text. Only
decimal fractions under `with`, `env` and `matrix` are looked at.",
    bad: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    strategy:
      matrix:
        python: [3.9, 3.10]
    steps:
      - run: python${{ matrix.python }} --version
",
    ),
    good: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    strategy:
      matrix:
        python: ['3.9', '3.10']
    steps:
      - run: python${{ matrix.python }} --version
",
    ),
    run,
};

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for environment in context.environments() {
        visit(environment, found);
    }
    for body in &context.bodies {
        let strategy = body.job.and_then(|job| job.get("strategy"));
        let matrix = strategy.and_then(|strategy| strategy.get("matrix"));
        let with = body.steps.iter().filter_map(|step| step.get("with"));
        let call = body.job.and_then(|job| job.get("with"));
        for node in matrix.into_iter().chain(with).chain(call) {
            visit(node, found);
        }
    }
}

fn visit(node: &Arc<Node>, found: &mut Vec<Diagnostic>) {
    match &node.kind {
        Kind::Sequence(items) => items.iter().for_each(|item| visit(item, found)),
        Kind::Mapping(entries) => entries.iter().for_each(|entry| visit(&entry.value, found)),
        Kind::Scalar(scalar) => {
            let written = &*scalar.text;
            let Value::Number(_) = scalar.value else { return };
            let becomes = to_text(&scalar.value);
            let is_fraction = written.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            if scalar.style == Style::Plain
                && is_fraction
                && written.contains('.')
                && written != becomes
            {
                let message =
                    format!("`{written}` is the number {becomes}, and loses its last zero");
                let finding = Diagnostic::warning(CHECK.code, node.span, message);
                found.push(finding.help(format!("put it in quotes: '{written}'")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[test]
    fn a_fraction_that_ends_in_zero_is_a_version() {
        let text = testing::steps("- uses: ./a\n  with: {python-version: 3.10, go: 1.20}");
        testing::check(
            "rounded-number",
            &text,
            &[
                "8:32 `3.10` is the number 3.1, and loses its last zero",
                "8:42 `1.20` is the number 1.2, and loses its last zero",
            ],
        );
        for fine in ["'3.10'", "3.11", "10", "1e3", "0x10", "3.10.1"] {
            let text = testing::steps(&format!("- uses: ./a\n  with: {{version: {fine}}}"));
            testing::check("rounded-number", &text, &[]);
        }
    }
}
