//! The auditor: reads a database and says where its rows contradict each other.
//!
//! The rows of a run have no foreign keys, and many facts are kept twice for speed: counters beside what
//! they count, a place in the queue beside a job that is queued. Each [`Rule`] says what must hold
//! between them after every commit, so a finding is a fault of Kiln or of the disk. The auditor reads
//! in pieces, each in a transaction of its own that sees one state, and so may look at a busy database.

mod groups;
mod queue;
mod read;
mod rest;
mod rows;
mod story;
mod tree;
mod work;

use serde::Serialize;

use crate::{Store, StoreError, Tx};

/// How many findings are kept; the rest is only counted.
const MOST: usize = 1_000;

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// States and conclusions are words that Kiln knows, and only what is done has a conclusion.
    Words,
    /// Every row belongs to a row above it that exists.
    Orphan,
    /// The numbers of scopes, nodes and jobs stay below the counters of their attempt, and no job id
    /// is used twice.
    Counters,
    /// The documents of an attempt exist and can be read.
    Document,
    /// A run shows its current attempt as it is, and all earlier ones have ended.
    RunRow,
    /// No two runs of a workflow have the same number.
    RunNumber,
    /// The state of an attempt follows from its jobs.
    RunState,
    /// A scope has the nodes that the plan says, and counts them right.
    Scope,
    /// A node counts its needs right, and knows how those above it ended.
    Needs,
    /// A node counts its legs right, and ends as they did.
    Legs,
    /// Each place in the queue is that of a queued job.
    QueuePlace,
    /// Each queued job has its place in the queue.
    QueuedJob,
    /// A lane with jobs is active, and begins before the first of them.
    Lane,
    /// Each lease is that of a job that its runner holds, with the same claim.
    Lease,
    /// Each job that is held has a lease.
    HeldJob,
    /// Each timer is that of a job which waits for that time.
    Timer,
    /// Each job that waits for a time has a timer.
    WaitingJob,
    /// The members of a concurrency group exist, and hold it or wait for it.
    Group,
    /// Whoever says that it is in a concurrency group is a member.
    Membership,
    /// An open run, and each of its open jobs, has something that will move it.
    Stuck,
    /// An organization's count of running jobs is that of its leases.
    OrgLoad,
    /// A run says once that it was created, and once that it ended.
    RunEvents,
    /// A job says once that it ended, and nothing after that.
    JobEvents,
    /// Each claim was made once, and ended at most once.
    Claim,
    /// A task of the outbox can be read and is about a run that exists.
    Task,
    /// A trigger's key leads to a run.
    Trigger,
}

/// A place where a rule does not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub rule: Rule,
    /// The row: `run 7, attempt 1, job 3`.
    pub subject: String,
    /// What is wrong with it.
    pub text: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} ({:?})", self.subject, self.text, self.rule)
    }
}

/// What the auditor saw.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub runs: u64,
    pub open_runs: u64,
    pub jobs: u64,
    pub queued: u64,
    pub leases: u64,
    pub groups: u64,
    pub findings: Vec<Finding>,
    /// Findings beyond those that are listed.
    pub left_off: u64,
}

impl Report {
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    fn find(&mut self, rule: Rule, subject: impl Into<String>, text: impl Into<String>) {
        if self.findings.len() < MOST {
            self.findings.push(Finding { rule, subject: subject.into(), text: text.into() });
        } else {
            self.left_off += 1;
        }
    }

    fn add(&mut self, part: Self) {
        self.runs += part.runs;
        self.open_runs += part.open_runs;
        self.jobs += part.jobs;
        self.queued += part.queued;
        self.leases += part.leases;
        self.groups += part.groups;
        self.left_off += part.left_off;
        for finding in part.findings {
            self.find(finding.rule, finding.subject, finding.text);
        }
    }
}

/// Which piece comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    /// Runs behind this id, with all that hangs on them.
    Runs(i64),
    /// Places in the queue behind this lane, key and job.
    Queue(i64, i64, i64),
    /// Concurrency groups behind this repository and name.
    Groups(i64, String),
    Rest,
}

const START: Place = Place::Runs(i64::MIN);

/// Reads the whole database in pieces, beside whatever else happens in it.
pub async fn inspect(store: &Store) -> Result<Report, StoreError> {
    inspect_with(store, &mut |_| {}).await
}

/// The same, and shows after each piece what it has seen so far.
pub async fn inspect_with(
    store: &Store,
    progress: &mut dyn FnMut(&Report),
) -> Result<Report, StoreError> {
    let mut report = Report::default();
    let mut next = Some(START);
    while let Some(place) = next {
        let work = async move |tx: &mut Tx<'_>| piece(tx, place.clone()).await;
        let (part, after) = store.read(work).await?;
        report.add(part);
        progress(&report);
        next = after;
    }
    Ok(report)
}

/// Reads the whole database as this transaction sees it.
pub async fn inspect_in(tx: &mut Tx<'_>) -> Result<Report, StoreError> {
    let mut report = Report::default();
    let mut next = Some(START);
    while let Some(place) = next {
        let (part, after) = piece(tx, place).await?;
        report.add(part);
        next = after;
    }
    Ok(report)
}

async fn piece(tx: &mut Tx<'_>, place: Place) -> Result<(Report, Option<Place>), StoreError> {
    let mut report = Report::default();
    let next = match place {
        Place::Runs(after) => {
            let (piece, last) = read::piece(tx, after, &mut report).await?;
            piece.check(&mut report);
            Some(last.map_or(Place::Queue(i64::MIN, 0, 0), Place::Runs))
        }
        Place::Queue(lane, key, job) => {
            let last = queue::check(tx, (lane, key, job), &mut report).await?;
            let next = last.map(|(lane, key, job)| Place::Queue(lane, key, job));
            Some(next.unwrap_or_else(|| Place::Groups(i64::MIN, String::new())))
        }
        Place::Groups(repo, name) => {
            let last = groups::check(tx, (repo, name), &mut report).await?;
            Some(last.map_or(Place::Rest, |(repo, name)| Place::Groups(repo, name)))
        }
        Place::Rest => {
            rest::check(tx, &mut report).await?;
            None
        }
    };
    Ok((report, next))
}
