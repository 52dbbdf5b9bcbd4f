//! What many runners say at once, in few transactions.

use std::sync::Arc;
use std::time::Duration;

use kiln_core::id::JobId;
use kiln_core::queue::Policy;
use kiln_core::time::Timestamp;
use tokio::sync::Semaphore;

use crate::claims::{self, Asking, Beat, Claimed, Lease, Pulse};
use crate::runs::{self, Answer, Assignment, Happened, Report, ReportAnswer, Runs};
use crate::{Gather, Store, StoreError, Tx};

/// How many words share a transaction at most, so that nobody's answer waits for long.
const MOST: usize = 256;
/// How many questions for work share one on SQLite: while those who got jobs begin, the writer serves the next. On
/// PostgreSQL a transaction costs more than what runs beside it saves.
const MOST_CLAIMS: usize = 64;
/// How many ways there are for news to PostgreSQL. Those of one run take the same, or they would wait for
/// each other in the database. Claims go one after the other: two at a time would only pass over each
/// other's jobs. SQLite has one writer: what it hears while the disk flushes the news before goes on at once.
const WAYS: usize = 2;

/// How many batches of questions that change nothing are under way at once.
const READS: usize = 2;

/// How often those who got nothing look again for jobs that another server had in its hands, and after
/// how long.
const LOOKS: u32 = 4;
const MOMENT: Duration = Duration::from_millis(10);

/// From so many charges on they are added up when a claim has read them: the next would read them, too. On SQLite charges
/// of one repository are one row.
const CHARGES: u32 = 1_000;

/// The busy ways into the store. Clones share them.
#[derive(Debug, Clone)]
pub struct Traffic {
    news: Vec<Gather<Happened, Answer>>,
    claims: Gather<Asking, Offered>,
    beats: Gather<Beat, Pulse>,
    reports: Gather<Report, ReportAnswer>,
    leases: Gather<(JobId, u32), Option<Lease>>,
    assignments: Gather<Claimed, Option<Assignment>>,
    policy: Policy,
}

/// What a runner gets.
#[derive(Debug, Clone, Default)]
pub struct Offered {
    pub jobs: Vec<Claimed>,
    /// What is to be known of each of them, if that was at hand: see [`Traffic::assignment`].
    pub assignments: Vec<Option<Assignment>>,
    /// From then on it may take a job that waits for preferred runners until then. Unless one of them
    /// took it, asking again is worth it.
    pub again: Option<Timestamp>,
}

impl Traffic {
    /// Must be called where tokio runs.
    pub fn new(runs: &Runs, policy: Policy) -> Self {
        let store = runs.store().clone();
        let (ways, abreast, most_claims) =
            if store.is_postgres() { (WAYS, 1, MOST) } else { (1, 2, MOST_CLAIMS) };
        let way = |_| {
            let runs = runs.clone();
            Gather::new(MOST, abreast, move |happened| {
                let runs = runs.clone();
                Box::pin(async move { runs.happened(happened).await })
            })
        };
        let news = (0..ways).map(way).collect();
        let of_claims = runs.clone();
        let adding = Arc::new(Semaphore::new(1));
        let claims = Gather::new(most_claims, 1, move |asking| {
            let (runs, adding) = (of_claims.clone(), Arc::clone(&adding));
            Box::pin(async move { claim(&runs, policy, asking, &adding).await })
        });
        let of_reports = store.clone();
        let reports = Gather::new(MOST, 1, move |reports: Vec<Report>| {
            let store = of_reports.clone();
            let work = async move |tx: &mut Tx<'_>| runs::report(tx, &reports).await;
            Box::pin(async move { store.write(work).await })
        });
        let of_leases = store.clone();
        let leases = Gather::new(MOST, READS, move |asked: Vec<(JobId, u32)>| {
            let store = of_leases.clone();
            let look = async move |tx: &mut Tx<'_>| claims::leases(tx, &asked).await;
            Box::pin(async move { store.read(look).await })
        });
        let of_assignments = runs.clone();
        let assignments = Gather::new(MOST, READS, move |claimed: Vec<Claimed>| {
            let runs = of_assignments.clone();
            Box::pin(async move { runs.assignments(&claimed).await })
        });
        let beats = Gather::new(MOST, 1, move |beats: Vec<Beat>| {
            let store = store.clone();
            let work = async move |tx: &mut Tx<'_>| claims::heartbeat(tx, &beats).await;
            Box::pin(async move { store.write(work).await })
        });
        Self { news, claims, beats, reports, leases, assignments, policy }
    }

    /// How it chooses.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Tells a run or a job what happened.
    pub async fn happened(&self, happened: Happened) -> Result<Answer, StoreError> {
        let way = usize::try_from(happened.run().0.unsigned_abs()).unwrap_or(0) % self.news.len();
        self.news[way].ask(happened).await
    }

    /// Jobs for a runner.
    pub async fn claim(&self, asking: Asking) -> Result<Offered, StoreError> {
        self.claims.ask(asking).await
    }

    /// A runner is alive and has these jobs.
    pub async fn beat(&self, beat: Beat) -> Result<Pulse, StoreError> {
        self.beats.ask(beat).await
    }

    /// The lease of a job under this claim, if there still is one.
    pub async fn lease(&self, job: JobId, claim: u32) -> Result<Option<Lease>, StoreError> {
        self.leases.ask((job, claim)).await
    }

    /// All that is to be known of a claimed job, unless the claim is over.
    pub async fn assignment(&self, claimed: Claimed) -> Result<Option<Assignment>, StoreError> {
        self.assignments.ask(claimed).await
    }

    /// A runner tells how a job goes.
    pub async fn report(&self, report: Report) -> Result<ReportAnswer, StoreError> {
        self.reports.ask(report).await
    }
}

async fn claim(
    runs: &Runs,
    policy: Policy,
    mut asking: Vec<Asking>,
    adding: &Arc<Semaphore>,
) -> Result<Vec<Offered>, StoreError> {
    share_out(&mut asking);
    let mut answers = vec![Offered::default(); asking.len()];
    for again in 0..=LOOKS {
        let open: Vec<usize> =
            (0..asking.len()).filter(|at| answers[*at].jobs.is_empty()).collect();
        if open.is_empty() {
            break;
        }
        if again > 0 {
            tokio::time::sleep(MOMENT).await;
        }
        let questions: Vec<Asking> = open.iter().map(|at| asking[*at].clone()).collect();
        let (given, assigned) = runs.claim(policy, questions).await?;
        if given.charges >= CHARGES && runs.store().is_postgres() {
            add_up(runs.store(), adding);
        }
        let answered = given.jobs.into_iter().zip(assigned).zip(given.again);
        for (at, ((jobs, assignments), again)) in open.into_iter().zip(answered) {
            answers[at] = Offered { jobs, assignments, again };
        }
        if !given.passed_over {
            break;
        }
    }
    Ok(answers)
}

/// Adds charges up beside the claims, unless that is under way.
fn add_up(store: &Store, adding: &Arc<Semaphore>) {
    let Ok(turn) = Arc::clone(adding).try_acquire_owned() else { return };
    let store = store.clone();
    tokio::spawn(async move {
        // What is not added up now is with the next claims, or by the server's duty, which tells of errors.
        let _ = store.write(async |tx: &mut Tx<'_>| claims::fold_charges(tx).await).await;
        drop(turn);
    });
}

/// One job for each where runners of several kinds ask: those with the fewest choices are served first, and would leave
/// nothing to the others if each of them took several.
fn share_out(asking: &mut [Asking]) {
    let alike = |pair: &[Asking]| pair[0].org == pair[1].org && pair[0].queues == pair[1].queues;
    if !asking.windows(2).all(alike) {
        for one in asking {
            one.want = one.want.min(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use kiln_core::id::{OrgId, QueueId, RunnerId};

    use super::*;

    /// S9
    #[test]
    fn runners_of_several_kinds_get_one_job_each() {
        let ask = |org: Option<i64>, queues: &[i64], want| {
            let queues = queues.iter().map(|id| QueueId(*id));
            Asking { org: org.map(OrgId), ..Asking::new(RunnerId(1), queues, want, "nonce") }
        };
        let check = |mut asking: Vec<Asking>, expect: &[u32]| {
            share_out(&mut asking);
            let wants: Vec<u32> = asking.iter().map(|one| one.want).collect();
            assert_eq!(wants, expect, "{asking:?}");
        };
        check(vec![ask(None, &[1], 4), ask(None, &[1], 2)], &[4, 2]);
        check(vec![ask(None, &[1], 4), ask(None, &[1, 2], 2)], &[1, 1]);
        check(vec![ask(Some(1), &[1], 4), ask(None, &[1], 0)], &[1, 0]);
        check(vec![ask(None, &[1], 9)], &[9]);
        check(Vec::new(), &[]);
    }
}
