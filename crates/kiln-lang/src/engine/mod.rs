//! Expressions of jobs, evaluated where the run's state lives.
//!
//! [`Expressions`] answers what [`kiln_core::run`] asks: conditions, matrices, groups, inputs. It
//! sees the contexts that GitHub allows at each place, which the reader has already enforced.

mod call;
mod contexts;
mod data;
mod names;
mod placement;
mod secrets;
#[cfg(test)]
mod tests;

use kiln_core::plan::matrix::expand;
use kiln_core::plan::{Concurrency, JobKind, Strategy, Template, Workflow};
use kiln_core::run::{Evaluator, GroupRequest, JobContext, Legs, Need, Placement, Run, Scope};
use kiln_core::value::{Object, Value};

use crate::expr::coerce::{to_number, to_text, truthy};
use crate::expr::eval::{Env, evaluate};
use crate::expr::parse;

use contexts::JobEnv;
pub use contexts::{LegContexts, leg_contexts};
pub use data::{evaluate_data, evaluate_template};
pub use placement::{job_display_name, labels, leg_environment};
pub use secrets::leg_secrets;

/// What is the same for all jobs of a run.
#[derive(Debug, Clone, Default)]
pub struct Expressions {
    pub github: Object,
    pub vars: Object,
    /// The inputs of the run itself, typed; called workflows have their own.
    pub inputs: Object,
}

impl Expressions {
    /// The same for an attempt of the run, which expressions tell by `github.run_attempt`.
    #[must_use]
    pub fn at_attempt(mut self, attempt: u32) -> Self {
        self.github.insert("run_attempt", Value::from(attempt.to_string()));
        self
    }
}

/// What `run-name` says, if it says anything.
pub fn run_name(expressions: &Expressions, workflow: &Workflow) -> Result<Option<String>, String> {
    let Some(template) = &workflow.run_name else { return Ok(None) };
    let name = names::shown(&evaluate_template(template, &JobEnv::of_run(expressions))?);
    Ok(Some(name).filter(|name| !name.trim().is_empty()))
}

/// Evaluates the text of an expression.
pub fn evaluate_text(text: &str, env: &dyn Env) -> Result<Value, String> {
    let wrong = |error: crate::expr::ExprError| format!("`{text}`: {}", error.message);
    match parse(text).map_err(wrong)? {
        Some(expr) => evaluate(&expr, env).map_err(wrong),
        None => Ok(Value::Null),
    }
}

impl Evaluator for Expressions {
    fn condition(&self, job: &JobContext<'_>) -> Result<bool, String> {
        let env = JobEnv::of_job(self, job);
        evaluate_text(&job.job.condition.text, &env).map(|value| truthy(&value))
    }

    fn legs(&self, job: &JobContext<'_>) -> Result<Legs, String> {
        let env = JobEnv::of_job(self, job);
        match &job.job.strategy {
            Strategy::Single => {
                Ok(Legs { legs: vec![Object::new()], fail_fast: true, max_parallel: None })
            }
            Strategy::Legs { legs, fail_fast, max_parallel } => {
                limits(legs.clone(), fail_fast.as_ref(), max_parallel.as_ref(), &env)
            }
            Strategy::Matrix { matrix, fail_fast, max_parallel } => {
                let legs = expand_value(&evaluate_data(matrix, &env)?)?;
                limits(legs, fail_fast.as_ref(), max_parallel.as_ref(), &env)
            }
            Strategy::Expr(text) => {
                let Value::Object(strategy) = evaluate_text(text, &env)? else {
                    return Err("`strategy` did not evaluate to a mapping".to_owned());
                };
                let literal = |key: &str| strategy.get(key).cloned().map(Template::Literal);
                let matrix = strategy.get("matrix").cloned().unwrap_or_default();
                limits(
                    expand_value(&matrix)?,
                    literal("fail-fast").as_ref(),
                    literal("max-parallel").as_ref(),
                    &env,
                )
            }
        }
    }

    fn run_group(&self, run: &Run) -> Result<Option<GroupRequest>, String> {
        let env = JobEnv::of_run(self);
        run.plan.root().concurrency.as_ref().map(|group| request(group, &env)).transpose()
    }

    fn group(&self, job: &JobContext<'_>) -> Result<Option<GroupRequest>, String> {
        let env = JobEnv::of_job(self, job);
        job.job.concurrency.as_ref().map(|group| request(group, &env)).transpose()
    }

    fn tolerates_failure(&self, job: &JobContext<'_>) -> Result<bool, String> {
        let JobKind::Steps(steps) = &job.job.kind else { return Ok(false) };
        let env = JobEnv::of_job(self, job);
        boolean(steps.continue_on_error.as_ref(), false, &env)
    }

    fn inputs(&self, job: &JobContext<'_>) -> Result<Object, String> {
        call::inputs(self, job)
    }

    fn placement(&self, job: &JobContext<'_>) -> Result<Placement, String> {
        placement::placement(self, job)
    }

    fn call_outputs(
        &self,
        run: &Run,
        scope: &Scope,
        jobs: &[Need<'_>],
    ) -> Result<Vec<(String, String)>, String> {
        call::outputs(self, run, scope, jobs)
    }
}

fn limits(
    legs: Vec<Object>,
    fail_fast: Option<&Template>,
    max_parallel: Option<&Template>,
    env: &dyn Env,
) -> Result<Legs, String> {
    let max_parallel = match max_parallel {
        None => None,
        Some(template) => Some(whole(&evaluate_template(template, env)?, "max-parallel")?),
    };
    Ok(Legs { legs, fail_fast: boolean(fail_fast, true, env)?, max_parallel })
}

fn whole(value: &Value, what: &str) -> Result<u32, String> {
    let number = to_number(value);
    let text = to_text(value);
    if number.fract() == 0.0 && (1.0..=1e6).contains(&number) {
        return text.parse().map_err(|_| format!("`{what}` is {text}, expected a whole number"));
    }
    Err(format!("`{what}` is {text}, expected a whole number from 1 on"))
}

fn boolean(template: Option<&Template>, default: bool, env: &dyn Env) -> Result<bool, String> {
    match template {
        None => Ok(default),
        Some(template) => Ok(truthy(&evaluate_template(template, env)?)),
    }
}

fn expand_value(matrix: &Value) -> Result<Vec<Object>, String> {
    match matrix {
        Value::Object(matrix) => expand(matrix).map_err(|error| error.to_string()),
        Value::Null => Ok(vec![Object::new()]),
        other => Err(format!("`matrix` must be a mapping, but is {}", other.kind())),
    }
}

fn request(group: &Concurrency, env: &dyn Env) -> Result<GroupRequest, String> {
    Ok(GroupRequest {
        name: names::exact("the concurrency group", &evaluate_template(&group.group, env)?)?,
        cancel_in_progress: boolean(group.cancel_in_progress.as_ref(), false, env)?,
        queue: group.queue,
    })
}
