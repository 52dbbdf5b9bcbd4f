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
        let run = |arguments: &[&str]| {
            git.ask(arguments).map_err(|error| CheckoutError(error.to_string()))
        };
        if !target.join(".git").exists() {
            run(&["init", "-q", "-b", "main"])?;
        }
        let origin = self.repository.to_string_lossy();
        // A second checkout into the same place finds its remote already there.
        let _ = git.ask(&["remote", "remove", "origin"]);
        run(&["remote", "add", "origin", &origin])?;
        let wanted = self.reference.as_deref().unwrap_or(&self.commit);
        let commit = Repository::at(&self.repository)
            .ask(&["rev-parse", "--verify", "-q", &format!("{wanted}^{{commit}}")])
            .map_err(|_| {
                CheckoutError(format!("the repository has no branch, tag or commit `{wanted}`"))
            })?;
        let depth = format!("--depth={}", self.depth);
        let mut fetch = vec!["-c", "protocol.file.allow=always", "fetch", "-q", "--no-tags"];
        if self.depth > 0 {
            fetch.push(&depth);
        }
        let upload = "--upload-pack=git -c uploadpack.allowAnySHA1InWant=true upload-pack";
        fetch.extend([upload, "origin", &commit]);
        run(&fetch)?;
        run(&["checkout", "-q", "--force", "--detach", &commit])?;
        run(&["clean", "-ffdq"])?;
        Ok(commit)
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
