//! Whole cycles of jobs over HTTP: claim, start, finish.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::spent::Watched;
use crate::talk::{Runner, Server};
use crate::{percentile, row};

/// Each run has one job, then eight, then one.
const JOBS_PER_RUN: usize = 10;
/// How many triggers are under way at once.
const TRIGGERS: usize = 8;

pub(crate) async fn measure(
    server: &Server,
    repo: &str,
    runs: usize,
    (count, slots): (usize, u32),
    watched: &[Watched],
) -> Result<(), String> {
    let owner = repo.split('/').next().unwrap_or_default();
    let runners = register(server, owner, count, slots).await?;
    trigger(server, repo, runs).await?;
    let left = Arc::new(AtomicUsize::new(runs * JOBS_PER_RUN));
    let before: Vec<f64> = watched.iter().map(Watched::until_now).collect();
    let began = Instant::now();
    let mut working: JoinSet<Result<Worked, String>> = JoinSet::new();
    for runner in runners {
        working.spawn(work(runner, Arc::clone(&left)));
    }
    let mut took = Vec::new();
    // Those who got nothing at the end wait for a while longer, and nobody for them.
    let mut last = began;
    while let Some(ended) = working.join_next().await {
        let worked = ended.map_err(|error| error.to_string())??;
        took.extend(worked.took);
        last = last.max(worked.last);
    }
    #[expect(clippy::cast_precision_loss, reason = "there are few")]
    let rate = took.len() as f64 / (last - began).as_secs_f64();
    row("http_cycles", rate, "jobs/s");
    for (one, before) in watched.iter().zip(before) {
        #[expect(clippy::cast_precision_loss, reason = "there are few")]
        let each = (one.until_now() - before) / took.len() as f64;
        row(&format!("http_cycles_{}", one.name), each, "us");
    }
    row("http_bare", bare(server, count).await?, "requests/s");
    row("http_cycles_p50", percentile(&mut took, 0.5), "ms");
    row("http_cycles_p99", percentile(&mut took, 0.99), "ms");
    Ok(())
}

/// How many questions that need no work are answered in a second, over as many connections: so much HTTP alone costs.
async fn bare(server: &Server, count: usize) -> Result<f64, String> {
    const EACH: usize = 200;
    let mut asking: JoinSet<Result<(), String>> = JoinSet::new();
    let began = Instant::now();
    for _ in 0..count {
        let mut wire = server.wire();
        asking.spawn(async move {
            for _ in 0..EACH {
                wire.get("/health").await?;
            }
            Ok(())
        });
    }
    while let Some(ended) = asking.join_next().await {
        ended.map_err(|error| error.to_string())??;
    }
    #[expect(clippy::cast_precision_loss, reason = "there are few")]
    let asked = (count * EACH) as f64;
    Ok(asked / began.elapsed().as_secs_f64())
}

async fn register(
    server: &Server,
    owner: &str,
    count: usize,
    slots: u32,
) -> Result<Vec<Runner>, String> {
    let key = server.key(owner, count).await?;
    let mut runners = Vec::new();
    for number in 0..count {
        runners.push(server.register(&key, format!("bench-{number}"), slots).await?);
    }
    Ok(runners)
}

async fn trigger(server: &Server, repo: &str, runs: usize) -> Result<(), String> {
    let left = Arc::new(AtomicUsize::new(runs));
    let mut under_way = JoinSet::new();
    for _ in 0..TRIGGERS {
        let (server, repo, left) = (server.clone(), repo.to_owned(), Arc::clone(&left));
        under_way.spawn(async move {
            while take_one(&left) {
                server.trigger(&repo).await?;
            }
            Ok::<(), String>(())
        });
    }
    while let Some(ended) = under_way.join_next().await {
        ended.map_err(|error| error.to_string())??;
    }
    Ok(())
}

fn take_one(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

/// The times of a runner's jobs, and when the last of them was done.
struct Worked {
    took: Vec<Duration>,
    last: Instant,
}

/// Takes jobs until all are done. The time of a cycle begins with the question that gets the job.
async fn work(mut runner: Runner, left: Arc<AtomicUsize>) -> Result<Worked, String> {
    let mut worked = Worked { took: Vec::new(), last: Instant::now() };
    while left.load(Ordering::SeqCst) > 0 {
        let asked = Instant::now();
        // Short, so that those who get nothing see that the last job was done by another.
        let jobs = runner.claim(1).await?;
        if !jobs.is_empty() {
            runner.run(&jobs).await?;
            left.fetch_sub(jobs.len(), Ordering::SeqCst);
            worked.took.extend(jobs.iter().map(|_| asked.elapsed()));
            worked.last = Instant::now();
        }
    }
    Ok(worked)
}
