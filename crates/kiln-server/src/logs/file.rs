//! Logs as plain files that only grow, one for each claim of a job.
//!
//! Bytes are on the disk before they are acknowledged. What arrives for one log while its file is being
//! written gathers, and the next write takes it all with one flush. Nothing here blocks async threads.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use kiln_core::id::RunId;
use kiln_core::time::Timestamp;
use kiln_proto::log::Line;
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_blocking;

use super::{Future, LogError, LogId, Logs};
use crate::clock;

/// How many files stay open when nobody writes or watches.
const KEPT_OPEN: usize = 256;

/// A folder of logs. Clones are the same.
#[derive(Debug, Clone)]
pub struct FileLogs(Arc<Folder>);

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// What is longer is cut.
    limit: u64,
    logs: Mutex<HashMap<LogId, Arc<Log>>>,
}

#[derive(Debug)]
struct Log {
    path: PathBuf,
    waiting: Mutex<Waiting>,
    /// The bytes that are on the disk, for those who watch.
    length: watch::Sender<u64>,
    /// Held by the one who writes.
    file: Mutex<Option<File>>,
}

#[derive(Debug, Default)]
struct Waiting {
    puts: Vec<Put>,
    /// Somebody is writing, and will take what waits.
    busy: bool,
}

/// Bytes on their way to the file.
#[derive(Debug)]
struct Put {
    from: u64,
    bytes: Bytes,
    answer: oneshot::Sender<Result<u64, LogError>>,
}

impl FileLogs {
    /// Logs below this folder, which is made when it is needed; each has `limit` bytes at most.
    pub fn new(path: impl Into<PathBuf>, limit: u64) -> Self {
        Self(Arc::new(Folder { path: path.into(), limit, logs: Mutex::default() }))
    }
}

impl Folder {
    fn of_run(&self, run: RunId) -> PathBuf {
        self.path.join(run.to_string())
    }

    fn path(&self, log: LogId) -> PathBuf {
        self.of_run(log.job.run()).join(format!("{}.{}.log", log.job, log.claim))
    }

    /// The log as this process knows it. When there are too many, those that rest are closed.
    fn log(&self, id: LogId) -> Arc<Log> {
        let mut logs = locked(&self.logs);
        if let Some(log) = logs.get(&id) {
            return Arc::clone(log);
        }
        if logs.len() >= KEPT_OPEN {
            let rests =
                |log: &Arc<Log>| Arc::strong_count(log) == 1 && log.length.receiver_count() == 0;
            logs.retain(|_, log| !rests(log));
        }
        let log = Arc::new(Log {
            path: self.path(id),
            waiting: Mutex::default(),
            length: watch::Sender::new(0),
            file: Mutex::default(),
        });
        logs.insert(id, Arc::clone(&log));
        log
    }
}

impl Logs for FileLogs {
    fn append(&self, id: LogId, from: u64, bytes: Bytes) -> Future<'_, u64> {
        let log = self.0.log(id);
        let limit = self.0.limit;
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            let is_first = {
                let mut waiting = locked(&log.waiting);
                waiting.puts.push(Put { from, bytes, answer });
                !std::mem::replace(&mut waiting.busy, true)
            };
            if is_first {
                spawn_blocking(move || log.write_all(limit));
            }
            answered.await.unwrap_or_else(|_| {
                Err(io::Error::other("the server stopped while it wrote").into())
            })
        })
    }

    fn length(&self, id: LogId) -> Future<'_, u64> {
        let path = self.0.path(id);
        Box::pin(blocking(move || match fs::metadata(path) {
            Ok(found) => Ok(found.len()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }))
    }

    fn read(&self, id: LogId, from: u64, limit: usize) -> Future<'_, Bytes> {
        let path = self.0.path(id);
        Box::pin(blocking(move || read(&path, from, limit).map(Bytes::from)))
    }

    fn follow(&self, id: LogId) -> watch::Receiver<u64> {
        self.0.log(id).length.subscribe()
    }

    fn runs(&self, after: RunId, before: Timestamp, limit: usize) -> Future<'_, Vec<RunId>> {
        let path = self.0.path.clone();
        Box::pin(blocking(move || {
            let folder = match fs::read_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                other => other?,
            };
            let name = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok().map(RunId);
            let mut runs: Vec<RunId> = folder.flatten().filter_map(name).collect();
            runs.retain(|run| *run > after);
            runs.sort_unstable();
            let is_old = |run: &RunId| is_untouched(&path.join(run.to_string()), before);
            Ok(runs.into_iter().filter(is_old).take(limit).collect())
        }))
    }

    fn forget(&self, run: RunId) -> Future<'_, ()> {
        locked(&self.0.logs).retain(|log, _| log.job.run() != run);
        let path = self.0.of_run(run);
        Box::pin(blocking(move || match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }))
    }
}

/// Whether nothing in a folder was written since. What cannot be looked at is left alone.
fn is_untouched(folder: &Path, since: Timestamp) -> bool {
    let written = |metadata: io::Result<fs::Metadata>| {
        let age = metadata.ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        u64::try_from(age.as_millis()).ok()
    };
    let is_old = |metadata| written(metadata).is_some_and(|at| at < since.0);
    let Ok(mut files) = fs::read_dir(folder) else { return false };
    is_old(fs::metadata(folder)) && files.all(|file| is_old(file.and_then(|file| file.metadata())))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, LogError> {
    Ok(spawn_blocking(work).await.map_err(io::Error::other)??)
}

fn read(path: &Path, from: u64, limit: usize) -> io::Result<Vec<u8>> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    if from >= file.metadata()?.len() {
        return Ok(Vec::new());
    }
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(u64::try_from(limit).unwrap_or(u64::MAX)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Log {
    /// Writes until nothing waits any more.
    fn write_all(&self, limit: u64) {
        loop {
            let puts = {
                let mut waiting = locked(&self.waiting);
                if waiting.puts.is_empty() {
                    waiting.busy = false;
                    return;
                }
                std::mem::take(&mut waiting.puts)
            };
            self.write_batch(puts, limit);
        }
    }

    fn write_batch(&self, puts: Vec<Put>, limit: u64) {
        let mut file = locked(&self.file);
        let written = open(&mut file, &self.path).and_then(|file| add(file, &puts, limit));
        match written {
            Ok((length, answers)) => {
                self.length.send_if_modified(|known| std::mem::replace(known, length) != length);
                for (put, answer) in puts.into_iter().zip(answers) {
                    // Whoever asked may have gone; the bytes are there all the same.
                    let _ = put.answer.send(answer);
                }
            }
            Err(error) => {
                // What is in the file now is not known: the next one looks anew.
                *file = None;
                for put in puts {
                    let again = io::Error::new(error.kind(), error.to_string());
                    let _ = put.answer.send(Err(again.into()));
                }
            }
        }
    }
}

fn open<'f>(file: &'f mut Option<File>, path: &Path) -> io::Result<&'f mut File> {
    if file.is_none() {
        let folder = path.parent().unwrap_or(path);
        let is_new = !path.exists();
        if is_new {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let mut options = File::options();
        let opened = options.read(true).append(true).create(true).mode(0o600).open(path)?;
        if is_new {
            // The names are as durable as what will be in the file.
            for folder in folder.ancestors().take(2) {
                File::open(folder)?.sync_all()?;
            }
        }
        *file = Some(opened);
    }
    Ok(file.as_mut().expect("it was opened just now"))
}

type Answers = Vec<Result<u64, LogError>>;

/// Adds what is new, with one flush for all. When that fails, the file is as long as it was.
fn add(file: &mut File, puts: &[Put], limit: u64) -> io::Result<(u64, Answers)> {
    let before = file.metadata()?.len();
    let mut fresh = Vec::new();
    let mut answers = Vec::with_capacity(puts.len());
    let mut length = before;
    for put in puts {
        let end = put.from.saturating_add(size(&put.bytes));
        if length > limit {
            answers.push(Ok(end));
            continue;
        }
        if put.from > length {
            answers.push(Err(LogError::Gap { wanted: length }));
            continue;
        }
        if end > length {
            let known = usize::try_from(length - put.from).unwrap_or(usize::MAX);
            length += append_within(&mut fresh, &put.bytes[known..], limit - length);
        }
        answers.push(Ok(end.max(length.min(limit))));
    }
    if !fresh.is_empty() {
        let written = file.write_all(&fresh).and_then(|()| file.sync_data());
        if let Err(error) = written {
            let _ = file.set_len(before);
            return Err(error);
        }
    }
    Ok((length, answers))
}

/// Takes over what fits. If that is not all, a last line says so, and makes the file longer than the
/// limit: that is how a log is known to be cut.
fn append_within(fresh: &mut Vec<u8>, bytes: &[u8], room: u64) -> u64 {
    let start = fresh.len();
    let room = usize::try_from(room).unwrap_or(usize::MAX);
    fresh.extend_from_slice(&bytes[..bytes.len().min(room)]);
    if bytes.len() > room {
        fresh.push(b'\n');
        let text = b"The log is longer than this server keeps; the rest of it was cut here.";
        Line { at: clock::now().0, step: 0, text }.write(fresh);
    }
    size(&fresh[start..])
}

fn size(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use kiln_core::id::JobId;

    use super::*;

    fn log(claim: u32) -> LogId {
        LogId { job: JobId::of(RunId(3), 0), claim }
    }

    async fn put(logs: &FileLogs, from: u64, text: &'static str) -> Result<u64, Option<u64>> {
        let answer = logs.append(log(1), from, Bytes::from_static(text.as_bytes())).await;
        answer.map_err(|error| match error {
            LogError::Gap { wanted } => Some(wanted),
            LogError::Storage(_) => None,
        })
    }

    async fn all(logs: &FileLogs) -> String {
        let bytes = logs.read(log(1), 0, 1 << 20).await.unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn what_is_there_is_skipped_and_gaps_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let logs = FileLogs::new(folder.path().join("logs"), 1 << 20);
        assert_eq!(logs.length(log(1)).await.unwrap(), 0);
        assert_eq!(put(&logs, 1, "x").await, Err(Some(0)));
        assert_eq!(put(&logs, 0, "hello ").await, Ok(6));
        assert_eq!(put(&logs, 0, "hello ").await, Ok(6));
        assert_eq!(put(&logs, 3, "lo world").await, Ok(11));
        assert_eq!(put(&logs, 2, "llo").await, Ok(11));
        assert_eq!(put(&logs, 12, "!").await, Err(Some(11)));
        assert_eq!(put(&logs, 11, "").await, Ok(11));
        assert_eq!(all(&logs).await, "hello world");
        // Another process finds it as it is.
        let again = FileLogs::new(folder.path().join("logs"), 1 << 20);
        assert_eq!(put(&again, 11, "!").await, Ok(12));
        assert_eq!(again.length(log(1)).await.unwrap(), 12);
        assert_eq!(again.length(log(2)).await.unwrap(), 0);
        assert_eq!(&*again.read(log(1), 6, 3).await.unwrap(), b"wor");
        assert!(again.read(log(1), 12, 3).await.unwrap().is_empty());
        assert!(again.read(log(1), 99, 3).await.unwrap().is_empty());
        again.forget(RunId(3)).await.unwrap();
        again.forget(RunId(3)).await.unwrap();
        assert_eq!(again.length(log(1)).await.unwrap(), 0);
        assert_eq!(put(&again, 0, "new").await, Ok(3));
    }

    /// S13
    #[tokio::test]
    async fn a_log_that_is_too_long_is_cut_and_says_so_and_the_job_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let logs = FileLogs::new(folder.path(), 10);
        assert_eq!(put(&logs, 0, "12345678").await, Ok(8));
        assert_eq!(put(&logs, 8, "90").await, Ok(10));
        assert_eq!(put(&logs, 8, "90ab").await, Ok(12));
        let text = all(&logs).await;
        assert!(text.starts_with("1234567890\n") && text.contains("was cut here"), "{text}");
        // Whatever comes now is acknowledged, and not kept, also after a restart.
        let again = FileLogs::new(folder.path(), 10);
        assert_eq!(put(&again, 12, "cdef").await, Ok(16));
        assert_eq!(put(&again, 1_000, "").await, Ok(1_000));
        assert_eq!(all(&again).await, text);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn writers_at_the_same_time_leave_each_byte_once() {
        let folder = tempfile::tempdir().unwrap();
        let logs = FileLogs::new(folder.path(), 1 << 20);
        let text = "0123456789".repeat(100);
        let writers = (0..8).map(|_| {
            let (logs, text) = (logs.clone(), Bytes::from(text.clone()));
            tokio::spawn(async move {
                let mut at = 0;
                while at < 1_000 {
                    let end = (at + 7).min(1_000);
                    let from = u64::try_from(at).unwrap();
                    let length = logs.append(log(1), from, text.slice(at..end)).await.unwrap();
                    at = usize::try_from(length).unwrap();
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.unwrap();
        }
        assert_eq!(all(&logs).await, text);
    }

    #[tokio::test]
    async fn a_log_is_for_the_servers_user_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let logs = FileLogs::new(folder.path().join("logs"), 100);
        put(&logs, 0, "x").await.unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let path = logs.0.path(log(1));
        let modes = path.ancestors().take(3).map(mode).collect::<Vec<_>>();
        assert_eq!(modes, [0o600, 0o700, 0o700]);
    }

    #[tokio::test]
    async fn who_follows_hears_of_every_write() {
        let folder = tempfile::tempdir().unwrap();
        let logs = FileLogs::new(folder.path(), 1 << 20);
        let mut follower = logs.follow(log(1));
        put(&logs, 0, "one").await.unwrap();
        follower.changed().await.unwrap();
        assert_eq!(*follower.borrow_and_update(), 3);
        put(&logs, 0, "one").await.unwrap();
        assert!(!follower.has_changed().unwrap());
    }

    #[test]
    fn files_that_rest_are_closed() {
        let folder = tempfile::tempdir().unwrap();
        let logs = FileLogs::new(folder.path(), 1 << 20);
        let follower = logs.follow(log(0));
        for claim in 1..600 {
            drop(logs.follow(log(claim)));
            assert!(locked(&logs.0.logs).len() <= KEPT_OPEN + 1);
        }
        assert!(locked(&logs.0.logs).contains_key(&log(0)));
        drop(follower);
    }

    #[tokio::test]
    async fn a_disk_that_takes_nothing_is_an_error_and_not_an_acknowledgement() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("logs");
        fs::write(&file, "not a folder").unwrap();
        let logs = FileLogs::new(&file, 1 << 20);
        assert_eq!(put(&logs, 0, "x").await, Err(None));
    }
}
