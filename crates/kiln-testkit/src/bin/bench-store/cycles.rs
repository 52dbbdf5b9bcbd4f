//! Whole cycles of jobs (claim, start, finish) by simulated runners, and claims alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kiln_core::id::{QueueId, RunnerId};
use kiln_core::queue::Policy;
use kiln_core::run::Conclusion;
use kiln_store::claims::{self, Asking};
use kiln_store::runs::{Answer, Happened, JobNews, Word};
use kiln_store::{Store, Traffic, Tx};
use kiln_testkit::runs::{Site, add_repository, plan};
use tokio::task::JoinSet;

use crate::cpu::Spent;
use crate::{Bench, percentile, row};

const RUNNERS: u32 = 256;
/// Organizations, each with so many repositories.
const ORGS: (usize, usize) = (4, 4);

/// Ten jobs: one, then eight, then one.
const GRAPH: &str = "on: push
jobs:
  prepare: {runs-on: linux, steps: [{run: x}]}
  test: {needs: prepare, runs-on: linux, strategy: {matrix: {n: [1, 2, 3, 4, 5, 6, 7, 8]}}, steps: [{run: x}]}
  publish: {needs: test, runs-on: linux, steps: [{run: x}]}
";
/// Ten jobs that can all be claimed at once.
const WIDE: &str = "on: push
jobs:
  test: {runs-on: linux, strategy: {matrix: {n: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}}, steps: [{run: x}]}
";

/// What the runners share.
#[derive(Clone)]
struct Floor {
    traffic: Traffic,
    queues: Arc<Vec<QueueId>>,
    left: Arc<AtomicU32>,
    what: What,
}

/// What is done with a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// It is claimed, and nothing more.
    Claims,
    /// It is claimed, starts and ends, each told by itself.
    Cycles,
    /// Its start is told with its end, as runners do with jobs that are over at once.
    Short,
}

impl What {
    fn of(word: &str) -> Self {
        match word {
            "claims" => Self::Claims,
            "cycles" => Self::Cycles,
            _ => Self::Short,
        }
    }

    /// What is said of a job.
    fn words(self) -> Vec<Word> {
        let (conclusion, outputs) = (Conclusion::Success, Vec::new());
        match self {
            Self::Claims => Vec::new(),
            Self::Cycles => vec![Word::Started, Word::Finished { conclusion, outputs }],
            Self::Short => vec![Word::Ran { preparing: None, conclusion, outputs }],
        }
    }
}

pub(crate) async fn measure(bench: Bench, what: &str, jobs: u32) -> Result<(), String> {
    let done = What::of(what);
    let site = Site::new(bench.store.clone()).await;
    prepare(&site, if done == What::Claims { WIDE } else { GRAPH }, jobs / 10).await;
    let floor = Floor {
        traffic: Traffic::new(&site.runs, Policy::Fair),
        queues: Arc::new(site.queues().await),
        left: Arc::new(AtomicU32::new(jobs / 10 * 10)),
        what: done,
    };
    let chores = tokio::spawn(chores(bench.store.clone()));
    let (start, before) = (Instant::now(), Spent::until_now());
    let mut runners = JoinSet::new();
    for runner in 1..=RUNNERS {
        runners.spawn(work(floor.clone(), runner.into()));
    }
    let mut took: Vec<Duration> = runners.join_all().await.into_iter().flatten().collect();
    let seconds = start.elapsed().as_secs_f64();
    let spent = Spent::until_now().since(before);
    chores.abort();
    row(&format!("{}_{what}", bench.name), f64::from(jobs / 10 * 10) / seconds, "jobs/s");
    row(&format!("{}_{what}_p50", bench.name), percentile(&mut took, 0.5), "ms");
    row(&format!("{}_{what}_p99", bench.name), percentile(&mut took, 0.99), "ms");
    row(&format!("{}_{what}_cpu", bench.name), spent.all / f64::from(jobs / 10 * 10), "us");
    row(&format!("{}_{what}_writer", bench.name), spent.writer / f64::from(jobs / 10 * 10), "us");
    Ok(())
}

/// Creates the runs, shared out over repositories.
async fn prepare(site: &Site, text: &str, runs: u32) {
    let plan = plan(text);
    let mut places = Vec::new();
    for org in 0..ORGS.0 {
        for repo in 0..ORGS.1 {
            let names = (format!("org{org}"), format!("repo{repo}"));
            places.push(add_repository(site.store(), &names.0, &names.1).await);
        }
    }
    let mut creators = JoinSet::new();
    for creator in 0..16_u32 {
        let (site, plan, places) = (site.clone(), plan.clone(), places.clone());
        creators.spawn(async move {
            for number in (creator..runs).step_by(16) {
                let (org, repo, workflow) = places[number as usize % places.len()];
                let mut new = site.push(plan.clone());
                (new.org, new.repo, new.workflow) = (org, repo, workflow);
                site.runs.create(new).await.expect("the run is as it should be");
            }
        });
    }
    creators.join_all().await;
}

/// What a server does every second.
async fn chores(store: Store) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        claims::tidy_lanes(&store).await.expect("lanes can be tidied");
        store.write(async |tx: &mut Tx<'_>| claims::fold(tx).await).await.expect("use adds up");
    }
}

/// One runner, to the end. Returns how long each of its jobs took from the question to the last answer.
async fn work(floor: Floor, runner: i64) -> Vec<Duration> {
    let mut took = Vec::new();
    for count in 0_u32.. {
        if floor.left.load(Ordering::Relaxed) == 0 {
            break;
        }
        let start = Instant::now();
        let (queues, nonce) = (floor.queues.to_vec(), format!("{runner}-{count}"));
        let asking = Asking::new(RunnerId(runner), queues, 1, nonce);
        let mut claimed = floor.traffic.claim(asking).await.expect("claims are well formed").jobs;
        let Some(claimed) = claimed.pop() else {
            tokio::time::sleep(Duration::from_millis(2)).await;
            continue;
        };
        for word in floor.what.words() {
            let (job, claim) = (claimed.job, Some(claimed.claim));
            let news = JobNews { job, claim, runner: Some(RunnerId(runner)), word, heard: None };
            let answer = floor.traffic.happened(Happened::Job(news)).await.expect("it is heard");
            assert_eq!(answer, Answer::Accepted, "the job is this runner's");
        }
        took.push(start.elapsed());
        floor.left.fetch_sub(1, Ordering::Relaxed);
    }
    took
}
