//! A cancel in every state that a job can be in: nothing is left, in bounded time.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Place;
use crate::run::{find, jobs, repository, wait_for};

/// A run under way.
struct Running {
    place: Place,
    child: Child,
    started: Instant,
}

/// How a cancelled run ended.
struct Ended {
    out: String,
    code: Option<i32>,
    took: Duration,
}

impl Running {
    fn start(workflow: &str, args: &[&str]) -> Self {
        let place = repository(&jobs(workflow));
        let child = Command::new(env!("CARGO_BIN_EXE_kiln"))
            .arg("run")
            .args(args)
            .current_dir(place.path())
            .env("KILN_STATE", place.path().join("state"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary was built for this test");
        Self { place, child, started: Instant::now() }
    }

    /// A file that a step has written.
    fn file(&self, name: &str) -> PathBuf {
        wait_for(|| find(&self.place.path().join("state"), name))
    }

    /// A process whose number a step has written.
    fn process(&self, name: &str) -> PathBuf {
        let file = self.file(name);
        let number = wait_for(|| {
            let text = std::fs::read_to_string(&file).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        });
        Path::new("/proc").join(number)
    }

    fn interrupt(&mut self) {
        self.started = Instant::now();
        let number = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &number]).status();
        assert!(sent.expect("there is a kill").success());
    }

    fn end(self) -> Ended {
        let output = self.child.wait_with_output().expect("it ends");
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        Ended { out, code: output.status.code(), took: self.started.elapsed() }
    }
}

/// S14
#[test]
fn what_is_queued_never_starts() {
    let mut run = Running::start(
        "  first:\n    runs-on: x\n    steps: [{run: 'echo $$ > ../../pid; exec sleep 300'}]\n  \
         second:\n    runs-on: x\n    steps: [{run: 'echo second ran'}]\n  \
         third:\n    needs: first\n    if: always()\n    runs-on: x\n    steps: [{run: 'echo third ran'}]\n",
        &["--jobs", "1"],
    );
    let process = run.process("pid");
    run.interrupt();
    let ended = run.end();
    assert_eq!(ended.code, Some(130), "{}", ended.out);
    assert!(!process.exists());
    assert!(!ended.out.contains("second ran"), "{}", ended.out);
    assert!(ended.out.contains("second  cancelled"), "{}", ended.out);
}

/// S14: SIGINT, SIGTERM after 7.5 s, SIGKILL 2.5 s later.
#[test]
fn a_step_that_ignores_all_signals_is_killed_with_its_children() {
    let mut run = Running::start(
        "  a:\n    runs-on: x\n    steps:\n      - run: |\n          trap '' INT TERM HUP\n          sh -c 'echo $$ > ../../child; sleep 300' &\n          echo $$ > ../../pid\n          while :; do sleep 1; done\n      \
         - if: cancelled()\n        run: echo cleaned up\n",
        &[],
    );
    let (process, child) = (run.process("pid"), run.process("child"));
    run.interrupt();
    let ended = run.end();
    assert_eq!(ended.code, Some(130), "{}", ended.out);
    assert!(!process.exists() && !child.exists());
    assert!(ended.out.contains("cleaned up"), "{}", ended.out);
    assert!(ended.took >= Duration::from_secs(9), "SIGTERM and SIGKILL come later");
    assert!(ended.took < Duration::from_secs(25), "{:?}", ended.took);
}

/// S14
#[test]
fn a_second_interrupt_ends_also_steps_that_run_despite_the_first() {
    let mut run = Running::start(
        "  a:\n    runs-on: x\n    steps:\n      - run: echo $$ > ../../first; exec sleep 300\n      \
         - if: always()\n        name: last\n        run: trap '' INT TERM; echo $$ > ../../last; sleep 300; echo unreached\n",
        &[],
    );
    run.process("first");
    run.interrupt();
    let last = run.process("last");
    run.interrupt();
    let ended = run.end();
    assert_eq!(ended.code, Some(130), "{}", ended.out);
    assert!(!last.exists());
    assert!(!ended.out.contains("unreached"), "{}", ended.out);
    assert!(ended.took < Duration::from_secs(7), "it does not climb the ladder: {:?}", ended.took);
}

/// S14
#[test]
fn steps_in_the_background_end_with_the_job_also_while_somebody_waits_for_them() {
    let mut run = Running::start(
        "  a:\n    runs-on: x\n    steps:\n      - id: one\n        background: true\n        run: echo $$ > ../../one; exec sleep 300\n      \
         - background: true\n        run: echo $$ > ../../two; exec sleep 300\n      \
         - wait: one\n      - if: always()\n        run: echo cleaned up\n",
        &[],
    );
    let (one, two) = (run.process("one"), run.process("two"));
    run.interrupt();
    let ended = run.end();
    assert_eq!(ended.code, Some(130), "{}", ended.out);
    assert!(!one.exists() && !two.exists());
    assert!(ended.out.contains("cleaned up"), "{}", ended.out);
}
