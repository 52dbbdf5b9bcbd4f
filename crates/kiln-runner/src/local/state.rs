//! What the rows of a run mean to people: names, contexts, ends.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kiln_core::plan::matrix::leg_name;
use kiln_core::plan::{Access, Scope};
use kiln_core::run::{Conclusion, LegNo, LegState, Neighbourhood, NodeNo, NodeState, granted};
use kiln_core::value::{Object, Value};
use kiln_lang::engine::{
    Expressions, LegContexts, job_display_name, leg_contexts, leg_environment, leg_secrets,
};
use kiln_lang::expr::coerce::to_text;

use crate::job::{Contexts, Deployment};

use super::JobSummary;
use super::pool::Queued;

pub(super) struct Names<'n> {
    pub(super) hood: &'n Neighbourhood,
    pub(super) expressions: &'n Expressions,
    pub(super) secrets: &'n [(String, String)],
    pub(super) deployments: &'n BTreeMap<LegNo, Deployment>,
}

/// Where the payload of the event is, for all jobs of a run.
pub(super) fn event_path(directory: &Path) -> PathBuf {
    directory.join("event.json")
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
        let LegContexts { inputs, needs, matrix, strategy } =
            leg_contexts(self.expressions, self.hood, leg);
        let mut github = self.expressions.github.clone();
        github.insert("job", Value::from(self.job_id(row.node)));
        Queued {
            environment: leg_environment(self.expressions, self.hood, leg),
            secrets: self.secrets(leg),
            may_identify: self.may_write(leg, Scope::IdToken),
            may_write_actions: self.may_write(leg, Scope::Actions),
            leg,
            workflow: scope.workflow,
            job: node.job,
            name: self.name(leg),
            contexts: Contexts {
                github,
                vars: self.expressions.vars.clone(),
                inputs,
                needs,
                matrix,
                strategy,
            },
        }
    }

    /// They are evaluated for each leg that is handed out, and kept nowhere else.
    fn secrets(&self, leg: LegNo) -> Result<Vec<(String, String)>, String> {
        let run: Object = self
            .secrets
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str().into()))
            .collect();
        let seen = leg_secrets(self.expressions, self.hood, leg, &run)?;
        Ok(seen
            .iter()
            .map(|(name, value)| (name.to_owned(), to_text(value).into_owned()))
            .collect())
    }

    fn may_write(&self, leg: LegNo, what: Scope) -> bool {
        let granted = granted(self.hood, &self.hood.run.plan.workflows, leg);
        granted.is_some_and(|granted| granted.get(what) == Access::Write)
    }

    fn job_id(&self, node: NodeNo) -> &str {
        &self.hood.job_of(node).id
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
            summaries.extend(self.node_not_run(node.number));
            for leg in node.legs.iter().filter_map(|leg| self.hood.legs.get(leg)) {
                summaries.extend(self.leg_summary(leg, directory));
            }
        }
        summaries
    }

    /// A job that ended before it had legs.
    pub(super) fn node_not_run(&self, node: NodeNo) -> Option<JobSummary> {
        let node = self.hood.nodes.get(&node).filter(|node| node.legs.is_empty())?;
        let NodeState::Done(conclusion) = node.state else { return None };
        Some(JobSummary {
            leg: None,
            name: self.with_caller(node.number, self.job_id(node.number)),
            conclusion,
            note: node.note.clone(),
            took: Duration::ZERO,
            log: None,
            deployment: None,
            taken_over: node.run_attempt < self.hood.run.attempt,
        })
    }

    /// A leg that ended before a worker had it.
    pub(super) fn leg_not_run(&self, leg: LegNo) -> Option<JobSummary> {
        let leg = self.hood.legs.get(&leg).filter(|leg| leg.attempt == 0)?;
        self.leg_summary(leg, Path::new(""))
    }

    fn leg_summary(&self, leg: &kiln_core::run::Leg, directory: &Path) -> Option<JobSummary> {
        let conclusion = match leg.state {
            LegState::Done(conclusion) => conclusion,
            _ => Conclusion::Cancelled,
        };
        let job = self.hood.job_of(leg.node);
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
            deployment: self.deployments.get(&leg.number).cloned(),
            taken_over: leg.run_attempt < self.hood.run.attempt,
        })
    }
}
