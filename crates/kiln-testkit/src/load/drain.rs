//! What a server does after a crash: gives back what runners lost, and works on until nothing is left.

use std::time::Duration;

use kiln_core::id::RunnerId;
use kiln_core::run::Conclusion;
use kiln_store::Tx;
use kiln_store::runs::{Happened, JobNews, Word};

use crate::runs::{Site, like_others};

/// The runner that does what is left.
const RUNNER: i64 = 1_000;
/// How long it may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// All leases have run out, all waiting is over: then every run must come to its end.
pub async fn drain(site: &Site) {
    let done = tokio::time::timeout(PATIENCE, async {
        lose_runners(site).await;
        while site.runs.reap().await.expect("the database is there").taken > 0 {}
        while open_runs(site).await > 0 {
            pass_time(site, "UPDATE outbox SET due_at = 1 WHERE parked_at IS NULL").await;
            while site.runs.carry_out().await.expect("the database is there") > 0 {}
            pass_time(site, "UPDATE jobs SET wake_at = 1 WHERE state = 'backoff'").await;
            pass_time(site, "UPDATE timers SET at = 1").await;
            while site.runs.wake().await.expect("the database is there").taken > 0 {}
            work(site).await;
        }
    });
    assert!(done.await.is_ok(), "{} runs never end", open_runs(site).await);
}

/// All runners died with the process that they worked for: nobody waits for them.
pub async fn lose_runners(site: &Site) {
    pass_time(site, "UPDATE leases SET expires_at = 1").await;
}

async fn pass_time(site: &Site, sql: &'static str) {
    let work = async move |tx: &mut Tx<'_>| {
        like_others(tx).await?;
        tx.execute(sql, &[]).await
    };
    site.store().write(work).await.expect("the database is there");
}

/// How many runs have not ended.
pub async fn open_runs(site: &Site) -> i64 {
    let count = async |tx: &mut Tx<'_>| {
        let sql = "SELECT count(*) FROM runs WHERE conclusion IS NULL";
        tx.one("count", sql, &[]).await?.get(0)
    };
    site.store().read(count).await.expect("the database is there")
}

/// Does all that can be claimed now.
async fn work(site: &Site) {
    let claimed = site.claim(RUNNER, 50).await;
    let finished = Word::Finished { conclusion: Conclusion::Success, outputs: Vec::new() };
    let mut news = Vec::new();
    for job in &claimed {
        for word in [Word::Started, finished.clone()] {
            let (claim, runner) = (Some(job.claim), Some(RunnerId(RUNNER)));
            news.push(Happened::Job(JobNews { job: job.job, claim, runner, word, heard: None }));
        }
    }
    site.runs.happened(news).await.expect("the database is there");
}
