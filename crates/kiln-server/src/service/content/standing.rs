//! Where a job stands: its run, whose code it is, and what its workflow grants it.

use std::sync::Arc;

use kiln_core::plan::{Access, Permissions, Scope};
use kiln_core::run::{granted, written};
use kiln_core::value::Value;
use kiln_lang::engine::{Expressions, leg_environment};
use kiln_store::claims::{Claimed, Lease};
use kiln_store::runs::{Assignment, RunFacts};

use crate::app::App;
use crate::http::error::{Answer, Failure};
use crate::service::context::expressions;
use crate::service::job::TRUSTED;

/// Events after which somebody with the right to write decided what runs, and on which commit. Only these
/// may leave caches to a branch, as on GitHub; the others could bring there what a stranger wrote.
const WRITERS: [&str; 7] = [
    "push",
    "schedule",
    "workflow_dispatch",
    "repository_dispatch",
    "delete",
    "registry_package",
    "page_build",
];
/// Branches that the forge makes and nobody else reads from.
const QUEUES: &str = "refs/heads/gh-readonly-queue/";

/// A job that runs, and its run.
#[derive(Debug)]
pub struct Standing {
    assignment: Assignment,
    expressions: Arc<Expressions>,
}

impl Standing {
    /// Refuses a job that has ended by now.
    pub async fn of(app: &App, lease: &Lease) -> Answer<Self> {
        let claimed = Claimed {
            job: lease.job,
            run: lease.run,
            attempt: lease.attempt,
            number: lease.number,
            claim: lease.claim,
            org: lease.org,
            repo: lease.repo,
            name: String::new(),
            expires: lease.expires,
        };
        let over = || Failure::unauthorized("the job of this token is over");
        let assignment = app.traffic.assignment(claimed).await?.ok_or_else(over)?;
        let expressions = expressions(&assignment.evaluator).map_err(Failure::internal)?;
        Ok(Self { assignment, expressions })
    }

    pub(super) fn run(&self) -> &RunFacts {
        &self.assignment.run
    }

    pub(super) fn github(&self, name: &str) -> Option<&str> {
        self.expressions.github.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    pub fn is_trusted(&self) -> bool {
        self.run().trust == TRUSTED
    }

    pub(super) fn default_branch(&self) -> String {
        format!("refs/heads/{}", self.run().default_branch)
    }

    /// Whose caches it may read: a trusted run those of trusted ones alone.
    pub fn readable_trusts(&self) -> Vec<String> {
        let mut trusts = vec![TRUSTED.to_owned()];
        if !self.is_trusted() {
            trusts.insert(0, self.run().trust.clone());
        }
        trusts
    }

    /// From where it may read caches, the nearest first: its ref, the branch that a pull request goes to, the
    /// default branch.
    pub(super) fn readable_refs(&self) -> Vec<String> {
        let base = self.github("base_ref").map(|base| format!("refs/heads/{base}"));
        let mut refs = vec![self.run().reference.clone()];
        for other in base.into_iter().chain([self.default_branch()]) {
            if !refs.contains(&other) {
                refs.push(other);
            }
        }
        refs
    }

    /// Why it may not write caches for its ref, if so.
    pub(super) fn write_denied(&self) -> Option<String> {
        cache_write_denied(self.run())
    }

    pub(super) fn environment(&self) -> Answer<Option<String>> {
        let Assignment { hood, leg, .. } = &self.assignment;
        leg_environment(&self.expressions, hood, *leg).map_err(Failure::invalid)
    }

    /// The path of the file that the job is written in.
    pub(super) fn file(&self) -> &str {
        let Assignment { hood, leg, plan, .. } = &self.assignment;
        let written = written(hood, &plan.workflows, *leg);
        let path = written.map(|(workflow, ..)| workflow.path.as_str());
        let path = path.unwrap_or(&self.run().workflow_path);
        path.strip_prefix("./").unwrap_or(path)
    }

    /// Whether its steps may look at what a permission is about. They may unless they were given less in words.
    pub fn may_read(&self, permission: Scope) -> bool {
        self.granted().is_none_or(|granted| granted.get(permission) != Access::None)
    }

    /// Whether its steps may change what a permission is about, which code from elsewhere never may.
    pub fn may_write(&self, permission: Scope) -> bool {
        let granted = self.granted().is_some_and(|it| it.get(permission) == Access::Write);
        self.is_trusted() && granted
    }

    fn granted(&self) -> Option<Permissions> {
        let Assignment { hood, leg, plan, .. } = &self.assignment;
        granted(hood, &plan.workflows, *leg)
    }

    /// Whether its workflow, and each that calls it, grants it to say who it is.
    pub(super) fn may_identify(&self) -> bool {
        self.granted().is_some_and(|granted| granted.get(Scope::IdToken) == Access::Write)
    }
}

/// Why a run may not write caches for its ref, if so.
pub(crate) fn cache_write_denied(run: &RunFacts) -> Option<String> {
    let RunFacts { event, reference, .. } = run;
    let is_branch = reference.starts_with("refs/heads/") && !reference.starts_with(QUEUES);
    if !is_branch || WRITERS.contains(&event.as_str()) {
        return None;
    }
    Some(format!(
        "cache write denied: a run of `{event}` may only read the caches of `{reference}`"
    ))
}
