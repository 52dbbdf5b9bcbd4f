//! A log after its end: one object that never changes.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Arc, Mutex};

use kiln_core::id::RunId;

use super::{live, locked};
use crate::logs::LogId;
use crate::logs::archive::{Packer, Parsed, TAIL, Table};

/// How many tables are remembered.
const REMEMBERED: usize = 64;

/// Tables of objects that were read lately.
#[derive(Debug, Default)]
pub(super) struct Tables(Mutex<VecDeque<(LogId, Arc<Table>)>>);

impl Tables {
    /// The table of a log, if it is archived.
    pub(super) fn of(&self, id: LogId, path: &Path) -> io::Result<Option<Arc<Table>>> {
        if let Some((_, table)) = locked(&self.0).iter().find(|(known, _)| *known == id) {
            return Ok(Some(Arc::clone(table)));
        }
        let Some(table) = table(path)?.map(Arc::new) else { return Ok(None) };
        let mut tables = locked(&self.0);
        tables.truncate(REMEMBERED - 1);
        tables.push_front((id, Arc::clone(&table)));
        Ok(Some(table))
    }

    pub(super) fn forget(&self, run: RunId) {
        locked(&self.0).retain(|(log, _)| log.job.run() != run);
    }
}

/// Reads the table of an object, if there is one.
pub(super) fn table(path: &Path) -> io::Result<Option<Table>> {
    let Some(file) = live::open(path)? else { return Ok(None) };
    let size = file.metadata()?.len();
    let mut wanted = TAIL;
    loop {
        let start = size.saturating_sub(wanted);
        let mut tail = vec![0; usize::try_from(size - start).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut tail, start)?;
        match Table::parse(&tail, size)? {
            Parsed::Table(table) => return Ok(Some(table)),
            Parsed::More(more) => wanted = more,
        }
    }
}

/// Bytes from an offset to the end of its block, `limit` at most.
pub(super) fn read(path: &Path, table: &Table, from: u64, limit: usize) -> io::Result<Vec<u8>> {
    let place = table.index.blocks.partition_point(|block| block.end <= from);
    let Some(block) = table.index.blocks.get(place) else { return Ok(Vec::new()) };
    let range = table.frame(place);
    let mut frame = vec![0; usize::try_from(range.end - range.start).unwrap_or(usize::MAX)];
    File::open(path)?.read_exact_at(&mut frame, range.start)?;
    let mut bytes = table.unpack(place, &frame)?;
    let skipped = usize::try_from(from - block.start).unwrap_or(usize::MAX);
    if skipped > 0 {
        bytes.drain(..skipped);
    }
    bytes.truncate(limit);
    Ok(bytes)
}

/// Makes an object of a log, whole or not at all, and removes the file. Says whether there was one.
pub(super) fn make(growing: &Path, object: &Path) -> io::Result<bool> {
    let Some(file) = live::open(growing)? else { return Ok(false) };
    match file.try_lock() {
        Ok(()) => {}
        // Somebody else is at it.
        Err(TryLockError::WouldBlock) => return Ok(false),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    if !object.exists() {
        write(&file, growing, object)?;
    }
    live::remove(growing)?;
    Ok(true)
}

fn write(log: &File, growing: &Path, object: &Path) -> io::Result<()> {
    let Some(index) = live::index(growing, true)? else { return Ok(()) };
    let folder = object.parent().unwrap_or(object);
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Whatever a crash left there is of no use.
    let next = object.with_extension("zst.new");
    let written = (|| {
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&next)?;
        let mut packer = Packer::new(BufWriter::with_capacity(1 << 20, file))?;
        let mut bytes = Vec::new();
        for block in &index.blocks {
            bytes.resize(usize::try_from(block.end - block.start).unwrap_or(usize::MAX), 0);
            log.read_exact_at(&mut bytes, block.start)?;
            packer.add(block, &bytes)?;
        }
        let mut to = packer.finish()?;
        to.flush()?;
        to.get_ref().sync_all()?;
        fs::rename(&next, object)?;
        for folder in folder.ancestors().take(2) {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    })();
    written.inspect_err(|_: &io::Error| {
        let _ = fs::remove_file(&next);
    })
}
