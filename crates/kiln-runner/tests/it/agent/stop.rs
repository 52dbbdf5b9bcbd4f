//! Jobs that are cancelled, and runners that are asked to stop.

use std::fs;
use std::time::{Duration, Instant};

use kiln_proto::job::JobRef;
use kiln_proto::runner::Command;
use kiln_runner::agent::Stop;

use super::{Case, job, wait};

const JOB: JobRef = JobRef { job_id: 1, attempt: 1 };

fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Runs a job until its first lines, sends a command, and returns its log and how long it took.
fn cancelled(steps: &str, lines: usize, command: Command) -> (String, Duration) {
    let case = Case::new();
    let runner = case.start();
    case.server.queue(job(1, steps));
    wait("it has begun", || case.server.told(1).text().lines().count() >= lines);
    let begun = Instant::now();
    case.server.command(1, command);
    wait("it is complete", || case.server.told(1).complete.is_some());
    let took = begun.elapsed();
    let told = case.server.told(1);
    assert_eq!(told.complete.clone().unwrap().conclusion, "cancelled", "{}", told.text());
    for pid in told.text().lines().filter_map(|line| line.strip_prefix("pid ")) {
        assert!(!is_running(pid), "{pid} outlived its job");
    }
    runner.drained();
    (told.text(), took)
}

/// S14, PEERS 6
#[test]
fn a_cancel_reaches_the_step_at_once_and_steps_with_always_still_run() {
    let steps = "      - run: 'trap \"echo asked; exit 1\" INT; echo pid $$; sleep 600 & wait'\n      - run: echo never\n      - {if: always(), run: echo swept}\n";
    let (text, took) = cancelled(steps, 1, Command::Cancel(JOB));
    assert!(text.contains("asked\n") && text.contains("swept\n"), "{text}");
    assert!(!text.contains("never\n"), "{text}");
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// S14, PEERS 6
#[test]
fn what_ignores_every_signal_and_what_forks_twice_is_gone_in_the_bound() {
    let steps = "      - run: |\n          trap '' INT TERM\n          echo pid $$\n          (setsid sh -c 'trap \"\" INT TERM; echo pid $$; sleep 600; sleep 600' &)\n          while :; do sleep 1; done\n";
    let (_, took) = cancelled(steps, 2, Command::Cancel(JOB));
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// S14, PEERS 6
#[test]
fn a_kill_ends_everything_at_once_and_no_further_step_runs() {
    let steps = "      - run: 'trap \"\" INT TERM; echo pid $$; sleep 600'\n      - {if: always(), run: sleep 600}\n";
    let (_, took) = cancelled(steps, 1, Command::Kill(JOB));
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// S12
#[test]
fn a_drain_finishes_what_runs_and_takes_nothing_new() {
    let case = Case::new();
    let runner = case.start_with(|options| options.unregister = true);
    case.server.queue(job(1, "      - run: echo begun; sleep 0.5; echo end\n"));
    wait("it has begun", || case.server.told(1).text().contains("begun"));
    runner.stop(Stop::Drain);
    wait("the server hears of it", || {
        case.server.world().heartbeats.iter().any(|heartbeat| heartbeat.draining)
    });
    case.server.queue(job(2, "      - run: echo never\n"));
    let ended = runner.ended().unwrap();
    assert_eq!((ended.given_back, ended.unregistered), (0, true));
    assert_eq!(case.server.told(1).complete.unwrap().conclusion, "success");
    assert_eq!(case.server.world().queue.len(), 1);
    assert!(case.server.world().runners.is_empty());
    assert!(!case.data().join("runner.json").exists());
}

/// S12
#[test]
fn in_a_hurry_what_runs_is_cancelled_and_told() {
    let case = Case::new();
    let runner = case.start_with(|options| options.grace = Some(Duration::from_millis(300)));
    case.server.queue(job(1, "      - run: 'echo begun; sleep 600'\n"));
    wait("it has begun", || case.server.told(1).text().contains("begun"));
    let begun = Instant::now();
    runner.drained();
    assert!(begun.elapsed() < Duration::from_secs(15));
    assert_eq!(case.server.told(1).complete.unwrap().conclusion, "cancelled");
}

#[test]
fn a_runner_for_one_job_leaves_after_it() {
    let case = Case::new();
    let runner = case.start_with(|options| options.once = true);
    case.server.queue(job(1, "      - run: echo a\n"));
    case.server.queue(job(2, "      - run: echo b\n"));
    let ended = runner.ended().unwrap();
    assert!(ended.unregistered);
    assert!(case.server.world().registrations[0].single_use);
    assert_eq!(case.server.told(1).complete.unwrap().conclusion, "success");
    assert_eq!(case.server.world().queue.len(), 1);
    assert!(case.server.world().runners.is_empty());
}

/// S15
#[test]
fn a_machine_that_is_short_of_disk_takes_no_jobs_and_says_why() {
    let case = Case::new();
    let runner = case.start_with(|options| options.bounds.least_disk_mb = u64::MAX);
    case.server.queue(job(1, "      - run: echo a\n"));
    wait("the server hears of it", || {
        let world = case.server.world();
        let mut troubles = world.heartbeats.iter().filter_map(|it| it.health.trouble.clone());
        troubles.any(|trouble| trouble.contains("disk"))
    });
    assert_eq!(case.server.world().queue.len(), 1);
    runner.drained();
}

/// S12
#[test]
fn a_job_that_cannot_be_written_about_is_given_back_before_it_begins() {
    let case = Case::new();
    let runner = case.start();
    wait("it asks", || case.server.world().calls.contains_key("claim"));
    fs::remove_dir(case.data().join("jobs")).unwrap();
    fs::write(case.data().join("jobs"), "no folder").unwrap();
    case.server.queue(job(1, "      - run: echo a\n"));
    wait("it is given back", || case.server.told(1).returned.is_some());
    assert!(case.server.told(1).returned.unwrap().contains("data directory"));
    assert!(case.server.told(1).complete.is_none());
    assert_eq!(runner.drained().given_back, 1);
}

/// S5: the server has it by then, and nobody else could come back as it.
#[test]
fn who_is_told_to_stop_while_it_registers_waits_for_its_credential() {
    let case = Case::new();
    case.server.hold_registrations(true);
    let runner = case.start();
    wait("it registers", || !case.server.world().registrations.is_empty());
    runner.stop(Stop::Drain);
    case.server.hold_registrations(false);
    runner.ended().unwrap();
    assert!(case.data().join("runner.json").exists());
    let again = case.start();
    wait("it comes back", || case.server.world().registrations.len() > 1);
    again.drained();
    let world = case.server.world();
    assert_eq!(world.registrations.last().unwrap().id, Some(1));
    assert_eq!(world.runners.len(), 1);
}

/// A server that is away for good does not hold up a runner in a hurry; the next start delivers.
#[test]
fn what_cannot_be_delivered_in_a_hurry_is_delivered_by_the_next_start() {
    let case = Case::new();
    let runner = case.start();
    case.server.queue(job(1, "      - run: 'echo begun; sleep 600'\n"));
    wait("it has begun", || case.server.told(1).text().contains("begun"));
    case.server.go_away();
    runner.stop(Stop::Kill);
    let ended = runner.ended().unwrap();
    assert!(!ended.unregistered);
    assert!(case.data().join("jobs/1.1/complete.json").exists());
    case.server.come_back();
    let runner = case.start();
    wait("it is complete", || case.server.told(1).complete.is_some());
    assert_eq!(case.server.told(1).complete.unwrap().conclusion, "cancelled");
    runner.drained();
}
