//! A transition that asks for the rows it needs comes to the same as one that has them all.
//!
//! There is no database here: a partial neighbourhood is served from the full one as a store would.

use std::collections::BTreeSet;
use std::sync::Arc;

use kiln_core::plan::{Job, Plan};
use kiln_core::run::{
    AtHand, Conclusion, Effect, Event, LegState, Neighbourhood, NodeState, Rejected, RunState,
    Transition, Wanted,
};
use kiln_core::time::Timestamp;
use kiln_testkit::fleet::{Deed, Fleet, Moment};
use kiln_testkit::runs::{expressions, plan};
use kiln_testkit::shapes::{Action, RunShape, actions, runs};
use proptest::prelude::*;

/// Rows of a run under change, brought from all that there are.
struct Partial<'f> {
    full: &'f Neighbourhood,
    hood: Neighbourhood,
    at_hand: AtHand,
    rows: usize,
}

impl<'f> Partial<'f> {
    fn new(full: &'f Neighbourhood) -> Self {
        let hood = Neighbourhood::new(full.run.clone());
        Self { full, hood, at_hand: AtHand::default(), rows: 0 }
    }

    fn apply(&mut self, event: Event, now: Timestamp) -> Result<Vec<Effect>, Rejected> {
        let evaluator = expressions().at_attempt(self.full.run.attempt);
        let mut transition = Transition::new(event);
        for _ in 0..10_000 {
            let wanted = transition.advance(&mut self.hood, &self.at_hand, now, &evaluator)?;
            if transition.is_done() {
                return Ok(transition.into_effects());
            }
            assert!(!wanted.is_empty(), "it stops, but wants nothing");
            self.bring(&wanted);
        }
        panic!("it never has enough");
    }

    fn bring(&mut self, wanted: &Wanted) {
        let full = self.full;
        let all = |number: &u32| wanted.whole || wanted.nodes.contains(number);
        for (number, node) in full.nodes.iter().filter(|(number, _)| all(number)) {
            self.rows += usize::from(!self.hood.nodes.contains_key(number));
            self.hood.nodes.entry(*number).or_insert_with(|| node.clone());
        }
        let all = |number: &u32| wanted.whole || wanted.scopes.contains(number);
        for (number, scope) in full.scopes.iter().filter(|(number, _)| all(number)) {
            self.rows += usize::from(!self.hood.scopes.contains_key(number));
            self.hood.scopes.entry(*number).or_insert_with(|| scope.clone());
        }
        for (number, leg) in &full.legs {
            let open = wanted.open_legs && !leg.state.is_done();
            let named = wanted.legs.contains(number) || wanted.glances.contains(number);
            if wanted.whole || open || named {
                self.rows += usize::from(!self.hood.legs.contains_key(number));
                self.hood.legs.entry(*number).or_insert_with(|| leg.clone());
            }
        }
        for name in wanted.groups.difference(&self.at_hand.groups) {
            self.hood
                .groups
                .extend(full.groups.get(name).map(|group| (name.clone(), group.clone())));
        }
        self.at_hand.groups.extend(wanted.groups.iter().cloned());
        self.at_hand.legs.extend(&wanted.legs);
        self.at_hand.glances.extend(&wanted.glances);
        self.at_hand.whole |= wanted.whole;
        self.at_hand.open_legs |= wanted.open_legs;
    }

    /// All rows, with those that were at hand as they are now.
    fn merged(self) -> Neighbourhood {
        let mut merged = self.full.clone();
        let strange: BTreeSet<_> = self.hood.groups.keys().cloned().collect();
        assert!(strange.is_subset(&self.at_hand.groups), "{strange:?} was entered unasked");
        merged.groups.retain(|name, _| !self.at_hand.groups.contains(name));
        merged.groups.extend(self.hood.groups);
        merged.run = self.hood.run;
        merged.scopes.extend(self.hood.scopes);
        merged.nodes.extend(self.hood.nodes);
        merged.legs.extend(self.hood.legs);
        merged
    }
}

fn same_with_less_at_hand(moment: &Moment<'_>) {
    let mut partial = Partial::new(moment.before);
    let answer = partial.apply(moment.event.clone(), moment.now);
    assert_eq!(answer, *moment.answer, "{:?}", moment.event);
    if answer.is_err() {
        return;
    }
    let merged = partial.merged();
    assert_eq!(Fleet::rows(&merged), Fleet::rows(moment.after), "{:?}", moment.event);
    assert_eq!(merged.groups, moment.after.groups, "{:?}", moment.event);
    if matches!(merged.run.state, RunState::Done(_)) {
        nothing_is_open(&merged);
    }
}

fn nothing_is_open(hood: &Neighbourhood) {
    let node = hood.nodes.values().find(|node| !matches!(node.state, NodeState::Done(_)));
    assert!(node.is_none(), "the run is done, but not {node:?}");
    let leg = hood.legs.values().find(|leg| !leg.state.is_done());
    assert!(leg.is_none(), "the run is done, but not {leg:?}");
    assert!(hood.scopes.values().all(|scope| scope.open == 0));
}

fn act(fleet: &mut Fleet, waiting: &mut Vec<RunShape>, action: Action) {
    let queued = |fleet: &Fleet| fleet.legs(|leg| leg.state == LegState::Queued);
    match fleet.choose(action) {
        Some(Deed::Create) => {
            if let Some(shape) = waiting.pop() {
                let id = fleet.runs.len() as u64 + 1;
                fleet.create(id, shape.plan());
            }
        }
        Some(Deed::Deliver) => {
            fleet.deliver();
        }
        Some(Deed::Wake) => fleet.wake(),
        Some(Deed::Claim(at)) => {
            let queued = queued(fleet);
            if let Some((run, leg)) = queued.get(at % queued.len().max(1)).copied() {
                fleet.tell(run, Event::Claimed { leg, runner: 1 }).unwrap();
            }
        }
        Some(Deed::Tell { run, event } | Deed::Repeat { run, event, .. }) => {
            let _ = fleet.tell(run, event);
        }
        Some(Deed::Again { run, what }) => {
            let _ = fleet.again(run, what);
        }
        None => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// S3, S4, S9
    #[test]
    fn less_at_hand_makes_no_difference(shapes in runs(true), actions in actions(80)) {
        let mut fleet = Fleet::new(same_with_less_at_hand);
        let mut waiting = shapes;
        act(&mut fleet, &mut waiting, Action::Create);
        for action in actions {
            act(&mut fleet, &mut waiting, action);
        }
        while !waiting.is_empty() {
            act(&mut fleet, &mut waiting, Action::Create);
        }
        for _ in 0..1_000 {
            let Some(action) = fleet.next() else { break };
            act(&mut fleet, &mut waiting, action);
        }
        fleet.assert_settled();
    }
}

/// How many rows an end of this job wants, in a run where all jobs before it were ended.
fn rows_wanted(plan: Arc<Plan>, ended: usize) -> usize {
    let mut fleet = Fleet::new(|_| {});
    fleet.create(1, plan);
    let finish = |leg| {
        let (attempt, conclusion) = (1, Conclusion::Success);
        Event::Finished { leg, attempt, conclusion, outputs: Vec::new() }
    };
    for _ in 0..ended {
        let (_, leg) = fleet.legs(|leg| leg.state == LegState::Queued)[0];
        fleet.tell(1, Event::Claimed { leg, runner: 1 }).unwrap();
        fleet.tell(1, finish(leg)).unwrap();
    }
    let (_, leg) = fleet.legs(|leg| leg.state == LegState::Queued)[0];
    fleet.tell(1, Event::Claimed { leg, runner: 1 }).unwrap();
    let mut partial = Partial::new(&fleet.runs[&1]);
    partial.apply(finish(leg), fleet.now).unwrap();
    partial.rows
}

/// A workflow of 10,000 jobs; more than a file can hold.
fn many(needs: impl Fn(usize) -> Vec<usize>) -> Arc<Plan> {
    let mut plan = Plan::clone(&plan("on: push\njobs:\n  a: {runs-on: x, steps: [{run: x}]}\n"));
    let job = plan.workflows[0].jobs.remove(0);
    let job = |at: usize| Job { id: format!("j{at}"), needs: needs(at), ..job.clone() };
    plan.workflows[0].jobs = (0..10_000).map(job).collect();
    Arc::new(plan)
}

/// S4: the end of one of 10,000 jobs costs what its surroundings cost.
#[test]
fn the_end_of_one_of_many_jobs_wants_a_handful_of_rows() {
    let chain = many(|at| at.checked_sub(1).into_iter().collect());
    // The job, its leg, its scope and the job behind.
    assert_eq!(rows_wanted(chain, 3), 4);
    let fan = many(|at| if at == 0 { Vec::new() } else { vec![0] });
    assert_eq!(rows_wanted(fan, 1), 3);
}
