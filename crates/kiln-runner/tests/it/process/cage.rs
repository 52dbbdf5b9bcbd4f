//! Limits that the kernel sees to, and memory that is measured, with real processes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Log, bash, control, limits, tree, variable};
use kiln_runner::process::{self, Bounds, Cage, End};

/// A process that wants 200 MB.
const GREEDY: &str = "exec python3 -c 'x = bytearray(200_000_000); print(len(x))'";

/// S23: needs root and control groups, which machines for tests have.
#[test]
fn a_job_cannot_have_more_memory_than_its_limit() {
    let bounds = Bounds { memory_mb: Some(60), cpu_millis: Some(500), ..Bounds::default() };
    let tree = tree();
    let (cage, lacking) = Cage::build(bounds, tree.token());
    tree.confine(cage.unwrap_or_else(|| panic!("no control groups: {lacking:?}")));
    assert!(lacking.is_empty(), "{lacking:?}");
    let part = tree.part().unwrap();
    let mut log = Log::default();
    // Names that no shell knows, as inputs of actions have them, come through.
    let mut small = bash("env | grep ^INPUT_; exit 3");
    small.env.push(variable("INPUT_NODE-VERSION", "20"));
    let outcome = process::run(&small, &mut log, &control(), &limits(), &part).unwrap();
    assert_eq!(
        (outcome.end, log.stdout.as_slice()),
        (End::Exited(3), &["INPUT_NODE-VERSION=20".to_owned()][..])
    );
    let cage = tree.cage().unwrap();
    assert_eq!(cage.news(), None);
    // Also what a process starts is under the limit.
    let nested = bash(format!("bash -c \"{}\"; exit $?", GREEDY.replace('"', "\\\"")));
    let outcome = process::run(&nested, &mut log, &control(), &limits(), &part).unwrap();
    assert!(matches!(outcome.end, End::Exited(137)), "{outcome:?} {:?}", log.stderr);
    let news = cage.news().unwrap();
    assert!(news.contains("limit of 60 MB"), "{news}");
    assert!(cage.out_of_memory() > 0 && cage.news().is_none());
    assert!(cage.peak().is_some_and(|peak| peak > 10_000_000), "{:?}", cage.peak());
}

/// S23
#[test]
fn a_program_that_is_not_there_is_still_named() {
    let tree = tree();
    let (cage, _) = Cage::build(Bounds { memory_mb: Some(60), ..Bounds::default() }, tree.token());
    tree.confine(cage.expect("machines for tests have control groups"));
    let mut command = bash("true");
    command.program = "/nowhere/at/all".into();
    let failed = process::run(&command, &mut Log::default(), &control(), &limits(), &tree);
    assert!(failed.unwrap_err().to_string().contains("program `/nowhere/at/all` not found"));
}

/// S23
#[test]
fn the_memory_of_a_tree_is_that_of_all_its_processes() {
    let tree = tree();
    let hold = "python3 -c 'x = bytearray(40_000_000); print(\"held\", flush=True); input()'";
    let script = format!("{hold} < <(sleep 60) & {hold} < <(sleep 60) & wait");
    let (held, most) = (AtomicU64::new(0), AtomicU64::new(0));
    let stop = control();
    let look = || {
        if held.fetch_add(1, Ordering::SeqCst) == 1 {
            most.store(tree.memory(), Ordering::SeqCst);
            stop.kill();
        }
    };
    let mut log = Log { at_line: Some(("held", &look)), ..Log::default() };
    let wall = process::Limits { wall: Some(Duration::from_secs(30)), ..limits() };
    let outcome = process::run(&bash(script), &mut log, &stop, &wall, &tree).unwrap();
    assert_eq!(outcome.end, End::Cancelled, "{:?}", log.stderr);
    let most = most.into_inner();
    assert!((80_000_000..400_000_000).contains(&most), "{most}");
    assert_eq!(tree.memory(), 0, "nothing is left");
}
