//! A log that grows.
//!
//! Bytes are on the disk before they are acknowledged. What arrives for one log while its file is being
//! written gathers, and the next write takes it all with one flush.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use super::locked;
use crate::logs::index::{Builder, Index, scan};
use crate::logs::marker::append_within;
use crate::logs::recent::Recent;
use crate::logs::{LogError, sidecar};

type Answer = Result<u64, LogError>;

#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    /// What becomes of it.
    object: PathBuf,
    limit: u64,
    waiting: Mutex<Waiting>,
    /// The bytes that are on the disk, for those who watch.
    length: watch::Sender<u64>,
    /// Held by the one who writes.
    writer: Mutex<Option<Writer>>,
    recent: Recent,
}

/// What came of some puts: the length of the log, where its new bytes begin, and what each put is answered.
struct Added {
    length: u64,
    before: u64,
    fresh: Vec<u8>,
    answers: Vec<Answer>,
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
    answer: oneshot::Sender<Answer>,
}

/// An open file, and where its lines are.
#[derive(Debug)]
struct Writer {
    file: File,
    index: PathBuf,
    builder: Builder,
}

impl Log {
    pub(super) fn new(path: PathBuf, object: PathBuf, limit: u64) -> Self {
        let (waiting, writer, recent) = (Mutex::default(), Mutex::default(), Recent::default());
        Self { path, object, limit, waiting, length: watch::Sender::new(0), writer, recent }
    }

    pub(super) fn follow(&self) -> watch::Receiver<u64> {
        self.length.subscribe()
    }

    pub(super) fn is_followed(&self) -> bool {
        self.length.receiver_count() > 0
    }

    /// Lets bytes wait for their turn, and says whether somebody must begin to write.
    pub(super) fn put(&self, from: u64, bytes: Bytes) -> (oneshot::Receiver<Answer>, bool) {
        let (answer, answered) = oneshot::channel();
        let mut waiting = locked(&self.waiting);
        waiting.puts.push(Put { from, bytes, answer });
        (answered, !std::mem::replace(&mut waiting.busy, true))
    }

    /// Writes until nothing waits any more.
    pub(super) fn write_all(&self) {
        loop {
            let puts = {
                let mut waiting = locked(&self.waiting);
                if waiting.puts.is_empty() {
                    waiting.busy = false;
                    return;
                }
                std::mem::take(&mut waiting.puts)
            };
            self.write_batch(puts);
        }
    }

    fn write_batch(&self, puts: Vec<Put>) {
        let mut writer = locked(&self.writer);
        match self.add(&mut writer, &puts) {
            Ok(Added { length, before, fresh, answers }) => {
                self.recent.add(before, fresh.into(), self.is_followed());
                self.length.send_if_modified(|known| std::mem::replace(known, length) != length);
                for (put, answer) in puts.into_iter().zip(answers) {
                    // Whoever asked may have gone; the bytes are there all the same.
                    let _ = put.answer.send(answer);
                }
            }
            Err(error) => {
                // What is in the file now is not known: the next one looks anew.
                *writer = None;
                for put in puts {
                    let again = io::Error::new(error.kind(), error.to_string());
                    let _ = put.answer.send(Err(again.into()));
                }
            }
        }
    }

    /// Adds what is new, with one flush for all. Another server may have the file open, too.
    fn add(&self, writer: &mut Option<Writer>, puts: &[Put]) -> io::Result<Added> {
        // An archive may take the file's place once or, after a crash of the archiver, never again.
        for _ in 0..3 {
            if writer.is_none() && self.object.exists() {
                return self.answer_archived(puts);
            }
            let open = Writer::open(writer, &self.path)?;
            open.file.lock()?;
            let metadata = open.file.metadata()?;
            if metadata.nlink() > 0 {
                let added = open.add(metadata.len(), puts, self.limit);
                open.file.unlock()?;
                return added;
            }
            *writer = None;
        }
        Err(io::Error::other("its file is removed again and again"))
    }

    /// What is there can be said again; nothing can be added.
    fn answer_archived(&self, puts: &[Put]) -> io::Result<Added> {
        let length = super::archived::table(&self.object)?.map_or(0, |table| table.index.length);
        let answer = |put: &Put| {
            let end = put.from.saturating_add(put.bytes.len() as u64);
            let is_known = end <= length || length > self.limit;
            if is_known { Ok(end.max(length.min(self.limit))) } else { Err(LogError::Closed) }
        };
        let answers = puts.iter().map(answer).collect();
        Ok(Added { length, before: length, fresh: Vec::new(), answers })
    }

    /// Bytes from here on, if they are at hand.
    pub(super) fn recent(&self, from: u64, limit: usize) -> Option<Bytes> {
        self.recent.get(from, limit)
    }
}

impl Writer {
    fn open<'w>(writer: &'w mut Option<Self>, path: &Path) -> io::Result<&'w mut Self> {
        if writer.is_none() {
            let folder = path.parent().unwrap_or(path);
            let is_new = !path.exists();
            if is_new {
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
            let mut options = File::options();
            let file = options.read(true).append(true).create(true).mode(0o600).open(path)?;
            if is_new {
                // The names are as durable as what will be in the file.
                for folder in folder.ancestors().take(2) {
                    File::open(folder)?.sync_all()?;
                }
            } else {
                file.lock()?;
                cut_torn(&file)?;
                file.unlock()?;
            }
            *writer = Some(Self { file, index: beside(path), builder: Builder::default() });
        }
        Ok(writer.as_mut().expect("it was opened just now"))
    }

    fn add(&mut self, before: u64, puts: &[Put], limit: u64) -> io::Result<Added> {
        let (fresh, length, answers) = news(before, puts, limit);
        if fresh.is_empty() {
            return Ok(Added { length, before, fresh, answers });
        }
        let written = self.file.write_all(&fresh).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            let _ = self.file.set_len(before);
            return Err(error);
        }
        // The log is what counts: an index that cannot be written is made when it is needed.
        if let Err(error) = self.note(before, &fresh, length) {
            tracing::warn!(%error, "the index of a log cannot be written");
            self.builder = Builder::default();
        }
        Ok(Added { length, before, fresh, answers })
    }

    /// Keeps the index up to date. What others wrote, or was there before, is read once.
    fn note(&mut self, before: u64, fresh: &[u8], length: u64) -> io::Result<()> {
        if self.builder.length() == before && (before > 0 || !self.index.exists()) {
            self.builder.add(fresh);
            sidecar::append(&self.index, &self.builder.take_closed())
        } else {
            self.builder = sidecar::resume(&self.index, &self.file, length)?;
            Ok(())
        }
    }
}

/// What the file gets, how long it is then, and what each is answered.
fn news(before: u64, puts: &[Put], limit: u64) -> (Vec<u8>, u64, Vec<Answer>) {
    let mut fresh = Vec::new();
    let mut answers = Vec::with_capacity(puts.len());
    let mut length = before;
    for put in puts {
        let end = put.from.saturating_add(put.bytes.len() as u64);
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
            length += append_within(&mut fresh, &put.bytes[known..], limit - length, limit);
        }
        answers.push(Ok(end.max(length.min(limit))));
    }
    (fresh, length, answers)
}

/// After a crash of the machine a file may be longer than what was written to it, with zeros at its end. They were
/// never acknowledged; from the last whole line on the runner says it again.
fn cut_torn(file: &File) -> io::Result<()> {
    let length = file.metadata()?.len();
    let mut window = vec![0; usize::try_from(length.min(64 << 10)).unwrap_or(0)];
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(window.len() as u64);
        let part = &mut window[..usize::try_from(end - start).unwrap_or(0)];
        file.read_exact_at(part, start)?;
        if end == length && part.last() != Some(&0) {
            return Ok(());
        }
        if let Some(at) = memchr::memrchr(b'\n', part) {
            return file.set_len(start + at as u64 + 1);
        }
        end = start;
    }
    if length > 0 { file.set_len(0) } else { Ok(()) }
}

/// The index beside a log.
fn beside(path: &Path) -> PathBuf {
    path.with_extension("idx")
}

/// Removes a log and its index, if they are there.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    for path in [path, &beside(path)] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The file, if there is one.
pub(super) fn open(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn read(path: &Path, from: u64, limit: usize) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open(path)? else { return Ok(None) };
    let left = file.metadata()?.len().saturating_sub(from);
    let mut bytes = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(limit)];
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(&mut bytes[done..], from + done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    bytes.truncate(done);
    Ok(Some(bytes))
}

/// Where the lines of a growing log are, if there is one.
pub(super) fn index(path: &Path, over: bool) -> io::Result<Option<Index>> {
    let Some(file) = open(path)? else { return Ok(None) };
    let known = sidecar::load(&beside(path), file.metadata()?.len());
    scan(known, over, |offset, buffer| file.read_at(buffer, offset)).map(Some)
}
