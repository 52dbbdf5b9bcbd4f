//! A small language for simulated workflows, in the place of the real one.
//!
//! Conditions are the status functions that [`holds`] knows. Everything else is written as a literal.

use kiln_core::plan::{Concurrency, Job, JobKind, Strategy, Template};
use kiln_core::run::{
    Evaluator, GroupRequest, JobContext, Legs, Need, Placement, Run, Scope, Status,
};
use kiln_core::value::{Object, Value};

/// Stands for the number of the leg in the name of a group.
pub(in crate::faults) const LEG: &str = "{leg}";

/// Answers what the engine asks about simulated workflows.
#[derive(Debug, Clone, Copy)]
pub(in crate::faults) struct Model {
    /// The planted mistake: needs that were skipped count as good.
    pub(in crate::faults) skips_are_fine: bool,
}

/// Whether a condition holds.
pub(in crate::faults) fn holds(condition: &str, status: Status) -> Result<bool, String> {
    Ok(match condition {
        "success()" | "success() && true" => status.success,
        "success() && false" => false,
        "always()" => true,
        "failure()" => status.failure,
        "cancelled()" => status.cancelled,
        "!cancelled()" => !status.cancelled,
        other => return Err(format!("`{other}` is no condition of a simulated workflow")),
    })
}

/// Whether the matrix of a job is one that cannot be evaluated: it fails before it has legs.
pub(in crate::faults) fn is_broken(job: &Job) -> bool {
    matches!(job.strategy, Strategy::Matrix { .. })
}

impl Evaluator for Model {
    fn condition(&self, job: &JobContext<'_>) -> Result<bool, String> {
        let mut status = job.status;
        let above = job.node.ancestry;
        if self.skips_are_fine && !(above.failed || above.cancelled || status.cancelled) {
            status.success = true;
        }
        holds(&job.job.condition.text, status)
    }

    fn legs(&self, job: &JobContext<'_>) -> Result<Legs, String> {
        if is_broken(job.job) {
            return Err("its matrix cannot be evaluated".to_owned());
        }
        let Strategy::Legs { legs, fail_fast, max_parallel } = &job.job.strategy else {
            return Ok(Legs { legs: vec![Object::new()], fail_fast: true, max_parallel: None });
        };
        let max_parallel = max_parallel.as_ref().and_then(number);
        let fail_fast = fail_fast.as_ref().is_none_or(is_true);
        Ok(Legs { legs: legs.clone(), fail_fast, max_parallel })
    }

    fn run_group(&self, run: &Run) -> Result<Option<GroupRequest>, String> {
        Ok(run.plan.root().concurrency.as_ref().map(|group| request(group, 0)))
    }

    fn group(&self, job: &JobContext<'_>) -> Result<Option<GroupRequest>, String> {
        let leg = job.leg.map_or(0, |leg| leg.index);
        Ok(job.job.concurrency.as_ref().map(|group| request(group, leg)))
    }

    fn tolerates_failure(&self, job: &JobContext<'_>) -> Result<bool, String> {
        let JobKind::Steps(steps) = &job.job.kind else { return Ok(false) };
        Ok(steps.continue_on_error.as_ref().is_some_and(is_true))
    }

    fn placement(&self, job: &JobContext<'_>) -> Result<Placement, String> {
        let labels = match &job.job.kind {
            JobKind::Steps(steps) => steps.runs_on.constant(),
            JobKind::Call(_) => None,
        };
        let labels = labels.and_then(|labels| labels.as_str().map(str::to_owned));
        let labels = labels.into_iter().collect();
        Ok(Placement { name: job.job.id.clone(), labels, ..Placement::default() })
    }

    fn inputs(&self, _job: &JobContext<'_>) -> Result<Object, String> {
        Ok(Object::new())
    }

    fn call_outputs(
        &self,
        _run: &Run,
        _scope: &Scope,
        _jobs: &[Need<'_>],
    ) -> Result<Vec<(String, String)>, String> {
        Ok(Vec::new())
    }
}

pub(in crate::faults) fn request(group: &Concurrency, leg: u32) -> GroupRequest {
    let name = group.group.as_str().unwrap_or_default();
    GroupRequest {
        name: name.replace(LEG, &leg.to_string()),
        cancel_in_progress: group.cancel_in_progress.as_ref().is_some_and(is_true),
        queue: group.queue,
    }
}

pub(in crate::faults) fn is_true(template: &Template) -> bool {
    matches!(template, Template::Literal(Value::Bool(true)))
}

fn number(template: &Template) -> Option<u32> {
    let Template::Literal(Value::Number(number)) = template else { return None };
    (1..=64).find(|whole| f64::from(*whole).total_cmp(number).is_eq())
}
