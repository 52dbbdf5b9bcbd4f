//! [`ObjectLogs`] as [`Logs`].

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use kiln_core::id::RunId;
use kiln_core::time::Timestamp;
use tokio::sync::watch;

use super::ObjectLogs;
use crate::logs::index::Index;
use crate::logs::{Future, Held, LogId, Logs};

impl Logs for ObjectLogs {
    fn append(&self, log: LogId, from: u64, bytes: Bytes) -> Future<'_, u64> {
        // What was begun is finished, whoever asked may go: others must not find half of it.
        let shelf = Arc::clone(&self.0);
        let work = tokio::spawn(async move { shelf.append(log, from, bytes).await });
        Box::pin(async move { work.await.map_err(io::Error::other)? })
    }

    fn length(&self, log: LogId) -> Future<'_, u64> {
        Box::pin(self.0.length(log))
    }

    fn read(&self, log: LogId, from: u64, limit: usize) -> Future<'_, Bytes> {
        Box::pin(self.0.read(log, from, limit))
    }

    fn index(&self, log: LogId) -> Future<'_, Arc<Index>> {
        Box::pin(async move { self.0.index(log, false).await.map(Arc::new) })
    }

    fn follow(&self, log: LogId) -> watch::Receiver<u64> {
        self.0.log(log).length.subscribe()
    }

    fn growing(
        &self,
        after: Option<LogId>,
        before: Timestamp,
        limit: usize,
    ) -> Future<'_, Vec<LogId>> {
        Box::pin(async move {
            let found = self.0.growing().await?.into_iter();
            let fits = found.filter(|(log, at)| Some(*log) > after && *at < before);
            Ok(fits.map(|(log, _)| log).take(limit).collect())
        })
    }

    fn archive(&self, log: LogId) -> Future<'_, bool> {
        Box::pin(self.0.archive(log))
    }

    fn runs(
        &self,
        after: RunId,
        before: Timestamp,
        limit: usize,
    ) -> Future<'_, Vec<(RunId, Timestamp)>> {
        Box::pin(self.0.runs(after, before, limit))
    }

    fn sizes(&self) -> Future<'_, Vec<Held>> {
        Box::pin(self.0.sizes())
    }

    fn forget(&self, run: RunId) -> Future<'_, ()> {
        Box::pin(self.0.forget(run))
    }
}
