//! What the rows of a run mean to people: names, contexts, ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kiln_core::plan::matrix::leg_name;
use kiln_core::run::{Conclusion, LegNo, LegState, Neighbourhood, NodeNo, NodeState};
use kiln_core::value::{Object, Value};
use kiln_lang::engine::{Expressions, job_display_name};

use crate::job::Contexts;

use super::JobSummary;
use super::pool::Queued;

pub(super) struct Names<'n> {
    pub(super) hood: &'n Neighbourhood,
    pub(super) expressions: &'n Expressions,
}

/// Where the log of a leg is kept.
pub(super) fn log_path(directory: &Path, leg: LegNo) -> PathBuf {
    directory.join("logs").join(format!("{leg}.log"))
}

impl Names<'_> {
    /// All that a worker must know about a leg.
    pub(super) fn queued(&self, leg: LegNo) -> Queued {
        let row = &self.hood.legs[&leg];
        let node = &self.hood.nodes[&row.node];
        let scope = &self.hood.scopes[&node.scope];
        let total = f64::from(u32::try_from(node.legs.len()).unwrap_or(u32::MAX));
        let strategy: Object = [
            ("fail-fast", Value::from(node.fail_fast)),
            ("job-index", Value::from(f64::from(row.index))),
            ("job-total", Value::from(total)),
            ("max-parallel", Value::from(node.max_parallel.map_or(total, f64::from))),
        ]
        .into_iter()
        .collect();
        let inputs = if scope.caller.is_some() { &scope.inputs } else { &self.expressions.inputs };
        let mut github = self.expressions.github.clone();
        let job = &self.hood.run.plan.workflows[scope.workflow].jobs[node.job];
        github.insert("job", Value::from(job.id.as_str()));
        Queued {
            leg,
            workflow: scope.workflow,
            job: node.job,
            name: self.name(leg),
            contexts: Contexts {
                github,
                vars: self.expressions.vars.clone(),
                inputs: inputs.clone(),
                needs: self.needs(row.node),
                matrix: row.matrix.clone(),
                strategy,
            },
        }
    }

    fn needs(&self, node: NodeNo) -> Object {
        let needs =
            self.hood.nodes[&node].needs.iter().filter_map(|need| self.hood.nodes.get(need));
        let entry = |need: &kiln_core::run::Node| {
            let NodeState::Done(conclusion) = need.state else { return None };
            let outputs: Object = need
                .outputs
                .iter()
                .map(|(name, value)| (name.as_str(), Value::from(value.as_str())))
                .collect();
            let job: Object =
                [("result", Value::from(conclusion.result())), ("outputs", Value::object(outputs))]
                    .into_iter()
                    .collect();
            Some((self.job_id(need.number).to_owned(), Value::object(job)))
        };
        needs.filter_map(entry).collect()
    }

    fn job_id(&self, node: NodeNo) -> &str {
        let row = &self.hood.nodes[&node];
        let workflow = self.hood.scopes[&row.scope].workflow;
        &self.hood.run.plan.workflows[workflow].jobs[row.job].id
    }

    /// `caller / job (values)`, or what `name` says.
    fn name(&self, leg: LegNo) -> String {
        let row = &self.hood.legs[&leg];
        self.with_caller(row.node, &job_display_name(self.expressions, self.hood, leg))
    }

    fn with_caller(&self, node: NodeNo, name: &str) -> String {
        let scope = &self.hood.scopes[&self.hood.nodes[&node].scope];
        match scope.caller {
            Some(caller) => {
                let outer = &self.hood.legs[&caller];
                let values = leg_name(&outer.matrix);
                let id = self.job_id(outer.node);
                let outer_name =
                    if values.is_empty() { id.to_owned() } else { format!("{id} ({values})") };
                self.with_caller(outer.node, &format!("{outer_name} / {name}"))
            }
            None => name.to_owned(),
        }
    }

    /// Every leg that a runner could have had, and every job that had none.
    pub(super) fn summaries(&self, directory: &Path) -> Vec<JobSummary> {
        let mut summaries = Vec::new();
        for node in self.hood.nodes.values() {
            if node.legs.is_empty() {
                let NodeState::Done(conclusion) = node.state else { continue };
                summaries.push(JobSummary {
                    leg: None,
                    name: self.with_caller(node.number, self.job_id(node.number)),
                    conclusion,
                    note: node.note.clone(),
                    took: Duration::ZERO,
                    log: None,
                });
            }
            for leg in node.legs.iter().filter_map(|leg| self.hood.legs.get(leg)) {
                summaries.extend(self.leg_summary(leg, directory));
            }
        }
        summaries
    }

    fn leg_summary(&self, leg: &kiln_core::run::Leg, directory: &Path) -> Option<JobSummary> {
        let conclusion = match leg.state {
            LegState::Done(conclusion) => conclusion,
            _ => Conclusion::Cancelled,
        };
        let node = &self.hood.nodes[&leg.node];
        let scope = &self.hood.scopes[&node.scope];
        let job = &self.hood.run.plan.workflows[scope.workflow].jobs[node.job];
        let is_call = matches!(job.kind, kiln_core::plan::JobKind::Call(_));
        if is_call && leg.note.is_none() {
            return None;
        }
        let took = match (leg.timings.started, leg.timings.ended) {
            (Some(started), Some(ended)) => ended.since(started),
            _ => Duration::ZERO,
        };
        let log = log_path(directory, leg.number);
        Some(JobSummary {
            leg: Some(leg.number),
            name: self.name(leg.number),
            conclusion,
            note: leg.note.clone(),
            took,
            log: (leg.attempt > 0).then_some(log),
        })
    }
}
