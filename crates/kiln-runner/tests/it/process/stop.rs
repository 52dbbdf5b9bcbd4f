//! Limits, cancelling and killing.

use std::time::{Duration, Instant};

use super::{Log, bash, carriers, control, limits, tree};
use kiln_runner::process::{self, Control, End, Limits};

/// Runs a script that prints `ready`, does something then, and checks that nothing is left of it.
/// Gives the end, the time from `ready` on, and what was printed after it.
fn stop_at_ready(
    script: &str,
    control: &Control,
    limits: &Limits,
    action: &dyn Fn(),
) -> (End, Duration, Vec<String>) {
    let tree = tree();
    let ready = std::cell::Cell::new(Instant::now());
    let act = || {
        ready.set(Instant::now());
        action();
    };
    let mut log = Log { at_line: Some(("ready", &act)), ..Log::default() };
    let outcome = process::run(&bash(script), &mut log, control, limits, &tree).unwrap();
    let elapsed = ready.get().elapsed();
    assert!(carriers(tree.token()).is_empty(), "{script}");
    assert!(!outcome.left_running, "{script}");
    let after = log.stdout.iter().skip_while(|line| *line != "ready").skip(1);
    (outcome.end, elapsed, after.cloned().collect())
}

const WAIT: &str = "echo ready; for i in {1..2000}; do sleep 0.02; done";

/// PEERS 4 (6)
#[test]
fn a_cancelled_process_gets_the_signals_one_after_another() {
    let check = |traps: &str, printed: &[&str], from: u64, to: u64| {
        let control = control();
        let cancel = || control.cancel();
        let (end, elapsed, after) =
            stop_at_ready(&format!("{traps}; {WAIT}"), &control, &limits(), &cancel);
        assert_eq!((end, after), (End::Cancelled, printed.iter().map(|s| (*s).into()).collect()));
        let range = Duration::from_millis(from)..Duration::from_millis(to);
        assert!(range.contains(&elapsed), "{traps}: {elapsed:?}");
    };
    // The ladder of these tests is 0, 1000 and 1500 ms.
    check(":", &[], 0, 1000);
    check("trap 'echo int; exit 0' INT", &["int"], 0, 1000);
    check("trap 'echo int' INT; trap 'echo term; exit 1' TERM", &["int", "term"], 1000, 1500);
    check("trap 'echo int' INT; trap 'echo term' TERM", &["int", "term"], 1500, 4000);
    check("trap '' INT TERM HUP", &[], 1500, 4000);
}

#[test]
fn a_kill_ends_the_tree_at_once_also_during_a_cancel() {
    let check = |action: &dyn Fn(&Control)| {
        let control = control();
        let act = || action(&control);
        let script = format!("trap '' INT TERM; setsid sleep 100 & {WAIT}");
        let (end, elapsed, _) = stop_at_ready(&script, &control, &limits(), &act);
        assert_eq!(end, End::Cancelled);
        assert!(elapsed < Duration::from_secs(1), "{elapsed:?}");
    };
    check(&Control::kill);
    check(&|control| {
        control.cancel();
        control.kill();
    });
}

#[test]
fn a_cancel_from_another_thread_ends_a_silent_process() {
    let control = control();
    let other = control.clone();
    let start = Instant::now();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        other.cancel();
    });
    let tree = tree();
    let command = bash("sleep 100");
    let outcome = process::run(&command, &mut Log::default(), &control, &limits(), &tree).unwrap();
    canceller.join().unwrap();
    assert_eq!(outcome.end, End::Cancelled);
    assert!(start.elapsed() < Duration::from_secs(2));
}

#[test]
fn what_starts_after_a_cancel_is_cancelled_unless_it_runs_despite_it() {
    let job = control();
    job.cancel();
    let run = |control: &Control, script: &str| {
        let outcome = process::run(&bash(script), &mut Log::default(), control, &limits(), &tree());
        outcome.unwrap().end
    };
    assert_eq!(run(&job.child().unwrap(), "sleep 100"), End::Cancelled);
    let always = job.despite_cancel();
    assert_eq!(run(&always, "exit 5"), End::Exited(5));
    job.kill();
    assert_eq!(run(&always, "sleep 100"), End::Cancelled);
}

#[test]
fn a_process_that_outlives_its_time_or_is_silent_is_stopped() {
    let check = |script: &str, change: &dyn Fn(&mut Limits), expect: End| {
        let mut limits = limits();
        change(&mut limits);
        let start = Instant::now();
        let (end, _, _) = stop_at_ready(script, &control(), &limits, &|| {});
        assert_eq!(end, expect, "{script}");
        assert!(start.elapsed() < Duration::from_secs(8), "{script}: {:?}", start.elapsed());
    };
    let millis = |millis| Some(Duration::from_millis(millis));
    let chatty = "while :; do echo .; sleep 0.02; done";
    check(chatty, &|limits| limits.wall = millis(300), End::TimedOut);
    check("yes", &|limits| limits.wall = millis(300), End::TimedOut);
    check("echo a; sleep 100", &|limits| limits.silence = millis(300), End::Silent);
    check("trap '' INT TERM; sleep 100", &|limits| limits.wall = millis(100), End::TimedOut);
    // Whichever comes first; and neither for what is quick and talks.
    let both = |limits: &mut Limits| {
        limits.silence = millis(400);
        limits.wall = millis(1200);
    };
    check("sleep 100", &both, End::Silent);
    check(chatty, &both, End::TimedOut);
    check("for i in {1..30}; do echo .; sleep 0.02; done; exit 6", &both, End::Exited(6));
}

#[test]
fn a_process_that_ended_before_the_cancel_keeps_its_status_and_output() {
    let control = control();
    let cancel = || control.cancel();
    let mut log = Log { at_line: Some(("last", &cancel)), ..Log::default() };
    // The child prints when its parent has ended, and is what cancels.
    let script = "(while kill -0 $$ 2>&-; do sleep 0.01; done; echo last; echo more) & exit 9";
    let tree = tree();
    let outcome = process::run(&bash(script), &mut log, &control, &limits(), &tree).unwrap();
    assert_eq!(outcome.end, End::Exited(9));
    assert_eq!(log.stdout, ["last", "more"]);
}

#[test]
fn a_child_that_ignores_what_ended_its_parent_goes_too() {
    let control = control();
    let cancel = || control.cancel();
    let script = "(trap '' INT TERM HUP; sleep 100) & echo ready; wait";
    let (end, elapsed, _) = stop_at_ready(script, &control, &limits(), &cancel);
    assert_eq!(end, End::Cancelled);
    assert!(elapsed < Duration::from_secs(3), "{elapsed:?}");
}
