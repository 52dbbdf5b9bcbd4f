//! Which jobs an event would run, as far as that can be told before the run.
//!
//! The best case is assumed: what runs succeeds. A condition that asks for more than is known stays
//! open, unless the part that is known already decides it.

use kiln_core::graph::Graph;
use kiln_core::plan::Workflow;
use kiln_core::value::{Object, Value};

use crate::expr::analysis::{calls_status_function, context_paths};
use crate::expr::ast::{Expr, ExprKind, Logical};
use crate::expr::coerce::truthy;
use crate::expr::eval::{Env, StatusFunction, evaluate};
use crate::expr::parse;

/// What to expect of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outlook {
    Runs,
    /// With the reason in words.
    Skipped(String),
    /// Only the run can tell.
    Open,
}

/// The outlook of every job. `known` holds contexts such as `github`, with the properties that are
/// known; a property that is missing from them is an open question.
pub fn jobs(workflow: &Workflow, known: &Object) -> Vec<Outlook> {
    let needs = workflow.jobs.iter().map(|job| job.needs.clone()).collect();
    let order = Graph::new(needs).ok().and_then(|graph| graph.order().ok()).unwrap_or_default();
    let mut outlooks = vec![Outlook::Open; workflow.jobs.len()];
    for index in order {
        outlooks[index] = job(workflow, index, &outlooks, known);
    }
    outlooks
}

fn job(workflow: &Workflow, index: usize, outlooks: &[Outlook], known: &Object) -> Outlook {
    let job = &workflow.jobs[index];
    let Ok(Some(expr)) = parse(&job.condition.text) else { return Outlook::Open };
    let world = World { known, success: needs_succeed(&job.needs, outlooks) };
    match world.decide(&expr) {
        Some(true) => Outlook::Runs,
        None => Outlook::Open,
        Some(false) => {
            let skipped =
                job.needs.iter().find(|need| matches!(outlooks[**need], Outlook::Skipped(_)));
            Outlook::Skipped(match (skipped, world.culprit(&expr)) {
                (_, Some(part)) if !calls_status_function(part) => {
                    format!("`{}` is false", &job.condition.text[part.span.clone()])
                }
                (Some(need), _) => {
                    format!("it needs `{}`, which is skipped", workflow.jobs[*need].id)
                }
                _ => "its condition is false".to_owned(),
            })
        }
    }
}

fn needs_succeed(needs: &[usize], outlooks: &[Outlook]) -> Option<bool> {
    if needs.iter().any(|need| matches!(outlooks[*need], Outlook::Skipped(_))) {
        return Some(false);
    }
    let all_run = needs.iter().all(|need| outlooks[*need] == Outlook::Runs);
    all_run.then_some(true)
}

struct World<'k> {
    known: &'k Object,
    /// What `success()` says; unknown while a need is open.
    success: Option<bool>,
}

impl World<'_> {
    /// Whether the expression is truthy, if that can be told.
    fn decide(&self, expr: &Expr) -> Option<bool> {
        match &expr.kind {
            ExprKind::Not(inner) => self.decide(inner).map(|value| !value),
            ExprKind::Logical { operator, operands } => {
                let decisive = matches!(operator, Logical::Or);
                let values: Vec<Option<bool>> =
                    operands.iter().map(|part| self.decide(part)).collect();
                if values.contains(&Some(decisive)) {
                    return Some(decisive);
                }
                values.iter().all(Option::is_some).then_some(!decisive)
            }
            ExprKind::Call(call) => match StatusFunction::from_name(&call.name) {
                Some(StatusFunction::Success) if call.arguments.is_empty() => self.success,
                Some(StatusFunction::Always) => Some(true),
                Some(_) => None,
                None => self.evaluate(expr),
            },
            _ => self.evaluate(expr),
        }
    }

    fn evaluate(&self, expr: &Expr) -> Option<bool> {
        let open = context_paths(expr).iter().any(|path| !self.knows(&path.segments));
        if open || calls_status_function(expr) {
            return None;
        }
        evaluate(expr, self).ok().map(|value| truthy(&value))
    }

    fn knows(&self, path: &[String]) -> bool {
        let [context, property, ..] = path else { return false };
        match self.known.get(context) {
            Some(Value::Object(properties)) => {
                property != "*" && properties.get(property).is_some()
            }
            _ => false,
        }
    }

    /// The smallest part of a false expression that makes it false.
    fn culprit<'e>(&self, expr: &'e Expr) -> Option<&'e Expr> {
        let mut at = expr;
        while let ExprKind::Logical { operator: Logical::And, operands } = &at.kind {
            at = operands.iter().find(|part| self.decide(part) == Some(false))?;
        }
        Some(at)
    }
}

impl Env for World<'_> {
    fn context(&self, name: &str) -> Option<Value> {
        self.known.get(name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{NoLibrary, compile};
    use crate::source::SourceMap;

    fn outlooks(jobs: &[(&str, &str, &str)]) -> Vec<String> {
        let job = |(id, needs, condition): &(&str, &str, &str)| {
            format!(
                "  {id}:\n    runs-on: x\n    needs: {needs}\n    if: {condition}\n    steps: []\n"
            )
        };
        let text = format!("on: push\njobs:\n{}", jobs.iter().map(job).collect::<String>());
        let compiled = compile(&mut SourceMap::new(), "a.yml", &text, &NoLibrary, None);
        let plan = compiled.plan.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
        let github: Object =
            [("event_name", Value::from("push")), ("ref", Value::from("refs/heads/main"))]
                .into_iter()
                .collect();
        let known: Object = [("github", Value::object(github))].into_iter().collect();
        let words = |outlook: Outlook| match outlook {
            Outlook::Runs => "runs".to_owned(),
            Outlook::Skipped(reason) => reason,
            Outlook::Open => "open".to_owned(),
        };
        super::jobs(plan.root(), &known).into_iter().map(words).collect()
    }

    #[test]
    fn a_condition_over_the_event_is_decided_and_skips_what_depends_on_it() {
        assert_eq!(
            outlooks(&[
                ("build", "[]", "github.event_name == 'push'"),
                (
                    "release",
                    "[build]",
                    "github.event_name == 'push' && startsWith(github.ref, 'refs/tags/')"
                ),
                ("announce", "[release]", "''"),
                ("report", "[release]", "always()"),
                ("clean", "[build]", "failure()"),
                ("deploy", "[build]", "vars.DEPLOY == 'yes'"),
                ("never", "[build]", "vars.DEPLOY && github.ref == 'x'"),
                ("after", "[deploy]", "''"),
            ]),
            [
                "runs",
                "`startsWith(github.ref, 'refs/tags/')` is false",
                "it needs `release`, which is skipped",
                "runs",
                "open",
                "open",
                "`github.ref == 'x'` is false",
                "open",
            ]
        );
    }

    #[test]
    fn a_job_may_be_declared_before_what_it_needs() {
        assert_eq!(
            outlooks(&[("late", "[early]", "''"), ("early", "[]", "github.ref == 'x'")]),
            ["it needs `early`, which is skipped", "`github.ref == 'x'` is false"]
        );
    }
}
