//! The logs of jobs, behind an interface that says nothing about where they lie.

mod file;

use std::fmt::Debug;
use std::pin::Pin;

use bytes::Bytes;
use kiln_core::id::{JobId, RunId};
use kiln_core::time::Timestamp;
use tokio::sync::watch;

pub use file::FileLogs;

/// The log of one claim of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LogId {
    pub job: JobId,
    pub claim: u32,
}

/// A future of one of the calls.
pub type Future<'a, T> =
    Pin<Box<dyn std::future::Future<Output = Result<T, LogError>> + Send + 'a>>;

/// Where logs are kept. What was acknowledged is there after a crash.
pub trait Logs: Debug + Send + Sync {
    /// Adds bytes that begin at an offset, and says how long the log is now. What is there already is
    /// skipped; a gap is refused.
    fn append(&self, log: LogId, from: u64, bytes: Bytes) -> Future<'_, u64>;

    /// How long it is; 0 when there is none.
    fn length(&self, log: LogId) -> Future<'_, u64>;

    /// Bytes from an offset on, `limit` at most; none at the end.
    fn read(&self, log: LogId, from: u64, limit: usize) -> Future<'_, Bytes>;

    /// Changes whenever bytes were added on this server: read on then. The value says how long the log was
    /// at the last write here, and 0 before the first.
    fn follow(&self, log: LogId) -> watch::Receiver<u64>;

    /// Runs above one whose logs were last written before then, in order, `limit` at most.
    fn runs(&self, after: RunId, before: Timestamp, limit: usize) -> Future<'_, Vec<RunId>>;

    /// Removes all logs of a run.
    fn forget(&self, run: RunId) -> Future<'_, ()>;
}

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("the log has {wanted} bytes; what comes next must begin there")]
    Gap { wanted: u64 },
    #[error("the log cannot be kept: {0}")]
    Storage(#[from] std::io::Error),
}
