//! The jobs of a run as people know them: one for each leg, and those that are not there yet.

use std::collections::HashMap;
use std::ops::Range;

use kiln_core::id::{JobId, RunId, RunnerId};
use kiln_core::run::{
    self, Conclusion, Leg, LegNo, LegState, Neighbourhood, Node, NodeState, RunState, Timings,
};
use kiln_proto::report::Allowed;
use kiln_store::runs::{
    self, Deployed, EndNotes, JobUse, JobView, PastClaim, Picture, Reused, RunStatus, StepView,
};
use kiln_store::{Scope, StoreError, Tx};

use super::late;
use super::names::Names;
use crate::logs::LogId;

/// A job as it is shown.
#[derive(Debug, Clone)]
pub struct Seen {
    /// None for a job that is no leg yet, or never became one.
    pub id: Option<JobId>,
    /// The job that ran, for one that was taken over from an earlier attempt: its logs lie there.
    pub logged_as: Option<JobId>,
    pub run: RunId,
    /// Its number among the jobs of the plan.
    pub node: u32,
    /// The jobs of the plan that it waits for; where a workflow is called, those inside of it.
    pub needs: Vec<u32>,
    /// Its failure does not count (`continue-on-error`).
    pub tolerated: bool,
    /// The attempt of the run that it ran in.
    pub run_attempt: u32,
    pub name: String,
    pub labels: Vec<String>,
    pub status: &'static str,
    pub conclusion: Option<Conclusion>,
    /// Why it waits, or why it ended so.
    pub reason: String,
    /// How often it was claimed.
    pub claim: u32,
    pub runner: Option<RunnerId>,
    pub runner_name: Option<String>,
    pub timings: Timings,
    pub outputs: Vec<(String, String)>,
    pub steps: Vec<StepView>,
    /// Those of them that the workflow has, by number: the job can run again from there.
    pub own_steps: Range<u32>,
    /// Whose result stands for it.
    pub reused: Option<Reused>,
    /// As its runner measured it.
    pub used: Option<JobUse>,
    pub allowed: Option<Allowed>,
    pub deployed: Option<Deployed>,
    /// The claims before the last.
    pub claims: Vec<Tried>,
}

impl Seen {
    /// The job whose logs are its own.
    pub fn logged(&self) -> Option<JobId> {
        self.logged_as.or(self.id)
    }

    /// The log of one of its claims, which are counted from 1.
    pub fn log(&self, claim: u32) -> Option<LogId> {
        self.logged().filter(|_| claim > 0).map(|job| LogId { job, claim })
    }
}

/// A claim that did not end its job.
#[derive(Debug, Clone)]
pub struct Tried {
    pub past: PastClaim,
    /// None when the runner is gone for good.
    pub runner_name: Option<String>,
}

/// Adds what runners said at the end of their jobs, what became of earlier claims, and where logs are.
pub async fn add_ends(
    tx: &mut Tx<'_>,
    scope: Scope,
    picture: &Picture,
    jobs: &mut [Seen],
) -> Result<(), StoreError> {
    let (run, attempt) = (picture.view.id, picture.view.attempt);
    let mut notes: HashMap<JobId, EndNotes> =
        runs::end_notes(tx, scope, run, attempt).await?.into_iter().collect();
    for job in jobs.iter_mut() {
        let Some(notes) = job.id.and_then(|id| notes.remove(&id)) else { continue };
        job.used = notes.used;
        // A later Kiln may have written what this one does not know; then it is not shown.
        job.allowed = notes.limits.and_then(|text| serde_json::from_str(&text).ok());
        job.deployed = notes.deployed;
    }
    let mut names = Names::default();
    for (id, ran, runner) in runs::taken_over(tx, scope, run, attempt).await? {
        let Some(job) = jobs.iter_mut().find(|job| job.id == Some(id)) else { continue };
        job.logged_as = Some(ran);
        job.runner = job.runner.or(runner);
        if let Some(runner) = job.runner {
            job.runner_name = names.runner(tx, runner).await?;
        }
    }
    for past in runs::past_claims(tx, scope, run, attempt).await? {
        let runner_name = names.runner(tx, past.runner).await?;
        if let Some(job) = jobs.iter_mut().find(|job| job.id == Some(past.job)) {
            job.claims.push(Tried { past, runner_name });
        }
    }
    Ok(())
}

/// All jobs of an attempt, in the order of the workflow.
pub async fn seen(
    tx: &mut Tx<'_>,
    picture: &Picture,
    steps: Vec<StepView>,
) -> Result<Vec<Seen>, StoreError> {
    let mut by_job: HashMap<JobId, Vec<StepView>> = HashMap::new();
    for step in steps {
        by_job.entry(step.job).or_default().push(step);
    }
    let rows: HashMap<LegNo, &JobView> =
        picture.view.jobs.iter().map(|job| (job.number, job)).collect();
    let look = Look { picture, rows: &rows };
    let mut names = Names::default();
    let mut jobs = Vec::new();
    for node in picture.hood.nodes.values() {
        for mut job in look.jobs_of(node) {
            job.steps = job.id.and_then(|id| by_job.remove(&id)).unwrap_or_default();
            job.own_steps = late::own_steps(&picture.hood, job.node, &job.steps);
            if let Some(runner) = job.runner {
                job.runner_name = names.runner(tx, runner).await?;
            }
            jobs.push(job);
        }
    }
    Ok(jobs)
}

struct Look<'p> {
    picture: &'p Picture,
    rows: &'p HashMap<LegNo, &'p JobView>,
}

impl Look<'_> {
    fn hood(&self) -> &Neighbourhood {
        &self.picture.hood
    }

    /// A job that calls a workflow is shown by the jobs of that, once there are any.
    fn jobs_of(&self, node: &Node) -> Vec<Seen> {
        if node.legs.is_empty() {
            return vec![self.not_there(node)];
        }
        let legs = node.legs.iter().filter_map(|leg| self.hood().legs.get(leg));
        legs.filter(|leg| leg.scope.is_none()).map(|leg| self.leg(leg)).collect()
    }

    fn not_there(&self, node: &Node) -> Seen {
        let conclusion = match node.state {
            NodeState::Done(conclusion) => Some(conclusion),
            _ => None,
        };
        let placement = self.picture.evaluator.placement(&self.hood().context(node.number, None));
        let name = match placement {
            Ok(placement) => placement.name,
            Err(_) => self.hood().job_of(node.number).id.clone(),
        };
        Seen {
            id: None,
            logged_as: None,
            run: self.picture.view.id,
            node: node.number,
            needs: self.needs_of(node),
            tolerated: false,
            run_attempt: node.run_attempt,
            name: format!("{}{name}", self.callers_of(node)),
            labels: Vec::new(),
            status: if conclusion.is_some() { "completed" } else { "pending" },
            conclusion,
            reason: run::explain(self.hood(), node.number),
            claim: 0,
            runner: None,
            runner_name: None,
            timings: Timings::default(),
            outputs: node.outputs.clone(),
            steps: Vec::new(),
            own_steps: 0..0,
            reused: None,
            used: None,
            allowed: None,
            deployed: None,
            claims: Vec::new(),
        }
    }

    fn leg(&self, leg: &Leg) -> Seen {
        let row = self.rows.get(&leg.number);
        let node = &self.hood().nodes[&leg.node];
        let conclusion = match leg.state {
            LegState::Done(conclusion) => Some(conclusion),
            _ => None,
        };
        let context = self.hood().context(leg.node, Some(leg.number));
        let labels = self.picture.evaluator.placement(&context).map(|placement| placement.labels);
        Seen {
            id: row.map(|row| row.id),
            logged_as: None,
            run: self.picture.view.id,
            node: leg.node,
            needs: self.needs_of(node),
            tolerated: leg.tolerated,
            run_attempt: leg.run_attempt,
            name: format!("{}{}", self.callers_of(node), self.name_of(leg)),
            labels: labels.unwrap_or_default(),
            status: status(&leg.state),
            conclusion,
            reason: run::explain_one(self.hood(), leg.number),
            claim: leg.attempt,
            runner: row.and_then(|row| row.runner).map(RunnerId),
            runner_name: None,
            timings: leg.timings,
            outputs: leg.outputs.clone(),
            steps: Vec::new(),
            own_steps: 0..0,
            reused: None,
            used: None,
            allowed: None,
            deployed: None,
            claims: Vec::new(),
        }
    }

    fn name_of(&self, leg: &Leg) -> String {
        let name = self.rows.get(&leg.number).map(|row| row.name.clone());
        name.unwrap_or_else(|| self.hood().job_of(leg.node).id.clone())
    }

    /// What a job waits for, among the jobs that are shown.
    fn needs_of(&self, node: &Node) -> Vec<u32> {
        let mut needs: Vec<u32> = node.needs.iter().flat_map(|need| self.inside(*need)).collect();
        if needs.is_empty()
            && let Some(leg) = self.hood().scopes.get(&node.scope).and_then(|scope| scope.caller)
            && let Some(caller) =
                self.hood().legs.get(&leg).map(|leg| &self.hood().nodes[&leg.node])
        {
            needs = self.needs_of(caller);
        }
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    /// The job itself, or the last jobs of the workflows that it calls.
    fn inside(&self, node: u32) -> Vec<u32> {
        let Some(row) = self.hood().nodes.get(&node) else { return Vec::new() };
        let legs = row.legs.iter().filter_map(|leg| self.hood().legs.get(leg));
        let scopes: Vec<u32> = legs.filter_map(|leg| leg.scope).collect();
        if scopes.is_empty() {
            return vec![node];
        }
        let nodes = self.hood().nodes.values();
        let last = nodes.filter(|one| scopes.contains(&one.scope) && one.dependents.is_empty());
        last.flat_map(|one| self.inside(one.number)).collect()
    }

    /// The names of the jobs that call the workflow of this one, the outermost first.
    fn callers_of(&self, node: &Node) -> String {
        let scope = self.hood().scopes.get(&node.scope);
        let caller = scope.and_then(|scope| scope.caller);
        let Some(leg) = caller.and_then(|leg| self.hood().legs.get(&leg)) else {
            return String::new();
        };
        let above = self.hood().nodes.get(&leg.node).map(|node| self.callers_of(node));
        format!("{}{} / ", above.unwrap_or_default(), self.name_of(leg))
    }
}

/// How far a leg has come, as GitHub calls it.
fn status(state: &LegState) -> &'static str {
    match state {
        LegState::Waiting(_) => "waiting",
        LegState::Queued => "queued",
        LegState::Claimed { .. }
        | LegState::Running { .. }
        | LegState::Uploading { .. }
        | LegState::Called(_) => "in_progress",
        LegState::Done(_) => "completed",
    }
}

/// The same of a run.
pub fn run_status(state: &RunState) -> (&'static str, Option<Conclusion>) {
    match state {
        RunState::Created => (RunStatus::Queued.word(), None),
        RunState::Gated(_) => (RunStatus::Pending.word(), None),
        RunState::Active => (RunStatus::InProgress.word(), None),
        RunState::Done(conclusion) => (RunStatus::Completed.word(), Some(*conclusion)),
    }
}
