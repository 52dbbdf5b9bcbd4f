//! Addresses that need no token: each is good for one thing, and ends with the job.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kiln_proto::content::{NewArtifact, NewCache};

use crate::loopback::secret;
use crate::random;

use super::services::{Reason, Refusal, Stored};
use super::spool::Upload;

/// Addresses that one job can have at once; of more than that, the oldest for reading go.
const MOST: usize = 10_000;
/// Uploads that one job can have begun and not completed.
const MOST_UPLOADS: usize = 256;

/// What an address is good for.
#[derive(Debug, Clone)]
pub(super) enum Grant {
    Write(Arc<Pending>),
    Read { stored: Stored, content_type: String, name: String },
}

/// An upload, and what it becomes.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) entry: Entry,
    /// What the services reserved.
    pub(super) id: i64,
    pub(super) upload: Upload,
}

/// What is written once it is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    Cache(NewCache),
    Artifact(NewArtifact),
}

impl Entry {
    /// Whether both would be the same thing in the end.
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Cache(one), Self::Cache(other)) => one == other,
            (Self::Artifact(one), Self::Artifact(other)) => one.name == other.name,
            _ => false,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Grants {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// By their age.
    given: BTreeMap<u64, (String, Grant)>,
    last: u64,
    pending: Vec<Arc<Pending>>,
}

impl Grants {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path and query of a new address.
    pub(super) fn give(&self, grant: Grant) -> Result<String, Refusal> {
        let word = random::hex::<32>()?;
        let mut inner = self.inner();
        if inner.given.len() >= MOST {
            let is_read = |grant: &Grant| matches!(grant, Grant::Read { .. });
            let oldest = inner.given.iter().find(|(_, (_, grant))| is_read(grant));
            if let Some(oldest) = oldest.map(|(number, _)| *number) {
                inner.given.remove(&oldest);
            }
        }
        inner.last += 1;
        let number = inner.last;
        let address = format!("blobs/{number}?sig={word}");
        inner.given.insert(number, (word, grant));
        Ok(address)
    }

    /// What an address is good for. Whoever has none learns nothing.
    pub(super) fn look(&self, number: &str, word: &str) -> Option<Grant> {
        let number: u64 = number.parse().ok()?;
        let inner = self.inner();
        let (known, grant) = inner.given.get(&number)?;
        secret::is(word, known).then(|| grant.clone())
    }

    /// The begun upload of an entry.
    pub(super) fn pending(&self, entry: &Entry) -> Option<Arc<Pending>> {
        self.inner().pending.iter().find(|pending| pending.entry.is_same(entry)).cloned()
    }

    /// The begun upload with this number.
    pub(super) fn numbered(&self, id: i64) -> Option<Arc<Pending>> {
        let is_it =
            |pending: &&Arc<Pending>| pending.id == id && matches!(pending.entry, Entry::Cache(_));
        self.inner().pending.iter().find(is_it).cloned()
    }

    /// Begins an upload; one that was begun before for the same entry is forgotten.
    pub(super) fn begin(&self, entry: Entry, id: i64) -> Result<Arc<Pending>, Refusal> {
        self.end(&entry);
        let mut inner = self.inner();
        if inner.pending.len() >= MOST_UPLOADS {
            let message = format!("this job has begun {MOST_UPLOADS} uploads and completed none");
            return Err(Refusal::new(Reason::Unavailable, message));
        }
        let pending = Arc::new(Pending { entry, id, upload: Upload::default() });
        inner.pending.push(Arc::clone(&pending));
        Ok(pending)
    }

    /// An upload is over: its addresses are good for nothing, and its files go.
    pub(super) fn end(&self, entry: &Entry) {
        let mut inner = self.inner();
        inner.pending.retain(|pending| !pending.entry.is_same(entry));
        inner.given.retain(|_, (_, grant)| match grant {
            Grant::Write(pending) => !pending.entry.is_same(entry),
            Grant::Read { .. } => true,
        });
    }
}
