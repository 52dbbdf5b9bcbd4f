//! What an attempt consists of: its scopes, nodes and jobs, and the counters between them.

use std::collections::BTreeSet;

use kiln_core::id::JOBS_PER_RUN;
use kiln_core::plan;
use kiln_core::run::{Ancestry, Conclusion, Step, Tally};

use super::rows::{Attempt, JobRow, NodeRow, Piece, RunRow, ScopeRow, Tasks};
use super::{Report, Rule};

/// The states of attempts, nodes and jobs.
const ATTEMPT: &[&str] = &["created", "gated", "active", "done"];
const NODE: &[&str] = &["pending", "active", "done"];
const JOB: &[&str] = &[
    "held_back",
    "group",
    "backoff",
    "queued",
    "claimed",
    "running",
    "uploading",
    "called",
    "done",
];

impl Piece {
    /// Checks all that was read.
    pub(super) fn check(&self, report: &mut Report) {
        for run in self.runs.values() {
            report.runs += 1;
            report.open_runs += u64::from(run.status != "completed");
            self.run_row(run, report);
        }
        for attempt in self.attempts.values() {
            report.jobs += attempt.jobs.len() as u64;
            let none = Tasks::default();
            let tasks = self.runs.get(&attempt.run).map_or(&none, |run| &run.tasks);
            words(attempt, report);
            self.counters(attempt, report);
            Tree { attempt, tasks }.check(report);
            self.work(attempt, tasks, report);
        }
        self.leases_and_timers(report);
        self.story_of_all(report);
    }

    /// Lists show the current attempt.
    fn run_row(&self, run: &RunRow, report: &mut Report) {
        let subject = format!("run {}", run.id);
        let mut find = |text: String| report.find(Rule::RunRow, subject.clone(), text);
        let attempts: Vec<_> = self
            .attempts
            .range((run.id, i64::MIN)..=(run.id, i64::MAX))
            .map(|(_, it)| it)
            .collect();
        let numbers: Vec<i64> = attempts.iter().map(|attempt| attempt.number).collect();
        if numbers != (1..=run.attempt).collect::<Vec<_>>() {
            find(format!("it shows attempt {}, and has the attempts {numbers:?}", run.attempt));
        }
        for earlier in attempts.iter().filter(|attempt| attempt.number < run.attempt) {
            if !earlier.is_done() {
                find(format!("its earlier attempt {} has not ended", earlier.number));
            }
        }
        let current = attempts.into_iter().find(|attempt| attempt.number == run.attempt);
        let Some(current) = current else { return };
        let status = match (current.state.as_str(), current.started) {
            ("gated", _) => "pending",
            ("active", Some(_)) => "in_progress",
            ("done", _) => "completed",
            _ => "queued",
        };
        if run.status != status {
            find(format!("it shows the status {}, its attempt says {status}", run.status));
        }
        if (&run.conclusion, run.started, run.ended)
            != (&current.conclusion, current.started, current.ended)
        {
            find("its conclusion or its times are not those of its attempt".to_owned());
        }
    }

    fn counters(&self, attempt: &Attempt, report: &mut Report) {
        let counters = &attempt.counters;
        let mut within = |what: &str, number: Option<&i64>, counter: i64| {
            if number.is_some_and(|number| *number >= counter) {
                let text = format!("it counts {counter} {what}, and has more");
                report.find(Rule::Counters, attempt.name(), text);
            }
        };
        within("scopes", attempt.scopes.keys().next_back(), counters.scopes);
        within("nodes", attempt.nodes.keys().next_back(), counters.nodes);
        within("legs", attempt.jobs.keys().next_back(), counters.legs);
        let ids: BTreeSet<i64> = attempt.jobs.values().map(|job| job.id).collect();
        let first = attempt.run.saturating_mul(JOBS_PER_RUN);
        let own = first..first.saturating_add(counters.jobs_made);
        let earlier = self.attempts.get(&(attempt.run, attempt.number - 1));
        let made_before = earlier.map_or(0, |earlier| earlier.counters.jobs_made);
        let known = |id: &i64| own.contains(id) && *id >= first.saturating_add(made_before);
        if ids.len() < attempt.jobs.len() {
            report.find(Rule::Counters, attempt.name(), "two of its jobs have the same id");
        }
        if let Some(id) = ids.iter().find(|id| !known(id)) {
            let text = format!("the id {id} of a job is not one that this attempt made");
            report.find(Rule::Counters, attempt.name(), text);
        }
    }
}

fn words(attempt: &Attempt, report: &mut Report) {
    let mut check =
        |subject: &dyn Fn() -> String, states: &[&str], state: &str, end: Option<&str>| {
            let known = end.is_none_or(|end| Conclusion::of_github(end).is_some());
            if !states.contains(&state) || !known || (state == "done") != end.is_some() {
                let text =
                    format!("the state `{state}` with the conclusion {end:?} makes no sense");
                report.find(Rule::Words, subject(), text);
            }
        };
    check(&|| attempt.name(), ATTEMPT, &attempt.state, attempt.conclusion.as_deref());
    for (number, node) in &attempt.nodes {
        let subject = || format!("{}, node {number}", attempt.name());
        check(&subject, NODE, &node.state, node.conclusion.as_deref());
    }
    for (number, job) in &attempt.jobs {
        let subject = || attempt.job_name(*number);
        check(&subject, JOB, &job.state, job.conclusion.as_deref());
    }
}

/// An attempt, and what of it is still to be done.
struct Tree<'t> {
    attempt: &'t Attempt,
    tasks: &'t Tasks,
}

impl Tree<'_> {
    fn check(&self, report: &mut Report) {
        for (number, scope) in &self.attempt.scopes {
            self.scope(*number, scope, report);
        }
        for (number, node) in &self.attempt.nodes {
            self.legs(*number, node, report);
            if !self.attempt.scopes.contains_key(&node.scope) {
                report.find(Rule::Orphan, self.node_name(*number), "its scope does not exist");
            }
        }
        for (number, job) in &self.attempt.jobs {
            let subject = || self.attempt.job_name(*number);
            if !self.attempt.nodes.contains_key(&job.node) {
                report.find(Rule::Orphan, subject(), "its node does not exist");
            }
            let called = job.scope.map(|scope| self.attempt.scopes.get(&scope));
            if called.is_some_and(|scope| scope.is_none_or(|scope| scope.caller != Some(*number))) {
                report.find(Rule::Scope, subject(), "the scope it calls does not know it");
            }
        }
        self.state(report);
    }

    fn node_name(&self, number: i64) -> String {
        format!("{}, node {number}", self.attempt.name())
    }

    fn puts_off(&self, step: impl FnOnce(u32) -> Step, number: i64) -> bool {
        let number = u32::try_from(number).ok();
        number.is_some_and(|number| self.tasks.has(self.attempt, step(number)))
    }

    /// Whether a node is done and those around it have heard of it.
    fn told(&self, number: i64) -> Option<(Conclusion, &NodeRow)> {
        let node = self.attempt.nodes.get(&number)?;
        let end = node.end()?;
        (!self.puts_off(Step::Told, number)).then_some((end, node))
    }

    fn scope(&self, number: i64, scope: &ScopeRow, report: &mut Report) {
        let subject = format!("{}, scope {number}", self.attempt.name());
        let (mut open, mut tally, mut count) = (0, Tally::default(), 0);
        for node in self.attempt.nodes.iter().filter(|(_, node)| node.scope == number) {
            count += 1;
            match self.told(*node.0) {
                Some((end, _)) => tally.add(end),
                None => open += 1,
            }
        }
        if scope.open != open || scope.tally != tally {
            let text = format!(
                "it counts {} open nodes and the ends {:?}, its nodes say {open} and {tally:?}",
                scope.open, scope.tally
            );
            report.find(Rule::Scope, subject.clone(), text);
        }
        let caller = scope.caller.map(|caller| self.attempt.jobs.get(&caller));
        if caller.is_some_and(|caller| caller.is_none_or(|job| job.scope != Some(number))) {
            report.find(Rule::Scope, subject.clone(), "the job that calls it does not know it");
        }
        let called = caller.flatten().is_some_and(|job| job.state == "called");
        if called && open == 0 && !self.puts_off(Step::Closed, number) {
            report.find(
                Rule::Stuck,
                subject.clone(),
                "it is done, and its caller does not hear it",
            );
        }
        let Some(plan) = &self.attempt.plan else { return };
        let workflow = usize::try_from(scope.workflow).ok().and_then(|at| plan.workflows.get(at));
        match workflow {
            None => report.find(Rule::Scope, subject, "its plan has no such workflow"),
            Some(workflow) if workflow.jobs.len() != count => {
                let text = format!("its plan has {} jobs, it has {count}", workflow.jobs.len());
                report.find(Rule::Scope, subject, text);
            }
            Some(workflow) => self.nodes(number, scope, workflow, report),
        }
    }

    fn nodes(&self, number: i64, scope: &ScopeRow, workflow: &plan::Workflow, report: &mut Report) {
        for (at, job) in (0..).zip(&workflow.jobs) {
            let node = scope.first_node + at;
            match self.attempt.nodes.get(&node) {
                Some(row) if row.scope == number && row.job == at => {
                    self.needs(node, row, scope, job, report);
                }
                _ => {
                    let text = format!("it does not stand for the job `{}`", job.id);
                    report.find(Rule::Scope, self.node_name(node), text);
                }
            }
        }
    }

    fn needs(
        &self,
        number: i64,
        node: &NodeRow,
        scope: &ScopeRow,
        job: &plan::Job,
        report: &mut Report,
    ) {
        let mut left = 0;
        let mut above = Ancestry::default();
        for need in &job.needs {
            let need = i64::try_from(*need).unwrap_or(i64::MAX);
            match self.told(scope.first_node.saturating_add(need)) {
                None => left += 1,
                Some((end, need)) => {
                    let (failed, cancelled, skipped) = need.above;
                    above.add(end, Ancestry { failed, cancelled, skipped });
                }
            }
        }
        let pending = node.state == "pending";
        let expected = if pending { left } else { 0 };
        if node.needs_remaining != expected || (!pending && left > 0 && !self.attempt.is_done()) {
            let counted = node.needs_remaining;
            let text =
                format!("it is {} and waits for {counted} needs, {left} are open", node.state);
            report.find(Rule::Needs, self.node_name(number), text);
        }
        // A run that never opened ends its jobs in any order.
        if !self.attempt.is_done() && node.above != (above.failed, above.cancelled, above.skipped) {
            let text = format!("it says {:?} of those above it, they say {above:?}", node.above);
            report.find(Rule::Needs, self.node_name(number), text);
        }
        if pending && left == 0 && self.is_open(scope) && !self.puts_off(Step::Ready, number) {
            report.find(
                Rule::Stuck,
                self.node_name(number),
                "it could start, and nothing starts it",
            );
        }
    }

    /// Whether the run and the call around a scope have started.
    fn is_open(&self, scope: &ScopeRow) -> bool {
        let caller = scope.caller.map(|caller| self.attempt.jobs.get(&caller));
        let called = |job: Option<&JobRow>| job.is_some_and(|job| job.state == "called");
        self.attempt.state == "active" && caller.is_none_or(called)
    }

    fn legs(&self, number: i64, node: &NodeRow, report: &mut Report) {
        let legs: Vec<_> = self.attempt.jobs.iter().filter(|(_, job)| job.node == number).collect();
        let mut find = |rule, text: String| report.find(rule, self.node_name(number), text);
        let first = legs.first().map(|(leg, _)| **leg);
        let in_order = (0..).zip(&legs).all(|(at, (leg, job))| {
            job.leg_index == at && Some(**leg) == first.map(|first| first + at)
        });
        if node.first_leg != first || usize::try_from(node.leg_count) != Ok(legs.len()) || !in_order
        {
            let text = format!(
                "it has {} legs from {:?} on, its jobs are {:?}",
                node.leg_count,
                node.first_leg,
                legs.iter().map(|(leg, _)| **leg).collect::<Vec<_>>()
            );
            find(Rule::Legs, text);
        }
        let mut tally = Tally::default();
        legs.iter().filter_map(|(_, job)| job.counted()).for_each(|end| tally.add(end));
        let open = legs.iter().filter(|(_, job)| !job.is_done()).count();
        let active = node.state == "active";
        let expected = if active { (open, tally) } else { (0, Tally::default()) };
        if (usize::try_from(node.open_legs), node.tally) != (Ok(expected.0), expected.1) {
            let text = format!(
                "it counts {} open legs and the ends {:?}, its jobs say {open} and {tally:?}",
                node.open_legs, node.tally
            );
            find(Rule::Legs, text);
        }
        if active != (open > 0) || (node.state == "pending" && !legs.is_empty()) {
            find(Rule::Legs, format!("it is {}, and {open} of its legs are open", node.state));
        }
        if node.state == "done" && !legs.is_empty() && node.end() != Some(tally.conclude()) {
            let (end, legs) = (&node.conclusion, tally.conclude().github());
            find(Rule::Legs, format!("it ended as {end:?}, its legs say {legs}"));
        }
        self.held_back(number, node, &legs, report);
    }

    /// A leg that `max-parallel` holds back waits for another one of its node.
    fn held_back(
        &self,
        number: i64,
        node: &NodeRow,
        legs: &[(&i64, &JobRow)],
        report: &mut Report,
    ) {
        let Some(scope) = self.attempt.scopes.get(&node.scope) else { return };
        let waits = |job: &JobRow| job.state == "held_back";
        let under_way = legs.iter().filter(|(_, job)| !job.is_done() && !waits(job)).count();
        let room = node
            .max_parallel
            .is_none_or(|most| usize::try_from(most).is_ok_and(|most| under_way < most));
        let stopped = node.tripped || scope.stopped || self.attempt.cancelled;
        if room
            && !stopped
            && legs.iter().any(|(_, job)| waits(job))
            && self.is_open(scope)
            && !self.tasks.any
        {
            let text = "a leg of it is held back, though there is room";
            report.find(Rule::Stuck, self.node_name(number), text);
        }
    }

    /// The state of the attempt as a whole.
    fn state(&self, report: &mut Report) {
        let attempt = self.attempt;
        let mut find = |text: &str| report.find(Rule::RunState, attempt.name(), text);
        let mut roots = attempt.scopes.iter().filter(|(_, scope)| scope.caller.is_none());
        let root = roots.next();
        if roots.next().is_some() {
            find("it has more than one outermost scope");
        }
        match (attempt.state.as_str(), root) {
            ("created", _) => find("it was never started"),
            ("active", None) => find("it is active without a scope"),
            ("active", Some((number, scope)))
                if scope.open == 0 && !self.puts_off(Step::Closed, *number) =>
            {
                find("all its jobs are done, and it is not");
            }
            ("done", root) => {
                let nodes = attempt.nodes.iter().filter(|(_, node)| node.state != "done");
                let jobs = attempt.jobs.iter().filter(|(_, job)| !job.is_done());
                let nodes: Vec<i64> = nodes.map(|(number, _)| *number).collect();
                let jobs: Vec<i64> = jobs.map(|(number, _)| *number).collect();
                if !(nodes.is_empty() && jobs.is_empty()) {
                    find(&format!("it is done, and its nodes {nodes:?} and jobs {jobs:?} are not"));
                }
                if attempt.ended.is_none() || attempt.group.is_some() {
                    find("it is done without a time, or still in its concurrency group");
                }
                if !root.is_none_or(|(_, scope)| self.ended_rightly(scope)) {
                    find("it did not end as its jobs did");
                }
            }
            _ => {}
        }
    }

    /// An attempt that was cancelled or could not start before it opened ends as that.
    fn ended_rightly(&self, root: &ScopeRow) -> bool {
        let Some(end) = self.attempt.conclusion.as_deref().and_then(Conclusion::of_github) else {
            return true;
        };
        let unopened = end == Conclusion::StartupFailure
            || (end == Conclusion::Cancelled && self.attempt.cancelled);
        let empty = self.attempt.nodes.is_empty() && end == Conclusion::Success;
        end == root.tally.conclude() || unopened || empty
    }
}
