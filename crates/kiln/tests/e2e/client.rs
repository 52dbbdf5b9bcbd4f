//! The commands of people against a real `kiln up`: the whole path, as it is typed.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::{Answer, Place};

/// Nothing here takes longer, on a machine however busy.
const PATIENCE: Duration = Duration::from_secs(90);

const WORKFLOW: &str = "\
on: [push, workflow_dispatch]
jobs:
  greet:
    runs-on: ubuntu-latest
    steps:
      - name: Say hello
        run: echo \"hello from kiln\"
  verdict:
    needs: greet
    runs-on: ubuntu-latest
    steps:
      - name: Judge
        run: |
          echo \"about to judge\"
          test -e \"$HOME/verdict\"
";

const SLOW: &str = "\
on: workflow_dispatch
jobs:
  wait:
    runs-on: ubuntu-latest
    steps:
      - name: Count
        run: |
          for i in $(seq 1 600); do echo \"tick $i\"; sleep 0.2; done
";

/// One run of it at a time.
const GATED: &str = "\
name: Deploy
on: workflow_dispatch
concurrency: production
jobs:
  wait:
    runs-on: ubuntu-latest
    steps: [{run: sleep 600}]
";

/// `kiln up`, and a repository to try it with.
pub(crate) struct Up {
    pub(crate) place: Place,
    pub(crate) data: PathBuf,
    /// What it said when it began to serve.
    pub(crate) serving: Value,
    child: Child,
}

impl Up {
    pub(crate) fn new() -> Self {
        let place = Place::new();
        let data = place.path().join("data");
        std::fs::create_dir_all(place.path().join("home")).expect("the directory is ours");
        let app = place.below("app");
        app.file(".github/workflows/ci.yml", WORKFLOW);
        app.file(".github/workflows/slow.yml", SLOW);
        app.file(".github/workflows/gated.yml", GATED);
        app.git(&["init", "-q", "-b", "main"]);
        app.git(&["add", "-A"]);
        let identity = ["-c", "user.name=me", "-c", "user.email=me@example.com"];
        app.git(&[&identity[..], &["commit", "-qm", "First"]].concat());
        let folder = data.to_string_lossy().into_owned();
        let args = ["up", "--json", "--no-sample", "--listen", "127.0.0.1:0", "--data", &folder];
        let mut command = own(&place, "", &args);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary was built");
        let lines = lines(child.stdout.take().expect("it is piped"));
        let serving = until(&lines, |line| line.contains("\"serving\""));
        let serving = serde_json::from_str(&serving).expect("it writes JSON");
        let up = Self { place, data, serving, child };
        until(&lines, |line| line.contains("\"ready\""));
        // Its further lines must have a reader.
        std::thread::spawn(move || while lines.recv().is_ok() {});
        up
    }

    /// The command in the repository, which finds the server by its data directory.
    fn command(&self, args: &[&str]) -> Command {
        self.command_in("app", args)
    }

    fn command_in(&self, below: &str, args: &[&str]) -> Command {
        let mut command = own(&self.place, below, args);
        command.env("KILN_DATA", &self.data).stdin(Stdio::null());
        command
    }

    /// The same outside of the repository.
    pub(crate) fn kiln_outside(&self, args: &[&str]) -> Answer {
        let output = self.command_in("home", args).output();
        Answer::of(&output.expect("the binary was built for this test"))
    }

    pub(crate) fn kiln(&self, args: &[&str]) -> Answer {
        Answer::of(&self.command(args).output().expect("the binary was built for this test"))
    }

    /// A run of this workflow, by its slug.
    pub(crate) fn trigger(&self, workflow: &str) -> String {
        let answer = self.kiln(&["trigger", workflow, "--add", "--json"]);
        let slug = answer.code(0).json()["runs"][0]["slug"].as_str().map(str::to_owned);
        slug.expect("a run was started")
    }

    /// Reads the lines of a command that goes on.
    fn follow(&self, args: &[&str]) -> (Child, Receiver<String>) {
        let mut command = self.command(args);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary was built");
        let out = child.stdout.take().expect("it is piped");
        (child, lines(out))
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // It ends its jobs and itself; a second signal makes it quick.
        let pid = Pid::from_child(&self.child);
        for _ in 0..2 {
            let _ = kill_process(pid, Signal::TERM);
            std::thread::sleep(Duration::from_millis(200));
        }
        let _ = self.child.wait();
    }
}

/// The program with a home of its own.
fn own(place: &Place, below: &str, args: &[&str]) -> Command {
    let mut command = place.command(below, args);
    for name in ["KILN_SERVER", "KILN_TOKEN", "KILN_CA", "KILN_DATA", "KILN_CONFIG", "CI"] {
        command.env_remove(name);
    }
    let home = place.path().join("home");
    command
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("XDG_DATA_HOME", home.join("data"))
        .env("HOME", home)
        .stdin(Stdio::null());
    command
}

fn lines(out: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Waits for a line.
#[track_caller]
fn until(lines: &Receiver<String>, fits: impl Fn(&str) -> bool) -> String {
    let mut seen = Vec::new();
    loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) if fits(&line) => return line,
            Ok(line) => seen.push(line),
            Err(error) => panic!("{error}: {seen:#?}"),
        }
    }
}

/// A run fails, is looked at, and succeeds when it is run again.
#[test]
fn a_run_is_triggered_watched_read_and_run_again() {
    let up = Up::new();
    let answer = up.kiln(&["trigger", "ci.yml"]);
    answer.code(2);
    assert!(answer.err.contains("kiln trigger --add"), "{answer:#?}");
    let watched = up.kiln(&["trigger", "ci.yml", "--add", "--watch"]);
    watched.code(1);
    for word in ["greet │ succeeded", "verdict │ ▸ Judge", "verdict │ failed", "about to judge"]
    {
        assert!(watched.out.contains(word), "`{word}` is missing: {watched:#?}");
    }
    let runs = up.kiln(&["runs", "--json", "--status", "failure", "--workflow", "ci.yml"]);
    let run = runs.code(0).json();
    let slug = run["slug"].as_str().expect("it has a slug").to_owned();
    assert_eq!(run["conclusion"], "failure");
    assert!(up.kiln(&["runs"]).code(0).out.contains("✗ failed"));
    let log = up.kiln(&["logs", run["url"].as_str().expect("it has an address")]);
    assert!(log.code(0).out.contains("about to judge"), "{log:#?}");
    assert!(log.err.contains("`verdict` of 2 jobs"), "{log:#?}");
    let log = up.kiln(&["logs", &slug, "--job", "greet", "--step", "Say", "--tail", "1", "--raw"]);
    assert_eq!(log.code(0).out, "hello from kiln\n");
    std::fs::write(up.place.path().join("home/verdict"), "").expect("the directory is ours");
    let again = up.kiln(&["rerun", &slug, "--failed", "--watch"]);
    again.code(0);
    assert!(again.out.contains("runs again: attempt 2"), "{again:#?}");
    let first = up.kiln(&["logs", &slug, "--attempt", "1", "--failed"]);
    assert!(first.code(0).out.contains("about to judge"), "{first:#?}");
    assert!(up.kiln(&["logs", &slug, "--failed"]).code(1).err.contains("no job of"));
}

/// A log is followed while it grows; the run is cancelled, and both the log and the watch end.
#[test]
fn a_log_is_followed_until_the_run_is_cancelled() {
    let up = Up::new();
    let slug = up.trigger("slow.yml");
    let (mut log, text) = up.follow(&["logs", &slug, "--follow", "--raw"]);
    let (mut watch, events) = up.follow(&["watch", &slug, "--json"]);
    until(&text, |line| line == "tick 2");
    assert_eq!(until(&text, |line| line.starts_with("tick")), "tick 3", "none is left out");
    until(&events, |line| line.contains("\"step_started\"") && line.contains("Count"));
    up.kiln(&["cancel", &slug, "--reason", "seen enough"]).code(0);
    let last: Value =
        serde_json::from_str(&until(&events, |line| line.contains("\"run_finished\"")))
            .expect("it is JSON");
    assert_eq!(last["conclusion"], "cancelled");
    assert_eq!(watch.wait().expect("it ends").code(), Some(130));
    assert_eq!(log.wait().expect("it ends").code(), Some(0));
    let answer = up.kiln(&["watch", &slug]);
    assert!(answer.code(130).out.contains("seen enough"), "{answer:#?}");
}

/// What is triggered in a pause waits; its end lets it go.
#[test]
fn a_pause_keeps_jobs_waiting_until_it_ends() {
    let up = Up::new();
    up.kiln(&["repo", "add", "--name", "me/app"]).code(0);
    assert!(up.kiln(&["repo", "list"]).code(0).out.contains("me/app"));
    up.kiln(&["pause", "--reason", "moving the database"]).code(0);
    let list = up.kiln(&["pause", "--list"]);
    assert!(list.code(0).out.contains("the server: ") && list.out.contains("moving the database"));
    let slug = up.trigger("slow.yml");
    let (mut watch, lines) = up.follow(&["watch", &slug]);
    until(&lines, |line| line.starts_with("wait │ waits"));
    up.kiln(&["resume"]).code(0);
    until(&lines, |line| line.contains("▸ Count"));
    let runners = up.kiln(&["runners"]);
    assert!(runners.code(0).out.contains("busy"), "{runners:#?}");
    up.kiln(&["cancel", &slug, "--force"]).code(0);
    assert_eq!(watch.wait().expect("it ends").code(), Some(130));
}

/// S16: for each waiting job its position and the reason in words.
#[test]
fn the_queue_says_why_a_job_waits() {
    let up = Up::new();
    up.kiln(&["pause", "--reason", "moving the database"]).code(0);
    up.trigger("slow.yml");
    assert!(up.kiln(&["queue", "--queues"]).code(0).out.contains("ubuntu-latest"));
    let queue = up.kiln(&["queue"]);
    assert!(queue.code(0).out.contains("moving the database"), "{queue:#?}");
    // One that came later is put first, and back in line.
    let later = up.trigger("slow.yml");
    let order = || {
        let lines = up.kiln(&["queue", "--json"]).code(0).out.clone();
        let job = |line: &str| serde_json::from_str::<Value>(line).expect("it is JSON");
        lines.lines().map(|line| job(line)["run_id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(order(), [1, 2]);
    let moved = up.kiln(&["queue", "move", &later, "--first"]);
    assert_eq!(moved.code(0).out, format!("{later} goes before all others\n"));
    assert_eq!(order(), [2, 1]);
    let back = up.kiln(&["queue", "move", &later, "--priority", "0", "--json"]);
    assert_eq!(
        (&back.code(0).json()["before"], order()),
        (&Value::from(100), vec![1.into(), 2.into()])
    );
    up.kiln(&["queue", "move", &later]).code(2);
    up.kiln(&["queue", "move", &later, "--priority", "101"]).code(2);
}

/// S16: a run that a concurrency group holds says so wherever somebody may look for it.
#[test]
fn a_run_that_a_group_holds_says_so_everywhere() {
    let up = Up::new();
    let (first, second) = (up.trigger("gated.yml"), up.trigger("gated.yml"));
    let reason = "the run waits for the concurrency group `production`";
    let says = |args: &[&str], words: &[&str]| {
        let answer = up.kiln(args);
        for word in words {
            assert!(answer.code(0).out.contains(word), "`{word}` is missing: {answer:#?}");
        }
    };
    let has_it = format!("{first} (Deploy #1) has it");
    says(&["show", &second], &["○", "pending", reason]);
    says(&["queue"], &["HELD", reason, &second, &has_it]);
    says(&["status"], &[reason, &second]);
    says(&["doctor", &second], &[&format!("{second} is pending: {reason}"), &has_it]);
    let json = |args: &[&str]| up.kiln(args).code(0).json();
    assert_eq!(json(&["show", &second, "--json"])["reason"], reason);
    assert_eq!(json(&["queue", "--json"])["group"], "production");
    assert_eq!(json(&["status", "--json"])["held"][0]["slug"], second);
    let (mut plain, lines) = up.follow(&["watch", &second]);
    let (mut events, told) = up.follow(&["watch", &second, "--json"]);
    until(&lines, |line| line == reason);
    let told = until(&told, |line| line.contains("\"run_waits\""));
    assert!(told.contains(reason), "{told}");
    up.kiln(&["cancel", &first]).code(0);
    until(&lines, |line| line.contains("wait │ started"));
    assert!(!up.kiln(&["queue"]).code(0).out.contains("HELD"));
    up.kiln(&["cancel", &second, "--force"]).code(0);
    assert_eq!(plain.wait().expect("it ends").code(), Some(130));
    assert_eq!(events.wait().expect("it ends").code(), Some(130));
}

/// O8: what the pages of a runner and of a repository show can be asked for, too.
#[test]
fn a_runner_and_a_repository_are_shown() {
    let up = Up::new();
    up.kiln(&["trigger", "ci.yml", "--add", "--watch"]).code(1);
    let runner = up.kiln(&["runners", "--json"]).code(0).json();
    let name = runner["name"].as_str().expect("it has a name").to_owned();
    let shown = up.kiln(&["runners", "show", &name]);
    for words in ["labels: ", "jobs done", "greet", "verdict", "✗ failed", "✓ succeeded"] {
        assert!(shown.code(0).out.contains(words), "`{words}` is missing: {shown:#?}");
    }
    let server = up.kiln(&["whoami", "--json"]).code(0).json()["server"].clone();
    let page = format!("{}/runners/{}", server.as_str().expect("an address"), runner["id"]);
    let json = up.kiln(&["runners", "show", &page, "--limit", "1", "--json"]).code(0).json();
    assert_eq!((&json["name"], &json["history"][0]["name"]), (&runner["name"], &"verdict".into()));
    assert_eq!(json["history"].as_array().map(Vec::len), Some(1));
    up.kiln(&["runners", "show", "nobody"]).code(2);
    let repo = up.kiln(&["repo", "show", "local/app"]);
    for words in ["local/app", "/local/app/badge.svg", "workflows/ci.yml/badge.svg", "none"] {
        assert!(repo.code(0).out.contains(words), "`{words}` is missing: {repo:#?}");
    }
    let json = up.kiln(&["repo", "show", "local/app", "--json"]).code(0).json();
    assert_eq!(
        (&json["secrets"], &json["variables"]),
        (&Value::Array(vec![]), &Value::Array(vec![]))
    );
}

/// C6: who uses what is shown, and what nobody uses can be collected.
#[test]
fn storage_is_shown_and_collected() {
    let up = Up::new();
    let shown = up.kiln(&["storage"]);
    assert!(shown.code(0).err.contains("0 blobs of 0 B take 0 B"), "{shown:#?}");
    let json: Value = serde_json::from_str(&up.kiln(&["storage", "--json"]).code(0).out).unwrap();
    assert_eq!(
        (&json["uses"], &json["kept"]["blobs"]),
        (&serde_json::json!([]), &serde_json::json!(0))
    );
    let dry = up.kiln(&["storage", "gc", "--dry-run"]);
    assert!(dry.code(0).out.starts_with("nothing refers to 0 blobs"), "{dry:#?}");
    let done = up.kiln(&["storage", "gc"]);
    assert!(done.code(0).out.starts_with("freed 0 B: 0 blobs"), "{done:#?}");
    assert!(up.kiln(&["storage"]).code(0).err.contains("freed 0 B"));
}

/// Tokens and keys are shown once, do what they may, and nothing after they are revoked.
#[test]
fn tokens_let_in_until_they_are_revoked() {
    let up = Up::new();
    let me = up.kiln(&["whoami", "--json"]);
    let server = me.code(0).json()["server"].as_str().expect("it has an address").to_owned();
    let made = up.kiln(&["token", "create", "laptop", "--scope", "read", "--expires", "1h"]);
    let token = made.code(0).out.trim().to_owned();
    assert!(token.starts_with("kpat_") && made.err.contains("shown this once"), "{made:#?}");
    let list = up.kiln(&["token", "list"]);
    assert!(list.code(0).out.contains("laptop") && !list.out.contains(&token), "{list:#?}");
    let with = |args: &[&str]| {
        let args = [args, &["--server", &server, "--token", &token]].concat();
        let mut command = own(&up.place, "app", &args);
        Answer::of(&command.output().expect("the binary was built for this test"))
    };
    with(&["runs", "--all"]).code(0);
    let refused = with(&["pause", "--reason", "x"]);
    assert!(refused.code(2).err.starts_with("error: "), "{refused:#?}");
    up.kiln(&["token", "revoke", "laptop"]).code(0);
    assert!(with(&["runs", "--all"]).code(2).err.contains("kiln login"));
    let key = up.kiln(&["runners", "key", "--uses", "2"]);
    assert!(
        key.code(0).out.starts_with(&format!("kiln runner --server {server} --key krk_")),
        "{key:#?}"
    );
}
