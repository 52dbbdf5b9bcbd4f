//! The built-in `actions/checkout` of the workflow's own repository, for when no mirror has the real
//! one. It works offline: git copies from the repository on this machine.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::git::Repository;

/// What the inputs ask for.
#[derive(Debug, Clone)]
pub struct Checkout {
    pub repository: PathBuf,
    pub commit: String,
    /// The full ref of the run, whose tip the commit is.
    pub own_reference: String,
    /// A branch, tag or commit instead of the run's own.
    pub reference: Option<String>,
    /// Relative to the workspace.
    pub path: String,
    /// How many commits; 0 for all.
    pub depth: u32,
}

#[derive(Debug)]
pub struct CheckoutError(pub String);

impl std::fmt::Display for CheckoutError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CheckoutError {}

impl Checkout {
    /// Puts the files and a repository of their own into the workspace and returns the commit.
    pub fn run(&self, workspace: &Path) -> Result<String, CheckoutError> {
        let target = self.target(workspace)?;
        fs::create_dir_all(&target).map_err(|error| {
            CheckoutError(format!("cannot make `{}`: {error}", target.display()))
        })?;
        let git = Repository::at(&target);
        if !target.join(".git").exists() {
            ask(&git, &["init", "-q", "-b", "main"])?;
        }
        // A second checkout into the same place finds its remote already there.
        let _ = git.ask(&["remote", "remove", "origin"]);
        ask(&git, &["remote", "add", "origin", &self.repository.to_string_lossy()])?;
        let wanted = self.reference.as_deref().unwrap_or(&self.commit);
        let commit = Repository::at(&self.repository)
            .ask(&["rev-parse", "--verify", "-q", &format!("{wanted}^{{commit}}")])
            .map_err(|_| {
                CheckoutError(format!("the repository has no branch, tag or commit `{wanted}`"))
            })?;
        self.fetch(&git, &commit)?;
        match self.branch() {
            Some(branch) => {
                let tracked = format!("refs/remotes/origin/{branch}");
                ask(&git, &["checkout", "-q", "--force", "-B", branch, &tracked])?;
            }
            None => {
                ask(&git, &["checkout", "-q", "--force", "--detach", &commit])?;
            }
        }
        ask(&git, &["clean", "-ffdq"])?;
        Ok(commit)
    }

    fn fetch(&self, git: &Repository, commit: &str) -> Result<(), CheckoutError> {
        let depth = format!("--depth={}", self.depth);
        let wanted = match self.branch() {
            Some(branch) => format!("+{commit}:refs/remotes/origin/{branch}"),
            None => commit.to_owned(),
        };
        let upload = "--upload-pack=git -c uploadpack.allowAnySHA1InWant=true upload-pack";
        let mut words =
            vec!["-c", "protocol.file.allow=always", "fetch", "-q", "--no-tags", upload];
        if self.depth > 0 {
            words.extend([&depth, "origin", &wanted]);
        } else {
            let is_shallow = git.root().join(".git/shallow").exists();
            words.extend(is_shallow.then_some("--unshallow"));
            words.extend(["origin", "+refs/heads/*:refs/remotes/origin/*"]);
            words.extend(["+refs/tags/*:refs/tags/*"]);
            // The run's own branch comes with the others.
            words.extend(self.branch().is_none().then_some(&*wanted));
        }
        ask(git, &words)
    }

    /// The branch that is checked out as such: the run's own.
    fn branch(&self) -> Option<&str> {
        let own = self.own_reference.strip_prefix("refs/heads/");
        own.filter(|_| self.reference.is_none())
    }

    fn target(&self, workspace: &Path) -> Result<PathBuf, CheckoutError> {
        let path = Path::new(&self.path);
        let inside =
            path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !inside {
            return Err(CheckoutError(format!("`path: {}` leads out of the workspace", self.path)));
        }
        Ok(workspace.join(path))
    }
}

fn ask(git: &Repository, words: &[&str]) -> Result<(), CheckoutError> {
    git.ask(words).map(|_| ()).map_err(|error| CheckoutError(error.to_string()))
}
