//! Which logs there are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use kiln_core::id::{JOBS_PER_RUN, RunId};
use kiln_core::time::Timestamp;
use tokio::sync::Mutex as Turn;
use tokio::time::Instant;

use super::place::Listed;
use super::{Shelf, chunks, locked, run_folder};
use crate::clock;
use crate::logs::{Held, LogError, LogId};

/// How many objects are listed at a time.
const LIST: usize = 1_000;
/// How often all logs that grow are listed. What is written here is known without that; the others are those of
/// servers that died.
const EVERY: Duration = Duration::from_mins(1);

/// Logs that grow, each with the time of its last piece, as far as this server knows.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// Held by whoever lists them.
    listing: Turn<Option<Instant>>,
    known: Mutex<BTreeMap<LogId, Timestamp>>,
}

impl Live {
    /// A piece was just written here.
    pub(super) fn note(&self, log: LogId) {
        locked(&self.known).insert(log, clock::now());
    }

    pub(super) fn forget(&self, is_gone: impl Fn(LogId) -> bool) {
        locked(&self.known).retain(|log, _| !is_gone(*log));
    }
}

impl Shelf {
    pub(super) async fn names(
        &self,
        folder: &str,
        after: Option<String>,
    ) -> Result<Vec<Listed>, LogError> {
        let mut all: Vec<Listed> = Vec::new();
        loop {
            let last = all.last().map(|last| last.name.clone()).or_else(|| after.clone());
            let more = self.objects.list(folder, last.as_deref(), LIST).await?;
            let is_last = more.len() < LIST;
            all.extend(more);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Logs that grow, each with the time of its last piece, in order.
    pub(super) async fn growing(&self) -> Result<Vec<(LogId, Timestamp)>, LogError> {
        let mut listed = self.live.listing.lock().await;
        if listed.is_none_or(|at| at.elapsed() >= EVERY) {
            let (begun, begun_at) = (Instant::now(), clock::now());
            let mut found: BTreeMap<LogId, Timestamp> = BTreeMap::new();
            for piece in self.names("live", None).await? {
                if let Some(log) = chunks::log_of(&piece.name) {
                    let latest = found.entry(log).or_insert(piece.modified);
                    *latest = piece.modified.max(*latest);
                }
            }
            let mut known = locked(&self.live.known);
            let own = known.iter().filter(|(_, at)| **at >= begun_at);
            found.extend(own.map(|(log, at)| (*log, *at)));
            *known = found;
            *listed = Some(begun);
        }
        Ok(locked(&self.live.known).iter().map(|(log, at)| (*log, *at)).collect())
    }

    /// Runs above one whose last object is older than that, in order.
    pub(super) async fn runs(
        &self,
        after: RunId,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<(RunId, Timestamp)>, LogError> {
        let mut found: Vec<(RunId, Timestamp)> = Vec::new();
        let mut last: Option<(RunId, Timestamp)> = None;
        // Behind all objects of that run, whose names begin with digits.
        let mut seen = format!("{}/z", run_folder(after));
        loop {
            let page = self.objects.list("runs", Some(&seen), LIST).await?;
            for listed in &page {
                let Some(run) = run_of(listed).filter(|run| *run > after) else { continue };
                last = match last {
                    Some((own, at)) if own == run => Some((own, at.max(listed.modified))),
                    other => {
                        found.extend(old(other, before));
                        Some((run, listed.modified))
                    }
                };
                if found.len() >= limit {
                    return Ok(found);
                }
            }
            match page.last().filter(|_| page.len() >= LIST) {
                Some(listed) => seen.clone_from(&listed.name),
                None => {
                    found.extend(old(last, before));
                    return Ok(found);
                }
            }
        }
    }

    pub(super) async fn sizes(&self) -> Result<Vec<Held>, LogError> {
        let mut held: BTreeMap<RunId, Held> = BTreeMap::new();
        let mut grow: BTreeSet<LogId> = BTreeSet::new();
        for folder in ["runs", "live"] {
            let mut seen: Option<String> = None;
            loop {
                let page = self.objects.list(folder, seen.as_deref(), LIST).await?;
                for listed in &page {
                    let log = chunks::log_of(&listed.name);
                    let run = log.map(|log| log.job.run()).or_else(|| run_of(listed));
                    let Some(run) = run else { continue };
                    let one = held.entry(run).or_insert(Held { run, logs: 0, bytes: 0 });
                    // A log that grows is many objects.
                    one.logs += u64::from(log.is_none_or(|log| grow.insert(log)));
                    one.bytes += listed.size;
                }
                match page.last().filter(|_| page.len() >= LIST) {
                    Some(listed) => seen = Some(listed.name.clone()),
                    None => break,
                }
            }
        }
        Ok(held.into_values().collect())
    }

    /// The names of all pieces of the logs of a run that grow. Another server may have written them a moment ago, so
    /// the store is asked for them, from the first job of the run to its last.
    async fn pieces_of(&self, run: RunId) -> Result<Vec<String>, LogError> {
        let first = run.0.saturating_mul(JOBS_PER_RUN);
        let last = first.saturating_add(JOBS_PER_RUN - 1);
        let (first, last) = (first.to_string(), last.to_string());
        // Only numbers of the same length are in the order of their names.
        let is_in_order = first.len() == last.len();
        let mut seen = is_in_order.then(|| format!("live/{first}"));
        // The dot before a claim comes before the slash.
        let end = is_in_order.then(|| format!("live/{last}/"));
        let is_before_end = |name: &str| end.as_deref().is_none_or(|end| name < end);
        let is_own = |name: &str| chunks::log_of(name).is_some_and(|log| log.job.run() == run);
        let mut found = Vec::new();
        loop {
            let page = self.objects.list("live", seen.as_deref(), LIST).await?;
            let is_full = page.len() >= LIST;
            let last = page.last().map(|listed| listed.name.clone());
            let names = page.into_iter().map(|listed| listed.name);
            found.extend(names.filter(|name| is_own(name)));
            match last.filter(|last| is_full && is_before_end(last)) {
                Some(last) => seen = Some(last),
                None => return Ok(found),
            }
        }
    }

    pub(super) async fn forget(&self, run: RunId) -> Result<(), LogError> {
        locked(&self.logs).retain(|log, _| log.job.run() != run);
        // What grows goes first: should it be archived meanwhile, it is found in the folder of the run.
        for piece in self.pieces_of(run).await? {
            self.objects.delete(&piece).await?;
        }
        for listed in self.names(&run_folder(run), None).await? {
            self.objects.delete(&listed.name).await?;
        }
        self.live.forget(|log| log.job.run() == run);
        Ok(())
    }
}

fn run_of(listed: &Listed) -> Option<RunId> {
    listed.name.strip_prefix("runs/")?.split('/').next()?.parse().ok().map(RunId)
}

fn old(last: Option<(RunId, Timestamp)>, before: Timestamp) -> Option<(RunId, Timestamp)> {
    last.filter(|(_, at)| *at < before)
}
