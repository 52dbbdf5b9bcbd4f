//! Objects in memory: for tests, and for servers that forget.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;

use crate::backend::{Backend, Entry, Found, Span, Work};
use crate::{BlobError, Content, Name, of_bytes};

#[derive(Debug, Clone)]
struct Kept {
    bytes: Bytes,
    modified: SystemTime,
}

/// Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Memory(Arc<Mutex<BTreeMap<Name, Kept>>>);

impl Memory {
    fn objects(&self) -> MutexGuard<'_, BTreeMap<Name, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::disallowed_methods, reason = "objects on disk and in S3 have a time, too")]
fn now() -> SystemTime {
    SystemTime::now()
}

impl Backend for Memory {
    fn put<'a>(&'a self, name: &'a Name, mut content: Content) -> Work<'a, u64> {
        Box::pin(async move {
            let mut bytes = BytesMut::new();
            while let Some(piece) = content.next().await {
                bytes.extend_from_slice(&piece?);
            }
            let size = bytes.len() as u64;
            let kept = Kept { bytes: bytes.freeze(), modified: now() };
            self.objects().insert(name.clone(), kept);
            Ok(size)
        })
    }

    fn get<'a>(&'a self, name: &'a Name, span: Span) -> Work<'a, Found> {
        Box::pin(async move {
            let found = self.objects().get(name).map(|kept| kept.bytes.clone());
            let bytes = found.ok_or_else(|| BlobError::NotFound(name.clone()))?;
            let size = bytes.len() as u64;
            let range = span.of(name, size)?;
            let at = |place| usize::try_from(place).expect("it lies within bytes in memory");
            let content = of_bytes(bytes.slice(at(range.start)..at(range.end)));
            Ok(Found { size, range, content })
        })
    }

    fn size<'a>(&'a self, name: &'a Name) -> Work<'a, Option<u64>> {
        let size = self.objects().get(name).map(|kept| kept.bytes.len() as u64);
        Box::pin(async move { Ok(size) })
    }

    fn delete<'a>(&'a self, name: &'a Name) -> Work<'a, ()> {
        Box::pin(async move {
            self.objects().remove(name);
            Ok(())
        })
    }

    fn list<'a>(
        &'a self,
        folder: &'a Name,
        after: Option<&'a Name>,
        most: usize,
    ) -> Work<'a, Vec<Entry>> {
        Box::pin(async move {
            let from = after.unwrap_or(folder).max(folder);
            let objects = self.objects();
            let rest = objects.range((Bound::Excluded(from), Bound::Unbounded));
            // Names beside the folder, such as `logs-2/…`, sort before those that lie in it.
            let below = rest.filter(|(name, _)| name.is_below(folder)).take(most);
            let entry = |(name, kept): (&Name, &Kept)| Entry {
                name: name.clone(),
                stored: kept.bytes.len() as u64,
                modified: kept.modified,
            };
            Ok(below.map(entry).collect())
        })
    }
}
