//! The bytes of an open file, piece by piece.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use rustix::io::{ReadWriteFlags, preadv2};
use tokio::task::JoinHandle;

use crate::buffers::Buffers;
use crate::disk::{end, failed, start};
use crate::{BlobError, Content};

/// How much is read at a time. Who sends it finds it in the cache of the processor that read it.
const PIECE: usize = 256 << 10;
/// Buffers of that size that are kept when nobody reads.
const SPARE: usize = 16;
/// A smaller piece gets memory of its own: whoever keeps it would keep a whole buffer.
const SMALL: usize = 64 << 10;

static BUFFERS: LazyLock<Buffers> = LazyLock::new(|| Buffers::new(PIECE, SPARE));

/// The bytes of an open file. Nothing is read before somebody asks.
pub(crate) fn pieces_of(file: File, name: String, range: Range<u64>) -> Content {
    let pieces = Pieces { file: Arc::new(file), name, rest: range, coming: None };
    let pieces = stream::unfold(pieces, async |mut pieces| {
        let piece = pieces.next().await?;
        Some((piece, pieces))
    });
    pieces.boxed()
}

/// What the system has in memory is copied at once, by whoever sends it. From the first piece on for which the disk
/// must be waited for, another thread reads the next one while one is on its way.
struct Pieces {
    file: Arc<File>,
    name: String,
    rest: Range<u64>,
    coming: Option<JoinHandle<io::Result<Bytes>>>,
}

impl Pieces {
    async fn next(&mut self) -> Option<Result<Bytes, BlobError>> {
        if self.rest.is_empty() {
            return None;
        }
        let piece = match self.coming.take() {
            None => match self.read_now() {
                Some(piece) => return Some(Ok(self.taken(piece))),
                None => end(self.begin()).await,
            },
            Some(coming) => end(coming).await,
        };
        match piece {
            Ok(piece) => {
                let piece = self.taken(piece);
                self.coming = (!self.rest.is_empty()).then(|| self.begin());
                Some(Ok(piece))
            }
            Err(error) => {
                self.rest = 0..0;
                Some(Err(failed("read", &self.name, error)))
            }
        }
    }

    fn taken(&mut self, piece: Bytes) -> Bytes {
        self.rest.start += piece.len() as u64;
        piece
    }

    /// How long the next piece is.
    fn length(&self) -> usize {
        usize::try_from(self.rest.end - self.rest.start).unwrap_or(usize::MAX).min(PIECE)
    }

    /// What is in memory of the next piece; nothing if somebody would have to wait. Not every file system can tell, and
    /// whoever waits then hears what else is wrong.
    fn read_now(&self) -> Option<Bytes> {
        let now = |bytes: &mut [u8]| {
            let mut bytes = [IoSliceMut::new(bytes)];
            let read = preadv2(&self.file, &mut bytes, self.rest.start, ReadWriteFlags::NOWAIT);
            Ok(read.unwrap_or(0))
        };
        filled(self.length(), now).ok().filter(|piece| !piece.is_empty())
    }

    /// Begins to read the next piece.
    fn begin(&self) -> JoinHandle<io::Result<Bytes>> {
        let (file, from, length) = (Arc::clone(&self.file), self.rest.start, self.length());
        start(move || filled(length, |bytes| file.read_exact_at(bytes, from).map(|()| bytes.len())))
    }
}

/// A piece as far as it was filled.
fn filled(length: usize, fill: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<Bytes> {
    if length <= SMALL {
        let mut bytes = vec![0; length];
        let length = fill(&mut bytes)?;
        bytes.truncate(length);
        return Ok(bytes.into());
    }
    let mut buffer = BUFFERS.take();
    let length = fill(&mut buffer.as_mut()[..length])?;
    if length <= SMALL {
        return Ok(Bytes::copy_from_slice(&buffer.as_ref()[..length]));
    }
    Ok(buffer.freeze(length))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{Advice, fadvise};

    use super::*;

    fn some(length: usize) -> Vec<u8> {
        (0..=250).cycle().take(length).collect()
    }

    async fn all(mut content: Content) -> Result<Vec<u8>, BlobError> {
        let mut bytes = Vec::new();
        while let Some(piece) = content.next().await {
            bytes.extend_from_slice(&piece?);
        }
        Ok(bytes)
    }

    #[tokio::test]
    async fn a_range_comes_whole_from_memory_and_from_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let bytes = some(3 * PIECE + 17);
        fs::write(&path, &bytes).unwrap();
        for range in [0..bytes.len(), 5..5, 7..100, PIECE - 1..2 * PIECE + 1, 1..bytes.len()] {
            let file = File::open(&path).unwrap();
            file.sync_all().unwrap();
            // What is flushed can be forgotten, so that the next reader waits for the disk.
            let _ = fadvise(&file, 0, None, Advice::DontNeed);
            let span = range.start as u64..range.end as u64;
            for _ in 0..2 {
                let again = file.try_clone().unwrap();
                let content = pieces_of(again, "file".to_owned(), span.clone());
                assert_eq!(all(content).await.unwrap(), bytes[range.clone()], "{range:?}");
            }
        }
    }

    #[tokio::test]
    async fn a_file_that_became_shorter_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, some(PIECE)).unwrap();
        let content = pieces_of(File::open(&path).unwrap(), "file".to_owned(), 0..PIECE as u64 + 1);
        let error = all(content).await.unwrap_err();
        assert!(error.to_string().contains("file"), "{error}");
    }
}
