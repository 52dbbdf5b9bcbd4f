//! Kills the process, kills PostgreSQL, tears the write-ahead log of SQLite: what was answered is there,
//! and what is there is consistent.
//!
//! `KILN_CRASH_ROUNDS=200` makes a soak of it.
#![expect(clippy::unwrap_used, reason = "a panic is the report")]
#![expect(clippy::disallowed_methods, reason = "tests read the environment and the clock")]

mod away;
mod killed;
mod torn;

use kiln_store::inspect::inspect;
use kiln_testkit::load::{Answered, drain, forgotten};
use kiln_testkit::runs::Site;

/// How often each test kills: a few times, unless somebody wants a soak.
fn rounds(few: u64) -> u64 {
    std::env::var("KILN_CRASH_ROUNDS").map_or(few, |rounds| {
        rounds.parse().expect("KILN_CRASH_ROUNDS is how often each test kills")
    })
}

/// What was answered is there, and what is there is consistent.
async fn audit(site: &Site, answers: &[Answered], when: &str) {
    let forgotten = forgotten(site.store(), answers.to_vec()).await;
    assert_eq!(forgotten, [], "{when}: these of {} answers were forgotten", answers.len());
    consistent(site, when).await;
}

async fn consistent(site: &Site, when: &str) {
    let report = inspect(site.store()).await.unwrap();
    assert_eq!(report.findings, [], "{when}: after {} runs", report.runs);
}

/// A fresh server brings all runs to their end.
async fn recovers(site: &Site, answers: &[Answered]) {
    drain(site).await;
    audit(site, answers, "after all runs came to their end").await;
    let report = inspect(site.store()).await.unwrap();
    assert_eq!((report.open_runs, report.queued, report.leases, report.groups), (0, 0, 0, 0));
    assert!(report.runs > 0, "nothing was done in all this time");
}

/// Who checks the checkers: an answer that is not true is not found, whatever it says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_never_answered_is_not_there() {
    let database = kiln_testkit::database::Database::sqlite();
    let site = kiln_testkit::load::open_site(database.open()).await;
    let run = site.run("  a: {runs-on: linux, steps: [{run: x}]}").await;
    let job = site.claim(7, 1).await.remove(0).job;
    let told: Vec<Answered> = [
        format!("created {run}"),
        format!("claimed {job} 1 7"),
        "created 99".to_owned(),
        format!("claimed {job} 1 8"),
        format!("claimed {job} 2 7"),
        format!("started {job}"),
        format!("finished {job} 1 success"),
        format!("released {job} 1"),
        format!("cancelled {run}"),
        format!("again {run} 2"),
    ]
    .iter()
    .map(|line| line.parse().unwrap())
    .collect();
    assert_eq!(forgotten(site.store(), told.clone()).await, told[2..]);
}
