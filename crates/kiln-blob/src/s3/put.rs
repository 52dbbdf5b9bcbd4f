//! Writes an object: with one request if it is small, else in parts.

use bytes::Bytes;
use futures_util::stream::Fuse;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use object_store::multipart::{MultipartStore as _, PartId};
use object_store::path::Path;
use object_store::{MultipartId, ObjectStoreExt as _, PutPayload};

use super::S3;
use crate::content::gather;
use crate::{BlobError, Content, Name};

/// The size of a part; so many are under way.
const PART: usize = 8 << 20;
const AHEAD: usize = 2;
/// S3 takes no more.
const MOST_PARTS: usize = 10_000;

pub(super) async fn put(s3: &S3, name: &Name, content: Content) -> Result<u64, BlobError> {
    let mut content = content.fuse();
    let first = gather(&mut content, PART).await?;
    let size: u64 = length(&first);
    if size < PART as u64 {
        let payload = PutPayload::from_iter(first);
        let put = s3.store.put(&s3.path(name), payload).await;
        return put.map(|_| size).map_err(|error| s3.explain("write", name, &error));
    }
    let explain = |error| s3.explain("write", name, &error);
    let path = s3.path(name);
    let id = s3.store.create_multipart(&path).await.map_err(explain)?;
    let upload = Upload { s3: s3.clone(), path, id: Some(id) };
    upload.write(name, first, content).await
}

fn length(pieces: &[Bytes]) -> u64 {
    pieces.iter().map(|piece| piece.len() as u64).sum()
}

async fn send(
    s3: S3,
    name: Name,
    id: MultipartId,
    number: usize,
    part: Result<Vec<Bytes>, BlobError>,
) -> Result<(PartId, u64), BlobError> {
    let part = part?;
    if number >= MOST_PARTS {
        let most = MOST_PARTS * PART;
        return Err(BlobError::Invalid(format!("an object in S3 may have up to {most} bytes")));
    }
    let (size, path) = (length(&part), s3.path(&name));
    let sent = s3.store.put_part(&path, &id, number, PutPayload::from_iter(part)).await;
    sent.map(|tag| (tag, size)).map_err(|error| s3.explain("write", &name, &error))
}

/// An upload in parts. It is given up if it is not finished.
struct Upload {
    s3: S3,
    path: Path,
    id: Option<MultipartId>,
}

impl Upload {
    async fn write(
        mut self,
        name: &Name,
        first: Vec<Bytes>,
        content: Fuse<Content>,
    ) -> Result<u64, BlobError> {
        let explain = |error| self.s3.explain("write", name, &error);
        let id = self.id.clone().unwrap_or_default();
        let rest = stream::unfold(Some(content), |content| async {
            let mut content = content?;
            match gather(&mut content, PART).await {
                Ok(part) if part.is_empty() => None,
                Ok(part) => Some((Ok(part), Some(content))),
                Err(error) => Some((Err(error), None)),
            }
        });
        let parts = stream::once(std::future::ready(Ok(first))).chain(rest).enumerate().boxed();
        let sent = parts.map(|(number, part)| {
            send(self.s3.clone(), name.clone(), id.clone(), number, part).boxed()
        });
        let sent: Vec<(PartId, u64)> = sent.buffered(AHEAD).try_collect().await?;
        let size = sent.iter().map(|(_, size)| size).sum();
        let tags = sent.into_iter().map(|(tag, _)| tag).collect();
        let done = self.s3.store.complete_multipart(&self.path, &id, tags).await;
        done.map_err(explain)?;
        self.id = None;
        Ok(size)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        // Where nothing runs any more, the store itself forgets uploads that were given up.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (s3, path) = (self.s3.clone(), self.path.clone());
        runtime.spawn(async move {
            if let Err(error) = s3.store.abort_multipart(&path, &id).await {
                tracing::debug!(%error, %path, "an upload in parts could not be given up");
            }
        });
    }
}
