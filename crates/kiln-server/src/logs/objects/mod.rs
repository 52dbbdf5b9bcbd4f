//! Logs in a store of objects that several servers share, such as S3.
//!
//! | object | what |
//! |---|---|
//! | `live/<job>.<claim>/<from>-<to>` | bytes of a log that grows, as they were acknowledged |
//! | `runs/<run>/<job>.<claim>.zst` | the log after its end ([`super::archive`]) |
//!
//! Objects never change. The same bytes may be in more than one: when a request that was believed to be lost arrives
//! at another server after all. What a log is follows from the names alone, so that any server can go on with it.

mod chunks;
mod logs;
mod place;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use kiln_blob::Backend;
use kiln_core::id::RunId;
use kiln_core::time::Timestamp;
use tokio::sync::{Mutex as Turn, watch};

use super::archive::{self, Parsed, TAIL, Table};
use super::index::{Builder, Index};
use super::marker::append_within;
use super::{LogError, LogId};
use chunks::Chunks;
use place::{Listed, Objects};

/// How many objects are listed at a time.
const LIST: usize = 1_000;
/// How many logs are remembered when nobody writes or watches.
const REMEMBERED: usize = 256;

/// Logs as objects. Clones are the same.
#[derive(Debug, Clone)]
pub struct ObjectLogs(Arc<Shelf>);

#[derive(Debug)]
struct Shelf {
    objects: Objects,
    /// What is longer is cut.
    limit: u64,
    logs: Mutex<HashMap<LogId, Arc<Log>>>,
}

/// A log as this server knows it.
#[derive(Debug)]
struct Log {
    /// Held by whoever asks the store about it.
    known: Turn<Known>,
    length: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Known {
    chunks: Chunks,
    /// Its lines, as far as they were read.
    builder: Builder,
    /// Once it is archived, nothing else counts.
    table: Option<Arc<Table>>,
}

impl Known {
    fn length(&self) -> u64 {
        match &self.table {
            Some(table) => table.index.length,
            None => self.chunks.length(),
        }
    }
}

impl LogId {
    fn folder(self) -> String {
        format!("live/{}", self.name())
    }

    fn object(self) -> String {
        format!("{}/{}.zst", run_folder(self.job.run()), self.name())
    }
}

/// Numbers have their place in the order of names.
fn run_folder(run: RunId) -> String {
    format!("runs/{:019}", run.0)
}

impl ObjectLogs {
    /// Logs beside the other bytes of this backend; each has `limit` bytes at most.
    pub fn new(backend: Arc<dyn Backend>, limit: u64) -> Self {
        let objects = Objects(backend);
        Self(Arc::new(Shelf { objects, limit, logs: Mutex::default() }))
    }
}

impl Shelf {
    fn log(&self, id: LogId) -> Arc<Log> {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        if logs.len() >= REMEMBERED && !logs.contains_key(&id) {
            let rests =
                |log: &Arc<Log>| Arc::strong_count(log) == 1 && log.length.receiver_count() == 0;
            logs.retain(|_, log| !rests(log));
        }
        let new = || Arc::new(Log { known: Turn::default(), length: watch::Sender::new(0) });
        Arc::clone(logs.entry(id).or_insert_with(new))
    }

    /// Looks what other servers have added, and whether it is archived.
    async fn refresh(&self, id: LogId, known: &mut Known) -> Result<(), LogError> {
        if known.table.is_some() {
            return Ok(());
        }
        let folder = id.folder();
        let names = self.names(&folder).await?;
        known.chunks = Chunks::of(names.iter().map(|listed| listed.name.as_str()), &folder);
        if known.chunks.length() == 0 || known.chunks.length() < known.builder.length() {
            // What became of it is one object; the pieces are removed after that is there.
            known.table = self.table(&id.object()).await?.map(Arc::new);
        }
        Ok(())
    }

    async fn names(&self, folder: &str) -> Result<Vec<Listed>, LogError> {
        let mut all: Vec<Listed> = Vec::new();
        loop {
            let after = all.last().map(|last| last.name.clone());
            let more = self.objects.list(folder, after.as_deref(), LIST).await?;
            let is_last = more.len() < LIST;
            all.extend(more);
            if is_last {
                return Ok(all);
            }
        }
    }

    async fn table(&self, name: &str) -> Result<Option<Table>, LogError> {
        let Some(size) = self.objects.size(name).await? else { return Ok(None) };
        let mut wanted = TAIL;
        loop {
            let start = size.saturating_sub(wanted);
            let Some(tail) = self.objects.get(name, start, size).await? else { return Ok(None) };
            match Table::parse(&tail, size)? {
                Parsed::Table(table) => return Ok(Some(table)),
                Parsed::More(more) => wanted = more,
            }
        }
    }

    async fn append(&self, id: LogId, from: u64, bytes: Bytes) -> Result<u64, LogError> {
        let log = self.log(id);
        // Puts of one log come one after the other, as its runner sends them.
        let mut known = log.known.lock().await;
        if from > known.chunks.length() || known.chunks.length() == 0 {
            self.refresh(id, &mut known).await?;
        }
        let end = from.saturating_add(bytes.len() as u64);
        let length = known.length();
        if length > self.limit {
            return Ok(end);
        }
        if from > length {
            return Err(LogError::Gap { wanted: length });
        }
        if end <= length {
            return Ok(length);
        }
        if known.table.is_some() {
            return Err(LogError::Closed);
        }
        let skipped = usize::try_from(length - from).unwrap_or(usize::MAX);
        let mut fresh = Vec::new();
        let added = append_within(&mut fresh, &bytes[skipped..], self.limit - length, self.limit);
        let name = chunks::name(&id.folder(), length, length + added);
        self.objects.put(&name, fresh.clone().into()).await?;
        if known.builder.length() == length {
            known.builder.add(&fresh);
        }
        known.chunks.add(length, length + added);
        let length = length + added;
        log.length.send_if_modified(|seen| std::mem::replace(seen, length) != length);
        Ok(end.max(length.min(self.limit)))
    }

    async fn read(&self, id: LogId, from: u64, limit: usize) -> Result<Bytes, LogError> {
        let log = self.log(id);
        let mut known = log.known.lock().await;
        if known.chunks.find(from).is_none() {
            self.refresh(id, &mut known).await?;
        }
        if let Some(bytes) = self.read_chunk(id, &known.chunks, from, limit).await? {
            return Ok(bytes);
        }
        // It may have been archived since the names were listed.
        self.refresh(id, &mut known).await?;
        let table = known.table.clone();
        drop(known);
        match table {
            Some(table) => self.read_archived(id, &table, from, limit).await,
            None => Ok(Bytes::new()),
        }
    }

    /// None if there is nothing there, or nothing any more.
    async fn read_chunk(
        &self,
        id: LogId,
        chunks: &Chunks,
        from: u64,
        limit: usize,
    ) -> Result<Option<Bytes>, LogError> {
        let Some((start, end)) = chunks.find(from) else { return Ok(None) };
        let name = chunks::name(&id.folder(), start, end);
        let to = end.min(from.saturating_add(limit as u64));
        self.objects.get(&name, from - start, to - start).await
    }

    async fn read_archived(
        &self,
        id: LogId,
        table: &Arc<Table>,
        from: u64,
        limit: usize,
    ) -> Result<Bytes, LogError> {
        let place = table.index.blocks.partition_point(|block| block.end <= from);
        let Some(block) = table.index.blocks.get(place).copied() else { return Ok(Bytes::new()) };
        let range = table.frame(place);
        let frame = self.objects.get(&id.object(), range.start, range.end).await?;
        let Some(frame) = frame else { return Ok(Bytes::new()) };
        let table = Arc::clone(table);
        let unpack = move || table.unpack(place, &frame);
        let bytes = tokio::task::spawn_blocking(unpack).await.map_err(io::Error::other)??;
        let bytes = Bytes::from(bytes);
        let skipped = usize::try_from(from - block.start).unwrap_or(usize::MAX);
        Ok(bytes.slice(skipped..bytes.len().min(skipped.saturating_add(limit))))
    }

    async fn index(&self, id: LogId, over: bool) -> Result<Index, LogError> {
        let log = self.log(id);
        let mut known = log.known.lock().await;
        self.refresh(id, &mut known).await?;
        if let Some(table) = &known.table {
            return Ok(table.index.clone());
        }
        // Only what came since the last time is read.
        while known.builder.length() < known.chunks.length() {
            let at = known.builder.length();
            let more = self.read_chunk(id, &known.chunks, at, usize::MAX).await?;
            let Some(more) = more.filter(|more| !more.is_empty()) else { break };
            known.builder.add(&more);
        }
        Ok(known.builder.snapshot(over))
    }

    async fn archive(&self, id: LogId) -> Result<bool, LogError> {
        let pieces = self.names(&id.folder()).await?;
        if pieces.is_empty() {
            return Ok(false);
        }
        let object = id.object();
        if self.objects.size(&object).await?.is_none() {
            let index = self.index(id, true).await?;
            let packed = self.packed(id, &index).await?;
            self.objects.put(&object, packed.into()).await?;
        }
        for piece in pieces {
            self.objects.delete(&piece.name).await?;
        }
        let log = self.log(id);
        *log.known.lock().await = Known::default();
        Ok(true)
    }

    /// The object, which is small beside the log.
    async fn packed(&self, id: LogId, index: &Index) -> Result<Vec<u8>, LogError> {
        let mut packer = archive::Packer::new(Vec::new())?;
        for block in &index.blocks {
            let mut bytes = Vec::new();
            while (bytes.len() as u64) < block.end - block.start {
                let from = block.start + bytes.len() as u64;
                let left = usize::try_from(block.end - from).unwrap_or(usize::MAX);
                let more = self.read(id, from, left).await?;
                if more.is_empty() {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
                bytes.extend_from_slice(&more);
            }
            let block = *block;
            let pack = move || packer.add(&block, &bytes).map(|()| packer);
            packer = tokio::task::spawn_blocking(pack).await.map_err(io::Error::other)??;
        }
        Ok(packer.finish()?)
    }

    async fn forget(&self, run: RunId) -> Result<(), LogError> {
        self.logs
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|log, _| log.job.run() != run);
        for listed in self.names(&run_folder(run)).await? {
            self.objects.delete(&listed.name).await?;
        }
        for listed in self.names("live").await? {
            if chunks::log_of(&listed.name).is_some_and(|log| log.job.run() == run) {
                self.objects.delete(&listed.name).await?;
            }
        }
        Ok(())
    }

    /// Logs that grow, each with the time of its last piece.
    async fn growing(&self) -> Result<Vec<(LogId, Timestamp)>, LogError> {
        let mut found: HashMap<LogId, Timestamp> = HashMap::new();
        for listed in self.names("live").await? {
            if let Some(log) = chunks::log_of(&listed.name) {
                let latest = found.entry(log).or_insert(listed.modified);
                *latest = listed.modified.max(*latest);
            }
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_unstable();
        Ok(found)
    }

    /// Runs above one, each with the time of its last object.
    async fn runs(&self, after: RunId) -> Result<Vec<(RunId, Timestamp)>, LogError> {
        let mut found: Vec<(RunId, Timestamp)> = Vec::new();
        for listed in self.names("runs").await? {
            let run = listed.name.split('/').nth(1).and_then(|text| text.parse().ok()).map(RunId);
            match (run.filter(|run| *run > after), found.last_mut()) {
                (Some(run), Some((last, at))) if *last == run => *at = listed.modified.max(*at),
                (Some(run), _) => found.push((run, listed.modified)),
                (None, _) => {}
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
