//! What is left when Kiln itself is killed. This test binary plays Kiln and its guard.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{Log, bash, carriers, control, eventually, is_alive, limits, pids_in, tree, variable};
use kiln_runner::process::{self, Guard, Tree};
use rustix::process::{Pid, Signal, kill_process};

/// Names the part that [`a_part_that_other_tests_start`] plays.
const PART: &str = "KILN_TEST_PART";

#[test]
#[ignore = "other tests start it"]
fn a_part_that_other_tests_start() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    match part.split_once(' ').expect("a part has an argument") {
        ("guard", token) => drop(process::guard_main(token).unwrap()),
        ("kiln", place) => play_kiln(Path::new(place)),
        other => panic!("unknown part {other:?}"),
    }
}

/// Kiln in the middle of a step that has children of all kinds.
fn play_kiln(place: &Path) {
    process::become_subreaper().unwrap();
    let tree = tree();
    let _guard = Guard::start(&guard_program(place), &tree).unwrap();
    let stay =
        "trap \"\" INT TERM HUP; echo $BASHPID >> $PIDS; while [ -e $PIDS ]; do sleep 0.05; done";
    let script = format!("setsid bash -c '{stay}' & ( ( {stay} ) & ); bash -c '{stay}'");
    let mut command = bash(script);
    command.env.push(variable("PIDS", place.join("pids")));
    fs::write(place.join("token"), tree.token()).unwrap();
    process::run(&command, &mut Log::default(), &control(), &limits(), &tree).unwrap();
}

/// A program that takes `__guard TOKEN`.
fn guard_program(place: &Path) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = place.join("guard");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = __guard ] || exit 1\n{PART}=\"guard $2\" exec {} {}\n",
        test.display(),
        part_arguments().join(" ")
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

fn part_arguments() -> [&'static str; 3] {
    ["--ignored", "--exact", "process::guard::a_part_that_other_tests_start"]
}

fn start_kiln(place: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(part_arguments())
        .env(PART, format!("kiln {}", place.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// The processes whose command line ends with a guard's part for this token.
fn guards(token: &str) -> usize {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let is_guard = |entry: &fs::DirEntry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&format!("{PART}=guard {token}"))
    };
    pids.filter(is_guard).count()
}

#[test]
fn nothing_outlives_a_killed_kiln() {
    let directory = tempfile::tempdir().unwrap();
    let mut kiln = start_kiln(directory.path());
    let pids = pids_in(&directory.path().join("pids"), 3);
    let token = fs::read_to_string(directory.path().join("token")).unwrap();
    eventually("the guard stands", Duration::from_secs(5), || guards(&token) == 1);
    let pid = Pid::from_child(&kiln);
    kill_process(pid, Signal::KILL).unwrap();
    // The shared process of `cargo test` may free it elsewhere.
    let _ = kiln.wait();
    eventually("all processes end", Duration::from_secs(5), || {
        carriers(&token).is_empty() && !pids.iter().any(|pid| is_alive(*pid))
    });
    eventually("the guard ends, too", Duration::from_secs(5), || guards(&token) == 0);
}

/// A process of a tree that stays.
fn stray(tree: &Tree) -> i32 {
    let mut log = Log::default();
    let command = bash("setsid sleep 100 >/dev/null 2>&1 & echo $!");
    process::run(&command, &mut log, &control(), &limits(), tree).unwrap();
    log.stdout[0].parse().unwrap()
}

#[test]
fn a_guard_that_was_told_that_all_is_well_does_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let tree = tree();
    let guard = Guard::start(&guard_program(directory.path()), &tree).unwrap();
    let stray = stray(&tree);
    guard.finish().unwrap();
    assert_eq!(guards(tree.token()), 0);
    assert!(is_alive(stray));
    tree.sweep();
    assert!(!is_alive(stray));
}

#[test]
fn a_guard_that_is_dropped_sweeps() {
    let directory = tempfile::tempdir().unwrap();
    let tree = tree();
    let guard = Guard::start(&guard_program(directory.path()), &tree).unwrap();
    let stray = stray(&tree);
    drop(guard);
    eventually("the stray ends", Duration::from_secs(5), || !is_alive(stray));
    eventually("the guard ends", Duration::from_secs(5), || guards(tree.token()) == 0);
}

#[test]
fn a_guard_refuses_what_is_no_token() {
    for token in ["", "PATH", "0123456789abcdef"] {
        let error = process::guard_main(token).unwrap_err();
        assert_eq!(error.to_string(), format!("`{token}` is not the token of a process tree"));
    }
}
