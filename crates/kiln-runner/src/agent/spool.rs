//! What the server has not heard yet of a job, on disk: `jobs/<job>.<attempt>/` in the data directory.
//!
//! | file | what |
//! |---|---|
//! | `state.json` | which job it is, and how the next process finds what this one left |
//! | `log` | lines of `kiln_proto::log` |
//! | `events` | one event on each line, as JSON |
//! | `complete.json` | how it ended; there as a whole, or not at all |
//!
//! When the server has all of it, or does not want it, the folder is emptied and goes to `spare/`, where
//! the next job takes it from: to make five new files for each job costs more than all that is written.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use kiln_proto::job::JobRef;
use kiln_proto::report::Complete;
use serde::{Deserialize, Serialize};

/// What the next process must know. There are no secrets of the job in it; the token is worth as much
/// as the lease, and only the owner can read it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) job: JobRef,
    pub(super) name: String,
    pub(super) token: String,
    /// The mark of its processes.
    pub(super) tree: String,
}

/// Where the folders of jobs are, and where those are that wait for one.
const JOBS: &str = "jobs";
const SPARE: &str = "spare";
/// How many of them wait at most.
const MOST_SPARE: usize = 16;

/// The folder of one job.
#[derive(Debug, Clone)]
pub(super) struct Spool {
    directory: PathBuf,
}

impl Spool {
    pub(super) fn of(data: &Path, job: JobRef) -> Self {
        Self { directory: data.join(JOBS).join(format!("{}.{}", job.job_id, job.attempt)) }
    }

    /// Makes the folders that all spools are in. What lies in reserve may be half emptied, and goes.
    pub(super) fn prepare(data: &Path) -> io::Result<()> {
        let spare = data.join(SPARE);
        if spare.symlink_metadata().is_ok() {
            fs::remove_dir_all(&spare)?;
        }
        [data.join(JOBS), spare]
            .iter()
            .try_for_each(|folder| DirBuilder::new().recursive(true).mode(0o700).create(folder))
    }

    fn spare(&self) -> Option<PathBuf> {
        Some(self.directory.parent()?.with_file_name(SPARE))
    }

    /// Makes the folder, with nothing in it but what is to be known of the job.
    pub(super) fn create(&self, state: &State) -> io::Result<()> {
        if self.directory.symlink_metadata().is_ok() {
            fs::remove_dir_all(&self.directory)?;
        }
        if !self.take_spare() {
            DirBuilder::new().mode(0o700).create(&self.directory)?;
        }
        fs::write(self.directory.join("state.json"), serde_json::to_vec(state)?)
    }

    pub(super) fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    pub(super) fn events(&self) -> PathBuf {
        self.directory.join("events")
    }

    /// Writes down how the job ended.
    pub(super) fn complete(&self, complete: &Complete) -> io::Result<()> {
        let beside = self.directory.join("complete.new");
        fs::write(&beside, serde_json::to_vec(complete)?)?;
        fs::rename(beside, self.directory.join("complete.json"))
    }

    /// Moves an emptied folder here. Another job may be faster; then the next one is tried.
    fn take_spare(&self) -> bool {
        let spares = self.spare().and_then(|spare| fs::read_dir(spare).ok());
        let mut spares = spares.into_iter().flatten().flatten();
        spares.any(|spare| fs::rename(spare.path(), &self.directory).is_ok())
    }

    /// Nothing more is to be said.
    pub(super) fn remove(&self) {
        if self.put_in_reserve().is_ok() {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            tracing::warn!("cannot remove `{}`: {error}", self.directory.display());
        }
    }

    /// Empties all files and moves the folder to those that wait. Without its state it tells of no job,
    /// whenever this ends.
    fn put_in_reserve(&self) -> io::Result<()> {
        let spare =
            self.spare().filter(|it| fs::read_dir(it).is_ok_and(|it| it.count() < MOST_SPARE));
        let spare = spare.ok_or(io::ErrorKind::NotFound)?;
        fs::rename(self.directory.join("complete.json"), self.directory.join("complete.new"))?;
        for name in ["state.json", "log", "events", "complete.new"] {
            OpenOptions::new().write(true).open(self.directory.join(name))?.set_len(0)?;
        }
        fs::rename(&self.directory, spare.join(self.directory.file_name().unwrap_or_default()))
    }

    pub(super) fn make(path: &Path) -> io::Result<File> {
        OpenOptions::new().create(true).append(true).mode(0o600).open(path)
    }
}

/// What an earlier process left of a job.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) spool: Spool,
    pub(super) state: State,
    pub(super) complete: Complete,
}

/// Why a job that was under way when the runner ended is told as lost.
pub(super) const RESTARTED: &str = "the runner was restarted";

/// All that earlier processes left, ready to be told. A job without an end gets one: it is lost, and
/// not by its own fault.
pub(super) fn left(data: &Path) -> Vec<Left> {
    let folders = fs::read_dir(data.join(JOBS)).into_iter().flatten().flatten();
    let spools = folders.map(|folder| Spool { directory: folder.path() });
    spools
        .filter_map(|spool| {
            let found = spool.found();
            if let Err(error) = &found {
                let folder = spool.directory.display();
                tracing::warn!("`{folder}` tells nothing of a job ({error}) and is removed");
                spool.remove();
            }
            found.ok()
        })
        .collect()
}

impl Spool {
    fn found(&self) -> io::Result<Left> {
        let read = |name: &str| fs::read(self.directory.join(name));
        let state: State = serde_json::from_slice(&read("state.json")?)?;
        let complete = match read("complete.json") {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(_) => {
                let complete = self.lost()?;
                self.complete(&complete)?;
                complete
            }
        };
        Ok(Left { spool: self.clone(), state, complete })
    }

    fn lost(&self) -> io::Result<Complete> {
        Ok(Complete {
            conclusion: "failure".to_owned(),
            log_bytes: whole_lines(&self.log())?.0,
            sequence: whole_lines(&self.events())?.1,
            transient: Some(RESTARTED.to_owned()),
            ..Complete::default()
        })
    }
}

/// Cuts a file after its last whole line; returns its length and how many lines there are.
fn whole_lines(path: &Path) -> io::Result<(u64, u64)> {
    use std::io::{BufRead as _, BufReader};

    let Ok(file) = OpenOptions::new().read(true).write(true).open(path) else {
        return Ok((0, 0)); // It was not begun.
    };
    let (mut length, mut lines) = (0, 0);
    let mut reader = BufReader::new(&file);
    loop {
        // A line of a log may be long, but it was written by us from a bounded piece.
        let mut line = Vec::new();
        let count = reader.read_until(b'\n', &mut line)?;
        if count == 0 || line.last() != Some(&b'\n') {
            break;
        }
        length += count as u64;
        lines += 1;
    }
    file.set_len(length)?;
    Ok((length, lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: JobRef = JobRef { job_id: 5, attempt: 2 };

    fn spool(data: &Path) -> Spool {
        Spool::prepare(data).unwrap();
        let spool = Spool::of(data, JOB);
        let state =
            State { job: JOB, name: "a".into(), token: "kjt_".into(), tree: "0".repeat(32) };
        spool.create(&state).unwrap();
        spool
    }

    #[test]
    fn a_job_that_was_under_way_is_lost_with_what_it_said_in_whole_lines() {
        let data = tempfile::tempdir().unwrap();
        let own = spool(data.path());
        fs::write(own.log(), "1 0 a\n2 0 b\n3 0 cut").unwrap();
        fs::write(own.events(), "{}\n{}\n{").unwrap();
        let [left] = &left(data.path())[..] else { panic!("there is one") };
        assert_eq!(left.state.job, JOB);
        assert_eq!((left.complete.log_bytes, left.complete.sequence), (12, 2));
        assert_eq!(left.complete.transient.as_deref(), Some(RESTARTED));
        assert_eq!(fs::read_to_string(own.log()).unwrap(), "1 0 a\n2 0 b\n");
    }

    #[test]
    fn a_job_that_had_ended_is_told_as_it_ended() {
        let data = tempfile::tempdir().unwrap();
        let own = spool(data.path());
        let ended = Complete { conclusion: "success".into(), log_bytes: 9, ..Complete::default() };
        own.complete(&ended).unwrap();
        assert_eq!(left(data.path())[0].complete, ended);
        own.remove();
        assert!(left(data.path()).is_empty());
    }

    #[test]
    fn a_folder_serves_the_next_job_and_tells_nothing_of_the_last() {
        let data = tempfile::tempdir().unwrap();
        let own = spool(data.path());
        let names = ["complete.new", "events", "log", "state.json"];
        fs::write(own.log(), "1 0 a\n").unwrap();
        fs::write(own.events(), "{}\n").unwrap();
        own.complete(&Complete::default()).unwrap();
        own.remove();
        let spares: Vec<_> = fs::read_dir(data.path().join(SPARE)).unwrap().flatten().collect();
        let [spare] = &spares[..] else { panic!("it waits") };
        for name in names {
            assert_eq!(fs::read(spare.path().join(name)).unwrap(), b"", "{name}");
        }
        let job = JobRef { job_id: 6, attempt: 1 };
        let next = Spool::of(data.path(), job);
        let state = State { job, name: "b".into(), token: "kjt_".into(), tree: "0".repeat(32) };
        next.create(&state).unwrap();
        assert!(!spare.path().exists(), "it was taken");
        let [left] = &left(data.path())[..] else { panic!("there is one") };
        assert_eq!((left.state.job, left.complete.log_bytes, left.complete.sequence), (job, 0, 0));
        Spool::prepare(data.path()).unwrap();
        assert!(next.log().exists(), "only what waits goes at a start");
    }

    #[test]
    fn no_more_folders_wait_than_are_of_use() {
        let data = tempfile::tempdir().unwrap();
        Spool::prepare(data.path()).unwrap();
        let spools = (1..).take(MOST_SPARE + 3).map(|job_id| {
            let job = JobRef { job_id, attempt: 1 };
            let spool = Spool::of(data.path(), job);
            let state = State { job, name: "a".into(), token: "kjt_".into(), tree: "0".repeat(32) };
            spool.create(&state).unwrap();
            fs::write(spool.log(), "").unwrap();
            fs::write(spool.events(), "").unwrap();
            spool.complete(&Complete::default()).unwrap();
            spool
        });
        spools.collect::<Vec<_>>().iter().for_each(Spool::remove);
        assert_eq!(fs::read_dir(data.path().join(SPARE)).unwrap().count(), MOST_SPARE);
        assert_eq!(fs::read_dir(data.path().join(JOBS)).unwrap().count(), 0);
    }

    #[test]
    fn what_tells_nothing_is_removed() {
        let data = tempfile::tempdir().unwrap();
        let own = spool(data.path());
        fs::write(own.directory.join("state.json"), "{").unwrap();
        assert!(left(data.path()).is_empty());
        assert!(!own.directory.exists());
    }
}
