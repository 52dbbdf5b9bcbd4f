//! The process layer, with processes that behave badly. Nothing of them is left when a test ends.

mod cage;
mod guard;
mod output;
mod stop;
mod tree;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use kiln_runner::process::{
    self, Command, Control, Ending, Ladder, Limits, Outcome, Patience, Sink, Stream, Tree, VARIABLE,
};

/// Keeps what was printed, and can do something at a line.
#[derive(Default)]
struct Log<'a> {
    stdout: Vec<String>,
    stderr: Vec<String>,
    at_line: Option<(&'a str, &'a dyn Fn())>,
}

impl Sink for Log<'_> {
    fn line(&mut self, stream: Stream, text: &[u8], _: Ending) {
        let text = String::from_utf8_lossy(text).into_owned();
        if let Some((line, action)) = self.at_line
            && line == text
        {
            action();
        }
        match stream {
            Stream::Stdout => self.stdout.push(text),
            Stream::Stderr => self.stderr.push(text),
        }
    }
}

fn bash(script: impl AsRef<OsStr>) -> Command {
    Command {
        program: "bash".into(),
        args: vec!["-c".into(), script.as_ref().into()],
        env: vec![variable("PATH", "/usr/local/bin:/usr/bin:/bin")],
        cwd: "/".into(),
    }
}

fn variable(name: &str, value: impl AsRef<OsStr>) -> (OsString, OsString) {
    (name.into(), value.as_ref().into())
}

/// Times short enough for tests, long enough for a busy machine.
fn limits() -> Limits {
    Limits {
        ladder: Ladder { interrupt: Duration::from_secs(1), terminate: Duration::from_millis(500) },
        patience: Patience { quiet: Duration::from_millis(300), total: Duration::from_millis(600) },
        ..Limits::default()
    }
}

fn tree() -> Tree {
    Tree::new(None).expect("the system has random numbers")
}

fn control() -> Control {
    Control::new().expect("there are descriptors left")
}

/// Runs a script under no limits.
fn run(script: &str) -> (Outcome, Log<'static>) {
    let mut log = Log::default();
    let tree = tree();
    let outcome = process::run(&bash(script), &mut log, &control(), &limits(), &tree);
    tree.sweep();
    (outcome.expect("bash can be started"), log)
}

/// The pids of the processes that carry this token, found without the code under test.
fn carriers(token: &str) -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let carries = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let environment = String::from_utf8_lossy(&environment);
        environment.split('\0').any(|entry| entry.starts_with(VARIABLE) && entry.contains(token))
    };
    pids.filter(carries).collect()
}

/// Whether a process exists that has not ended.
fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Waits until something holds, for a bounded time.
fn eventually(what: &str, bound: Duration, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < bound, "{what}: not within {bound:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The pids that processes wrote into a file, once there are so many.
fn pids_in(file: &Path, count: usize) -> Vec<i32> {
    let read = || -> Vec<i32> {
        let text = fs::read_to_string(file).unwrap_or_default();
        let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
        complete.lines().map(|line| line.parse().expect("a pid")).collect()
    };
    let bound = Duration::from_secs(10);
    eventually("all processes have started", bound, || read().len() >= count);
    read()
}
