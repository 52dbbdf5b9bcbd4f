//! Jobs, steps, inputs and matrix variables that an expression names and the file does not have.

use crate::diag::{Diagnostic, Severity};
use crate::expr::analysis::ContextPath;
use crate::suggest::closest;
use crate::workflow::{Job, Step};
use crate::yaml::{Entry, Node};

use super::context::{Context, Expression, MAX_IN_SCALAR};
use super::{Check, workflow};

pub(super) const CHECK: Check = Check {
    code: "unknown-reference",
    summary: "a need, step, input or matrix variable that does not exist",
    severity: Severity::Warning,
    why: "\
What does not exist is null and becomes an empty text; nothing fails, and something goes wrong later. The check knows

- `needs.x`: only jobs that the job itself names in `needs` are there, and of these only the outputs they declare;
- `steps.x`: only steps of the same job that ran before;
- `inputs.x`: only what `workflow_dispatch`, `workflow_call` or the action declares;
- `matrix.x`: only the variables of a matrix that is written out, with what `include` adds;
- `jobs.x` in the outputs of a called workflow.

Outputs of steps and of called workflows are not checked: what they are shows only when they run.",
    bad: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    outputs:
      version: ${{ steps.version.outputs.value }}
    steps:
      - id: versions
        run: ./version
  publish:
    needs: build
    runs-on: ubuntu-latest
    steps:
      - run: ./publish
        env:
          VERSION: ${{ needs.build.outputs.verison }}
",
    ),
    good: workflow(
        "\
on: push
permissions: {}
jobs:
  build:
    runs-on: ubuntu-latest
    outputs:
      version: ${{ steps.version.outputs.value }}
    steps:
      - id: version
        run: ./version
  publish:
    needs: build
    runs-on: ubuntu-latest
    steps:
      - run: ./publish
        env:
          VERSION: ${{ needs.build.outputs.version }}
",
    ),
    run,
};

fn run(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    for expression in &context.expressions {
        let unknown = expression.paths.iter().filter_map(|path| {
            let name = path.segments.get(1).filter(|name| *name != "*")?;
            let reference = Reference { context, expression, path, name };
            match path.context() {
                "needs" => reference.need(),
                "steps" => reference.step(),
                "inputs" => reference.input(),
                "matrix" => reference.matrix(),
                "jobs" => reference.job(),
                _ => None,
            }
        });
        found.extend(unknown.take(MAX_IN_SCALAR));
    }
}

/// How many names a misspelt one is compared with, which bounds the work for a file full of them.
const MAX_SUGGESTIONS: usize = 100;

/// A path such as `needs.build.outputs.x`, with `name` its second segment.
struct Reference<'r, 'd> {
    context: &'r Context<'d>,
    expression: &'r Expression<'d>,
    path: &'r ContextPath,
    name: &'r str,
}

impl<'d> Reference<'_, 'd> {
    fn report(&self, message: String) -> Diagnostic {
        let span = self.context.span(self.expression.node, self.path.span.clone());
        Diagnostic::warning(CHECK.code, span, message)
    }

    /// With the known name that is nearest, else with `help`.
    fn unknown<'c>(
        &self,
        message: String,
        known: impl IntoIterator<Item = &'c str>,
        help: &str,
    ) -> Diagnostic {
        let found = self.report(message);
        match closest(self.name, known.into_iter().take(MAX_SUGGESTIONS)) {
            Some(meant) => found.label(format!("did you mean `{meant}`?")),
            None => found.help(help),
        }
    }

    fn need(&self) -> Option<Diagnostic> {
        let job = self.context.job(self.expression.place)?;
        let needs = job.needs();
        let names = || needs.iter().filter_map(|need| need.text());
        let Some(need) = names().find(|need| need.eq_ignore_ascii_case(self.name)) else {
            let message =
                format!("job `{}` does not need `{}`, so this is always null", job.id(), self.name);
            if let Some(other) = self.context.document.job(self.name) {
                let help =
                    format!("add `{}` to `needs`; only direct needs are visible", other.id());
                return Some(self.report(message).help(help));
            }
            return Some(self.unknown(message, names(), "name one of the job's `needs`"));
        };
        self.members(self.context.document.job(need)?, "a need")
    }

    fn job(&self) -> Option<Diagnostic> {
        if let Some(job) = self.context.document.job(self.name) {
            return self.members(job, "a job");
        }
        let message = format!("there is no job `{}`, so this is always null", self.name);
        let jobs: Vec<Job<'_>> = self.context.document.jobs().collect();
        Some(self.unknown(message, jobs.iter().map(Job::id), "name a job of this file"))
    }

    /// What stands behind the job's name: its result, or an output that it declares.
    fn members(&self, job: Job<'d>, what: &str) -> Option<Diagnostic> {
        match self.path.segments.get(2)?.as_str() {
            "result" | "*" => None,
            "outputs" => self.output(job),
            other => {
                let message = format!("{what} has no `{other}`, so this is always null");
                Some(self.report(message).help("it has `outputs` and `result`"))
            }
        }
    }

    fn output(&self, job: Job<'d>) -> Option<Diagnostic> {
        let name = self.path.segments.get(3).filter(|name| *name != "*")?;
        // What a called workflow gives is written in another file.
        if job.is_call() {
            return None;
        }
        let declared = job.get("outputs").map_or(&[][..], |outputs| outputs.entries());
        if declared
            .iter()
            .any(|output| output.name().eq_ignore_ascii_case(name) || output.name().contains("${{"))
        {
            return None;
        }
        let message =
            format!("job `{}` declares no output `{name}`, so this is always null", job.id());
        let found = self.report(message);
        let found = match closest(name, declared.iter().map(Entry::name).take(MAX_SUGGESTIONS)) {
            Some(meant) => found.label(format!("did you mean `{meant}`?")),
            None => found.help(format!("add `{name}` to the `outputs` of job `{}`", job.id())),
        };
        Some(found.related(job.key.span, "the job"))
    }

    fn step(&self) -> Option<Diagnostic> {
        let place = self.expression.place;
        let body = &self.context.bodies[place.body?];
        let visible = place.step.unwrap_or(body.steps.len());
        match body.ids.get(self.name) {
            Some(&at) if at < visible => return self.step_member(),
            Some(&at) => return Some(self.later_step(at, body.steps[at])),
            None => {}
        }
        // An output of an action that is not composite has no steps to name.
        if body.steps.is_empty() && !self.context.is_workflow() {
            return None;
        }
        let message = format!("no step has the id `{}`, so this is always null", self.name);
        let earlier = body.steps[..visible].iter();
        let ids = earlier.filter_map(|step| step.id()?.text());
        Some(self.unknown(message, ids, "give the step that was meant this `id`"))
    }

    fn later_step(&self, at: usize, step: Step<'d>) -> Diagnostic {
        if self.expression.place.step == Some(at) {
            let message =
                format!("step `{}` is not done when it reads itself, so this is null", self.name);
            return self.report(message).help("read it in a later step");
        }
        let message = format!("step `{}` runs after this one, so this is always null", self.name);
        let found = self.report(message).help("read it in a later step");
        match step.id() {
            Some(id) => found.related(id.span, "the step"),
            None => found,
        }
    }

    fn step_member(&self) -> Option<Diagnostic> {
        let member = self.path.segments.get(2)?.as_str();
        if matches!(member, "outputs" | "outcome" | "conclusion" | "*") {
            return None;
        }
        let message = format!("a step has no `{member}`, so this is always null");
        let help = format!("outputs are in `steps.{}.outputs`", self.name);
        Some(self.report(message).help(help))
    }

    fn input(&self) -> Option<Diagnostic> {
        let inputs = self.context.inputs();
        if inputs.iter().any(|input| input.name().eq_ignore_ascii_case(self.name)) {
            return None;
        }
        let message = format!("no input `{}` is declared, so this is always null", self.name);
        let help = if self.context.is_workflow() {
            "declare it below `workflow_dispatch` or `workflow_call`"
        } else {
            "declare it below `inputs`"
        };
        Some(self.unknown(message, inputs.iter().map(|input| input.name()), help))
    }

    fn matrix(&self) -> Option<Diagnostic> {
        let job = self.context.job(self.expression.place)?;
        let Some(matrix) = job.get("strategy").and_then(|strategy| strategy.get("matrix")) else {
            // The whole strategy may come from an expression.
            let written_out = job.get("strategy").is_none_or(|strategy| strategy.is_mapping());
            let message = format!("job `{}` has no matrix, so this is always null", job.id());
            return written_out.then(|| self.report(message).help("add `strategy.matrix`"));
        };
        let variables = variables(matrix)?;
        if variables.iter().any(|variable| variable.eq_ignore_ascii_case(self.name)) {
            return None;
        }
        let message = format!("the matrix has no variable `{}`, so this is always null", self.name);
        Some(self.unknown(message, variables, "add it to `strategy.matrix`"))
    }
}

/// The variables of a matrix, unless some are known only during the run.
fn variables(matrix: &Node) -> Option<Vec<&str>> {
    if !matrix.is_mapping() {
        return None;
    }
    let mut names = Vec::new();
    for entry in matrix.entries() {
        match entry.name() {
            "exclude" => {}
            "include" if !entry.value.is_sequence() => return None,
            "include" => {
                for item in entry.value.items() {
                    if !item.is_mapping() {
                        return None;
                    }
                    names.extend(item.entries().iter().map(Entry::name));
                }
            }
            name => names.push(name),
        }
    }
    (!names.iter().any(|name| name.contains("${{"))).then_some(names)
}

#[cfg(test)]
#[path = "unknown_reference/tests.rs"]
mod tests;
