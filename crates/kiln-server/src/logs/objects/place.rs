//! Objects of logs in the place where the server keeps bytes, in a folder of their own.

use std::io;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use kiln_blob::{Backend, BlobError, Content, Name, Span, collect, of_bytes};
use kiln_core::time::Timestamp;

use crate::logs::LogError;

/// Nobody else writes here.
const FOLDER: &str = "logs";

/// The objects of a backend below `logs/`, of which no more is had at once than fits in memory.
#[derive(Debug)]
pub(super) struct Objects(pub(super) Arc<dyn Backend>);

/// An object in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) modified: Timestamp,
    pub(super) size: u64,
}

fn full(name: &str) -> Result<Name, LogError> {
    Name::new(format!("{FOLDER}/{name}")).map_err(failed)
}

fn failed(error: BlobError) -> LogError {
    io::Error::other(error).into()
}

impl Objects {
    pub(super) async fn put(&self, name: &str, bytes: Bytes) -> Result<(), LogError> {
        self.put_all(name, of_bytes(bytes)).await
    }

    /// Puts what is longer than it should be in memory.
    pub(super) async fn put_all(&self, name: &str, content: Content) -> Result<(), LogError> {
        self.0.put(&full(name)?, content).await.map_err(failed)?;
        Ok(())
    }

    /// Bytes from one offset to another, or to the end; none if there is no such object.
    pub(super) async fn get(
        &self,
        name: &str,
        from: u64,
        to: u64,
    ) -> Result<Option<Bytes>, LogError> {
        match self.0.get(&full(name)?, Span::Between(from, to)).await {
            Ok(found) => {
                let most = usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
                collect(found.content, most).await.map(Some).map_err(failed)
            }
            Err(BlobError::NotFound(_)) => Ok(None),
            Err(BlobError::OutOfRange { .. }) => Ok(Some(Bytes::new())),
            Err(other) => Err(failed(other)),
        }
    }

    pub(super) async fn size(&self, name: &str) -> Result<Option<u64>, LogError> {
        self.0.size(&full(name)?).await.map_err(failed)
    }

    /// Removes an object; that there is none is fine.
    pub(super) async fn delete(&self, name: &str) -> Result<(), LogError> {
        self.0.delete(&full(name)?).await.map_err(failed)
    }

    /// Objects below a folder that come after a name, in the order of their names.
    pub(super) async fn list(
        &self,
        folder: &str,
        after: Option<&str>,
        most: usize,
    ) -> Result<Vec<Listed>, LogError> {
        let after = after.map(full).transpose()?;
        let found = self.0.list(&full(folder)?, after.as_ref(), most).await.map_err(failed)?;
        let listed = found.into_iter().filter_map(|entry| {
            let name = entry.name.as_str().strip_prefix(FOLDER)?.strip_prefix('/')?.to_owned();
            let age = entry.modified.duration_since(UNIX_EPOCH).unwrap_or_default();
            let modified = Timestamp(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
            Some(Listed { name, modified, size: entry.stored })
        });
        Ok(listed.collect())
    }
}
