//! Logs as files: one that only grows for each claim of a job, one compressed object when it is over.
//!
//! | file | what |
//! |---|---|
//! | `live/<job>.<claim>.log` | the log as the runner sends it |
//! | `live/<job>.<claim>.idx` | where its lines are ([`super::sidecar`]) |
//! | `<run>/<job>.<claim>.zst` | the log after its end ([`super::archive`]) |
//!
//! Servers may share the folder: who writes to a log holds a lock of its file. Nothing here blocks async threads.

mod archived;
mod live;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use kiln_core::id::RunId;
use kiln_core::time::Timestamp;
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;

use super::index::Index;
use super::{Future, Held, LogId, Logs};
use archived::Tables;
use live::Log;

/// How many files stay open when nobody writes or watches.
const KEPT_OPEN: usize = 256;
/// How many readers have a thread at once. A thousand viewers who come together would have hundreds otherwise, and
/// each of these keeps memory of its own for a while.
const READERS: usize = 16;

/// A folder of logs. Clones are the same.
#[derive(Debug, Clone)]
pub struct FileLogs(Arc<Folder>);

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// What is longer is cut.
    limit: u64,
    logs: Mutex<HashMap<LogId, Arc<Log>>>,
    tables: Tables,
    readers: Arc<Semaphore>,
}

impl FileLogs {
    /// Logs below this folder, which is made when it is needed; each has `limit` bytes at most.
    pub fn new(path: impl Into<PathBuf>, limit: u64) -> Self {
        let (path, logs, tables) = (path.into(), Mutex::default(), Tables::default());
        let readers = Arc::new(Semaphore::new(READERS));
        Self(Arc::new(Folder { path, limit, logs, tables, readers }))
    }

    /// Work on files, where it may take its time.
    fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder) -> io::Result<T> + Send + 'static,
    ) -> Future<'static, T> {
        let folder = Arc::clone(&self.0);
        // In a task of its own: whoever asked may not look at the answer for a while, and must not keep the turn.
        let working = async move {
            let turn =
                Arc::clone(&folder.readers).acquire_owned().await.map_err(io::Error::other)?;
            let work = spawn_blocking(move || work(&folder)).await;
            drop(turn);
            work.map_err(io::Error::other)?
        };
        Box::pin(async move { Ok(tokio::spawn(working).await.map_err(io::Error::other)??) })
    }
}

impl Folder {
    fn of_run(&self, run: RunId) -> PathBuf {
        self.path.join(run.to_string())
    }

    fn live(&self) -> PathBuf {
        self.path.join("live")
    }

    fn growing(&self, log: LogId) -> PathBuf {
        self.live().join(format!("{}.log", log.name()))
    }

    fn object(&self, log: LogId) -> PathBuf {
        self.of_run(log.job.run()).join(format!("{}.zst", log.name()))
    }

    /// The log as this process knows it. When there are too many, those that rest are closed.
    fn log(&self, id: LogId) -> Arc<Log> {
        let mut logs = locked(&self.logs);
        if let Some(log) = logs.get(&id) {
            return Arc::clone(log);
        }
        if logs.len() >= KEPT_OPEN {
            let rests = |log: &Arc<Log>| Arc::strong_count(log) == 1 && !log.is_followed();
            logs.retain(|_, log| !rests(log));
        }
        let log = Arc::new(Log::new(self.growing(id), self.object(id), self.limit));
        logs.insert(id, Arc::clone(&log));
        log
    }

    /// Bytes that were just written, if somebody watches.
    fn recent(&self, id: LogId, from: u64, limit: usize) -> Option<Bytes> {
        let log = locked(&self.logs).get(&id).map(Arc::clone)?;
        log.recent(from, limit)
    }

    fn length(&self, id: LogId) -> io::Result<u64> {
        match fs::metadata(self.growing(id)) {
            Ok(found) => Ok(found.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match self.tables.of(id, &self.object(id))? {
                    Some(table) => Ok(table.index.length),
                    None if self.adopt(id)? => self.length(id),
                    None => Ok(0),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// A log becomes an object before its file goes, so that it always is at least one of them.
    fn read(&self, id: LogId, from: u64, limit: usize) -> io::Result<Vec<u8>> {
        if let Some(bytes) = live::read(&self.growing(id), from, limit)? {
            return Ok(bytes);
        }
        let object = self.object(id);
        match self.tables.of(id, &object)? {
            Some(table) => archived::read(&object, &table, from, limit),
            None if self.adopt(id)? => self.read(id, from, limit),
            None => Ok(Vec::new()),
        }
    }

    fn index(&self, id: LogId) -> io::Result<Arc<Index>> {
        if let Some(index) = live::index(&self.growing(id), false)? {
            return Ok(Arc::new(index));
        }
        match self.tables.of(id, &self.object(id))? {
            Some(table) => Ok(Arc::new(table.index.clone())),
            None if self.adopt(id)? => self.index(id),
            None => Ok(Arc::default()),
        }
    }

    /// Moves a log that an earlier Kiln left in the folder of its run to those that grow; from there it goes
    /// the way of all others. Says whether there was one.
    fn adopt(&self, id: LogId) -> io::Result<bool> {
        let before = self.of_run(id.job.run()).join(format!("{}.log", id.name()));
        if !before.try_exists()? {
            return Ok(false);
        }
        DirBuilder::new().recursive(true).mode(0o700).create(self.live())?;
        match fs::rename(before, self.growing(id)) {
            // Another reader was faster.
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(true),
        }
    }

    /// The logs in the folder of those that grow.
    fn all_growing(&self) -> io::Result<Vec<LogId>> {
        let files = match fs::read_dir(self.live()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let name =
            |file: fs::DirEntry| LogId::parse(file.file_name().to_str()?.strip_suffix(".log")?);
        let mut found: Vec<LogId> = files.flatten().filter_map(name).collect();
        found.sort_unstable();
        Ok(found)
    }

    /// The runs that have archived logs.
    fn all_archived(&self) -> io::Result<Vec<RunId>> {
        let files = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let name = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok().map(RunId);
        let mut runs: Vec<RunId> = files.flatten().filter_map(name).collect();
        runs.sort_unstable();
        Ok(runs)
    }

    fn forget(&self, run: RunId) -> io::Result<()> {
        locked(&self.logs).retain(|log, _| log.job.run() != run);
        self.tables.forget(run);
        for log in self.all_growing()?.into_iter().filter(|log| log.job.run() == run) {
            live::remove(&self.growing(log))?;
        }
        match fs::remove_dir_all(self.of_run(run)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Logs for FileLogs {
    fn append(&self, id: LogId, from: u64, bytes: Bytes) -> Future<'_, u64> {
        let log = self.0.log(id);
        Box::pin(async move {
            let (answered, is_first) = log.put(from, bytes);
            if is_first {
                spawn_blocking(move || log.write_all());
            }
            answered.await.unwrap_or_else(|_| {
                Err(io::Error::other("the server stopped while it wrote").into())
            })
        })
    }

    fn length(&self, id: LogId) -> Future<'_, u64> {
        self.blocking(move |folder| folder.length(id))
    }

    fn read(&self, id: LogId, from: u64, limit: usize) -> Future<'_, Bytes> {
        // A thousand viewers of a line would be a thousand threads with a file each.
        if let Some(bytes) = self.0.recent(id, from, limit) {
            return Box::pin(std::future::ready(Ok(bytes)));
        }
        self.blocking(move |folder| folder.read(id, from, limit).map(Bytes::from))
    }

    fn index(&self, id: LogId) -> Future<'_, Arc<Index>> {
        self.blocking(move |folder| folder.index(id))
    }

    fn follow(&self, id: LogId) -> watch::Receiver<u64> {
        self.0.log(id).follow()
    }

    fn growing(
        &self,
        after: Option<LogId>,
        before: Timestamp,
        limit: usize,
    ) -> Future<'_, Vec<LogId>> {
        self.blocking(move |folder| {
            let mut found = folder.all_growing()?;
            found.retain(|log| Some(*log) > after);
            let is_old = |log: &LogId| was_written_before(&folder.growing(*log), before);
            Ok(found.into_iter().filter(is_old).take(limit).collect())
        })
    }

    fn archive(&self, id: LogId) -> Future<'_, bool> {
        self.blocking(move |folder| {
            let done = archived::make(&folder.growing(id), &folder.object(id))?;
            if done {
                locked(&folder.logs).retain(|log, known| *log != id || known.is_followed());
            }
            Ok(done)
        })
    }

    fn runs(
        &self,
        after: RunId,
        before: Timestamp,
        limit: usize,
    ) -> Future<'_, Vec<(RunId, Timestamp)>> {
        self.blocking(move |folder| {
            let mut runs = folder.all_archived()?;
            runs.retain(|run| *run > after);
            let old = |run| {
                let at = last_written(&folder.of_run(run)).filter(|at| *at < before)?;
                Some((run, at))
            };
            Ok(runs.into_iter().filter_map(old).take(limit).collect())
        })
    }

    fn sizes(&self) -> Future<'_, Vec<Held>> {
        self.blocking(|folder| {
            let mut held: BTreeMap<RunId, Held> = BTreeMap::new();
            let mut add = |run: RunId, file: &Path| {
                // What is archived at this moment is counted the next time.
                let Ok(found) = fs::metadata(file) else { return };
                let one = held.entry(run).or_insert(Held { run, logs: 0, bytes: 0 });
                one.logs += 1;
                one.bytes += found.len();
            };
            for run in folder.all_archived()? {
                let Ok(files) = fs::read_dir(folder.of_run(run)) else { continue };
                files.flatten().for_each(|file| add(run, &file.path()));
            }
            for log in folder.all_growing()? {
                add(log.job.run(), &folder.growing(log));
            }
            Ok(held.into_values().collect())
        })
    }

    fn forget(&self, run: RunId) -> Future<'_, ()> {
        self.blocking(move |folder| folder.forget(run))
    }
}

/// None for what cannot be looked at.
fn written(path: &Path) -> Option<Timestamp> {
    let age = fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(age.as_millis()).ok().map(Timestamp)
}

/// What cannot be looked at is as good as new.
fn was_written_before(path: &Path, then: Timestamp) -> bool {
    written(path).is_some_and(|at| at < then)
}

/// When something in a folder was last written. What cannot be looked at is left alone.
fn last_written(folder: &Path) -> Option<Timestamp> {
    let mut last = written(folder)?;
    for file in fs::read_dir(folder).ok()? {
        last = last.max(written(&file.ok()?.path())?);
    }
    Some(last)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
