//! Processes that run away.

use std::fs;
use std::time::Duration;

use super::{Log, bash, carriers, control, eventually, is_alive, limits, pids_in, tree};
use kiln_runner::process::{self, End, Swept, Tree};

/// Processes that outlive the step that started them. They end by themselves when this is dropped,
/// should a test fail.
struct Runaways {
    pids: Vec<i32>,
    directory: tempfile::TempDir,
}

impl Runaways {
    /// Runs a script whose processes append their pids to `$PIDS`, and waits for so many.
    fn start(script: &str, tree: &Tree, count: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pids");
        let mut command = bash(format!("exec >/dev/null 2>&1; {script}"));
        command.env.push(super::variable("PIDS", &file));
        let outcome = process::run(&command, &mut Log::default(), &control(), &limits(), tree);
        assert_eq!(outcome.unwrap().end, End::Exited(0), "{script}");
        let pids = pids_in(&file, count);
        Self { pids, directory }
    }

    /// How many have started until now.
    fn count(&self) -> usize {
        pids_in(&self.directory.path().join("pids"), 0).len()
    }
}

/// Ignores what can be ignored, and stays.
const STAY: &str =
    "trap \"\" INT TERM HUP; echo $BASHPID >> $PIDS; while [ -e $PIDS ]; do sleep 0.05; done";

/// PEERS 4 (6)
#[test]
fn a_sweep_finds_children_wherever_they_went() {
    process::become_subreaper().unwrap();
    let check = |script: &str, count: usize| {
        let tree = tree();
        let Runaways { pids, directory } = Runaways::start(script, &tree, count);
        assert!(pids.iter().all(|pid| is_alive(*pid)), "{script}");
        let swept = tree.sweep();
        assert!(swept.killed >= count && swept.survivors.is_empty(), "{script}: {swept:?}");
        assert!(!pids.iter().any(|pid| is_alive(*pid)), "{script}");
        assert!(carriers(tree.token()).is_empty(), "{script}");
        drop(directory);
    };
    check(&format!("bash -c '{STAY}' &"), 1);
    check(&format!("setsid bash -c '{STAY}' &"), 1);
    check(&format!("( ( {STAY} ) & )"), 1);
    check(&format!("( setsid bash -c '( {STAY} ) & ( {STAY} ) & ' & )"), 2);
    // A child without environment is found by its parent, its group or its session.
    check(&format!("bash -c 'env -i PIDS=$PIDS PATH=$PATH bash -c '\\''{STAY}'\\''; :' &"), 1);
    check("sleep 100 & echo $! >> $PIDS; kill -STOP $!", 1);
}

#[test]
fn a_sweep_of_nothing_kills_nothing() {
    assert_eq!(tree().sweep(), Swept::default());
}

/// PEERS 4 (6)
#[test]
fn what_a_finished_job_left_is_found_without_a_search_when_there_is_nothing() {
    process::become_subreaper().unwrap();
    let check = |script: &str, count: usize| {
        let tree = tree();
        let Runaways { pids, directory } = Runaways::start(script, &tree, count);
        let swept = tree.sweep_leftovers();
        assert!(swept.killed >= count && swept.survivors.is_empty(), "{script}: {swept:?}");
        assert!(!pids.iter().any(|pid| is_alive(*pid)), "{script}");
        drop(directory);
    };
    check("true", 0);
    check(&format!("setsid bash -c '{STAY}' &"), 1);
    check(&format!("( setsid bash -c '( {STAY} ) & ( {STAY} ) & ' & )"), 2);
    // Many jobs at once, each of which leaves a process to be adopted at any moment.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope
                .spawn(|| (0..5).for_each(|_| check(&format!("( setsid bash -c '{STAY}' & )"), 1)));
        }
    });
}

#[test]
fn processes_that_always_become_others_are_caught() {
    let tree = tree();
    // They end when the file is gone, should they not be caught.
    let hop = "hop() { [ -e $PIDS ] && echo $BASHPID >> $PIDS && setsid bash -c hop & }
        export -f hop; : > $PIDS; hop; hop; hop";
    let runaways = Runaways::start(hop, &tree, 30);
    let swept = tree.sweep();
    assert!(swept.survivors.is_empty(), "{swept:?}");
    let count = runaways.count();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(runaways.count(), count, "none hops on after {swept:?}");
}

#[test]
fn a_sweep_of_one_job_leaves_the_others_alone() {
    let whole = tree();
    let (one, other) = (whole.child().unwrap(), whole.child().unwrap());
    let script = format!("setsid bash -c '{STAY}' &");
    let first = Runaways::start(&script, &one, 1);
    let second = Runaways::start(&script, &other, 1);
    one.sweep();
    assert!(!is_alive(first.pids[0]) && is_alive(second.pids[0]));
    whole.sweep();
    assert!(!is_alive(second.pids[0]));
}

/// Children of this process that have ended and wait to be freed.
fn zombies() -> Vec<i32> {
    let own = std::process::id().to_string();
    let is_zombie = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        rest.starts_with(&format!("Z {own} "))
    };
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(is_zombie).collect()
}

#[test]
fn orphans_are_freed_and_no_status_is_stolen() {
    process::become_subreaper().unwrap();
    let run_many = |code: i32| {
        for _ in 0..40 {
            let script = format!("(sleep 0.00{code} &) >/dev/null 2>&1; exit {code}");
            let outcome =
                process::run(&bash(script), &mut Log::default(), &control(), &limits(), &tree());
            assert_eq!(outcome.unwrap().end, End::Exited(code));
        }
    };
    std::thread::scope(|scope| {
        for code in 1..=4 {
            scope.spawn(move || run_many(code));
        }
        scope.spawn(|| {
            for _ in 0..200 {
                process::reap_orphans();
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    });
    eventually("no zombie is left", Duration::from_secs(5), || {
        process::reap_orphans();
        zombies().is_empty()
    });
}

#[test]
fn a_question_at_the_terminal_fails_instead_of_stopping_the_process() {
    process::refuse_terminal();
    let (_, log) = super::run(
        "while read -r name value; do [ $name = SigIgn: ] && echo $value; done < /proc/$$/status",
    );
    let ignored = u64::from_str_radix(&log.stdout[0], 16).unwrap();
    for signal in [21, 22] {
        assert!(ignored & 1 << (signal - 1) != 0, "signal {signal} is ignored in {ignored:x}");
    }
}
