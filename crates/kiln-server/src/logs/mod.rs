//! The logs of jobs, behind an interface that says nothing about where they lie.
//!
//! A log grows while its claim is under way, and becomes one compressed object afterwards; whoever reads sees no
//! difference. [`index`] says where its lines are in either form.

pub mod archive;
mod file;
pub mod index;
mod marker;
pub mod objects;
mod recent;
mod sidecar;
pub mod split;
pub mod tails;

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use kiln_core::id::{JobId, RunId};
use kiln_core::time::Timestamp;
use tokio::sync::watch;

pub use file::FileLogs;
use index::Index;

/// The log of one claim of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId {
    pub job: JobId,
    pub claim: u32,
}

impl LogId {
    /// What its files and objects begin with.
    fn name(self) -> String {
        format!("{}.{}", self.job, self.claim)
    }

    fn parse(name: &str) -> Option<Self> {
        let (job, claim) = name.split_once('.')?;
        let id = Self { job: job.parse().ok()?, claim: claim.parse().ok()? };
        (id.name() == name).then_some(id)
    }
}

/// A future of one of the calls.
pub type Future<'a, T> =
    Pin<Box<dyn std::future::Future<Output = Result<T, LogError>> + Send + 'a>>;

/// Where logs are kept. What was acknowledged is there after a crash.
pub trait Logs: Debug + Send + Sync {
    /// Adds bytes that begin at an offset, and says how long the log is now. What is there already is
    /// skipped; a gap is refused, and so is anything new once the log is archived.
    fn append(&self, log: LogId, from: u64, bytes: Bytes) -> Future<'_, u64>;

    /// How long it is; 0 when there is none.
    fn length(&self, log: LogId) -> Future<'_, u64>;

    /// Bytes from an offset on, `limit` at most; none at the end. Of a log that grows there are fewer only where
    /// it ended when it was read.
    fn read(&self, log: LogId, from: u64, limit: usize) -> Future<'_, Bytes>;

    /// Where its lines are, as of now.
    fn index(&self, log: LogId) -> Future<'_, Arc<Index>>;

    /// Changes whenever bytes were added on this server: read on then. The value says how long the log was
    /// at the last write here, and 0 before the first.
    fn follow(&self, log: LogId) -> watch::Receiver<u64>;

    /// Logs above one that are not archived and were last written before then, in order, `limit` at most.
    fn growing(
        &self,
        after: Option<LogId>,
        before: Timestamp,
        limit: usize,
    ) -> Future<'_, Vec<LogId>>;

    /// Makes one object of a log that will not grow any more. Says whether there was anything to do: another
    /// may have done it, or be about to.
    fn archive(&self, log: LogId) -> Future<'_, bool>;

    /// Runs above one whose logs were last written before then, and when, in order, `limit` at most.
    fn runs(
        &self,
        after: RunId,
        before: Timestamp,
        limit: usize,
    ) -> Future<'_, Vec<(RunId, Timestamp)>>;

    /// What the logs of each run take, in order. It may take a while.
    fn sizes(&self) -> Future<'_, Vec<Held>>;

    /// Removes all logs of a run.
    fn forget(&self, run: RunId) -> Future<'_, ()>;
}

/// The logs of a run, as they are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub run: RunId,
    pub logs: u64,
    pub bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("the log has {wanted} bytes; what comes next must begin there")]
    Gap { wanted: u64 },
    #[error("the log is archived; nothing can be added to it")]
    Closed,
    #[error("the log cannot be kept: {0}")]
    Storage(#[from] std::io::Error),
}
