//! The bytes of an open file, piece by piece.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use rustix::fs::{Advice, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};

use crate::Content;
use crate::buffers::Buffers;
use crate::disk::{blocking, failed};

/// How much is read at a time. Who sends it finds it in the cache of the processor that read it.
const PIECE: usize = 256 << 10;
/// Buffers of that size that are kept when nobody reads.
const SPARE: usize = 16;
/// A smaller piece gets memory of its own: whoever keeps it would keep a whole buffer.
const SMALL: usize = 64 << 10;
/// How much the disk is told to bring when it had to be waited for.
const AHEAD: u64 = 4 << 20;

static BUFFERS: LazyLock<Buffers> = LazyLock::new(|| Buffers::new(PIECE, SPARE));

/// The bytes of an open file. Nothing is read before somebody asks.
pub(crate) fn pieces_of(file: File, name: String, range: Range<u64>) -> Content {
    let file = Arc::new(file);
    let pieces = stream::unfold(Some(range), move |rest| {
        let (file, name) = (Arc::clone(&file), name.clone());
        async move {
            let rest = rest.filter(|rest| !rest.is_empty())?;
            match next(file, rest.clone()).await {
                Ok(piece) => {
                    let from = rest.start + piece.len() as u64;
                    Some((Ok(piece), Some(from..rest.end)))
                }
                Err(error) => Some((Err(failed("read", &name, error)), None)),
            }
        }
    });
    pieces.boxed()
}

/// What the system has in memory is copied at once; another thread waits for the disk.
async fn next(file: Arc<File>, rest: Range<u64>) -> io::Result<Bytes> {
    let end = rest.end.min(rest.start.saturating_add(PIECE as u64));
    let here = rest.start..end;
    if let Some(piece) = read(here.clone(), |bytes| Ok(read_now(&file, bytes, here.start)))? {
        return Ok(piece);
    }
    let waited = blocking(move || {
        // Advice that is not taken costs only time.
        let _ = fadvise(&*file, here.start, NonZeroU64::new(AHEAD), Advice::WillNeed);
        read(here.clone(), |bytes| file.read_exact_at(bytes, here.start).map(|()| bytes.len()))
    });
    waited.await?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// How much of this was in memory and is copied. Not every file system can tell; whoever waits then hears what
/// else is wrong.
fn read_now(file: &File, bytes: &mut [u8], from: u64) -> usize {
    preadv2(file, &mut [IoSliceMut::new(bytes)], from, ReadWriteFlags::NOWAIT).unwrap_or(0)
}

/// A piece that is filled by `fill`, as far as it was; nothing if it was not at all.
fn read(
    range: Range<u64>,
    fill: impl FnOnce(&mut [u8]) -> io::Result<usize>,
) -> io::Result<Option<Bytes>> {
    let length = usize::try_from(range.end - range.start).expect("a piece is small");
    if length > SMALL {
        let mut buffer = BUFFERS.take();
        let filled = fill(&mut buffer.as_mut()[..length])?;
        return Ok((filled > 0).then(|| buffer.freeze(filled)));
    }
    let mut bytes = vec![0; length];
    let filled = fill(&mut bytes)?;
    bytes.truncate(filled);
    Ok((filled > 0).then(|| bytes.into()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::BlobError;

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
