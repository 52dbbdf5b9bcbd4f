//! The real binary, run as people run it.
#![expect(clippy::disallowed_methods, reason = "these tests start the real binary")]

mod actions;
mod artifacts;
mod beside;
mod caches_here;
mod called_secrets;
mod cancel;
mod choose;
mod client;
mod client_errors;
mod commands;
mod db;
mod edges;
mod eval;
mod fake;
mod fleet;
mod from_failed;
mod from_step;
mod gateway;
mod language;
mod limits;
mod lint;
mod objects;
mod pages;
mod published;
mod run;
mod runnable;
mod server;
mod sim;
mod usage;
mod view;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

/// A directory of its own for a test, and the program in it.
struct Place {
    directory: Arc<tempfile::TempDir>,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("the system has a directory for such files");
        let path = directory.path().to_owned();
        Self { directory: Arc::new(directory), path }
    }

    /// A place within this one.
    fn below(&self, path: &str) -> Self {
        let path = self.path.join(path);
        fs::create_dir_all(&path).expect("the directory is ours");
        Self { directory: Arc::clone(&self.directory), path }
    }

    /// A place that is a repository.
    fn repository() -> Self {
        let place = Self::new();
        place.file(".git/HEAD", "ref: refs/heads/main\n");
        place
    }

    fn path(&self) -> &Path {
        &self.path
    }

    /// What git says in this place.
    fn git(&self, args: &[&str]) -> String {
        let output = Command::new("git").args(args).current_dir(self.path()).output();
        let output = output.expect("there is a git");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("it writes text")
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path().join(name);
        let parent = path.parent().expect("a file has a directory");
        fs::create_dir_all(parent).expect("the directory is ours");
        fs::write(path, content).expect("the directory is ours");
        self
    }

    fn kiln(&self, args: &[&str]) -> Answer {
        self.kiln_in("", args, "")
    }

    /// Runs kiln with these variables.
    fn kiln_with(&self, env: &[(&str, &str)], args: &[&str]) -> Answer {
        let mut command = self.command("", args);
        command.envs(env.iter().copied()).stdin(Stdio::null());
        Answer::of(&command.output().expect("the binary was built for this test"))
    }

    /// Runs kiln in a directory below with this input.
    fn kiln_in(&self, below: &str, args: &[&str], input: &str) -> Answer {
        let mut child = self
            .command(below, args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built for this test");
        let mut stdin = child.stdin.take().expect("it is piped");
        // A program that does not read its input may be gone already.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        Answer::of(&child.wait_with_output().expect("it ends"))
    }

    fn command(&self, below: &str, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
        command
            .current_dir(self.path().join(below))
            .args(args)
            .env_remove("NO_COLOR")
            .env_remove("KILN_ACTIONS")
            .env_remove("KILN_DATABASE")
            .env("KILN_STATE", self.path().join(".git/kiln-state"))
            .env_remove("CLICOLOR_FORCE");
        command
    }
}

/// What kiln answered.
#[derive(Debug)]
struct Answer {
    code: i32,
    out: String,
    err: String,
}

impl Answer {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().expect("it was not killed"),
            out: String::from_utf8(output.stdout.clone()).expect("it writes text"),
            err: String::from_utf8(output.stderr.clone()).expect("it writes text"),
        }
    }

    #[track_caller]
    fn code(&self, expect: i32) -> &Self {
        assert_eq!(self.code, expect, "{self:#?}");
        self
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).expect("it writes JSON")
    }
}
