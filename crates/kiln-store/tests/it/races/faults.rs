//! Work that breaks in the middle leaves nothing half done, and hurts nobody beside it.

use kiln_core::queue::Policy;
use kiln_store::claims::Asking;
use kiln_store::runs::{Happened, JobNews};

use super::*;

fn news(job: &Claimed, word: Word) -> Happened {
    let runner = Some(RunnerId(1));
    Happened::Job(JobNews { job: job.job, claim: Some(job.claim), runner, word, heard: None })
}

/// One bad run fails the batch as a whole; alone, the others succeed.
async fn a_batch_that_fails_changes_nothing_and_its_parts_succeed_alone(store: Store) {
    let site = Site::new(store).await;
    let good = site.run(ONE).await;
    let bad = site.run(&ONE.replace("a:", "broken:")).await;
    let last = site.run(&ONE.replace("a:", "c:")).await;
    let jobs = site.claim(1, 3).await;
    change(&site, "DELETE FROM documents WHERE body LIKE '%broken%'").await;
    let cold = other_server(&site);
    let ends = |jobs: &[Claimed]| jobs.iter().map(|job| news(job, finished(Success))).collect();
    let failed = cold.runs.happened(ends(&jobs)).await;
    assert!(failed.is_err(), "{failed:?}");
    for run in [good, bad, last] {
        assert!(site.view(run).await.jobs[0].state.is_held());
    }
    for job in &jobs {
        let answer = cold.runs.happened(ends(std::slice::from_ref(job))).await;
        assert_eq!(answer.is_ok(), job.run != bad, "{answer:?}");
    }
    for run in [good, last] {
        assert_eq!(site.view(run).await.state, RunState::Done(Success));
    }
}
on_both!(a_batch_that_fails_changes_nothing_and_its_parts_succeed_alone);

/// A claim that panics after it took jobs gives them back.
async fn a_panic_undoes_its_claims_and_nothing_else(store: Store) {
    let site = Site::new(store).await;
    for _ in 0..ROUNDS {
        let run = site.run(&legs(2)).await;
        let held = site.claim(1, 1).await.remove(0);
        let queues = site.queues().await;
        let asking = vec![Asking::new(RunnerId(2), queues, 1, "n")];
        let panicking = site.store().clone();
        let panicked = tokio::spawn(async move {
            let work = async move |tx: &mut Tx<'_>| -> Result<(), StoreError> {
                let claimed = claims::claim(tx, Policy::Fair, &asking).await?.jobs;
                assert!(claimed[0].is_empty(), "no luck");
                Ok(())
            };
            panicking.write(work).await
        });
        let (ended, panicked) = tokio::join!(site.finish(&held, 1, Success), panicked);
        assert_eq!(ended, Answer::Accepted);
        assert!(!matches!(panicked, Ok(Ok(()))));
        let rest = claim_in_time(&site).await;
        site.finish(&rest, 1, Success).await;
        ended_once(&site, run, &[held.job, rest.job]).await;
    }
}
on_both!(a_panic_undoes_its_claims_and_nothing_else);

/// The server may need a moment to notice that a connection is gone, and its locks with it.
async fn claim_in_time(site: &Site) -> Claimed {
    let claim = async {
        loop {
            if let Some(claimed) = site.claim(1, 1).await.pop() {
                return claimed;
            }
        }
    };
    tokio::time::timeout(PATIENCE, claim).await.expect("its place is in the queue")
}

/// A run whose creation is undone leaves its number to another one, but not its plan.
async fn a_run_that_was_undone_leaves_nothing_to_the_next_one(store: Store) {
    let site = Site::new(store).await;
    let plan = |name: &str| {
        let job = ONE.replace("a:", &format!("{name}:"));
        kiln_testkit::runs::plan(&format!("on: push\njobs:\n{job}"))
    };
    // The last thing that is written is the outbox or the events: without them it fails late.
    change(&site, "ALTER TABLE events RENAME TO elsewhere").await;
    assert!(site.runs.create(site.push(plan("undone"))).await.is_err());
    change(&site, "ALTER TABLE elsewhere RENAME TO events").await;
    let run = site.runs.create(site.push(plan("kept"))).await.unwrap().run();
    assert_eq!(site.view(run).await.jobs[0].name, "kept");
    assert_eq!(end_all(&site).await.len(), 1);
}
on_both!(a_run_that_was_undone_leaves_nothing_to_the_next_one);

mod on_postgres_only {
    use super::*;
    use kiln_testkit::database::Database;

    /// Connections die at any moment; each word is heard once all the same.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn connections_that_die_leave_nothing_half_done() {
        let database = Database::postgres().await;
        let site = Site::new(database.open()).await;
        let run = site.run(&legs(40)).await;
        let jobs = site.claim(1, 40).await;
        assert_eq!(jobs.len(), 40);
        let killer = Site { runs: Runs::new(database.open(), Arc::new(Pushed)), ..site.clone() };
        let killing = async {
            for _ in 0..12 {
                change(&killer, KILL).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            std::future::pending::<()>().await;
        };
        let mut tasks = tokio::task::JoinSet::new();
        for job in jobs.clone() {
            let site = site.clone();
            tasks.spawn(async move { insist(&site, &job).await });
        }
        tokio::select! {
            () = killing => unreachable!("it never ends"),
            _ = tasks.join_all() => {}
        }
        let jobs: Vec<JobId> = jobs.iter().map(|job| job.job).collect();
        ended_once(&site, run, &jobs).await;
    }

    const KILL: &str = "WITH killed AS (
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
                AND backend_type = 'client backend'
        ) UPDATE organizations SET updated_at = (SELECT count(*) FROM killed)";

    /// Says that a job ended until it is heard. Returns how often that failed.
    async fn insist(site: &Site, job: &Claimed) -> usize {
        let said = async {
            let mut failed = 0;
            for word in [Word::Started, finished(Success)] {
                loop {
                    match site.runs.happened(vec![news(job, word.clone())]).await {
                        Ok(answers) if answers == [Answer::Accepted] => break,
                        // It was heard before, but the answer was lost.
                        Ok(_) if word == Word::Started && failed > 0 => break,
                        Ok(answers) => panic!("{answers:?}"),
                        Err(StoreError::Transient(_) | StoreError::InDoubt(_)) => failed += 1,
                        Err(other) => panic!("{other}"),
                    }
                }
            }
            failed
        };
        tokio::time::timeout(PATIENCE, said).await.expect("it is heard in the end")
    }
}
