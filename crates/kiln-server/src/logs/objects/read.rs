//! What there is of a log, and where its lines are.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time::Instant;

use super::chunks::{self, Chunks};
use super::{Known, Log, Shelf};
use crate::logs::archive::{Parsed, TAIL, Table};
use crate::logs::index::{BLOCK, Builder, Index};
use crate::logs::recent::REMEMBERED;
use crate::logs::{LogError, LogId};

/// How many pieces are had at once.
const AT_ONCE: usize = 8;
/// A piece that begins before the last one that is known, and ends behind it, is found when everything is listed.
/// There is one only where two servers were asked to write the same at the same moment.
const ALL_AFTER: Duration = Duration::from_secs(10);

/// How much of a log is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// From the last piece that is known on.
    News,
    All,
}

/// What a reader wants to hear.
#[derive(Debug, Clone, Copy)]
enum Want {
    /// What comes behind this byte.
    Behind(u64),
    All,
}

impl Shelf {
    /// Asks what others have added, and whether it is archived. Takes no turn: whoever writes asks, too.
    pub(super) async fn look(&self, id: LogId, log: &Log, extent: Extent) -> Result<(), LogError> {
        let begun = Instant::now();
        let (last, before) = {
            let known = log.known();
            if known.table.is_some() {
                return Ok(());
            }
            (known.chunks.last(), known.chunks.length())
        };
        let folder = id.folder();
        if let Some(last) = last.filter(|_| extent == Extent::News) {
            // The last piece is to be among them: if it is not, the log is not what it was.
            let after = chunks::name(&folder, last.0, last.1 - 1);
            let names = self.names(&folder, Some(after)).await?;
            let names = names.iter().map(|listed| listed.name.as_str());
            let news: Vec<(u64, u64)> = chunks::ranges(names, &folder).collect();
            if news.first() == Some(&last) && goes_on(&mut log.known(), &news) {
                log.known().asked = Some(begun);
                return Ok(());
            }
        }
        let names = self.names(&folder, None).await?;
        let names = names.iter().map(|listed| listed.name.as_str());
        let found = Chunks::of(chunks::ranges(names, &folder));
        let is_whole = found.length() > 0 && found.length() >= before;
        // What became of it is one object; the pieces are removed after that is there.
        let table = if is_whole { None } else { self.table(&id.object()).await? };
        let mut known = log.known();
        if is_whole {
            goes_on(&mut known, &found.pieces().collect::<Vec<_>>());
        } else {
            // It is not what it was, and neither are its lines.
            known.chunks = found;
            known.builder = Builder::default();
            known.table = table.map(Arc::new);
            log.recent.clear();
        }
        (known.asked, known.asked_all) = (Some(begun), Some(begun));
        Ok(())
    }

    /// The same for readers: one asks for all who came before it began, or who want no more than what it found.
    async fn hear(&self, id: LogId, log: &Log, want: Want) -> Result<(), LogError> {
        let came = Instant::now();
        let _turn = log.asking.lock().await;
        let (before, extent) = {
            let known = log.known();
            let all_is_old = known.asked_all.is_none_or(|asked| asked.elapsed() >= ALL_AFTER);
            let (extent, is_there) = match want {
                Want::Behind(at) if all_is_old => (Extent::All, known.chunks.length() > at),
                Want::Behind(at) => (Extent::News, known.chunks.length() > at),
                Want::All => (Extent::All, false),
            };
            let asked = if extent == Extent::All { known.asked_all } else { known.asked };
            let is_fresh = asked.is_some_and(|asked| asked >= came);
            if known.table.is_some() || is_there || is_fresh {
                return Ok(());
            }
            (known.chunks.length(), extent)
        };
        self.look(id, log, extent).await?;
        self.bring(id, log, before).await
    }

    /// Has what is new at hand for all who watch: one reads it for them.
    async fn bring(&self, id: LogId, log: &Log, before: u64) -> Result<(), LogError> {
        let after = log.known().chunks.length();
        let Some(count) = after.checked_sub(before).filter(|count| *count > 0) else {
            return Ok(());
        };
        let fits = usize::try_from(count).ok().filter(|count| *count <= REMEMBERED);
        match fits.filter(|_| log.is_followed()) {
            Some(count) => {
                let fresh = self.pieces(id, log, before, count).await?.unwrap_or_default();
                log.recent.add(before, fresh, true);
            }
            None => log.recent.clear(),
        }
        Ok(())
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

    pub(super) async fn length(&self, id: LogId) -> Result<u64, LogError> {
        let log = self.log(id);
        self.hear(id, &log, Want::All).await?;
        Ok(log.known().length())
    }

    pub(super) async fn read(&self, id: LogId, from: u64, limit: usize) -> Result<Bytes, LogError> {
        let log = self.log(id);
        if let Some(bytes) = log.recent.get(from, limit) {
            return Ok(bytes);
        }
        if log.known().chunks.length() <= from {
            self.hear(id, &log, Want::Behind(from)).await?;
        } else if log.is_followed() && log.asking.try_lock().is_err() {
            // It is known since a moment, and somebody is just bringing it for all.
            drop(log.asking.lock().await);
        }
        if let Some(bytes) = log.recent.get(from, limit) {
            return Ok(bytes);
        }
        let mut table = log.known().table.clone();
        if table.is_none() {
            if let Some(bytes) = self.pieces(id, &log, from, limit).await? {
                return Ok(bytes);
            }
            // A piece is gone: it was archived since the names were listed.
            self.hear(id, &log, Want::All).await?;
            table.clone_from(&log.known().table);
        }
        match table {
            Some(table) => self.read_archived(id, &table, from, limit).await,
            None => Ok(Bytes::new()),
        }
    }

    /// Bytes of pieces that are known, fewer than the limit only at their end. None if a piece is not there any more.
    pub(super) async fn pieces(
        &self,
        id: LogId,
        log: &Log,
        from: u64,
        limit: usize,
    ) -> Result<Option<Bytes>, LogError> {
        let parts = log.known().chunks.parts(from, limit);
        let folder = id.folder();
        let had = parts.into_iter().map(|part| {
            let ((start, end), folder) = (part.piece, folder.as_str());
            async move {
                let name = chunks::name(folder, start, end);
                self.objects.get(&name, part.from - start, part.to - start).await
            }
        });
        let had: Vec<_> = had.collect();
        let had: Vec<Option<Bytes>> = stream::iter(had).buffered(AT_ONCE).try_collect().await?;
        let Some(mut had) = had.into_iter().collect::<Option<Vec<Bytes>>>() else {
            return Ok(None);
        };
        Ok(Some(if had.len() == 1 { had.remove(0) } else { had.concat().into() }))
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
        let Some(frame) = frame else {
            // It is gone: somebody removed the logs of its run.
            let log = self.log(id);
            *log.known() = Known::default();
            log.recent.clear();
            return Ok(Bytes::new());
        };
        let table = Arc::clone(table);
        let unpack = move || table.unpack(place, &frame);
        let bytes = tokio::task::spawn_blocking(unpack).await.map_err(io::Error::other)??;
        let bytes = Bytes::from(bytes);
        let skipped = usize::try_from(from - block.start).unwrap_or(usize::MAX);
        Ok(bytes.slice(skipped..bytes.len().min(skipped.saturating_add(limit))))
    }

    pub(super) async fn index(&self, id: LogId, over: bool) -> Result<Index, LogError> {
        let log = self.log(id);
        self.hear(id, &log, Want::All).await?;
        let _turn = log.indexing.lock().await;
        let (mut builder, length) = {
            let known = log.known();
            if let Some(table) = &known.table {
                return Ok(table.index.clone());
            }
            (known.builder.clone(), known.chunks.length())
        };
        // Only what came since the last time is read.
        while builder.length() < length {
            let most = usize::try_from(BLOCK).unwrap_or(usize::MAX);
            match self.pieces(id, &log, builder.length(), most).await? {
                Some(more) if !more.is_empty() => builder.add(&more),
                _ => {
                    self.hear(id, &log, Want::All).await?;
                    let table = log.known().table.clone();
                    let gone = || LogError::from(io::Error::from(io::ErrorKind::NotFound));
                    return table.map(|table| table.index.clone()).ok_or_else(gone);
                }
            }
        }
        let mut known = log.known();
        let (indexed, whole) = (known.builder.length(), known.chunks.length());
        // Should it be gone by now, its lines are not kept either.
        if builder.length() > indexed && builder.length() <= whole {
            known.builder = builder.clone();
        }
        Ok(builder.finish(over))
    }
}

/// Takes pieces over, and says whether they follow each other without a gap.
fn goes_on(known: &mut Known, pieces: &[(u64, u64)]) -> bool {
    let mut goes_on = true;
    for (from, to) in pieces {
        goes_on &= known.chunks.add(*from, *to);
    }
    goes_on
}
