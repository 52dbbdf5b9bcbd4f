//! The engine with real workflows: text in, conclusions out.

mod again;
mod granted;
mod groups;
mod placement;
mod secrets;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kiln_core::plan::Plan;
use kiln_core::run::{
    Conclusion, Effect, Event, LegNo, LegState, Neighbourhood, NodeState, Rejected, Run, RunState,
    apply, explain,
};
use kiln_core::time::Timestamp;
use kiln_core::value::{Object, Value};
use proptest::prelude::*;

use super::Expressions;
use crate::compile::{Library, LoadedFile, Lookup, NoLibrary, compile};
use crate::source::SourceMap;
use crate::workflow::uses::CallTarget;
use Conclusion::{Cancelled, Failure, Skipped, Success};

/// A run of a workflow whose runners the test plays.
struct World {
    hood: Neighbourhood,
    expressions: Expressions,
    now: Timestamp,
    effects: Vec<Effect>,
}

struct Callee(&'static str);

impl Library for Callee {
    fn workflow(&self, _target: &CallTarget) -> Lookup {
        Lookup::Found(LoadedFile { path: "callee.yml".to_owned(), text: self.0.to_owned() })
    }

    fn companion(&self, _workflow_path: &str) -> Option<LoadedFile> {
        None
    }
}

fn plan(text: &str, library: &dyn Library) -> Arc<Plan> {
    let compiled = compile(&mut SourceMap::new(), ".github/workflows/a.yml", text, library, None);
    Arc::new(compiled.plan.unwrap_or_else(|| panic!("{:#?}", compiled.diagnostics)))
}

impl World {
    fn new(jobs: &str) -> Self {
        Self::with(&format!("on: push\njobs:\n{jobs}"), &NoLibrary)
    }

    fn with(text: &str, library: &dyn Library) -> Self {
        let hood = Neighbourhood::new(Run::new(1, plan(text, library)));
        let github: Object = [("ref", Value::from("refs/heads/main"))].into_iter().collect();
        let expressions = Expressions { github, ..Expressions::default() };
        let mut world = Self { hood, expressions, now: Timestamp(1_000), effects: Vec::new() };
        world.apply(Event::Start).expect("a new run can start");
        world
    }

    fn apply(&mut self, event: Event) -> Result<(), Rejected> {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let effects = apply(&mut self.hood, event, self.now, &self.expressions)?;
            for effect in effects {
                match effect {
                    Effect::Continue(step) => events.push(Event::Step(step)),
                    other => self.effects.push(other),
                }
            }
        }
        Ok(())
    }

    /// The job and leg as `id` or `id (values)`.
    fn name(&self, leg: LegNo) -> String {
        let leg = &self.hood.legs[&leg];
        let node = &self.hood.nodes[&leg.node];
        let workflow = self.hood.scopes[&node.scope].workflow;
        let id = &self.hood.run.plan.workflows[workflow].jobs[node.job].id;
        let values = kiln_core::plan::matrix::leg_name(&leg.matrix);
        if values.is_empty() { id.clone() } else { format!("{id} ({values})") }
    }

    fn in_state(&self, wanted: impl Fn(&LegState) -> bool) -> Vec<String> {
        let legs = self.hood.legs.values().filter(|leg| wanted(&leg.state));
        legs.map(|leg| self.name(leg.number)).collect()
    }

    fn queued(&self) -> Vec<String> {
        self.in_state(|state| *state == LegState::Queued)
    }

    fn leg(&self, name: &str) -> LegNo {
        let found = self.hood.legs.keys().find(|leg| self.name(**leg) == name);
        *found.unwrap_or_else(|| panic!("there is no leg {name}"))
    }

    fn claim(&mut self, name: &str) -> (LegNo, u32) {
        let leg = self.leg(name);
        self.apply(Event::Claimed { leg, runner: 7 }).expect("it is queued");
        let attempt = self.hood.legs[&leg].attempt;
        self.apply(Event::Started { leg, attempt, preparing: None }).expect("it was just claimed");
        (leg, attempt)
    }

    fn report(&mut self, name: &str, conclusion: Conclusion, outputs: &[(&str, &str)]) {
        let leg = self.leg(name);
        let attempt = self.hood.legs[&leg].attempt;
        let outputs =
            outputs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.apply(Event::Finished { leg, attempt, conclusion, outputs })
            .expect("a runner holds it");
    }

    fn run(&mut self, name: &str, conclusion: Conclusion) {
        self.claim(name);
        self.report(name, conclusion, &[]);
    }

    fn results(&self) -> BTreeMap<String, Conclusion> {
        let done = self.hood.nodes.values().filter_map(|node| match node.state {
            NodeState::Done(conclusion) => {
                let workflow = self.hood.scopes[&node.scope].workflow;
                Some((self.hood.run.plan.workflows[workflow].jobs[node.job].id.clone(), conclusion))
            }
            _ => None,
        });
        done.collect()
    }

    fn check(&self, expect: &[(&str, Conclusion)], run: Conclusion) {
        let expect: BTreeMap<String, Conclusion> =
            expect.iter().map(|(id, conclusion)| ((*id).to_owned(), *conclusion)).collect();
        assert_eq!(self.results(), expect);
        assert_eq!(self.hood.run.state, RunState::Done(run));
        assert!(
            self.hood.groups.is_empty(),
            "every slot is free at the end: {:?}",
            self.hood.groups
        );
    }
}

fn job(id: &str, needs: &str, rest: &str) -> String {
    format!("  {id}:\n    runs-on: x\n    needs: {needs}\n{rest}    steps: [{{run: a}}]\n")
}

/// S10
#[test]
fn a_leg_that_no_runner_can_take_is_skipped_and_does_not_end_its_siblings() {
    let jobs = [
        job("a", "[]", "    strategy: {matrix: {os: [linux, mac]}}\n"),
        job("b", "[]", ""),
        job("c", "[b]", ""),
    ];
    let mut world = World::new(&jobs.concat());
    for name in ["a (mac)", "b"] {
        let skip = Event::Skip { leg: world.leg(name), reason: "needs `mac`".to_owned() };
        world.apply(skip.clone()).expect("it is queued");
        assert!(matches!(world.apply(skip), Err(Rejected::WrongState { event: "dropped", .. })));
        assert_eq!(world.hood.legs[&world.leg(name)].note.as_deref(), Some("needs `mac`"));
    }
    world.run("a (linux)", Success);
    world.check(&[("a", Success), ("b", Skipped), ("c", Skipped)], Success);
}

/// Labels are written as one, as several, or beside a group.
#[test]
fn the_labels_of_a_leg_are_known() {
    let check = |runs_on: &str, expect: &[&str]| {
        let text = format!(
            "  a:\n    strategy: {{matrix: {{os: [mac]}}}}\n    runs-on: {runs_on}\n    steps: [{{run: a}}]\n"
        );
        let world = World::new(&text);
        let leg = world.leg("a (mac)");
        assert_eq!(
            super::labels(&world.expressions, &world.hood, leg).expect("it is valid"),
            expect
        );
    };
    check("ubuntu-latest", &["ubuntu-latest"]);
    check("[self-hosted, '${{ matrix.os }}']", &["self-hosted", "mac"]);
    check("{group: big, labels: x}", &["x"]);
    check("{group: big}", &[]);
    check("${{ fromJSON('[\"a\", \"b\"]') }}", &["a", "b"]);
}

/// P7, S11
#[test]
fn ready_jobs_start_at_once_and_a_failure_skips_what_depends_on_it() {
    let jobs = [
        job("a", "[]", ""),
        job("b", "[]", ""),
        job("c", "[a, b]", ""),
        job("d", "[c]", ""),
        job("e", "[c]", "    if: failure()\n"),
    ];
    let mut world = World::new(&jobs.concat());
    assert_eq!(world.queued(), ["a", "b"]);
    world.run("a", Success);
    assert_eq!(explain(&world.hood, 2), "waits for `b`");
    world.run("b", Failure);
    assert_eq!(explain(&world.hood, 2), "it needs `b`, which failed");
    assert_eq!(world.queued(), ["e"]);
    world.run("e", Success);
    world.check(
        &[("a", Success), ("b", Failure), ("c", Skipped), ("d", Skipped), ("e", Success)],
        Failure,
    );
}

/// P7: a skipped ancestor skips further down too, even past a job that ran (actions/runner#491, #2205).
#[test]
fn success_looks_at_all_ancestors_not_only_at_direct_needs() {
    let jobs = [
        job("a", "[]", "    if: github.ref == 'x'\n"),
        job("b", "[a]", "    if: always()\n"),
        job("c", "[b]", ""),
        job("d", "[b]", "    if: ${{ !failure() && !cancelled() }}\n"),
    ];
    let mut world = World::new(&jobs.concat());
    world.run("b", Success);
    assert_eq!(world.queued(), ["d"]);
    world.run("d", Success);
    world.check(&[("a", Skipped), ("b", Success), ("c", Skipped), ("d", Success)], Success);
}

/// P9
#[test]
fn a_matrix_from_an_output_is_expanded_when_its_job_is_ready() {
    let matrix = "    strategy:\n      max-parallel: 2\n      matrix:\n        v: ${{ fromJSON(needs.plan.outputs.v) }}\n";
    let mut world = World::new(&[job("plan", "[]", ""), job("test", "[plan]", matrix)].concat());
    world.claim("plan");
    world.report("plan", Success, &[("v", "[1, 2, 3]")]);
    assert_eq!(world.queued(), ["test (1)", "test (2)"]);
    assert_eq!(world.in_state(|state| matches!(state, LegState::Waiting(_))), ["test (3)"]);
    world.run("test (1)", Success);
    assert_eq!(world.queued(), ["test (2)", "test (3)"]);
    world.run("test (2)", Success);
    world.run("test (3)", Success);
    world.check(&[("plan", Success), ("test", Success)], Success);
}

#[test]
fn a_matrix_that_cannot_be_made_fails_its_job_with_the_reason() {
    let matrix = "    strategy:\n      matrix:\n        v: ${{ fromJSON(needs.plan.outputs.v) }}\n";
    let mut world = World::new(&[job("plan", "[]", ""), job("test", "[plan]", matrix)].concat());
    world.run("plan", Success);
    world.check(&[("plan", Success), ("test", Failure)], Failure);
    assert!(explain(&world.hood, 1).contains("fromJSON"), "{}", explain(&world.hood, 1));
}

/// P1: fail-fast frees the slots of the cancelled siblings.
#[test]
fn the_first_failure_of_a_matrix_ends_its_other_legs() {
    let rest = "    strategy:\n      max-parallel: 2\n      matrix:\n        v: [1, 2, 3]\n    concurrency: group-${{ matrix.v }}\n";
    let mut world = World::new(&job("test", "[]", rest));
    let (second, attempt) = world.claim("test (2)");
    world.run("test (1)", Failure);
    assert!(world.effects.contains(&Effect::Stop { leg: second, attempt, forced: false }));
    assert!(world.queued().is_empty());
    world.report("test (2)", Cancelled, &[]);
    world.check(&[("test", Failure)], Failure);
}

/// P1
#[test]
fn a_tolerated_failure_leaves_the_run_green_and_its_siblings_alone() {
    let rest = "    strategy:\n      matrix:\n        v: [1, 2]\n    continue-on-error: ${{ matrix.v == 1 }}\n";
    let mut world = World::new(&[job("test", "[]", rest), job("next", "[test]", "")].concat());
    world.run("test (1)", Failure);
    world.run("test (2)", Success);
    world.run("next", Success);
    world.check(&[("test", Success), ("next", Success)], Success);
}

/// S9
#[test]
fn jobs_of_one_group_run_one_after_the_other_and_the_slot_is_passed_on() {
    let group = "    concurrency: {group: Deploy, queue: max}\n";
    let jobs = [job("a", "[]", group), job("b", "[]", group), job("c", "[]", group)];
    let mut world = World::new(&jobs.concat());
    assert_eq!(world.queued(), ["a"]);
    assert_eq!(explain(&world.hood, 1), "waits for the concurrency group `deploy`");
    world.run("a", Failure);
    assert_eq!(world.queued(), ["b"]);
    world.run("b", Success);
    world.run("c", Success);
    world.check(&[("a", Failure), ("b", Success), ("c", Success)], Failure);
}

/// S9
#[test]
fn a_newer_member_replaces_the_one_that_waits() {
    let group = "    concurrency: deploy\n";
    let jobs = [job("a", "[]", group), job("b", "[]", group), job("c", "[]", group)];
    let mut world = World::new(&jobs.concat());
    assert_eq!(world.queued(), ["a"]);
    world.run("a", Success);
    world.run("c", Success);
    world.check(&[("a", Success), ("b", Cancelled), ("c", Success)], Cancelled);
}

const CALLEE: &str = "on:\n  workflow_call:\n    inputs:\n      n: {type: number, default: 2}\n    outputs:\n      out: {value: '${{ jobs.inner.outputs.x }}-${{ inputs.n }}'}\n\
    jobs:\n  inner:\n    runs-on: l\n    outputs: {x: '1'}\n    steps: [{run: a}]\n  last:\n    needs: inner\n    if: inputs.n > 2\n    runs-on: l\n    steps: [{run: a}]\n";

/// P9
#[test]
fn a_called_workflow_runs_inside_its_caller_and_gives_its_outputs() {
    let text = format!(
        "on: push\njobs:\n  call:\n    uses: ./.github/workflows/callee.yml\n    with: {{n: 3}}\n{}",
        job("after", "[call]", "    if: needs.call.outputs.out == 'v-3'\n")
    );
    let mut world = World::with(&text, &Callee(CALLEE));
    assert_eq!(world.queued(), ["inner"]);
    world.claim("inner");
    world.report("inner", Success, &[("x", "v")]);
    assert_eq!(explain(&world.hood, 0), "1 jobs of the called workflow are not done");
    world.run("last", Success);
    world.run("after", Success);
    world.check(
        &[("call", Success), ("inner", Success), ("last", Success), ("after", Success)],
        Success,
    );
}

/// S14
#[test]
fn a_leg_that_was_cancelled_before_it_began_is_cancelled_whatever_its_runner_says() {
    let mut world = World::new(&[job("early", "[]", ""), job("late", "[]", "")].concat());
    let early = world.leg("early");
    world.apply(Event::Claimed { leg: early, runner: 7 }).expect("it is queued");
    world.claim("late");
    let cancel = Event::Cancel { by: "me".into(), reason: "enough".into(), forced: false };
    world.apply(cancel).expect("the run is open");
    let started = Event::Started { leg: early, attempt: 1, preparing: None };
    world.apply(started).expect("its runner cannot know");
    world.report("early", Success, &[("out", "put")]);
    // This one ran when the cancel came, and was done before it could be told.
    world.report("late", Success, &[]);
    world.check(&[("early", Cancelled), ("late", Success)], Cancelled);
}

#[test]
fn a_cancelled_run_ends_all_but_what_wants_to_run_always() {
    let jobs = [
        job("running", "[]", ""),
        job("queued", "[]", ""),
        job("pending", "[running]", ""),
        job("cleanup", "[running]", "    if: always()\n"),
        job("alarm", "[running]", "    if: cancelled()\n"),
    ];
    let mut world = World::new(&jobs.concat());
    let (leg, attempt) = world.claim("running");
    let cancel = |forced| Event::Cancel { by: "me".into(), reason: "enough".into(), forced };
    world.apply(cancel(false)).expect("the run is open");
    assert!(world.effects.contains(&Effect::Stop { leg, attempt, forced: false }));
    world.report("running", Cancelled, &[]);
    assert_eq!(world.queued(), ["cleanup", "alarm"]);
    world.run("cleanup", Success);
    world.apply(cancel(true)).expect("force may follow");
    world.check(
        &[
            ("running", Cancelled),
            ("queued", Cancelled),
            ("pending", Cancelled),
            ("cleanup", Success),
            ("alarm", Cancelled),
        ],
        Cancelled,
    );
    assert_eq!(world.apply(cancel(false)), Err(Rejected::RunIsDone));
}

/// S6, S7
#[test]
fn a_lost_runner_gives_its_work_back_and_a_late_word_is_refused() {
    let mut world = World::new(&job("a", "[]", ""));
    let (leg, attempt) = world.claim("a");
    world.apply(Event::Lost { leg, attempt, reason: "gone".into() }).expect("it was held");
    assert_eq!(world.queued(), ["a"]);
    let late = Event::Finished { leg, attempt, conclusion: Failure, outputs: vec![] };
    assert!(matches!(world.apply(late.clone()), Err(Rejected::WrongState { .. })));
    let (_, second) = world.claim("a");
    assert_eq!(world.apply(late), Err(Rejected::Stale { leg, current: second }));
    world.report("a", Success, &[]);
    let repeated = Event::Finished { leg, attempt: second, conclusion: Success, outputs: vec![] };
    assert_eq!(world.apply(repeated), Ok(()));
    world.check(&[("a", Success)], Success);
}

/// S7
#[test]
fn work_is_not_given_back_for_ever() {
    let mut world = World::new(&job("a", "[]", ""));
    for _ in 0..4 {
        let (leg, attempt) = world.claim("a");
        world.apply(Event::Lost { leg, attempt, reason: "gone".into() }).expect("it was held");
    }
    world.check(&[("a", Failure)], Failure);
}

struct Companion(&'static str);

impl Library for Companion {
    fn workflow(&self, _target: &CallTarget) -> Lookup {
        Lookup::Missing
    }

    fn companion(&self, _workflow_path: &str) -> Option<LoadedFile> {
        Some(LoadedFile { path: "companion".to_owned(), text: self.0.to_owned() })
    }
}

/// P15
#[test]
fn a_declared_retry_waits_longer_each_time_and_gives_up_in_the_end() {
    let text = format!("on: push\njobs:\n{}", job("a", "[]", ""));
    let mut world =
        World::with(&text, &Companion("jobs:\n  a:\n    retry: {max: 2, backoff: 10}\n"));
    let leg = world.leg("a");
    world.run("a", Failure);
    let first = world.now + Duration::from_secs(10);
    assert!(world.effects.contains(&Effect::WakeAt { leg, at: first }));
    world.apply(Event::Wake { leg }).expect("waking early does no harm");
    assert!(world.queued().is_empty());
    world.now = first;
    world.apply(Event::Wake { leg }).expect("it is due");
    world.run("a", Failure);
    world.now = world.now + Duration::from_secs(20);
    world.apply(Event::Wake { leg }).expect("it is due");
    world.run("a", Failure);
    world.check(&[("a", Failure)], Failure);
}

/// What a job of the random graphs does when it runs.
#[derive(Debug, Clone, Copy)]
struct Random {
    needs: u8,
    condition: usize,
    fails: bool,
    tolerated: bool,
}

const CONDITIONS: [&str; 8] = [
    "success()",
    "always()",
    "failure()",
    "${{ !failure() }}",
    "success() || failure()",
    "${{ !success() }}",
    "always() && github.ref == 'refs/heads/main'",
    "github.ref == 'other'",
];

/// A slow, plain reading of GitHub's rules.
fn model(jobs: &[Random]) -> Vec<Conclusion> {
    let mut results: Vec<Conclusion> = Vec::new();
    let mut ancestors: Vec<Vec<usize>> = Vec::new();
    for (index, job) in jobs.iter().enumerate() {
        let direct: Vec<usize> = (0..index).filter(|need| job.needs & (1 << need) != 0).collect();
        let mut all = direct.clone();
        for need in &direct {
            all.extend(ancestors[*need].iter().copied());
        }
        results.push(rule(job, job.fails, &all, &results));
        ancestors.push(all);
    }
    results
}

/// The end of one job, given those of all jobs above it.
fn rule(job: &Random, fails: bool, above: &[usize], results: &[Conclusion]) -> Conclusion {
    let success = above.iter().all(|other| results[*other] == Success);
    let failure = above.iter().any(|other| results[*other] == Failure);
    let runs = match job.condition {
        0 => success,
        1 | 6 => true,
        2 => failure,
        3 => !failure,
        4 => success || failure,
        5 => !success,
        _ => false,
    };
    match (runs, fails && !job.tolerated) {
        (false, _) => Skipped,
        (true, true) => Failure,
        (true, false) => Success,
    }
}

/// The workflow of a random graph.
fn text_of(jobs: &[Random]) -> String {
    let one = |(index, random): (usize, &Random)| {
        let needs: Vec<String> = (0..index)
            .filter(|need| random.needs & (1 << need) != 0)
            .map(|need| format!("j{need}"))
            .collect();
        let condition = CONDITIONS[random.condition];
        let rest = format!("    if: {condition}\n    continue-on-error: {}\n", random.tolerated);
        job(&format!("j{index}"), &format!("[{}]", needs.join(", ")), &rest)
    };
    jobs.iter().enumerate().map(one).collect()
}

fn random_job() -> impl Strategy<Value = Random> {
    (any::<u8>(), 0..CONDITIONS.len(), any::<bool>(), any::<bool>()).prop_map(
        |(needs, condition, fails, tolerated)| Random { needs, condition, fails, tolerated },
    )
}

proptest! {
    /// P7: any graph ends as a slow reading of the rules says, whatever the order of events.
    #[test]
    fn any_graph_ends_as_the_model_says(
        jobs in prop::collection::vec(random_job(), 1..8),
        order in prop::collection::vec(any::<prop::sample::Index>(), 8),
    ) {
        let mut world = World::new(&text_of(&jobs));
        for pick in order {
            let queued = world.queued();
            if queued.is_empty() {
                break;
            }
            let name = queued[pick.index(queued.len())].clone();
            let index: usize = name[1..].parse().expect("jobs are numbered");
            world.run(&name, if jobs[index].fails { Failure } else { Success });
        }
        let expect = model(&jobs);
        let results: Vec<Conclusion> = (0..jobs.len()).map(|index| world.results()[&format!("j{index}")]).collect();
        prop_assert_eq!(&results, &expect);
        prop_assert_eq!(&world.hood.run.state, &RunState::Done(kiln_core::run::conclude(expect)));
    }
}
