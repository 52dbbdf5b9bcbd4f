//! A clean workspace for each job, made cheaply.
//!
//! The files of a commit are written out once, and the first job takes them as they are. When another
//! needs some, they are written out again to stay, and every further job gets a copy. The copy asks the
//! file system to share blocks where it can.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::git::{GitError, Repository};

/// What the workspaces of a run are copied from.
#[derive(Debug)]
pub struct Pristine {
    directory: PathBuf,
    /// The commit that the files can be had from once more.
    source: (Repository, String),
    files: Mutex<Files>,
}

/// What became of the files that were written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Files {
    Unused,
    GivenAway,
    Kept,
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
        let source = (repository.clone(), commit.to_owned());
        Ok(Self { directory, source, files: Mutex::new(Files::Unused) })
    }

    /// A fresh workspace at a path that does not exist yet.
    pub fn copy_to(&self, directory: &Path) -> Result<Copy, WorkspaceError> {
        if !self.give_away(directory)? {
            copy_tree(self.files()?, directory)?;
        }
        let entries = entries(directory)
            .map_err(|error| WorkspaceError::Files(directory.to_owned(), error))?;
        Ok(Copy { directory: directory.to_owned(), entries })
    }

    /// Moves the files themselves, if nobody had them yet and they can be had again.
    fn give_away(&self, directory: &Path) -> Result<bool, WorkspaceError> {
        let mut files = self.lock();
        if *files != Files::Unused {
            return Ok(false);
        }
        make(directory.parent().unwrap_or(directory))?;
        fs::rename(&self.directory, directory)
            .map_err(|error| WorkspaceError::Files(directory.to_owned(), error))?;
        *files = Files::GivenAway;
        Ok(true)
    }

    /// Where the files are, and stay from now on.
    fn files(&self) -> Result<&Path, WorkspaceError> {
        let mut files = self.lock();
        if *files == Files::GivenAway {
            let (repository, commit) = &self.source;
            make(&self.directory)?;
            repository.export(commit, &self.directory).map_err(WorkspaceError::Git)?;
        }
        *files = Files::Kept;
        Ok(&self.directory)
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A workspace, and how it looked when it was made.
#[derive(Debug)]
pub struct Copy {
    directory: PathBuf,
    entries: Vec<Entry>,
}

/// A file, link or folder of a workspace.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// Relative to the workspace.
    path: PathBuf,
    inode: u64,
    mode: u32,
    size: u64,
    /// When anything about it changed last, in seconds and nanoseconds. Nobody can set this time.
    changed: (i64, i64),
}

/// File systems keep time in steps of a few milliseconds, and some in steps of up to two seconds: what
/// changed twice within a step looks like what changed once.
const FINE_STEP: Duration = Duration::from_millis(50);
const COARSE_STEP: Duration = Duration::from_millis(2500);

impl Copy {
    /// Whether all is still as it was made, after a job that began at `since` and has ended.
    ///
    /// It is enough that nothing changed since the copy was made. Only what was made shortly before the
    /// job began is compared byte by byte.
    pub fn is_untouched(&self, pristine: &Pristine, since: SystemTime) -> bool {
        let is_as_written = |entry: &Entry| {
            let own = self.directory.join(&entry.path);
            entry.is_older_than(since)
                || pristine.files().is_ok_and(|files| is_same(&files.join(&entry.path), &own))
        };
        entries(&self.directory).is_ok_and(|now| now == self.entries)
            && self.entries.iter().all(is_as_written)
    }
}

impl Entry {
    fn is_older_than(&self, time: SystemTime) -> bool {
        let (seconds, nanos) = self.changed;
        let changed = u64::try_from(seconds).ok().zip(u32::try_from(nanos).ok());
        let changed = changed.map(|(seconds, nanos)| Duration::new(seconds, nanos));
        let step = if nanos == 0 { COARSE_STEP } else { FINE_STEP };
        let time = time.duration_since(SystemTime::UNIX_EPOCH).ok();
        changed.zip(time).is_some_and(|(changed, time)| changed + step < time)
    }
}

/// All that is below a directory, and itself, in an order that depends on names alone.
fn entries(directory: &Path) -> io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(path) = pending.pop() {
        let full = directory.join(&path);
        let metadata = full.symlink_metadata()?;
        if metadata.is_dir() {
            let mut names = fs::read_dir(&full)?
                .map(|entry| entry.map(|entry| entry.file_name()))
                .collect::<io::Result<Vec<_>>>()?;
            names.sort_unstable();
            pending.extend(names.into_iter().map(|name| path.join(name)));
        }
        found.push(Entry {
            path,
            inode: metadata.ino(),
            mode: metadata.mode(),
            size: metadata.size(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        });
    }
    Ok(found)
}

/// Whether two entries of the same kind have the same contents. Those of folders are entries themselves.
fn is_same(left: &Path, right: &Path) -> bool {
    match left.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => true,
        Ok(metadata) if metadata.is_symlink() => {
            fs::read_link(left).ok() == fs::read_link(right).ok()
        }
        Ok(_) => fs::read(left).is_ok_and(|left| fs::read(right).is_ok_and(|right| left == right)),
        Err(_) => false,
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
#[expect(clippy::disallowed_methods, reason = "a shell plays the job; files have real times")]
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
        // The first workspace may be spoilt, and the next is as new.
        fs::write(scratch.path().join("one/src/a.txt"), "spoilt").expect("it is ours");
        commit.copy_to(&scratch.path().join("next")).expect("it is copied");
        assert_eq!(read("next/src/a.txt").as_deref(), Some("one"));
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

    /// R1
    #[test]
    fn whatever_a_job_changes_in_its_workspace_is_noticed() {
        let (directory, repository) = repository();
        std::os::unix::fs::symlink("a.txt", directory.path().join("src/link")).expect("it is ours");
        let scratch = tempfile::tempdir().expect("the system has a directory for such files");
        let served = Served::of(&repository, scratch.path().join("served"));
        let (commit, files) = served.commit("HEAD", true).expect("it is taken");
        let pristine = Pristine::of_commit(files, &commit, scratch.path().join("files"))
            .expect("it is exported");
        let place = scratch.path().join("work");
        // The first is the same in size and, within a step of the clock, in time.
        for change in [
            "printf two > src/a.txt",
            "printf one > src/b.txt",
            "rm src/a.txt",
            "chmod 755 src/a.txt",
            "mkdir src/new",
            "ln -sfn b.txt src/link",
            "rm src/a.txt && printf one > src/a.txt",
            "rm -r src && ln -s /etc src",
            "cd .. && rm -r work",
        ] {
            let copy = pristine.copy_to(&place).expect("it is copied");
            for since in [SystemTime::UNIX_EPOCH, SystemTime::now() + 2 * COARSE_STEP] {
                assert!(copy.is_untouched(&pristine, since), "before `{change}`");
            }
            let mut shell = std::process::Command::new("sh");
            let ended = shell.args(["-c", change]).current_dir(&place).status();
            assert!(ended.expect("there is a shell").success(), "{change}");
            assert!(!copy.is_untouched(&pristine, SystemTime::UNIX_EPOCH), "after `{change}`");
            let _ = fs::remove_dir_all(&place);
        }
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
