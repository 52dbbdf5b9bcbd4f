//! Several runs that share concurrency groups, under random events in random order.
//!
//! Other engines leaked slots, let jobs past their gates, forgot the slots of cancelled siblings and
//! evicted whom they had just admitted. Each of these faults has a test here that would find it.

use std::collections::VecDeque;
use std::fmt::Write as _;

use kiln_core::run::{Again, Group, Leg, Member, Wait, again};

use super::*;

/// How one group is asked for wherever it is: one waits, many wait, or the newest wins.
const GROUPS: [(&str, &str); 3] =
    [("single", ""), ("queue", ", queue: max"), ("latest", ", cancel-in-progress: true")];

#[derive(Debug, Clone)]
struct RunShape {
    group: Option<usize>,
    jobs: Vec<JobShape>,
}

#[derive(Debug, Clone)]
struct JobShape {
    needs_previous: bool,
    group: Option<usize>,
    legs: usize,
    max_parallel: usize,
    fail_fast: bool,
    always: bool,
}

impl RunShape {
    /// Groups of runs and of jobs have different names: a run that holds what another run's job waits
    /// for, and the other way round, would wait for ever, as on GitHub.
    fn text(&self) -> String {
        let group = |level: &str, group: usize| {
            let (name, rest) = GROUPS[group];
            format!("concurrency: {{group: {level}-{name}{rest}}}\n")
        };
        let own = self.group.map(|own| group("run", own)).unwrap_or_default();
        let mut text = format!("on: push\n{own}jobs:\n");
        for (index, shape) in self.jobs.iter().enumerate() {
            let needs = match index {
                0 => String::new(),
                _ if !shape.needs_previous => String::new(),
                _ => format!("j{}", index - 1),
            };
            let mut rest = format!(
                "    strategy:\n      fail-fast: {}\n      max-parallel: {}\n      matrix: {{v: {:?}}}\n",
                shape.fail_fast,
                shape.max_parallel,
                (1..=shape.legs).collect::<Vec<_>>()
            );
            if let Some(own) = shape.group {
                let _ = write!(rest, "    {}", group("job", own));
            }
            if shape.always {
                rest.push_str("    if: always()\n");
            }
            text.push_str(&job(&format!("j{index}"), &format!("[{needs}]"), &rest));
        }
        text
    }
}

/// Something that happens; picks choose among what is possible at that moment.
#[derive(Debug, Clone, Copy)]
enum Action {
    Start,
    Deliver(usize),
    Claim(usize),
    Finish(usize, bool),
    Lose(usize),
    Cancel(usize, bool),
    CancelLeg(usize),
    Again(usize),
}

/// All runs, the groups they share, and what one has to tell another.
struct Fleet {
    expressions: Expressions,
    waiting: VecDeque<(u64, RunShape)>,
    runs: BTreeMap<u64, Neighbourhood>,
    groups: BTreeMap<String, Group>,
    outbox: Vec<(Member, Event)>,
    now: Timestamp,
}

/// The groups and what was on its way just before an event.
struct Before {
    groups: BTreeMap<String, Group>,
    outbox: usize,
    /// The run that heard of the event.
    run: u64,
    /// Whether another run had sent it.
    delivered: bool,
    /// Its legs that a group had already pushed out.
    evicted: Vec<LegNo>,
}

type Check = fn(&Fleet, &Before);

impl Fleet {
    fn new(shapes: &[RunShape]) -> Self {
        Self {
            expressions: Expressions::default(),
            waiting: (1..).zip(shapes.iter().cloned()).collect(),
            runs: BTreeMap::new(),
            groups: BTreeMap::new(),
            outbox: Vec::new(),
            now: Timestamp(1_000),
        }
    }

    /// Applies an event and all that belongs to the same change, then checks.
    fn apply(&mut self, run: u64, event: Event, check: Check) {
        let before = Before {
            groups: self.groups.clone(),
            outbox: self.outbox.len(),
            run,
            delivered: matches!(event, Event::CancelLeg { .. } | Event::Cancel { .. }),
            evicted: self.runs[&run]
                .legs
                .values()
                .filter(|leg| was_evicted(leg))
                .map(|leg| leg.number)
                .collect(),
        };
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let hood = self.runs.get_mut(&run).expect("only runs that exist hear of events");
            hood.groups = std::mem::take(&mut self.groups);
            let effects = apply(hood, event, self.now, &self.expressions).unwrap_or_default();
            self.groups = std::mem::take(&mut hood.groups);
            for effect in effects {
                match effect {
                    Effect::Continue(step) => events.push(Event::Step(step)),
                    Effect::Admit(member) => self.outbox.push((member, Event::Admitted(member))),
                    Effect::CancelMember { member, reason } => {
                        let event = match member.leg {
                            Some(leg) => Event::CancelLeg { leg, reason },
                            None => Event::Cancel { by: "group".into(), reason, forced: false },
                        };
                        self.outbox.push((member, event));
                    }
                    _ => {}
                }
            }
        }
        self.now = self.now + Duration::from_millis(1);
        check(self, &before);
    }

    fn legs(&self, wanted: impl Fn(&LegState) -> bool) -> Vec<(u64, LegNo, u32)> {
        let legs =
            self.runs.iter().flat_map(|(run, hood)| hood.legs.values().map(|leg| (*run, leg)));
        legs.filter(|(_, leg)| wanted(&leg.state))
            .map(|(run, leg)| (run, leg.number, leg.attempt))
            .collect()
    }

    fn act(&mut self, action: &Action, check: Check) {
        fn pick<T: Clone>(from: &[T], index: usize) -> Option<T> {
            (!from.is_empty()).then(|| from[index % from.len()].clone())
        }
        match *action {
            Action::Start => {
                let Some((id, shape)) = self.waiting.pop_front() else { return };
                let hood = Neighbourhood::new(Run::new(id, plan(&shape.text(), &NoLibrary)));
                self.runs.insert(id, hood);
                self.apply(id, Event::Start, check);
            }
            Action::Deliver(index) if !self.outbox.is_empty() => {
                let (member, event) = self.outbox.remove(index % self.outbox.len());
                self.apply(member.run, event, check);
            }
            Action::Claim(index) => {
                let Some((run, leg, _)) =
                    pick(&self.legs(|state| *state == LegState::Queued), index)
                else {
                    return;
                };
                self.apply(run, Event::Claimed { leg, runner: 1 }, check);
            }
            Action::Finish(index, good) => {
                let Some((run, leg, attempt)) = pick(&self.legs(LegState::is_held), index) else {
                    return;
                };
                let conclusion = if good { Success } else { Failure };
                self.apply(
                    run,
                    Event::Finished { leg, attempt, conclusion, outputs: vec![] },
                    check,
                );
            }
            Action::Lose(index) => {
                let Some((run, leg, attempt)) = pick(&self.legs(LegState::is_held), index) else {
                    return;
                };
                self.apply(run, Event::Lost { leg, attempt, reason: "gone".into() }, check);
            }
            Action::Cancel(index, forced) => {
                let runs: Vec<u64> = self.runs.keys().copied().collect();
                let Some(run) = pick(&runs, index) else { return };
                let (by, reason) = ("me".to_owned(), "enough".to_owned());
                self.apply(run, Event::Cancel { by, reason, forced }, check);
            }
            Action::CancelLeg(index) => {
                let Some((run, leg, _)) = pick(&self.legs(|state| !state.is_done()), index) else {
                    return;
                };
                self.apply(run, Event::CancelLeg { leg, reason: "enough".into() }, check);
            }
            Action::Again(index) => self.run_again(index, check),
            Action::Deliver(_) => {}
        }
    }

    /// A new attempt, once nothing about the earlier one is on its way any more.
    fn run_again(&mut self, index: usize, check: Check) {
        let quiet = |run: &u64| !self.outbox.iter().any(|(member, _)| member.run == *run);
        let runs: Vec<u64> = self.runs.keys().copied().filter(quiet).collect();
        if runs.is_empty() {
            return;
        }
        let run = runs[index % runs.len()];
        if let Ok(hood) = again(&self.runs[&run], Again::Failed) {
            self.runs.insert(run, hood);
            self.apply(run, Event::Start, check);
        }
    }

    /// Lets everything go on until nothing can; no job may be left behind then.
    fn settle(&mut self, check: Check) {
        let first = 0;
        for _ in 0..10_000 {
            if !self.waiting.is_empty() {
                self.act(&Action::Start, check);
            } else if !self.outbox.is_empty() {
                self.act(&Action::Deliver(first), check);
            } else if !self.legs(LegState::is_held).is_empty() {
                self.act(&Action::Finish(first, true), check);
            } else if !self.legs(|state| *state == LegState::Queued).is_empty() {
                self.act(&Action::Claim(first), check);
            } else {
                break;
            }
        }
        for (id, hood) in &self.runs {
            let waits: Vec<String> = hood.nodes.keys().map(|node| explain(hood, *node)).collect();
            assert!(matches!(hood.run.state, RunState::Done(_)), "run {id} is stuck: {waits:?}");
        }
        assert!(self.groups.is_empty(), "a gate leaked: {:?}", self.groups);
    }

    fn leg(&self, member: Member) -> Option<&Leg> {
        self.runs[&member.run].legs.get(&member.leg?)
    }

    fn told(&self, member: Member, wanted: impl Fn(&Event) -> bool) -> bool {
        self.outbox.iter().any(|(to, event)| *to == member && wanted(event))
    }

    fn is_being_cancelled(&self, member: Member) -> bool {
        self.told(member, |event| matches!(event, Event::Cancel { .. } | Event::CancelLeg { .. }))
    }

    fn is_being_admitted(&self, member: Member) -> bool {
        self.told(member, |event| matches!(event, Event::Admitted(_)))
    }

    fn is_live(&self, member: Member) -> bool {
        let open = !matches!(self.runs[&member.run].run.state, RunState::Done(_));
        open && (member.leg.is_none() || self.leg(member).is_some_and(|leg| !leg.state.is_done()))
    }

    fn holds(&self, name: &str, member: Member) -> bool {
        self.groups.get(name).is_some_and(|group| group.holder() == Some(member))
    }
}

fn was_evicted(leg: &Leg) -> bool {
    leg.note.as_deref().is_some_and(|note| note.starts_with("a newer one entered"))
}

/// Slots are held, and waited for, by the living only; nobody waits for a free one; the longest
/// waiting is served first, and where one may wait, one waits.
fn no_gate_leaks(fleet: &Fleet, before: &Before) {
    for (name, group) in &fleet.groups {
        let holder = group.holder().unwrap_or_else(|| panic!("somebody waits for a free `{name}`"));
        let waiting: Vec<Member> = group.waiting().collect();
        for member in waiting.iter().chain([&holder]) {
            assert!(fleet.is_live(*member), "{member:?} is gone, but still in `{name}`");
        }
        assert!(name.ends_with("queue") || waiting.len() <= 1, "`{name}`: {waiting:?}");
        let Some(old) = before.groups.get(name) else { continue };
        let line: Vec<Member> = old.holder().into_iter().chain(old.waiting()).collect();
        let left: Vec<Member> = line
            .into_iter()
            .filter(|member| holder == *member || waiting.contains(member))
            .collect();
        let now: Vec<Member> = [holder].into_iter().chain(waiting).collect();
        assert!(now.starts_with(&left), "`{name}` is not served in order: {left:?} became {now:?}");
    }
}

/// Whatever asked for a group and goes on holds it; whatever waits is in line.
fn no_gate_is_bypassed(fleet: &Fleet, _before: &Before) {
    for (id, hood) in &fleet.runs {
        let own = hood.run.member(None);
        let asks = fleet.expressions.clone();
        let wanted = kiln_core::run::Evaluator::run_group(&asks, &hood.run).expect("it is a name");
        match (&hood.run.state, wanted) {
            (RunState::Active, Some(wanted)) => {
                assert!(fleet.holds(&wanted.name, own), "run {id} does not hold `{}`", wanted.name);
            }
            (RunState::Gated(name), _) => {
                let in_line = fleet
                    .groups
                    .get(name)
                    .is_some_and(|group| group.waiting().any(|one| one == own));
                let on_its_way = fleet.holds(name, own) && fleet.is_being_admitted(own);
                assert!(
                    in_line || on_its_way || fleet.is_being_cancelled(own),
                    "run {id} waits for nothing"
                );
            }
            _ => {}
        }
        for leg in hood.legs.values().filter(|leg| !leg.state.is_done()) {
            let member = hood.run.member(Some(leg.number));
            let context = hood.context(leg.node, Some(leg.number));
            let wanted = kiln_core::run::Evaluator::group(&asks, &context).expect("it is a name");
            match (&leg.state, wanted) {
                (LegState::Waiting(Wait::MaxParallel), _) | (_, None) => {}
                (LegState::Waiting(Wait::Group), Some(wanted)) => {
                    let group = fleet.groups.get(&wanted.name);
                    let in_line =
                        group.is_some_and(|group| group.waiting().any(|one| one == member));
                    let on_its_way =
                        fleet.holds(&wanted.name, member) && fleet.is_being_admitted(member);
                    assert!(
                        in_line || on_its_way || fleet.is_being_cancelled(member),
                        "{member:?} waits for nothing"
                    );
                }
                (_, Some(wanted)) => {
                    assert!(
                        fleet.holds(&wanted.name, member),
                        "{member:?} is past `{}`",
                        wanted.name
                    );
                }
            }
        }
    }
}

/// A failure leaves no sibling that could still start, and `max-parallel` is kept and used up.
fn matrices_keep_their_limits(fleet: &Fleet, _before: &Before) {
    let active = |hood: &&Neighbourhood| hood.run.state == RunState::Active;
    for hood in fleet.runs.values().filter(active) {
        for node in
            hood.nodes.values().filter(|node| matches!(node.state, NodeState::Active { .. }))
        {
            let states: Vec<&LegState> =
                node.legs.iter().map(|leg| &hood.legs[leg].state).collect();
            let held_back = states
                .iter()
                .filter(|state| ***state == LegState::Waiting(Wait::MaxParallel))
                .count();
            let open = states.iter().filter(|state| !state.is_done()).count() - held_back;
            let most = node.max_parallel.map_or(usize::MAX, |most| most as usize);
            assert!(open <= most, "{open} legs of {most} are under way");
            assert!(held_back == 0 || open == most, "a free place is not used: {states:?}");
            if node.tripped {
                let idle =
                    states.iter().filter(|state| !state.is_done() && !state.is_held()).count();
                let cancelling = node.legs.iter().all(|leg| {
                    let leg = &hood.legs[leg];
                    leg.state.is_done() || leg.cancelling
                });
                assert!(idle == 0 && cancelling, "fail-fast left a sibling alone: {states:?}");
            }
        }
    }
}

/// Whoever became the holder by this event is cancelled only by somebody who came even later.
fn the_admitted_stay(fleet: &Fleet, before: &Before) {
    for (name, group) in &fleet.groups {
        let old = before.groups.get(name).and_then(Group::holder);
        let Some(holder) = group.holder().filter(|holder| Some(*holder) != old) else { continue };
        let told = &fleet.outbox[before.outbox.min(fleet.outbox.len())..];
        let cancelled = told.iter().any(|(member, event)| {
            *member == holder && matches!(event, Event::Cancel { .. } | Event::CancelLeg { .. })
        });
        let line = before.groups.get(name).into_iter().flat_map(Group::waiting);
        let line: Vec<Member> = line.chain(old).collect();
        let later = group.waiting().any(|member| !line.contains(&member));
        assert!(!cancelled || later, "{holder:?} was cancelled by the group that let it in");
    }
    let hood = &fleet.runs[&before.run];
    let by_itself = hood.run.cancel.as_ref().is_some_and(|cancel| cancel.by == "concurrency");
    assert!(!by_itself, "run {} was evicted by its own entry", before.run);
    if before.delivered {
        return;
    }
    let group = |leg: &Leg| {
        let context = hood.context(leg.node, Some(leg.number));
        kiln_core::run::Evaluator::group(&fleet.expressions, &context).expect("it is a name")
    };
    let fresh =
        hood.legs.values().filter(|leg| was_evicted(leg) && !before.evicted.contains(&leg.number));
    for leg in fresh {
        let newer = hood.legs.values().any(|other| {
            let asked = other.state != LegState::Waiting(Wait::MaxParallel);
            asked && !was_evicted(other) && group(other) == group(leg)
        });
        assert!(newer, "leg {} was evicted although nobody came after it", leg.number);
    }
}

/// What is said about a job that waits is true.
fn explanations_are_true(fleet: &Fleet, _before: &Before) {
    for hood in fleet.runs.values() {
        for node in hood.nodes.values() {
            let said = explain(hood, node.number);
            let open =
                node.legs.iter().map(|leg| &hood.legs[leg]).filter(|leg| !leg.state.is_done());
            let open: Vec<&Leg> = open.collect();
            match (&node.state, open.as_slice()) {
                (NodeState::Done(_), _) => {}
                _ if matches!(hood.run.state, RunState::Gated(_)) => {
                    assert!(said.starts_with("the run waits for the concurrency group"), "{said}");
                }
                (NodeState::Pending { .. }, _) => {
                    let done = |need: &u32| matches!(hood.nodes[need].state, NodeState::Done(_));
                    assert!(said.starts_with("waits for `"), "{said}");
                    assert!(
                        node.needs.iter().any(|need| !done(need)),
                        "nothing is waited for: {said}"
                    );
                }
                (NodeState::Active { .. }, [leg])
                    if leg.state == LegState::Waiting(Wait::Group) =>
                {
                    let name = leg.group.as_deref().expect("it asked for one");
                    let member = hood.run.member(Some(leg.number));
                    assert_eq!(said, format!("waits for the concurrency group `{name}`"));
                    let busy = fleet
                        .groups
                        .get(name)
                        .and_then(Group::holder)
                        .is_some_and(|holder| holder != member);
                    assert!(
                        busy || fleet.is_being_admitted(member) || fleet.is_being_cancelled(member),
                        "{name} is free"
                    );
                }
                (NodeState::Active { .. }, [leg]) if leg.state == LegState::Queued => {
                    assert_eq!(said, "waits for a runner");
                }
                (NodeState::Active { .. }, open) => {
                    assert!(!open.is_empty(), "it should be done: {said}");
                }
            }
        }
    }
}

fn shapes() -> impl Strategy<Value = Vec<RunShape>> {
    let group = || prop::option::weighted(0.7, 0..GROUPS.len());
    let job = (any::<bool>(), group(), 1_usize..4, 1_usize..4, any::<bool>(), any::<bool>())
        .prop_map(|(needs_previous, group, legs, max_parallel, fail_fast, always)| JobShape {
            needs_previous,
            group,
            legs,
            max_parallel,
            fail_fast,
            always,
        });
    let run = (group(), prop::collection::vec(job, 1..4))
        .prop_map(|(group, jobs)| RunShape { group, jobs });
    prop::collection::vec(run, 2..5)
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let pick = any::<usize>;
    let action = prop_oneof![
        4 => Just(Action::Start),
        6 => pick().prop_map(Action::Deliver),
        8 => pick().prop_map(Action::Claim),
        8 => (pick(), prop::bool::weighted(0.6)).prop_map(|(leg, good)| Action::Finish(leg, good)),
        1 => pick().prop_map(Action::Lose),
        1 => (pick(), any::<bool>()).prop_map(|(run, forced)| Action::Cancel(run, forced)),
        1 => pick().prop_map(Action::CancelLeg),
        2 => pick().prop_map(Action::Again),
    ];
    prop::collection::vec(action, 1..60)
}

fn play(shapes: &[RunShape], actions: &[Action], check: Check) {
    let mut fleet = Fleet::new(shapes);
    for action in actions {
        fleet.act(action, check);
    }
    fleet.settle(check);
}

fn matrix(group: Option<usize>, legs: usize) -> JobShape {
    let (needs_previous, fail_fast, always) = (false, false, false);
    JobShape { needs_previous, group, legs, max_parallel: 1, fail_fast, always }
}

/// S9, S14: found by the tests below. The next leg of a cancelled run took the place of the first for
/// a moment, and with `cancel-in-progress` pushed out whom the group had just let in.
#[test]
fn a_cancelled_run_pushes_nobody_out_of_a_group_on_its_way_out() {
    let run = |legs| RunShape { group: None, jobs: vec![matrix(Some(2), legs)] };
    let mut fleet = Fleet::new(&[run(2), run(1)]);
    for action in [Action::Start, Action::Claim(0), Action::Start, Action::Cancel(0, true)] {
        fleet.act(&action, the_admitted_stay);
    }
    let second = Member { run: 2, attempt: 1, leg: Some(0) };
    assert!(fleet.is_being_admitted(second) && !fleet.is_being_cancelled(second));
    fleet.settle(the_admitted_stay);
    assert_eq!(fleet.runs[&2].run.state, RunState::Done(Success));
}

/// S9, P10: found by the tests below. Legs of a re-run are there before its group lets it in.
#[test]
fn a_re_run_that_waits_for_its_group_starts_nothing_and_leaves_nothing_open() {
    let shape = RunShape { group: Some(0), jobs: vec![matrix(Some(1), 2)] };
    let mut fleet = Fleet::new(&[shape.clone(), shape]);
    let fail = [Action::Claim(0), Action::Finish(0, false)];
    let actions = [&[Action::Start][..], &fail, &fail, &[Action::Start, Action::Again(0)]].concat();
    for action in &actions {
        fleet.act(action, no_gate_is_bypassed);
    }
    assert!(matches!(fleet.runs[&1].run.state, RunState::Gated(_)));
    fleet.act(&Action::CancelLeg(0), no_gate_is_bypassed);
    let states = |fleet: &Fleet| -> Vec<LegState> {
        fleet.runs[&1].legs.values().map(|leg| leg.state.clone()).collect()
    };
    let waits = LegState::Waiting(Wait::MaxParallel);
    assert_eq!(states(&fleet), [LegState::Done(Cancelled), waits]);
    fleet.act(&Action::Cancel(0, false), no_gate_is_bypassed);
    assert_eq!(states(&fleet), [LegState::Done(Cancelled), LegState::Done(Cancelled)]);
    fleet.act(&Action::Again(0), no_gate_is_bypassed);
    fleet.settle(no_gate_is_bypassed);
    assert_eq!(fleet.runs[&1].run.state, RunState::Done(Success));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// S9, S19: the concurrency gate leak.
    #[test]
    fn no_concurrency_gate_leaks(shapes in shapes(), actions in actions()) {
        play(&shapes, &actions, no_gate_leaks);
    }

    /// S9, S19: the job-level gate bypass.
    #[test]
    fn no_job_gets_past_its_gate(shapes in shapes(), actions in actions()) {
        play(&shapes, &actions, no_gate_is_bypassed);
    }

    /// S9, S19: fail-fast never released the cancelled sibling's slot.
    #[test]
    fn fail_fast_releases_the_slots_of_cancelled_siblings(shapes in shapes(), actions in actions()) {
        play(&shapes, &actions, |fleet, before| {
            matrices_keep_their_limits(fleet, before);
            no_gate_leaks(fleet, before);
        });
    }

    /// S9, S19: cancel-in-progress evicted the run it had just admitted.
    #[test]
    fn cancel_in_progress_never_evicts_whom_it_has_just_admitted(shapes in shapes(), actions in actions()) {
        play(&shapes, &actions, the_admitted_stay);
    }

    /// S16, S19: every job ends or waits with a reason that is true.
    #[test]
    fn every_job_ends_or_waits_with_a_true_reason(shapes in shapes(), actions in actions()) {
        play(&shapes, &actions, explanations_are_true);
    }
}
