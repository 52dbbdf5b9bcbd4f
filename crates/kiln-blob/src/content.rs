//! Streams of bytes, and what can be seen of them as they pass.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, Fuse, StreamExt as _};

use crate::disk::{blocking, pieces_of};
use crate::{BlobError, Digest, Hasher};

/// Bytes on their way, in pieces of any size. After an error nothing comes.
pub type Content = BoxStream<'static, Result<Bytes, BlobError>>;

pub fn of_bytes(bytes: impl Into<Bytes>) -> Content {
    of_pieces([bytes.into()])
}

pub fn of_pieces<I>(pieces: I) -> Content
where
    I: IntoIterator<Item = Bytes, IntoIter: Send + 'static>,
{
    stream::iter(pieces.into_iter().map(Ok)).boxed()
}

/// The bytes that a file has now.
pub async fn of_file(path: &Path) -> Result<Content, BlobError> {
    let path = path.to_owned();
    let shown = path.display().to_string();
    let open = move || {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        Ok((file, size))
    };
    let failed = |error: io::Error| BlobError::Io { what: "open", name: shown.clone(), error };
    let (file, size) = blocking(open).await.map_err(failed)?;
    Ok(pieces_of(file, shown, 0..size))
}

/// All bytes at once, up to a bound.
pub async fn collect(mut content: Content, most: usize) -> Result<Bytes, BlobError> {
    let mut all = BytesMut::new();
    while let Some(piece) = content.next().await {
        let piece = piece?;
        if all.len() + piece.len() > most {
            return Err(BlobError::Invalid(format!("there are more than {most} bytes")));
        }
        all.extend_from_slice(&piece);
    }
    Ok(all.freeze())
}

/// Up to `want` bytes or a little more, as they came; nothing at the end.
pub(crate) async fn gather(
    content: &mut Fuse<Content>,
    want: usize,
) -> Result<Vec<Bytes>, BlobError> {
    let mut gathered = Vec::new();
    let mut size = 0;
    while size < want {
        let Some(piece) = content.next().await else { break };
        let piece = piece?;
        size += piece.len();
        if !piece.is_empty() {
            gathered.push(piece);
        }
    }
    Ok(gathered)
}

/// What has passed through a stream.
#[derive(Debug, Clone, Default)]
pub struct Passed(Arc<Mutex<Hasher>>);

impl Passed {
    /// The digest and the length of all that has passed by now.
    pub fn seen(&self) -> (Digest, u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone().finish()
    }

    fn update(&self, bytes: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).update(bytes);
    }
}

/// The same bytes, and what passed of them.
pub fn hashed(content: Content) -> (Content, Passed) {
    let passed = Passed::default();
    let eye = passed.clone();
    let content = content.inspect(move |piece| {
        if let Ok(bytes) = piece {
            eye.update(bytes);
        }
    });
    (content.boxed(), passed)
}

/// The same bytes; but if they are others than expected, the stream ends with an error. More bytes than
/// expected are refused as soon as they come.
pub fn checked(content: Content, digest: Digest, size: Option<u64>) -> Content {
    let (content, passed) = hashed(content);
    let state = (content, passed, false);
    let checked = stream::unfold(state, move |(mut content, passed, over)| async move {
        if over {
            return None;
        }
        let item = match content.next().await {
            Some(Ok(bytes)) => match too_many(&passed, size) {
                Some(error) => Err(error),
                None => return Some((Ok(bytes), (content, passed, false))),
            },
            Some(Err(error)) => Err(error),
            None => match compare(&passed, digest, size) {
                Ok(()) => return None,
                Err(error) => Err(error),
            },
        };
        Some((item, (content, passed, true)))
    });
    checked.boxed()
}

fn too_many(passed: &Passed, size: Option<u64>) -> Option<BlobError> {
    let found = passed.0.lock().unwrap_or_else(PoisonError::into_inner).size();
    let expected = size?;
    (found > expected).then_some(BlobError::WrongSize { expected, found })
}

fn compare(passed: &Passed, expected: Digest, size: Option<u64>) -> Result<(), BlobError> {
    let (found, length) = passed.seen();
    match size {
        Some(size) if size != length => Err(BlobError::WrongSize { expected: size, found: length }),
        _ if found != expected => Err(BlobError::WrongDigest { expected, found }),
        _ => Ok(()),
    }
}
