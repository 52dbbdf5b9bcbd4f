//! A clean workspace for each job, made cheaply.
//!
//! The files of a run are written out once; every job gets a copy of them. The copy asks the file
//! system to share blocks where it can.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::git::{GitError, Repository};

/// What the workspaces of a run are copied from.
#[derive(Debug)]
pub struct Pristine {
    directory: PathBuf,
}

/// Why there is no workspace.
#[derive(Debug)]
pub enum WorkspaceError {
    Git(GitError),
    Files(PathBuf, io::Error),
}

impl std::fmt::Display for WorkspaceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Git(error) => error.fmt(f),
            Self::Files(path, error) => write!(f, "cannot write `{}`: {error}", path.display()),
        }
    }
}

impl std::error::Error for WorkspaceError {}

impl Pristine {
    /// The files of a commit.
    pub fn of_commit(
        repository: &Repository,
        commit: &str,
        directory: PathBuf,
    ) -> Result<Self, WorkspaceError> {
        make(&directory)?;
        repository.export(commit, &directory).map_err(WorkspaceError::Git)?;
        Ok(Self { directory })
    }

    /// A fresh copy at a path that does not exist yet.
    pub fn copy_to(&self, directory: &Path) -> Result<(), WorkspaceError> {
        copy_tree(&self.directory, directory)
    }
}

fn make(directory: &Path) -> Result<(), WorkspaceError> {
    fs::create_dir_all(directory)
        .map_err(|error| WorkspaceError::Files(directory.to_owned(), error))
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), WorkspaceError> {
    let mut pending = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = pending.pop() {
        make(&to)?;
        let failed = |error| WorkspaceError::Files(from.clone(), error);
        for entry in fs::read_dir(&from).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let target = to.join(entry.file_name());
            if entry.file_type().map_err(failed)?.is_dir() {
                pending.push((entry.path(), target));
            } else {
                copy_entry(&entry.path(), &target)?;
            }
        }
    }
    Ok(())
}

/// A file with its permissions, or a link as a link.
fn copy_entry(from: &Path, to: &Path) -> Result<(), WorkspaceError> {
    let failed = |error| WorkspaceError::Files(to.to_owned(), error);
    if from.is_symlink() {
        let target = fs::read_link(from).map_err(failed)?;
        return std::os::unix::fs::symlink(target, to).map_err(failed);
    }
    fs::copy(from, to).map(|_| ()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::Served;

    fn repository() -> (tempfile::TempDir, Repository) {
        let directory = tempfile::tempdir().expect("the system has a directory for such files");
        let repository = Repository::at(directory.path());
        let run = |arguments: &[&str]| repository.ask(arguments).expect("git works");
        run(&["init", "-q", "-b", "main"]);
        fs::create_dir_all(directory.path().join("src")).expect("it is ours");
        fs::write(directory.path().join("src/a.txt"), "one").expect("it is ours");
        fs::write(directory.path().join(".gitignore"), "ignored\n").expect("it is ours");
        run(&["add", "-A"]);
        run(&["-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-qm", "first"]);
        (directory, repository)
    }

    /// R1
    #[test]
    fn a_workspace_has_the_files_of_the_commit_or_of_the_working_tree() {
        let (directory, repository) = repository();
        fs::write(directory.path().join("src/a.txt"), "two").expect("it is ours");
        fs::write(directory.path().join("new"), "new").expect("it is ours");
        fs::write(directory.path().join("ignored"), "").expect("it is ours");
        let scratch = tempfile::tempdir().expect("the system has a directory for such files");
        let read = |path: &str| fs::read_to_string(scratch.path().join(path)).ok();
        let commit = Pristine::of_commit(&repository, "HEAD", scratch.path().join("commit"))
            .expect("it is exported");
        commit.copy_to(&scratch.path().join("one")).expect("it is copied");
        assert_eq!(read("one/src/a.txt").as_deref(), Some("one"));
        assert_eq!(read("one/new"), None);
        let served = Served::of(&repository, scratch.path().join("served"));
        let snapshot = served.commit("HEAD", true).expect("it is taken").0;
        let served = served.repository().expect("it is there");
        let tree = Pristine::of_commit(served, &snapshot, scratch.path().join("tree"))
            .expect("it is exported");
        tree.copy_to(&scratch.path().join("two")).expect("it is copied");
        assert_eq!(read("two/src/a.txt").as_deref(), Some("two"));
        assert_eq!(read("two/new").as_deref(), Some("new"));
        assert_eq!(read("two/ignored"), None);
        assert_eq!(
            repository.ask(&["status", "--porcelain"]).expect("git works"),
            " M src/a.txt\n?? new".trim_start_matches('\n')
        );
    }

    #[test]
    fn a_commit_that_is_not_there_is_named() {
        let (_directory, repository) = repository();
        let scratch = tempfile::tempdir().expect("the system has a directory for such files");
        let error = Pristine::of_commit(&repository, "nowhere", scratch.path().join("x"))
            .expect_err("there is none");
        assert!(error.to_string().contains("nowhere"), "{error}");
    }
}
