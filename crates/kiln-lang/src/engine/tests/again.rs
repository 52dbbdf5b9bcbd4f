//! Re-runs: what runs again, what stays, and what the earlier attempt still says.

use kiln_core::run::{Again, Refused, again, recall, remember};

use super::*;

impl World {
    fn again(&self, what: Again) -> Result<World, Refused> {
        Ok(self.go_on(again(&self.hood, what)?))
    }

    fn go_on(&self, hood: Neighbourhood) -> World {
        let expressions = self.expressions.clone().at_attempt(hood.run.attempt);
        let mut world = World { hood, expressions, now: self.now, effects: Vec::new() };
        world.apply(Event::Start).expect("a new attempt can start");
        world
    }

    fn rerun_failed(&self) -> World {
        self.again(Again::Failed).expect("something failed")
    }

    fn node(&self, id: &str) -> u32 {
        let found = self.hood.nodes.keys().find(|node| self.hood.job_of(**node).id == id);
        *found.expect("the job exists")
    }
}

/// P10
#[test]
fn what_failed_and_all_that_depends_on_it_runs_again_and_the_rest_stays() {
    let jobs = [
        job("good", "[]", ""),
        job("bad", "[]", ""),
        job(
            "both",
            "[good, bad]",
            "    if: needs.good.outputs.v == 'kept' && github.run_attempt == '2'\n",
        ),
        job("other", "[good]", ""),
        job("alarm", "[bad]", "    if: failure()\n"),
        job("never", "[]", "    if: github.ref == 'x'\n"),
    ];
    let mut first = World::new(&jobs.concat());
    first.claim("good");
    first.report("good", Success, &[("v", "kept")]);
    first.run("bad", Failure);
    first.run("other", Success);
    first.run("alarm", Success);
    let ends = [
        ("good", Success),
        ("bad", Failure),
        ("both", Skipped),
        ("other", Success),
        ("alarm", Success),
        ("never", Skipped),
    ];
    first.check(&ends, Failure);
    let mut second = first.rerun_failed();
    assert_eq!((second.hood.run.attempt, second.queued()), (2, vec!["bad".to_owned()]));
    assert_eq!(explain(&second.hood, second.node("both")), "waits for `bad`");
    second.run("bad", Success);
    second.run("both", Success);
    let good = ["good", "bad", "both", "other"].map(|id| (id, Success));
    second.check(&[&good[..], &[("alarm", Skipped), ("never", Skipped)]].concat(), Success);
    first.check(&ends, Failure);
    let kept: Vec<_> = second.hood.nodes.values().map(|node| node.run_attempt).collect();
    assert_eq!(kept, [1, 2, 2, 1, 2, 1]);
    assert_eq!(second.again(Again::Failed).err(), Some(Refused::NothingFailed));
}

/// P10
#[test]
fn only_the_failed_legs_of_a_matrix_run_again_within_its_limits() {
    let rest = "    strategy:\n      max-parallel: 1\n      fail-fast: false\n      matrix:\n        v: [1, 2, 3, 4]\n    continue-on-error: ${{ matrix.v == 4 }}\n";
    let after = job(
        "after",
        "[test]",
        "    if: needs.test.outputs.b == '' && needs.test.outputs.c == 'new'\n",
    );
    let mut world = World::new(&[job("test", "[]", rest), after].concat());
    for (leg, end, output) in
        [(1, Success, "a"), (2, Failure, "b"), (3, Failure, "c"), (4, Failure, "d")]
    {
        world.claim(&format!("test ({leg})"));
        world.report(&format!("test ({leg})"), end, &[(output, "old")]);
    }
    let mut world = world.rerun_failed();
    assert_eq!(world.queued(), ["test (2)"]);
    assert_eq!(world.in_state(|state| matches!(state, LegState::Waiting(_))), ["test (3)"]);
    world.run("test (2)", Success);
    world.claim("test (3)");
    world.report("test (3)", Success, &[("c", "new")]);
    world.run("after", Success);
    world.check(&[("test", Success), ("after", Success)], Success);
}

/// P10, P9
#[test]
fn a_called_workflow_goes_on_where_it_failed() {
    let text = format!(
        "on: push\njobs:\n  call:\n    uses: ./.github/workflows/callee.yml\n    concurrency: one\n    with: {{n: 3}}\n{}",
        job("after", "[call]", "    if: needs.call.outputs.out == 'v-3'\n")
    );
    let mut world = World::with(&text, &Callee(CALLEE));
    world.claim("inner");
    world.report("inner", Success, &[("x", "v")]);
    world.run("last", Failure);
    world.check(
        &[("call", Failure), ("inner", Success), ("last", Failure), ("after", Skipped)],
        Failure,
    );
    let one = world.again(Again::Leg(world.leg("call"))).expect("it exists");
    assert_eq!(one.queued(), ["inner"], "a chosen call starts from its beginning");
    let mut world = world.rerun_failed();
    assert_eq!(world.queued(), ["last"]);
    assert_eq!(world.hood.groups.len(), 1, "the call holds its group again");
    world.run("last", Success);
    world.run("after", Success);
    let all = ["call", "inner", "last", "after"].map(|id| (id, Success));
    world.check(&all, Success);
}

/// P10, P9, S7
#[test]
fn a_call_that_a_cancelled_re_run_never_came_to_ends_with_all_its_jobs() {
    let text = format!(
        "on: push\njobs:\n{}  call:\n    uses: ./.github/workflows/callee.yml\n    concurrency: one\n",
        job("holder", "[]", "    concurrency: one\n")
    );
    let mut world = World::with(&text, &Callee(CALLEE));
    world.run("holder", Failure);
    world.run("inner", Failure);
    let mut world = world.rerun_failed();
    assert_eq!(world.queued(), ["holder"], "the call waits for its group");
    let cancel = Event::Cancel { by: "me".into(), reason: "enough".into(), forced: false };
    world.apply(cancel).expect("the run is open");
    let all = ["holder", "call", "inner", "last"].map(|id| (id, Cancelled));
    world.check(&all, Cancelled);
    assert!(world.hood.legs.values().all(|leg| leg.state.is_done()), "{:?}", world.hood.legs);
    assert!(world.hood.scopes.values().all(|scope| scope.open == 0));
}

/// P10, S7
#[test]
fn a_late_word_about_the_earlier_attempt_is_refused() {
    let mut first = World::new(&job("a", "[]", ""));
    let (leg, attempt) = first.claim("a");
    first.report("a", Failure, &[]);
    let late = Event::Finished { leg, attempt, conclusion: Success, outputs: vec![] };
    let mut second = first.rerun_failed();
    assert!(matches!(second.apply(late.clone()), Err(Rejected::WrongState { .. })));
    let (_, current) = second.claim("a");
    assert_eq!(second.apply(late.clone()), Err(Rejected::Stale { leg, current }));
    let mut all = first.again(Again::All).expect("it has ended");
    assert_eq!(all.queued(), ["a"]);
    assert_eq!(all.apply(late), Err(Rejected::NoSuchLeg(leg)));
}

/// P10, S14
#[test]
fn a_cancelled_run_goes_on_with_what_was_not_done() {
    let jobs =
        [job("a", "[]", ""), job("b", "[]", ""), job("c", "[a, b]", ""), job("d", "[c]", "")];
    let mut world = World::new(&jobs.concat());
    world.run("a", Success);
    world.claim("b");
    assert_eq!(again(&world.hood, Again::Failed).err(), Some(Refused::NotDone));
    let cancel = Event::Cancel { by: "me".into(), reason: "enough".into(), forced: true };
    world.apply(cancel).expect("the run is open");
    let mut world = world.rerun_failed();
    for job in ["b", "c", "d"] {
        assert_eq!(world.queued(), [job]);
        world.run(job, Success);
    }
    world.check(&["a", "b", "c", "d"].map(|id| (id, Success)), Success);
}

/// P10
#[test]
fn one_job_runs_again_with_what_depends_on_it_and_nothing_else() {
    let jobs = [job("a", "[]", ""), job("b", "[a]", ""), job("c", "[]", ""), job("d", "[c]", "")];
    let mut world = World::new(&jobs.concat());
    world.run("a", Success);
    world.run("b", Success);
    world.run("c", Failure);
    let mut again = world.again(Again::Node(world.node("a"))).expect("it exists");
    assert_eq!(again.queued(), ["a"]);
    again.run("a", Success);
    again.run("b", Success);
    again.check(&[("a", Success), ("b", Success), ("c", Failure), ("d", Skipped)], Failure);
    assert_eq!(world.again(Again::Node(99)).err(), Some(Refused::NoSuchJob));
    assert_eq!(world.again(Again::Leg(99)).err(), Some(Refused::NoSuchJob));
}

/// P10, S9: a run that never got past its group starts there again.
#[test]
fn a_run_that_ended_before_its_first_job_starts_from_its_beginning() {
    let text = format!("on: push\nconcurrency: g\njobs:\n{}", job("a", "[]", ""));
    let mut world = World::with(&text, &NoLibrary);
    world.run("a", Failure);
    let mut gated = Neighbourhood::new(Run::new(2, world.hood.run.plan.clone()));
    gated.run.state = RunState::Done(Cancelled);
    let mut world = world.go_on(again(&gated, Again::Failed).expect("it was cancelled"));
    world.run("a", Success);
    world.check(&[("a", Success)], Success);
}

/// P10: jobs that a memory does not fit are run with what failed.
#[test]
fn a_changed_job_and_a_new_job_run_although_nothing_of_theirs_failed() {
    let jobs = [job("a", "[]", ""), job("b", "[a]", ""), job("c", "[]", ""), job("d", "[]", "")];
    let mut world = World::new(&jobs[..3].concat());
    for id in ["a", "b", "c"] {
        world.run(id, Success);
    }
    let memory = remember(&world.hood);
    let run = Run::new(1, plan(&format!("on: push\njobs:\n{}", jobs.concat()), &NoLibrary));
    let changed =
        |plan: &Plan, workflow: usize, job: usize| plan.workflows[workflow].jobs[job].id != "a";
    let past = recall(run, &memory, &changed);
    let mut world = world.go_on(again(&past, Again::Failed).expect("some are new"));
    assert_eq!(world.queued(), ["a", "d"]);
    world.run("a", Success);
    assert_eq!(world.queued(), ["d", "b"]);
}

/// Lets queued jobs of a random graph end, in a random order; cancels the run after so many.
fn play(world: &mut World, fails: &[bool], order: &[prop::sample::Index], cancel: Option<usize>) {
    for (count, pick) in order.iter().enumerate() {
        if cancel == Some(count) && !matches!(world.hood.run.state, RunState::Done(_)) {
            let event = Event::Cancel { by: "me".into(), reason: "enough".into(), forced: true };
            world.apply(event).expect("the run is open");
        }
        let queued = world.queued();
        if queued.is_empty() {
            return;
        }
        let name = queued[pick.index(queued.len())].clone();
        let index: usize = name[1..].parse().expect("jobs are numbered");
        world.run(&name, if fails[index] { Failure } else { Success });
    }
}

/// A slow, plain reading: whatever did not end well runs again, and whatever has such a job above it.
fn model_again(jobs: &[Random], earlier: &[Conclusion], fails: &[bool]) -> Vec<Conclusion> {
    let mut results: Vec<Conclusion> = Vec::new();
    let mut above: Vec<Vec<usize>> = Vec::new();
    let mut again: Vec<bool> = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let direct: Vec<usize> = (0..index).filter(|need| job.needs & (1 << need) != 0).collect();
        let mut all = direct.clone();
        all.extend(direct.iter().flat_map(|need| above[*need].clone()));
        let bad = !matches!(earlier[index], Success | Skipped);
        again.push(bad || all.iter().any(|other| again[*other]));
        results.push(if again[index] {
            rule(job, fails[index], &all, &results)
        } else {
            earlier[index]
        });
        above.push(all);
    }
    results
}

fn results(world: &World, count: usize) -> Vec<Conclusion> {
    let results = world.results();
    (0..count).map(|index| results[&format!("j{index}")]).collect()
}

proptest! {
    /// P10: attempt after attempt ends as the slow reading says, also when the earlier one was
    /// cancelled, and whether its rows were at hand or only remembered.
    #[test]
    fn any_re_run_ends_as_the_model_says(
        jobs in prop::collection::vec(random_job(), 1..8),
        fails in prop::collection::vec(prop::collection::vec(any::<bool>(), 8), 3),
        order in prop::collection::vec(any::<prop::sample::Index>(), 8),
        cancel in prop::option::of(0_usize..4),
        from_memory in any::<bool>(),
    ) {
        let mut world = World::new(&text_of(&jobs));
        let first: Vec<bool> = jobs.iter().map(|job| job.fails).collect();
        play(&mut world, &first, &order, cancel);
        for fails in &fails {
            let earlier = results(&world, jobs.len());
            let rows = if from_memory {
                recall(Run::new(1, world.hood.run.plan.clone()), &remember(&world.hood), &|_, _, _| true)
            } else {
                world.hood.clone()
            };
            let bad = earlier.iter().any(|end| !matches!(end, Success | Skipped));
            let Ok(next) = again(&rows, Again::Failed) else {
                prop_assert!(!bad, "something failed, but nothing runs again: {earlier:?}");
                break;
            };
            prop_assert!(bad);
            let mut next = world.go_on(next);
            play(&mut next, fails, &order, None);
            let expect = model_again(&jobs, &earlier, fails);
            prop_assert_eq!(&results(&next, jobs.len()), &expect);
            prop_assert_eq!(&next.hood.run.state, &RunState::Done(kiln_core::run::conclude(expect)));
            prop_assert_eq!(results(&world, jobs.len()), earlier, "the earlier attempt has changed");
            world = next;
        }
    }
}

const ALWAYS: &str =
    "on: workflow_call\njobs:\n  inner: {if: always(), runs-on: x, steps: [{run: x}]}\n";

/// S9, S14: found by random events. The second leg of a call pushes the first one out of its group
/// before the jobs of that were asked; one that runs always still does.
#[test]
fn a_job_that_runs_always_starts_in_a_call_that_was_cancelled_before_it() {
    let text = "on: push\njobs:\n  call:\n    strategy: {fail-fast: false, matrix: {v: [1, 2]}}\n    concurrency: {group: g, cancel-in-progress: true}\n    uses: ./.github/workflows/callee.yml\n";
    let mut world = World::with(text, &Callee(ALWAYS));
    world.run("inner", Success);
    assert_eq!(world.queued(), ["inner"]);
    let last = world.hood.legs.keys().copied().max().expect("the second leg has called");
    world.apply(Event::Claimed { leg: last, runner: 1 }).expect("it is queued");
    let (attempt, conclusion) = (1, Success);
    let end = Event::Finished { leg: last, attempt, conclusion, outputs: vec![] };
    world.apply(end).expect("it was just claimed");
    assert_eq!(world.hood.run.state, RunState::Done(Success));
}

/// P10, S9: found by random events. Jobs of a call are there in a re-run before it starts; they stayed
/// open when it ended while it waited.
#[test]
fn a_call_that_is_cancelled_before_a_re_run_takes_it_up_leaves_no_job_open() {
    let text =
        "on: push\njobs:\n  call:\n    concurrency: g\n    uses: ./.github/workflows/callee.yml\n";
    let mut first = World::with(text, &Callee(ALWAYS));
    first.run("inner", Failure);
    let mut hood = again(&first.hood, Again::Failed).expect("it failed");
    let other = kiln_core::run::Member { run: 2, attempt: 1, leg: None };
    hood.groups.insert("g".to_owned(), kiln_core::run::Group::of([other]));
    let mut second = first.go_on(hood);
    assert!(second.queued().is_empty());
    let leg = second.leg("call");
    second.apply(Event::CancelLeg { leg, reason: "enough".into() }).expect("it waits");
    second.hood.groups.clear();
    second.check(&[("call", Cancelled), ("inner", Cancelled)], Cancelled);
    assert!(second.hood.legs.values().all(|leg| leg.state.is_done()));
    let mut third = second.rerun_failed();
    third.run("inner", Success);
    third.check(&[("call", Success), ("inner", Success)], Success);
}
