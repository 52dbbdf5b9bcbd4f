//! A program of ours as a process, which goes with the test.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use super::world::{PATIENCE, patience};

/// A program of ours that runs.
pub(super) struct Program {
    child: Child,
    lines: Receiver<String>,
}

impl Program {
    pub(super) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("the binary was built for this test");
        let out = child.stdout.take().expect("it is a pipe");
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Program { child, lines }
    }

    /// The next line that is a JSON object with this key.
    pub(super) fn json_with(&self, key: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let line = self.lines.recv_timeout(end.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|_| panic!("it never said `{key}`"));
            match serde_json::from_str::<Value>(&line) {
                Ok(value) if !value[key].is_null() => return value,
                _ => {}
            }
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// `kill -9`, of the process alone.
    pub(super) fn kill(mut self) {
        kill_process(self.pid(), Signal::KILL).expect("it is ours");
        let _ = self.child.wait();
    }

    /// It does nothing from now on, and is there all the same.
    pub(super) fn freeze(&self) {
        kill_process(self.pid(), Signal::STOP).expect("it is ours");
    }

    /// It goes on where it was.
    pub(super) fn thaw(&self) {
        kill_process(self.pid(), Signal::CONT).expect("it is ours");
    }

    /// Asks it to end, and waits until it has.
    pub(super) fn stop(mut self) -> i32 {
        kill_process(self.pid(), Signal::TERM).expect("it is ours");
        self.ended("it does not end").code().unwrap_or(-1)
    }

    /// Waits until it has ended by itself.
    pub(super) fn done(mut self) -> i32 {
        self.ended("it does not end by itself").code().unwrap_or(-1)
    }

    /// Waits until it has died by itself, at a point where it was to.
    pub(super) fn died(mut self, point: &str) {
        let status = self.ended(&format!("it never passed `{point}`"));
        let abort = Signal::ABORT.as_raw();
        assert_eq!(status.signal(), Some(abort), "`{point}`: {status}");
    }

    fn ended(&mut self, otherwise: &str) -> std::process::ExitStatus {
        let end = Instant::now() + patience();
        loop {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return status;
            }
            assert!(Instant::now() < end, "{otherwise}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}
