//! An archive that is a file on this machine.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};

use super::read::{self, Broken, Entry, HEAD, TAIL};

/// What is in it.
pub fn entries(file: &mut File) -> Result<Vec<Entry>, Broken> {
    let size = file.seek(SeekFrom::End(0))?;
    let tail = bytes(file, size.saturating_sub(TAIL), size.min(TAIL))?;
    let list = read::list(&tail, size)?;
    read::entries(&bytes(file, list.from, list.size)?)
}

/// Writes one of its files somewhere.
pub fn unpack(file: &mut File, entry: &Entry, to: &mut impl Write) -> Result<(), Broken> {
    let head = bytes(file, entry.at, HEAD)?;
    let from = entry.at.checked_add(entry.content_after(&head)?);
    let from = from.ok_or_else(|| Broken::Says("the archive says what cannot be".to_owned()))?;
    file.seek(SeekFrom::Start(from))?;
    entry.unpack(&mut *file, to)
}

fn bytes(file: &mut File, from: u64, length: u64) -> Result<Vec<u8>, Broken> {
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == length {
        return Ok(bytes);
    }
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the archive ends too early").into())
}
