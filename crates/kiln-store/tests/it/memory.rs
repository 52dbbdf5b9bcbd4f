//! What the writer of SQLite, and a server on PostgreSQL, remember of runs is never older than the rows.

use std::sync::Arc;

use kiln_core::id::RunnerId;
use kiln_core::queue::Policy;
use kiln_core::run::{Conclusion, Event, Rejected, RunState};
use kiln_store::claims::{Asking, Claimed};
use kiln_store::runs::{Answer, Happened, JobNews, Refused, Runs, Word};
use kiln_store::{Refusal, Store, StoreError, Traffic, Tx};
use kiln_testkit::database::Database;
use kiln_testkit::runs::{Pushed, Site, like_others};

const JOB: &str = "  only: {runs-on: linux, steps: [{run: x}]}\n";
/// As if the job had been lost, and another runner had claimed it.
const OTHER_CLAIM: &str = "UPDATE jobs SET claim = claim + 1, runner_id = 9 WHERE id = $1";

async fn claimed(store: Store) -> (Site, Claimed) {
    let site = Site::new(store).await;
    site.run(JOB).await;
    let job = claim(&site, 1).await;
    (site, job)
}

/// As a server does it, which remembers what it gave.
async fn claim(site: &Site, runner: i64) -> Claimed {
    let asking = Asking::new(RunnerId(runner), site.queues().await, 1, runner.to_string());
    Traffic::new(&site.runs, Policy::Fair).claim(asking).await.unwrap().jobs.remove(0)
}

/// Another server of the same database.
fn beside(site: &Site) -> Site {
    Site { runs: Runs::new(site.store().clone(), Arc::new(Pushed)), ..site.clone() }
}

async fn take_away(store: &Store, job: &Claimed) {
    let id = job.job.0;
    let work = async move |tx: &mut Tx<'_>| {
        like_others(tx).await?;
        tx.execute(OTHER_CLAIM, &[id.into()]).await
    };
    assert_eq!(store.write(work).await.unwrap(), 1);
}

fn check_stale(answer: &Answer) {
    let stale = matches!(answer, Answer::Refused(Refused::Rejected(Rejected::Stale { .. })));
    assert!(stale, "{answer:?}");
}

#[tokio::test]
async fn what_another_process_wrote_is_seen() {
    let database = Database::sqlite();
    let (site, job) = claimed(database.open()).await;
    take_away(&database.open(), &job).await;
    check_stale(&site.say(&job, 1, Word::Started).await);
}

async fn what_a_statement_wrote_is_seen(store: Store) {
    let (site, job) = claimed(store).await;
    take_away(site.store(), &job).await;
    check_stale(&site.say(&job, 1, Word::Started).await);
}
on_both!(what_a_statement_wrote_is_seen);

/// The claim is undone with the rest of its transaction, also where many share one.
async fn what_was_undone_is_not_remembered(store: Store) {
    let site = Site::new(store).await;
    site.run(JOB).await;
    let queues = site.queues().await;
    let undone = async move |tx: &mut Tx<'_>| -> Result<(), StoreError> {
        let runner = RunnerId(7);
        let (queues, nonce) = (queues.clone(), "n".to_owned());
        let asking = Asking {
            runner,
            queues: queues.into_iter().map(Into::into).collect(),
            org: None,
            want: 1,
            nonce,
            warm: Vec::new(),
        };
        let given = kiln_store::claims::claim(tx, Policy::Fair, &[asking]).await?;
        assert_eq!(given.jobs[0].len(), 1);
        Err(Refusal::Conflict("only to look".to_owned()).into())
    };
    let tries: Vec<_> = (0..20)
        .map(|_| {
            let (store, undone) = (site.store().clone(), undone.clone());
            tokio::spawn(async move { store.write(undone).await.is_err() })
        })
        .collect();
    for tried in tries {
        assert!(tried.await.unwrap());
    }
    let job = site.claim(1, 1).await.remove(0);
    assert_eq!(job.claim, 1, "it was never claimed before");
    assert_eq!(site.finish(&job, 1, Conclusion::Success).await, Answer::Accepted);
}
on_both!(what_was_undone_is_not_remembered);

/// H2, S21: what one server gave to a runner, another one takes back.
async fn what_another_server_changed_is_seen(store: Store) {
    let (site, job) = claimed(store).await;
    let other = beside(&site);
    assert_eq!(other.say(&job, 1, Word::Returned).await, Answer::Accepted);
    let late = site.say(&job, 1, Word::Started).await;
    assert_eq!(late, Answer::Refused(Refused::NotYours));
    let again = claim(&other, 2).await;
    assert_eq!((again.job, again.claim), (job.job, 2));
    assert_eq!(site.say(&again, 2, Word::Started).await, Answer::Accepted);
    let cancel =
        Event::Cancel { by: "ada".to_owned(), reason: "changed".to_owned(), forced: false };
    assert_eq!(other.tell(job.run, cancel).await, Answer::Accepted);
    assert_eq!(site.say(&again, 2, Word::Uploading).await, Answer::Unwanted);
    assert_eq!(site.say(&again, 2, ended(Conclusion::Success)).await, Answer::Accepted);
    let late = other.say(&again, 2, ended(Conclusion::Failure)).await;
    assert!(matches!(late, Answer::Otherwise(_)), "{late:?}");
}
on_both!(what_another_server_changed_is_seen);

fn ended(conclusion: Conclusion) -> Word {
    Word::Finished { conclusion, outputs: Vec::new() }
}

/// A server hears late of a claim of its own: the job was given back and claimed again meanwhile.
async fn a_claim_that_is_over_is_not_believed(store: Store) {
    let (site, job) = claimed(store).await;
    let other = beside(&site);
    other.say(&job, 1, Word::Returned).await;
    let again = claim(&other, 2).await;
    check_stale(&site.say(&job, 1, Word::Started).await);
    assert_eq!(site.say(&again, 2, Word::Started).await, Answer::Accepted);
    assert_eq!(site.say(&again, 2, ended(Conclusion::Success)).await, Answer::Accepted);
}
on_both!(a_claim_that_is_over_is_not_believed);

/// What was not committed is not remembered either.
async fn a_word_that_was_undone_was_never_said(store: Store) {
    let (site, job) = claimed(store).await;
    site.say(&job, 1, Word::Started).await;
    let hide = "ALTER TABLE runner_ends RENAME TO hidden";
    let back = "ALTER TABLE hidden RENAME TO runner_ends";
    let rename = async |sql: &'static str| {
        let work = async move |tx: &mut Tx<'_>| tx.execute(sql, &[]).await;
        site.store().write(work).await.unwrap();
    };
    rename(hide).await;
    let news = JobNews {
        job: job.job,
        claim: Some(job.claim),
        runner: Some(RunnerId(1)),
        word: ended(Conclusion::Success),
        heard: None,
    };
    let failed = site.runs.happened(vec![Happened::Job(news)]).await;
    assert!(failed.is_err(), "{failed:?}");
    rename(back).await;
    assert_eq!(site.say(&job, 1, ended(Conclusion::Failure)).await, Answer::Accepted);
    assert_eq!(site.view(job.run).await.state, RunState::Done(Conclusion::Failure));
}
on_both!(a_word_that_was_undone_was_never_said);

/// H2: a server from before versions knows nothing of them, and neither does a person with a statement; the database does. What
/// this Kiln writes itself, it renews itself. A claim holds no attempt, and must not wait for one.
#[tokio::test]
async fn whoever_changes_rows_and_knows_no_versions_renews_them_nevertheless() {
    let site = Site::new(Database::postgres().await.open()).await;
    let run = site.run(JOB).await;
    let version = async || {
        let look = async move |tx: &mut Tx<'_>| {
            let sql = "SELECT version FROM run_attempts WHERE run_id = $1";
            tx.one("attempt", sql, &[run.0.into()]).await?.get::<i64>(0)
        };
        site.store().read(look).await.unwrap()
    };
    for (sql, renews) in [
        ("UPDATE run_attempts SET legs = legs", true),
        ("UPDATE run_scopes SET open = open", true),
        ("UPDATE run_nodes SET note = note", true),
        ("UPDATE jobs SET note = note", true),
        ("UPDATE jobs SET state = 'claimed', claim = 1 WHERE state = 'queued'", false),
        ("UPDATE jobs SET state = 'running' WHERE state = 'claimed'", true),
    ] {
        for (by_others, renews) in [(true, renews), (false, false)] {
            let before = version().await;
            let change = async move |tx: &mut Tx<'_>| {
                if by_others {
                    like_others(tx).await?;
                }
                tx.execute(sql, &[]).await
            };
            site.store().write(change).await.unwrap();
            assert_eq!(version().await != before, renews, "{sql}, by others: {by_others}");
        }
    }
}

/// H2: a database took the place of another, and lacks the last claim that this one was told.
#[tokio::test]
async fn a_claim_that_the_database_lost_is_not_believed() {
    let database = Database::postgres().await;
    let (site, job) = claimed(database.open()).await;
    let lost = async |tx: &mut Tx<'_>| {
        tx.execute("DELETE FROM leases", &[]).await?;
        let again = "UPDATE jobs SET state = 'queued', claim = 0, runner_id = NULL";
        tx.execute(again, &[]).await?;
        let queue = "INSERT INTO queue (lane_id, key, job_id, attempt, number) \
                     SELECT lane_id, queue_key, id, attempt, number FROM jobs";
        tx.execute(queue, &[]).await
    };
    site.store().write(lost).await.unwrap();
    let elsewhere = async |tx: &mut Tx<'_>| {
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        tx.rows(sql, &[]).await.map(drop)
    };
    database.open().read(elsewhere).await.unwrap();
    check_stale(&site.say(&job, 1, Word::Started).await);
    let again = claim(&site, 2).await;
    assert_eq!((again.job, again.claim), (job.job, 1));
    assert_eq!(site.finish(&again, 2, Conclusion::Success).await, Answer::Accepted);
}
