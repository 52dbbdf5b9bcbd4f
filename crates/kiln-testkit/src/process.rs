//! Processes that tests kill. None outlives its test.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::load::Answered;

/// A process that writes answers, one a line.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    answers: Arc<Mutex<Vec<Answered>>>,
    reader: Option<JoinHandle<()>>,
}

impl Worker {
    #[expect(clippy::disallowed_methods, reason = "a test kills it as a whole")]
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program was built with the tests");
        let out = child.stdout.take().expect("it is a pipe");
        let answers = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&answers);
        let reader = std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut line = String::new();
            // A line without its end was not said to the end.
            while out.read_line(&mut line).is_ok_and(|_| line.ends_with('\n')) {
                let answer = line.trim_end().parse().expect("it only says answers");
                heard.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
                line.clear();
            }
        });
        Self { child, answers, reader: Some(reader) }
    }

    pub fn answers(&self) -> Vec<Answered> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it has answered something.
    pub async fn first_answer(&self) {
        let first = async {
            while self.answers().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let first = tokio::time::timeout(Duration::from_secs(30), first).await;
        first.expect("it works, and says so");
    }

    /// Kills it where it stands. Returns all that it has answered.
    pub fn kill(mut self) -> Vec<Answered> {
        assert!(self.child.try_wait().expect("it is ours").is_none(), "it ended by itself");
        self.stop();
        self.answers()
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }

    /// Holds it still while something is done. No thread of it runs meanwhile.
    pub fn frozen<T>(&self, work: impl FnOnce() -> T) -> T {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).expect("it is ours");
        while !stands_still(pid) {
            std::thread::sleep(Duration::from_micros(100));
        }
        let result = work();
        kill_process(pid, Signal::CONT).expect("it is ours");
        result
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
    }
}

fn stands_still(pid: Pid) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    tasks.into_iter().flatten().flatten().all(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // The state comes behind the name, which may hold anything but ends with the last `)`.
        stat.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with('T'))
    })
}
