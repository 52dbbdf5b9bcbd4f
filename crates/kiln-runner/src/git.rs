//! The few questions that are asked of git. Always the `git` on the machine, so that its settings,
//! attributes and large files mean what the user expects.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::process::{self, Command, Control, End, Ending, Limits, Sink, Stream, Tree};

/// No question to git may take longer, not even one that goes over a network.
const LONGEST: Duration = Duration::from_mins(15);

/// What git printed.
#[derive(Default)]
struct Said {
    output: Vec<u8>,
    errors: Vec<u8>,
}

impl Sink for Said {
    fn line(&mut self, stream: Stream, text: &[u8], ending: Ending) {
        let target = match stream {
            Stream::Stdout => &mut self.output,
            Stream::Stderr => &mut self.errors,
        };
        target.extend_from_slice(text);
        if ending == Ending::Newline {
            target.push(b'\n');
        }
    }
}

/// Why git could not do it: what was asked, and what it said.
#[derive(Debug)]
pub struct GitError(pub String);

impl std::fmt::Display for GitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GitError {}

/// What is checked out in a repository.
#[derive(Debug, Clone)]
pub struct Head {
    pub commit: String,
    /// The full name of the branch, if it is one.
    pub reference: Option<String>,
}

/// A repository on this machine.
#[derive(Debug, Clone)]
pub struct Repository {
    root: PathBuf,
}

impl Repository {
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The one line that a command answers.
    pub fn ask<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String, GitError> {
        let output = self.bytes(arguments, &[])?;
        Ok(String::from_utf8_lossy(&output).trim_end().to_owned())
    }

    /// All that a command prints.
    ///
    /// It runs like any process of ours: this process looks after orphans, and a child it does not
    /// know of would be taken for one.
    pub fn bytes<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
        env: &[(&str, &OsStr)],
    ) -> Result<Vec<u8>, GitError> {
        let mut args: Vec<OsString> = vec!["-C".into(), self.root.clone().into_os_string()];
        args.extend(arguments.iter().map(|word| word.as_ref().to_owned()));
        let mut environment = environment();
        environment
            .extend(env.iter().map(|(name, value)| (OsString::from(name), (*value).to_owned())));
        let command =
            Command { program: "git".into(), args, env: environment, cwd: PathBuf::from(".") };
        let mut said = Said::default();
        let started = |error: std::io::Error| GitError(format!("cannot start git: {error}"));
        let (control, tree) = (Control::new().map_err(started)?, Tree::new(None).map_err(started)?);
        let limits = Limits { wall: Some(LONGEST), ..Limits::default() };
        let outcome =
            process::run(&command, &mut said, &control, &limits, &tree).map_err(started)?;
        if outcome.end != End::Exited(0) {
            let words = arguments.iter().map(|word| word.as_ref().to_string_lossy());
            let words = words.collect::<Vec<_>>().join(" ");
            let errors = String::from_utf8_lossy(&said.errors);
            let why = match outcome.end {
                End::TimedOut => format!("it took longer than {} minutes", LONGEST.as_secs() / 60),
                _ => errors.trim().to_owned(),
            };
            return Err(GitError(format!("`git {words}` failed: {why}")));
        }
        Ok(said.output)
    }

    /// What is checked out.
    pub fn head(&self) -> Result<Head, GitError> {
        if let Some(head) = written_head(&self.root.join(".git")) {
            return Ok(head);
        }
        let output = self.ask(&["rev-parse", "HEAD^{commit}", "--symbolic-full-name", "HEAD"])?;
        let (commit, name) = output.split_once('\n').unwrap_or((&output, ""));
        let reference = Some(name.to_owned()).filter(|name| name.starts_with("refs/"));
        Ok(Head { commit: commit.to_owned(), reference })
    }

    /// The settings whose names match a pattern, in the order in which git reads them.
    pub fn settings(&self, pattern: &str) -> Vec<(String, String)> {
        // Git fails when there are none.
        let output =
            self.bytes(&["config", "-z", "--get-regexp", pattern], &[]).unwrap_or_default();
        let pairs = output.split(|byte| *byte == 0).filter(|pair| !pair.is_empty());
        let pair = |pair: &[u8]| {
            let pair = String::from_utf8_lossy(pair);
            let (name, value) = pair.split_once('\n').unwrap_or((&pair, ""));
            (name.to_owned(), value.to_owned())
        };
        pairs.map(pair).collect()
    }

    /// Writes the files of a commit below a new directory, without touching the repository's index.
    pub fn export(&self, commit: &str, directory: &Path) -> Result<(), GitError> {
        let index = directory.with_extension("index");
        // A bare repository has no work tree, and one that has files must not lend its attributes.
        let env = [("GIT_INDEX_FILE", index.as_os_str()), ("GIT_WORK_TREE", directory.as_os_str())];
        let written =
            self.bytes(&["read-tree", "--reset", "-u", "--no-sparse-checkout", commit], &env);
        let _ = std::fs::remove_file(&index);
        written.map(|_| ())
    }
}

/// What is checked out in a plain repository, whose files say so in the oldest way. Asking git costs as
/// much time as a short step; whatever is not plain is left to it.
fn written_head(directory: &Path) -> Option<Head> {
    let is_commit = |text: &&str| {
        matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let head = std::fs::read_to_string(directory.join("HEAD")).ok()?;
    let head = head.trim_end();
    let Some(name) = head.strip_prefix("ref: ") else {
        return is_commit(&head).then(|| Head { commit: head.to_owned(), reference: None });
    };
    let written = std::fs::read_to_string(directory.join(name));
    let commit = match &written {
        Ok(commit) => Some(commit.trim_end()).filter(is_commit)?.to_owned(),
        Err(_) => {
            let packed = std::fs::read_to_string(directory.join("packed-refs")).ok()?;
            let mut lines = packed.lines().filter_map(|line| line.split_once(' '));
            let (commit, _) = lines.find(|(commit, known)| *known == name && is_commit(commit))?;
            commit.to_owned()
        }
    };
    Some(Head { commit, reference: Some(name.to_owned()) })
}

/// Variables by which git is bound to one repository. A hook of git sets them, and whoever runs Kiln
/// in a hook does not mean that repository everywhere.
pub const BINDING_VARIABLES: [&str; 7] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_WORK_TREE",
];

/// The user's environment for a git that finds its repository by its directory.
#[expect(clippy::disallowed_methods, reason = "git needs the user's environment")]
pub(crate) fn environment() -> Vec<(OsString, OsString)> {
    let is_binding = |name: &OsString| BINDING_VARIABLES.iter().any(|binding| name == binding);
    std::env::vars_os().filter(|(name, _)| !is_binding(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_about_the_head_is_what_git_says() {
        let directory = tempfile::tempdir().expect("the system has a directory for such files");
        let git = Repository::at(directory.path());
        let ask = |words: &[&str]| git.ask(words).expect("git works");
        ask(&["init", "-q", "-b", "main"]);
        let plain = |git: &Repository| written_head(&git.root.join(".git"));
        assert!(plain(&git).is_none() && git.head().is_err(), "there is no commit yet");
        let author = ["-c", "user.name=a", "-c", "user.email=a@localhost"];
        ask(&[&author[..], &["commit", "-q", "--allow-empty", "-m", "x"]].concat());
        for change in [
            &["pack-refs", "--all"][..],
            &["checkout", "-q", "-b", "a/b"],
            &["checkout", "-q", "--detach"],
        ] {
            let head = plain(&git).expect("it is plain");
            assert_eq!(head.commit, ask(&["rev-parse", "HEAD"]));
            assert_eq!(
                head.reference.as_deref().unwrap_or("HEAD"),
                ask(&["rev-parse", "--symbolic-full-name", "HEAD"])
            );
            ask(change);
        }
        assert_eq!(plain(&git).expect("it is plain").reference, None);
    }
}
