//! Objects of logs in the place where the server keeps bytes, in a folder of their own.

use std::io;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use kiln_blob::{Backend, BlobError, Name, Span, collect, of_bytes};
use kiln_core::time::Timestamp;

use super::{Listed, Objects};
use crate::logs::{Future, LogError};

/// Nobody else writes here.
const FOLDER: &str = "logs";

/// The objects of a backend below `logs/`.
#[derive(Debug)]
pub struct BlobObjects(Arc<dyn Backend>);

impl BlobObjects {
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        Self(backend)
    }
}

fn full(name: &str) -> Result<Name, LogError> {
    Name::new(format!("{FOLDER}/{name}")).map_err(failed)
}

fn failed(error: BlobError) -> LogError {
    io::Error::other(error).into()
}

impl Objects for BlobObjects {
    fn put<'a>(&'a self, name: &'a str, bytes: Bytes) -> Future<'a, ()> {
        Box::pin(async move {
            self.0.put(&full(name)?, of_bytes(bytes)).await.map_err(failed)?;
            Ok(())
        })
    }

    fn get<'a>(&'a self, name: &'a str, from: u64, to: u64) -> Future<'a, Option<Bytes>> {
        Box::pin(async move {
            match self.0.get(&full(name)?, Span::Between(from, to)).await {
                Ok(found) => {
                    let most = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
                    collect(found.content, most).await.map(Some).map_err(failed)
                }
                Err(BlobError::NotFound(_)) => Ok(None),
                Err(BlobError::OutOfRange { .. }) => Ok(Some(Bytes::new())),
                Err(other) => Err(failed(other)),
            }
        })
    }

    fn size<'a>(&'a self, name: &'a str) -> Future<'a, Option<u64>> {
        Box::pin(async move { self.0.size(&full(name)?).await.map_err(failed) })
    }

    fn delete<'a>(&'a self, name: &'a str) -> Future<'a, ()> {
        Box::pin(async move { self.0.delete(&full(name)?).await.map_err(failed) })
    }

    fn list<'a>(
        &'a self,
        folder: &'a str,
        after: Option<&'a str>,
        most: usize,
    ) -> Future<'a, Vec<Listed>> {
        Box::pin(async move {
            let after = after.map(full).transpose()?;
            let found = self.0.list(&full(folder)?, after.as_ref(), most).await.map_err(failed)?;
            let listed = found.into_iter().filter_map(|entry| {
                let name = entry.name.as_str().strip_prefix(FOLDER)?.strip_prefix('/')?.to_owned();
                let age = entry.modified.duration_since(UNIX_EPOCH).unwrap_or_default();
                let modified = Timestamp(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
                Some(Listed { name, modified })
            });
            Ok(listed.collect())
        })
    }
}
