//! Streams of bytes, and what can be seen of them as they pass.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, Fuse, StreamExt as _};
use tokio::task::JoinHandle;

use crate::disk::blocking;
use crate::pieces::pieces_of;
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
    /// The digest and the length of all that has passed, once the stream has ended.
    pub fn seen(&self) -> (Digest, u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone().finish()
    }
}

/// The same bytes, and what passed of them.
pub fn hashed(content: Content) -> (Content, Passed) {
    let passed = Passed::default();
    let state = Some((content, Hashing::default(), passed.clone()));
    let content = stream::unfold(state, |state| async {
        let (mut content, mut hashing, passed) = state?;
        let item = content.next().await;
        let noted = match &item {
            Some(Ok(bytes)) => hashing.add(bytes.clone()).await,
            _ => hashing.end(&passed).await,
        };
        match (item, noted) {
            (Some(Ok(bytes)), Ok(())) => Some((Ok(bytes), Some((content, hashing, passed)))),
            (Some(Err(error)), _) | (_, Err(error)) => Some((Err(error), None)),
            (None, Ok(())) => None,
        }
    });
    (content.boxed(), passed)
}

/// How much is hashed at a time, beside what else is done with it, and in how many pieces at most.
const HASH: usize = 1 << 20;
const PIECES: usize = 256;

/// A hash under way. What is large is hashed on other threads while the next bytes come, since hashing them takes
/// longer than receiving or writing them.
#[derive(Debug, Default)]
struct Hashing {
    hasher: Hasher,
    /// Has the hasher as long as it works.
    work: Option<JoinHandle<Hasher>>,
    next: Vec<Bytes>,
    waiting: usize,
}

impl Hashing {
    async fn add(&mut self, bytes: Bytes) -> Result<(), BlobError> {
        self.waiting += bytes.len();
        self.next.push(bytes);
        if self.waiting < HASH && self.next.len() < PIECES {
            return Ok(());
        }
        self.rejoin().await?;
        let (hasher, pieces) = (std::mem::take(&mut self.hasher), std::mem::take(&mut self.next));
        self.work = Some(tokio::task::spawn_blocking(move || updated(hasher, &pieces)));
        self.waiting = 0;
        Ok(())
    }

    async fn rejoin(&mut self) -> Result<(), BlobError> {
        if let Some(work) = self.work.take() {
            let gone = |error| BlobError::Cut(format!("the bytes could not be hashed: {error}"));
            self.hasher = work.await.map_err(gone)?;
        }
        Ok(())
    }

    async fn end(&mut self, passed: &Passed) -> Result<(), BlobError> {
        self.rejoin().await?;
        let hasher = updated(std::mem::take(&mut self.hasher), &std::mem::take(&mut self.next));
        *passed.0.lock().unwrap_or_else(PoisonError::into_inner) = hasher;
        Ok(())
    }
}

fn updated(mut hasher: Hasher, pieces: &[Bytes]) -> Hasher {
    for piece in pieces {
        hasher.update(piece);
    }
    hasher
}

/// The same bytes; but if they are others than expected, the stream ends with an error. More bytes than
/// expected are refused as soon as they come.
pub fn checked(content: Content, digest: Digest, size: Option<u64>) -> Content {
    let (content, passed) = hashed(content);
    let state = Some((content, passed, 0));
    let checked = stream::unfold(state, move |state| async move {
        let (mut content, passed, before) = state?;
        let item = match content.next().await {
            Some(Ok(bytes)) => {
                let found = before + bytes.len() as u64;
                match size.filter(|expected| found > *expected) {
                    Some(expected) => Err(BlobError::WrongSize { expected, found }),
                    None => return Some((Ok(bytes), Some((content, passed, found)))),
                }
            }
            Some(Err(error)) => Err(error),
            None => Err(compare(&passed, digest, size).err()?),
        };
        Some((item, None))
    });
    checked.boxed()
}

fn compare(passed: &Passed, expected: Digest, size: Option<u64>) -> Result<(), BlobError> {
    let (found, length) = passed.seen();
    match size {
        Some(size) if size != length => Err(BlobError::WrongSize { expected: size, found: length }),
        _ if found != expected => Err(BlobError::WrongDigest { expected, found }),
        _ => Ok(()),
    }
}
