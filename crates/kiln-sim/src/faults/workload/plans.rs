//! Random workflows: needs, conditions, matrices, groups, retries, calls.

use std::sync::Arc;

use kiln_core::plan::{
    Call, CallSecrets, Concurrency, Condition, Data, Job, JobKind, Place, Plan, QueueMode,
    Requires, Retry, RetryOn, RunDefaults, StepsJob, Strategy, Template, Workflow,
};
use kiln_core::value::{Object, Value};

use crate::faults::kiln::evaluator::LEG;
use crate::random::Random;

const CONDITIONS: [&str; 12] = [
    "success()",
    "success()",
    "success()",
    "success()",
    "success()",
    "success() && true",
    "success() && false",
    "always()",
    "always()",
    "failure()",
    "cancelled()",
    "!cancelled()",
];

/// How each group is asked for, wherever it is: one waits, many wait, or the newest wins.
const GROUPS: [(&str, bool, QueueMode); 3] = [
    ("single", false, QueueMode::Single),
    ("queue", false, QueueMode::Max),
    ("latest", true, QueueMode::Single),
];

/// Some workflows. Groups of runs, jobs and jobs of called workflows have different names: what holds one
/// never waits for itself.
pub(super) fn draw(random: &mut Random) -> Vec<Arc<Plan>> {
    (0..2 + random.below(3)).map(|_| Arc::new(plan(random))).collect()
}

fn plan(random: &mut Random) -> Plan {
    let mut root = workflow(random, 0, 6);
    if random.chance(1, 3) {
        root.concurrency = Some(group(random, "run", false));
    }
    let called = workflow(random, 1, 3);
    let innermost = workflow(random, 2, 2);
    Plan { workflows: vec![root, called, innermost] }
}

/// One job that waits for nothing but a runner of the kind that there are few of, or so many at once.
pub(super) fn plain(legs: u64) -> Plan {
    let leg =
        |value: u64| -> Object { [("v", Value::from(value.to_string()))].into_iter().collect() };
    let fail_fast = Some(Template::literal(false));
    let several =
        Strategy::Legs { legs: (0..legs).map(leg).collect(), fail_fast, max_parallel: None };
    let job = Job {
        id: "plain".to_owned(),
        name: None,
        needs: Vec::new(),
        condition: Condition { text: "success()".into() },
        strategy: if legs > 1 { several } else { Strategy::Single },
        permissions: None,
        concurrency: None,
        retry: None,
        kind: steps("big", None),
        place: Place::default(),
    };
    let root = Workflow { path: "plain.yml".to_owned(), jobs: vec![job], ..Workflow::default() };
    Plan { workflows: vec![root] }
}

fn workflow(random: &mut Random, level: usize, most: u64) -> Workflow {
    let count = usize::try_from(1 + random.below(most)).unwrap_or(1);
    let jobs = (0..count).map(|at| job(random, level, at)).collect();
    Workflow { path: format!("level{level}.yml"), jobs, ..Workflow::default() }
}

fn job(random: &mut Random, level: usize, at: usize) -> Job {
    let needs = (0..at).filter(|_| random.chance(2, 5)).collect();
    let condition = random.pick(&CONDITIONS).copied().unwrap_or("success()");
    let strategy = match random.below(40) {
        0 => broken(),
        1..=12 => matrix(random),
        _ => Strategy::Single,
    };
    let calls = level < 2 && random.chance(3, 20);
    let mut concurrency = random.chance(1, 4).then(|| {
        let apart = random.chance(1, 3);
        group(random, &format!("job{level}"), apart)
    });
    if level == 0 && !calls && random.chance(1, 25) {
        // The one group of runs that jobs ask for, too. Those that hold it wait for no other run.
        concurrency = Some(named("run", 0, false));
    }
    let retry = (!calls && random.chance(1, 4)).then(|| retry(random));
    Job {
        id: format!("j{at}"),
        name: None,
        needs,
        condition: Condition { text: condition.into() },
        strategy,
        permissions: None,
        concurrency,
        retry,
        kind: if calls { call(level + 1) } else { some_steps(random) },
        place: Place::default(),
    }
}

fn matrix(random: &mut Random) -> Strategy {
    let leg =
        |value: u32| -> Object { [("v", Value::Number(f64::from(value)))].into_iter().collect() };
    let count = u32::try_from(2 + random.below(3)).unwrap_or(2);
    let most = u32::try_from(1 + random.below(3)).unwrap_or(1);
    Strategy::Legs {
        legs: (0..count).map(leg).collect(),
        fail_fast: Some(Template::literal(random.chance(3, 5))),
        max_parallel: random.chance(2, 5).then(|| Template::literal(f64::from(most))),
    }
}

/// A matrix that nobody can evaluate.
fn broken() -> Strategy {
    let matrix = Data::Scalar(Template::literal("broken"));
    Strategy::Matrix { matrix, fail_fast: None, max_parallel: None }
}

fn group(random: &mut Random, level: &str, apart: bool) -> Concurrency {
    named(level, usize::try_from(random.below(3)).unwrap_or(0), apart)
}

fn named(level: &str, which: usize, apart: bool) -> Concurrency {
    let (name, latest, queue) = GROUPS[which];
    let leg = if apart { LEG } else { "" };
    Concurrency {
        group: Template::literal(format!("{level}-{name}{leg}")),
        cancel_in_progress: Some(Template::literal(latest)),
        queue,
    }
}

fn retry(random: &mut Random) -> Retry {
    let on = [RetryOn::Failure, RetryOn::Timeout, RetryOn::Any];
    Retry {
        max: u32::try_from(1 + random.below(2)).unwrap_or(1),
        backoff_seconds: u32::try_from(random.below(3) * 4).unwrap_or(0),
        on: random.pick(&on).copied().unwrap_or_default(),
    }
}

fn call(level: usize) -> JobKind {
    JobKind::Call(Box::new(Call {
        uses: format!("./level{level}.yml"),
        workflow: Some(level),
        with: None,
        secrets: CallSecrets::None,
    }))
}

fn some_steps(random: &mut Random) -> JobKind {
    let label = match random.below(40) {
        0..=32 => "linux",
        33..=38 => "big",
        _ => "gpu",
    };
    steps(label, random.chance(3, 20).then(|| Template::literal(true)))
}

fn steps(label: &str, continue_on_error: Option<Template>) -> JobKind {
    JobKind::Steps(Box::new(StepsJob {
        runs_on: Data::Scalar(Template::literal(label)),
        requires: Requires::default(),
        prefer: Vec::new(),
        limits: kiln_core::plan::Limits::default(),
        env: None,
        defaults: RunDefaults::default(),
        container: None,
        services: None,
        environment: None,
        timeout_minutes: None,
        cancel_timeout_minutes: None,
        continue_on_error,
        outputs: Vec::new(),
        result_cache: None,
        steps: Vec::new(),
    }))
}
