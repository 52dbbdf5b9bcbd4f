//! The few questions that are asked of git. Always the `git` on the machine, so that its settings,
//! attributes and large files mean what the user expects.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::process::{self, Command, Control, End, Ending, Limits, Sink, Stream, Tree};

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
    #[expect(clippy::disallowed_methods, reason = "git needs the user's environment")]
    pub fn bytes<S: AsRef<OsStr>>(
        &self,
        arguments: &[S],
        env: &[(&str, &OsStr)],
    ) -> Result<Vec<u8>, GitError> {
        let mut args: Vec<OsString> = vec!["-C".into(), self.root.clone().into_os_string()];
        args.extend(arguments.iter().map(|word| word.as_ref().to_owned()));
        let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        environment
            .extend(env.iter().map(|(name, value)| (OsString::from(name), (*value).to_owned())));
        let command =
            Command { program: "git".into(), args, env: environment, cwd: PathBuf::from(".") };
        let mut said = Said::default();
        let started = |error: std::io::Error| GitError(format!("cannot start git: {error}"));
        let (control, tree) = (Control::new().map_err(started)?, Tree::new(None).map_err(started)?);
        let outcome = process::run(&command, &mut said, &control, &Limits::default(), &tree)
            .map_err(started)?;
        if outcome.end != End::Exited(0) {
            let words = arguments.iter().map(|word| word.as_ref().to_string_lossy());
            let words = words.collect::<Vec<_>>().join(" ");
            let errors = String::from_utf8_lossy(&said.errors);
            return Err(GitError(format!("`git {words}` failed: {}", errors.trim())));
        }
        Ok(said.output)
    }

    /// Writes the files of a commit below a new directory, without touching the repository's index.
    /// Of a root that is a folder of a repository only the files of that folder are written.
    pub fn export(&self, commit: &str, directory: &Path) -> Result<(), GitError> {
        let index = directory.with_extension("index");
        // The directory is the work tree, since a bare repository has none.
        let mut env =
            vec![("GIT_INDEX_FILE", index.as_os_str()), ("GIT_WORK_TREE", directory.as_os_str())];
        let (tree, git_directory) = self.tree_of(commit)?;
        if let Some(git_directory) = &git_directory {
            env.push(("GIT_DIR", git_directory.as_os_str()));
        }
        self.bytes(&["read-tree", &tree], &env)?;
        let written = self.bytes(&["checkout-index", "--all", "--force"], &env);
        let _ = std::fs::remove_file(&index);
        written.map(|_| ())
    }

    /// The tree of the root in a commit, and where git keeps its own files if that is further up.
    fn tree_of(&self, commit: &str) -> Result<(String, Option<PathBuf>), GitError> {
        if self.root.join(".git").exists() {
            return Ok((commit.to_owned(), None));
        }
        let said = self.ask(&["rev-parse", "--absolute-git-dir", "--show-prefix"])?;
        let (directory, prefix) = said.split_once('\n').unwrap_or((&said, ""));
        Ok((format!("{commit}:{prefix}"), Some(directory.into())))
    }

    /// The files of the working tree that git knows or would take, relative to the root.
    pub fn working_files(&self) -> Result<Vec<PathBuf>, GitError> {
        let listed =
            self.bytes(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"], &[])?;
        let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned())).collect())
    }
}
