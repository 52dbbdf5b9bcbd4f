//! Reads an object piece by piece.

use std::ops::Range;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use object_store::{GetOptions, GetRange, ObjectStore as _, ObjectStoreExt as _};

use super::S3;
use crate::backend::{Found, Span};
use crate::{BlobError, Name};

/// One request reads this much; so many are under way.
const PIECE: u64 = 4 << 20;
const AHEAD: usize = 2;
/// A body that breaks off is asked for again this often.
const TRIES: u32 = 4;

pub(super) async fn get(s3: &S3, name: &Name, span: Span) -> Result<Found, BlobError> {
    let found = s3.store.head(&s3.path(name)).await;
    let found = found.map_err(|error| s3.explain("look at", name, &error))?;
    let range = span.of(name, found.size)?;
    let (s3, name, tag) = (s3.clone(), name.clone(), found.e_tag);
    let end = range.end;
    let pieces = stream::iter(range.clone().step_by(usize::try_from(PIECE).expect("it is small")));
    let content = pieces.map(move |from| {
        let piece = from..end.min(from + PIECE);
        read(s3.clone(), name.clone(), tag.clone(), piece)
    });
    Ok(Found { size: found.size, range, content: content.buffered(AHEAD).boxed() })
}

/// The object must still be the one that was looked at.
async fn read(
    s3: S3,
    name: Name,
    tag: Option<String>,
    range: Range<u64>,
) -> Result<Bytes, BlobError> {
    let mut tries = 0;
    loop {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: tag.clone(),
            ..GetOptions::default()
        };
        let answer = s3.store.get_opts(&s3.path(&name), options).await;
        // What fails here was tried again by the client already.
        let answer = answer.map_err(|error| s3.explain("read", &name, &error))?;
        match answer.bytes().await {
            Ok(bytes) if bytes.len() as u64 == range.end - range.start => return Ok(bytes),
            Ok(_) => return Err(BlobError::damaged(&name, "a part of it is missing")),
            Err(_) if tries < TRIES => tries += 1,
            Err(error) => return Err(s3.explain("read", &name, &error)),
        }
    }
}
