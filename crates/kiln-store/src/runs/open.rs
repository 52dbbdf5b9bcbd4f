//! A run under change: the rows at hand, and what they were when they came.

use std::collections::BTreeMap;
use std::sync::Arc;

use kiln_core::id::{JobId, RepoId, RunId};
use kiln_core::run::{
    AtHand, Cancel, Effect, Group, Leg, LegNo, LegState, Neighbourhood, Node, Placement, Run,
    RunState, Scope,
};
use kiln_core::time::Timestamp;
use kiln_core::value::Object;

use super::assignments::RunFacts;
use super::facts::Facts;
use super::rows::{self, Attempt, Job};
use crate::sql::Value;

/// Runs under change in one transaction, and the concurrency groups that they share.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) runs: BTreeMap<RunId, Box<Open>>,
    /// By repository and name.
    pub(super) groups: BTreeMap<(RepoId, String), SharedGroup>,
}

#[derive(Debug)]
pub(super) struct SharedGroup {
    pub(super) before: Group,
    pub(super) now: Group,
}

impl Batch {
    pub(super) fn run(&mut self, run: RunId) -> &mut Open {
        self.runs.get_mut(&run).expect("only runs of the batch want something")
    }

    /// Lets a run go on with the groups as the others have left them.
    pub(super) fn with_groups<T>(&mut self, run: RunId, work: impl FnOnce(&mut Open) -> T) -> T {
        let Self { runs, groups } = self;
        let open = runs.get_mut(&run).expect("only runs of the batch go on");
        let repo = open.attempt.repo;
        for name in &open.at_hand.groups {
            if let Some(group) = groups.get(&(repo, name.clone()))
                && !group.now.is_empty()
            {
                open.hood.groups.insert(name.clone(), group.now.clone());
            }
        }
        let result = work(open);
        let mut left = std::mem::take(&mut open.hood.groups);
        for name in &open.at_hand.groups {
            if let Some(group) = groups.get_mut(&(repo, name.clone())) {
                group.now = left.remove(name).unwrap_or_default();
            }
        }
        result
    }
}

/// The rows of one run in one transaction.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) hood: Neighbourhood,
    pub(super) at_hand: AtHand,
    pub(super) attempt: Attempt,
    pub(super) jobs: BTreeMap<LegNo, Job>,
    pub(super) facts: Facts,
    /// What else was read about the run.
    pub(super) about: Option<Arc<RunFacts>>,
    pub(super) effects: Vec<Effect>,
    /// What was found out about legs that are new, or that wait from now on.
    pub(super) placements: BTreeMap<LegNo, Placement>,
    /// Why legs were lost.
    pub(super) reasons: BTreeMap<LegNo, String>,
    /// Its priority is another one: what waits is placed anew.
    pub(super) is_moved: bool,
    pub(super) before: Before,
    /// Legs that are new or not as they were: see [`Self::find_changed`].
    changed: Vec<LegNo>,
    pub(super) written: Written,
}

/// Which rows differ from those before, and were written.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) attempt: bool,
    pub(super) scopes: Vec<u32>,
    pub(super) nodes: Vec<u32>,
    pub(super) legs: Vec<LegNo>,
}

impl Written {
    pub(super) fn any(&self) -> bool {
        let parts = [&self.scopes, &self.nodes, &self.legs];
        self.attempt || parts.iter().any(|part| !part.is_empty())
    }
}

/// Rows as they were loaded, to find those that changed. What is not here is new.
#[derive(Debug, Default)]
pub(super) struct Before {
    pub(super) attempt: Option<PastAttempt>,
    pub(super) scopes: BTreeMap<u32, Scope>,
    pub(super) nodes: BTreeMap<u32, Node>,
    pub(super) jobs: BTreeMap<LegNo, PastJob>,
}

/// What can change of an attempt.
#[derive(Debug, PartialEq)]
pub(super) struct PastAttempt {
    pub(super) state: RunState,
    pub(super) cancel: Option<Cancel>,
    pub(super) started: Option<Timestamp>,
    ended: Option<Timestamp>,
    group: Option<String>,
    priority: i64,
    jobs_made: i64,
    /// How many scopes, nodes and legs it has.
    parts: [u32; 3],
}

impl PastAttempt {
    pub(super) fn of(run: &Run, attempt: &Attempt) -> Self {
        Self {
            state: run.state.clone(),
            cancel: run.cancel.clone(),
            started: attempt.started,
            ended: attempt.ended,
            group: run.group.clone(),
            priority: attempt.priority,
            jobs_made: attempt.jobs_made,
            parts: [run.scopes, run.nodes, run.legs],
        }
    }

    /// Whether lists of runs show something else by now: state, begin or end.
    pub(super) fn shows_anew(&self, now: &Self) -> bool {
        let shown = |attempt: &Self| (attempt.started, attempt.ended);
        self.state != now.state || shown(self) != shown(now)
    }
}

#[derive(Debug)]
pub(super) struct PastJob {
    pub(super) leg: Leg,
    pub(super) lane: Option<i64>,
    pub(super) key: Option<i64>,
    pub(super) runner: Option<i64>,
}

impl PastJob {
    pub(super) fn of(leg: &Leg, job: &Job) -> Self {
        // What never changes is not looked at again, and a matrix can be large.
        let leg = Leg {
            matrix: Object::default(),
            state: leg.state.clone(),
            group: leg.group.clone(),
            outputs: leg.outputs.clone(),
            note: leg.note.clone(),
            ..*leg
        };
        Self { leg, lane: job.lane, key: job.key, runner: job.runner }
    }

    pub(super) fn is_queued(&self) -> bool {
        self.leg.state == LegState::Queued
    }
}

impl Open {
    /// A run without any of its rows yet.
    pub(super) fn new(run: Run, attempt: Attempt, facts: Facts) -> Self {
        Self {
            hood: Neighbourhood::new(run),
            at_hand: AtHand::default(),
            attempt,
            jobs: BTreeMap::new(),
            facts,
            about: None,
            effects: Vec::new(),
            placements: BTreeMap::new(),
            reasons: BTreeMap::new(),
            is_moved: false,
            before: Before::default(),
            changed: Vec::new(),
            written: Written::default(),
        }
    }

    pub(super) fn id(&self) -> RunId {
        RunId(i64::try_from(self.hood.run.id).unwrap_or(i64::MAX))
    }

    /// A leg that is at hand, by the id of its job, and the attempt.
    pub(super) fn find(&self, job: JobId) -> Option<(u32, &Leg)> {
        let (number, _) = self.jobs.iter().find(|(_, known)| known.id == job)?;
        self.at_hand.legs.get(number)?;
        self.hood.legs.get(number).map(|leg| (self.hood.run.attempt, leg))
    }

    pub(super) fn attempt_now(&self) -> PastAttempt {
        PastAttempt::of(&self.hood.run, &self.attempt)
    }

    pub(super) fn attempt_row(&self) -> Vec<Value> {
        rows::attempt_row(&self.hood.run, &self.attempt)
    }

    /// Looks once which legs are to be written: a run has many, and of most of them nothing is to be said.
    pub(super) fn find_changed(&mut self) {
        let is_changed = |leg: &&Leg| {
            let Some(before) = self.before.jobs.get(&leg.number) else { return true };
            let is_moved = self.is_moved && leg.state == LegState::Queued;
            is_moved || !rows::is_same_job(before, leg, &self.jobs[&leg.number])
        };
        let changed = self.hood.legs.values().filter(is_changed).map(|leg| leg.number);
        self.changed = changed.collect();
    }

    /// The legs that [`Self::find_changed`] has found.
    pub(super) fn changed_legs(&self) -> impl Iterator<Item = &Leg> {
        self.changed.iter().map(|number| &self.hood.legs[number])
    }

    // Rows that were brought before may have changed since: they stay as they are.

    pub(super) fn add_scope(&mut self, scope: Scope) {
        if !self.hood.scopes.contains_key(&scope.number) {
            self.before.scopes.insert(scope.number, scope.clone());
            self.hood.scopes.insert(scope.number, scope);
        }
    }

    pub(super) fn add_node(&mut self, node: Node) {
        if !self.hood.nodes.contains_key(&node.number) {
            self.before.nodes.insert(node.number, node.clone());
            self.hood.nodes.insert(node.number, node);
        }
    }

    /// A leg that nobody else can change from now on. One that was only looked at before is forgotten.
    pub(super) fn hold(&mut self, leg: Leg, job: Job) {
        if self.at_hand.legs.insert(leg.number) {
            self.put(leg, job);
        }
    }

    /// A leg that a runner may claim at any time.
    pub(super) fn glance_at(&mut self, leg: Leg, job: Job) {
        if !self.hood.legs.contains_key(&leg.number) {
            self.put(leg, job);
        }
    }

    fn put(&mut self, leg: Leg, job: Job) {
        self.before.jobs.insert(leg.number, PastJob::of(&leg, &job));
        self.jobs.insert(leg.number, job);
        self.hood.legs.insert(leg.number, leg);
    }

    /// Takes up what must be done, and what was found out on the way to it.
    pub(super) fn take_up(&mut self, mut effects: Vec<Effect>) {
        for effect in &mut effects {
            if let Effect::Enqueue { leg, placement } = effect {
                self.placements.extend(placement.take().map(|it| (*leg, *it)));
            }
        }
        self.effects.append(&mut effects);
    }

    /// All changes were written: from now on they are what was before, and nobody else has touched the
    /// legs. Groups are not the run's alone.
    pub(super) fn settle(&mut self) {
        self.effects.clear();
        self.placements.clear();
        self.reasons.clear();
        self.is_moved = false;
        self.at_hand.groups.clear();
        self.at_hand.glances.clear();
        if !self.at_hand.legs.iter().eq(self.hood.legs.keys()) {
            self.at_hand.legs = self.hood.legs.keys().copied().collect();
        }
        let Written { attempt, scopes, nodes, legs } = std::mem::take(&mut self.written);
        if attempt {
            self.before.attempt = Some(self.attempt_now());
        }
        for number in scopes {
            self.before.scopes.insert(number, self.hood.scopes[&number].clone());
        }
        for number in nodes {
            self.before.nodes.insert(number, self.hood.nodes[&number].clone());
        }
        for number in legs {
            let (leg, job) = (&self.hood.legs[&number], self.jobs.get_mut(&number));
            let job = job.expect("each leg that was written has an id");
            job.runner = rows::last_runner(leg, job);
            self.before.jobs.insert(number, PastJob::of(leg, job));
        }
    }

    /// A leg that is at hand was claimed and written.
    pub(super) fn was_claimed(&mut self, leg: Leg) {
        let Some(job) = self.jobs.get_mut(&leg.number) else { return };
        job.runner = rows::last_runner(&leg, job);
        self.before.jobs.insert(leg.number, PastJob::of(&leg, job));
        self.hood.legs.insert(leg.number, leg);
    }

    /// A leg that waits may have been claimed since: it will do to be looked at, and for nothing else.
    pub(super) fn let_go(&mut self, number: LegNo) {
        self.at_hand.legs.remove(&number);
        self.at_hand.glances.insert(number);
        (self.at_hand.whole, self.at_hand.open_legs) = (false, false);
    }

    /// Whether a leg was made in this transaction.
    pub(super) fn is_new(&self, leg: LegNo) -> bool {
        self.hood.legs.contains_key(&leg) && !self.before.jobs.contains_key(&leg)
    }
}
