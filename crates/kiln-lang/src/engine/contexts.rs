//! The contexts of a job's own expressions.

use kiln_core::run::{JobContext, LegNo, Need, Neighbourhood, Status};
use kiln_core::value::{Object, Value};

use crate::expr::eval::{Env, StatusFunction};

use super::Expressions;

/// What an expression at the level of jobs sees.
pub(super) struct JobEnv {
    github: Value,
    vars: Value,
    inputs: Value,
    needs: Value,
    matrix: Value,
    strategy: Value,
    jobs: Value,
    /// Only where secrets are handed on to a called workflow.
    secrets: Option<Value>,
    status: Option<Status>,
    /// The results of direct needs, for `success('job')`.
    results: Vec<(String, &'static str)>,
}

impl JobEnv {
    /// Before any job: the run's own group.
    pub(super) fn of_run(expressions: &Expressions) -> Self {
        Self {
            github: Value::object(expressions.github.clone()),
            vars: Value::object(expressions.vars.clone()),
            inputs: Value::object(expressions.inputs.clone()),
            needs: Value::Null,
            matrix: Value::Null,
            strategy: Value::Null,
            jobs: Value::Null,
            secrets: None,
            status: None,
            results: Vec::new(),
        }
    }

    pub(super) fn of_job(expressions: &Expressions, job: &JobContext<'_>) -> Self {
        let leg = job.leg;
        let results = job.needs.iter().map(|need| (need.id.to_owned(), need.conclusion.result()));
        Self {
            needs: Value::object(jobs(&job.needs)),
            inputs: Value::object(inputs(expressions, job)),
            matrix: leg.map_or(Value::Null, |leg| Value::object(leg.matrix.clone())),
            strategy: leg.map_or(Value::Null, |leg| Value::object(strategy(job, leg.index))),
            status: Some(job.status),
            results: results.collect(),
            ..Self::of_run(expressions)
        }
    }

    /// For the outputs of a called workflow.
    pub(super) fn of_callee(
        expressions: &Expressions,
        inputs: &Object,
        needs: &[Need<'_>],
    ) -> Self {
        Self {
            inputs: Value::object(inputs.clone()),
            jobs: Value::object(jobs(needs)),
            ..Self::of_run(expressions)
        }
    }

    pub(super) fn with_secrets(self, secrets: Object) -> Self {
        Self { secrets: Some(Value::object(secrets)), ..self }
    }

    fn named(&self, job: &str) -> Result<&'static str, String> {
        let found = self.results.iter().find(|(id, _)| id.eq_ignore_ascii_case(job));
        found
            .map(|(_, result)| *result)
            .ok_or_else(|| format!("`{job}` is not among the needs of this job"))
    }
}

fn inputs(expressions: &Expressions, job: &JobContext<'_>) -> Object {
    let inputs = if job.scope.caller.is_some() { &job.scope.inputs } else { &expressions.inputs };
    inputs.clone()
}

/// The contexts of a leg that its runner needs, too.
#[derive(Debug, Clone)]
pub struct LegContexts {
    pub inputs: Object,
    pub needs: Object,
    pub matrix: Object,
    pub strategy: Object,
}

/// What the expressions of a leg's steps see of the run around it.
pub fn leg_contexts(expressions: &Expressions, hood: &Neighbourhood, leg: LegNo) -> LegContexts {
    let row = &hood.legs[&leg];
    let job = hood.context(row.node, Some(leg));
    LegContexts {
        inputs: inputs(expressions, &job),
        needs: jobs(&job.needs),
        matrix: row.matrix.clone(),
        strategy: strategy(&job, row.index),
    }
}

/// `needs` or `jobs`: result and outputs by id.
fn jobs(needs: &[Need<'_>]) -> Object {
    let entry = |need: &Need<'_>| {
        let outputs: Object = need
            .outputs
            .iter()
            .map(|(name, value)| (name.as_str(), Value::from(value.as_str())))
            .collect();
        let job: Object = [
            ("result", Value::from(need.conclusion.result())),
            ("outputs", Value::object(outputs)),
        ]
        .into_iter()
        .collect();
        (need.id.to_owned(), Value::object(job))
    };
    needs.iter().map(entry).collect()
}

fn strategy(job: &JobContext<'_>, index: u32) -> Object {
    let total = u32::try_from(job.node.legs.len()).unwrap_or(u32::MAX);
    [
        ("fail-fast", Value::from(job.node.fail_fast)),
        ("job-index", Value::from(f64::from(index))),
        ("job-total", Value::from(f64::from(total))),
        ("max-parallel", Value::from(f64::from(job.node.max_parallel.unwrap_or(total)))),
    ]
    .into_iter()
    .collect()
}

impl Env for JobEnv {
    fn context(&self, name: &str) -> Option<Value> {
        let value = match name {
            "github" => &self.github,
            "vars" => &self.vars,
            "inputs" => &self.inputs,
            "needs" => &self.needs,
            "matrix" => &self.matrix,
            "strategy" => &self.strategy,
            "jobs" => &self.jobs,
            "secrets" => self.secrets.as_ref()?,
            _ => return None,
        };
        Some(value.clone())
    }

    fn status(&self, function: StatusFunction, jobs: &[String]) -> Result<bool, String> {
        let Some(status) = self.status else {
            return Err(format!("`{}()` has no meaning here", function.name()));
        };
        let results = jobs.iter().map(|job| self.named(job)).collect::<Result<Vec<_>, _>>()?;
        Ok(match function {
            StatusFunction::Always => true,
            StatusFunction::Cancelled => status.cancelled,
            StatusFunction::Success if jobs.is_empty() => status.success,
            StatusFunction::Success => results.iter().all(|result| *result == "success"),
            StatusFunction::Failure if jobs.is_empty() => status.failure,
            StatusFunction::Failure => results.contains(&"failure"),
        })
    }
}
