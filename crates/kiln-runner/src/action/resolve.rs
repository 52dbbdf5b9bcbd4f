//! From `owner/repository@ref` to files on this machine.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::git::Repository;

/// Where actions come from.
#[derive(Debug, Clone)]
pub enum Mirror {
    /// A directory with a repository at `owner/repository`.
    Directory(PathBuf),
    /// An address in which `{owner}` and `{repository}` are filled in.
    Template(String),
}

impl Mirror {
    pub fn parse(text: &str) -> Self {
        if text.contains("{owner}") || text.contains("{repository}") {
            Self::Template(text.to_owned())
        } else {
            Self::Directory(PathBuf::from(text))
        }
    }

    /// What git is asked to fetch from; `None` when a directory has no such repository.
    fn address(&self, owner: &str, repository: &str) -> Option<String> {
        match self {
            Self::Directory(directory) => {
                let found = directory.join(owner).join(repository);
                let bare = directory.join(owner).join(format!("{repository}.git"));
                let found = [found, bare].into_iter().find(|path| path.is_dir())?;
                Some(found.to_string_lossy().into_owned())
            }
            Self::Template(template) => {
                Some(template.replace("{owner}", owner).replace("{repository}", repository))
            }
        }
    }
}

/// An action's repository at one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The files of the whole repository: `main` may point above the action's own folder.
    pub root: PathBuf,
    pub commit: String,
}

/// Fetches actions once and keeps them by commit.
#[derive(Debug, Clone)]
pub struct Resolver {
    pub mirror: Option<Mirror>,
    /// Where fetched actions are kept.
    pub store: PathBuf,
    /// What references meant before: a tag that moves does not move within a job.
    known: Arc<Mutex<HashMap<String, Resolved>>>,
}

impl Resolver {
    pub fn new(mirror: Option<Mirror>, store: PathBuf) -> Self {
        Self { mirror, store, known: Arc::default() }
    }

    /// Whether the mirror has this repository at all.
    pub fn has(&self, owner: &str, repository: &str) -> bool {
        match &self.mirror {
            Some(mirror @ Mirror::Directory(_)) => mirror.address(owner, repository).is_some(),
            Some(Mirror::Template(_)) => true,
            None => false,
        }
    }

    pub fn resolve(
        &self,
        owner: &str,
        repository: &str,
        reference: &str,
    ) -> Result<Resolved, String> {
        let name = format!("{owner}/{repository}@{reference}");
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(resolved) = known().get(&name) {
            return Ok(resolved.clone());
        }
        let resolved = self.find(owner, repository, reference)?;
        Ok(known().entry(name).or_insert(resolved).clone())
    }

    fn find(&self, owner: &str, repository: &str, reference: &str) -> Result<Resolved, String> {
        for part in [owner, repository] {
            if part.starts_with('.') || part.contains(['/', '\\']) {
                return Err(format!("`{part}` cannot be part of an action's name"));
            }
        }
        let Some(mirror) = &self.mirror else {
            return Err(format!(
                "`{owner}/{repository}` is not on this machine; name a mirror with `--actions DIR` or KILN_ACTIONS"
            ));
        };
        let address = mirror
            .address(owner, repository)
            .ok_or_else(|| format!("the mirror of actions has no `{owner}/{repository}`"))?;
        // Jobs and other runs that want the same action wait, and find it there.
        let _turn = self.turn(owner, repository)?;
        let commit = self.fetch(owner, repository, &address, reference)?;
        let root = self.store.join("files").join(&commit);
        if !root.is_dir() {
            self.materialize(owner, repository, &commit, &root)?;
        }
        Ok(Resolved { root, commit })
    }

    /// One at a time for each repository, across all processes, until the file is closed.
    fn turn(&self, owner: &str, repository: &str) -> Result<File, String> {
        let path = self.store.join("git").join(owner).join(format!("{repository}.lock"));
        let locked = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| {
            let file = File::create(&path)?;
            file.lock()?;
            Ok(file)
        });
        locked.map_err(|error| format!("cannot lock `{}`: {error}", path.display()))
    }

    fn repository(&self, owner: &str, repository: &str) -> Result<Repository, String> {
        let path = self.store.join("git").join(owner).join(format!("{repository}.git"));
        if !path.is_dir() {
            fs::create_dir_all(&path)
                .map_err(|error| format!("cannot make `{}`: {error}", path.display()))?;
            Repository::at(&path)
                .ask(&["init", "-q", "--bare"])
                .map_err(|error| error.to_string())?;
        }
        Ok(Repository::at(path))
    }

    /// The commit of a reference. A full commit that is already here is not fetched again.
    fn fetch(
        &self,
        owner: &str,
        repository: &str,
        address: &str,
        reference: &str,
    ) -> Result<String, String> {
        let git = self.repository(owner, repository)?;
        let is_commit =
            reference.len() == 40 && reference.bytes().all(|byte| byte.is_ascii_hexdigit());
        let here = |git: &Repository| {
            git.ask(&["rev-parse", "--verify", "-q", &format!("{reference}^{{commit}}")])
        };
        if is_commit && let Ok(commit) = here(&git) {
            return Ok(commit);
        }
        let fetched = git.ask(&["fetch", "-q", "--depth=1", "--no-tags", address, reference]);
        match fetched {
            Ok(_) => {
                git.ask(&["rev-parse", "FETCH_HEAD^{commit}"]).map_err(|error| error.to_string())
            }
            // Not every server gives out commits by name: take everything and look.
            Err(_) if is_commit => {
                git.ask(&["fetch", "-q", address, "+refs/*:refs/mirror/*"])
                    .map_err(|error| error.to_string())?;
                here(&git)
                    .map_err(|_| format!("`{owner}/{repository}` has no commit `{reference}`"))
            }
            Err(error) => Err(format!("cannot fetch `{owner}/{repository}@{reference}`: {error}")),
        }
    }

    /// Writes out a commit beside its final place, then moves it there, so that nothing half-written
    /// is ever used.
    fn materialize(
        &self,
        owner: &str,
        repository: &str,
        commit: &str,
        root: &Path,
    ) -> Result<(), String> {
        let partial = root.with_extension(format!("partial-{}", std::process::id()));
        let made = |error: std::io::Error| format!("cannot write `{}`: {error}", root.display());
        fs::create_dir_all(&partial).map_err(made)?;
        self.repository(owner, repository)?
            .export(commit, &partial)
            .map_err(|error| error.to_string())?;
        match fs::rename(&partial, root) {
            Err(_) if root.is_dir() => fs::remove_dir_all(&partial).map_err(made),
            moved => moved.map_err(made),
        }
    }
}
