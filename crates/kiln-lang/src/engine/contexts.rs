//! The contexts of a job's own expressions.

use std::cell::RefCell;

use kiln_core::run::{JobContext, LegNo, Need, Neighbourhood};
use kiln_core::value::{Object, Value};

use crate::expr::eval::{Env, StatusFunction};

use super::Expressions;

/// What an expression at the level of jobs sees. Contexts are made when they are asked for: most texts
/// ask for none.
pub(super) struct JobEnv<'e> {
    expressions: &'e Expressions,
    place: Place<'e>,
    /// Only where secrets are handed on to a called workflow.
    secrets: Option<Value>,
    /// Contexts that were asked for. Each is made once, because objects are compared by identity.
    made: RefCell<Vec<(&'static str, Value)>>,
}

/// Where an expression stands.
#[derive(Clone, Copy)]
enum Place<'e> {
    /// Before any job: the run's own group.
    Run,
    Job(&'e JobContext<'e>),
    /// At the outputs of a called workflow.
    Callee {
        inputs: &'e Object,
        jobs: &'e [Need<'e>],
    },
}

impl<'e> JobEnv<'e> {
    pub(super) fn of_run(expressions: &'e Expressions) -> Self {
        Self::at(expressions, Place::Run)
    }

    pub(super) fn of_job(expressions: &'e Expressions, job: &'e JobContext<'e>) -> Self {
        Self::at(expressions, Place::Job(job))
    }

    pub(super) fn of_callee(
        expressions: &'e Expressions,
        inputs: &'e Object,
        jobs: &'e [Need<'e>],
    ) -> Self {
        Self::at(expressions, Place::Callee { inputs, jobs })
    }

    fn at(expressions: &'e Expressions, place: Place<'e>) -> Self {
        Self { expressions, place, secrets: None, made: RefCell::default() }
    }

    pub(super) fn with_secrets(self, secrets: Object) -> Self {
        Self { secrets: Some(Value::object(secrets)), ..self }
    }

    fn make(&self, name: &str) -> Option<(&'static str, Value)> {
        let Self { expressions, place, .. } = self;
        let job = match place {
            Place::Job(job) => Some(*job),
            _ => None,
        };
        let leg = job.and_then(|job| job.leg.map(|leg| (job, leg)));
        Some(match name {
            "github" => ("github", Value::object(expressions.github.clone())),
            "vars" => ("vars", Value::object(expressions.vars.clone())),
            "inputs" => ("inputs", Value::object(self.inputs().clone())),
            "needs" => {
                ("needs", job.map(|job| Value::object(jobs(&job.needs))).unwrap_or_default())
            }
            "matrix" => (
                "matrix",
                leg.map(|(_, leg)| Value::object(leg.matrix.clone())).unwrap_or_default(),
            ),
            "strategy" => (
                "strategy",
                leg.map(|(job, leg)| Value::object(strategy(job, leg.index))).unwrap_or_default(),
            ),
            "jobs" => match place {
                Place::Callee { jobs: ended, .. } => ("jobs", Value::object(jobs(ended))),
                _ => ("jobs", Value::Null),
            },
            "secrets" => ("secrets", self.secrets.clone()?),
            _ => return None,
        })
    }

    fn inputs(&self) -> &Object {
        match self.place {
            Place::Run => &self.expressions.inputs,
            Place::Job(job) => inputs(self.expressions, job),
            Place::Callee { inputs, .. } => inputs,
        }
    }

    /// The result of a direct need, for `success('job')`.
    fn named(&self, job: &str) -> Result<&'static str, String> {
        let needs = match self.place {
            Place::Job(job) => &job.needs[..],
            _ => &[],
        };
        let found = needs.iter().find(|need| need.id.eq_ignore_ascii_case(job));
        found
            .map(|need| need.conclusion.result())
            .ok_or_else(|| format!("`{job}` is not among the needs of this job"))
    }
}

fn inputs<'e>(expressions: &'e Expressions, job: &JobContext<'e>) -> &'e Object {
    if job.scope.caller.is_some() { &job.scope.inputs } else { &expressions.inputs }
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
        inputs: inputs(expressions, &job).clone(),
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

impl Env for JobEnv<'_> {
    fn context(&self, name: &str) -> Option<Value> {
        let mut made = self.made.borrow_mut();
        if let Some((_, value)) = made.iter().find(|(known, _)| *known == name) {
            return Some(value.clone());
        }
        let (name, value) = self.make(name)?;
        made.push((name, value.clone()));
        Some(value)
    }

    fn status(&self, function: StatusFunction, jobs: &[String]) -> Result<bool, String> {
        let Place::Job(JobContext { status, .. }) = self.place else {
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
