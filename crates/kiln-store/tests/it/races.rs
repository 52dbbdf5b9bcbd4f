//! What happens at the same time, on connections of its own each.

mod faults;
mod groups;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kiln_core::id::{JobId, RunId, RunnerId};
use kiln_core::run::{Again, Conclusion, Event, LegState, RunState};
use kiln_store::claims::{self, Beat, Claimed, Held};
use kiln_store::runs::{Answer, Refused, Runs, Word};
use kiln_store::{Refusal, Store, StoreError, Tx};
use kiln_testkit::runs::{Pushed, SYSTEM, Site, somebody};

use Conclusion::{Cancelled, Failure, Success};

/// How often two things are let happen at once.
const ROUNDS: usize = 10;
/// Nothing here may take longer, whatever goes wrong.
const PATIENCE: Duration = Duration::from_mins(1);

const ONE: &str = "  a: {runs-on: linux, steps: [{run: x}]}\n";

fn finished(conclusion: Conclusion) -> Word {
    Word::Finished { conclusion, outputs: Vec::new() }
}

fn legs(count: usize) -> String {
    let values: Vec<String> = (0..count).map(|value| value.to_string()).collect();
    let values = values.join(", ");
    format!(
        "  a:\n    runs-on: linux\n    strategy: {{fail-fast: false, matrix: {{v: [{values}]}}}}\n    steps: [{{run: x}}]\n"
    )
}

fn cancel() -> Event {
    Event::Cancel { by: "me".into(), reason: "enough".into(), forced: false }
}

async fn number(site: &Site, sql: &'static str) -> i64 {
    let read = async move |tx: &mut Tx<'_>| tx.one("count", sql, &[]).await?.get::<i64>(0);
    site.store().read(read).await.unwrap()
}

async fn change(site: &Site, sql: &'static str) {
    site.store().write(async move |tx: &mut Tx<'_>| tx.execute(sql, &[]).await).await.unwrap();
}

/// Another server on the same database, which knows nothing of what this one remembers.
fn other_server(site: &Site) -> Site {
    Site { runs: Runs::new(site.store().clone(), Arc::new(Pushed)), ..site.clone() }
}

/// S11: nobody gets what another one has, and nothing is left behind.
async fn claimers_share_all_jobs_and_none_twice(store: Store) {
    let site = Site::new(store).await;
    for claimers in [2, 8] {
        let count = 200;
        site.run(&legs(count)).await;
        let taken = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..claimers)
            .map(|runner| {
                let (site, taken) = (site.clone(), taken.clone());
                tokio::spawn(async move {
                    let mut mine = Vec::new();
                    while taken.load(Ordering::SeqCst) < count {
                        let claimed = site.claim(runner, 7).await;
                        taken.fetch_add(claimed.len(), Ordering::SeqCst);
                        mine.extend(claimed.into_iter().map(|claimed| claimed.job));
                    }
                    mine
                })
            })
            .collect();
        let mut all: Vec<JobId> = Vec::new();
        for task in tasks {
            all.extend(tokio::time::timeout(PATIENCE, task).await.unwrap().unwrap());
        }
        assert_eq!(all.len(), count);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), count);
    }
    assert_eq!(number(&site, "SELECT count(*) FROM queue").await, 0);
}
on_both!(claimers_share_all_jobs_and_none_twice);

/// S3: whichever end is the last one lets the dependent go, and only that.
async fn needs_that_end_together_queue_the_dependent_once(store: Store) {
    let site = Site::new(store).await;
    for needs in [[2; ROUNDS].as_slice(), &[50, 50]].concat() {
        let mut text = String::new();
        let names: Vec<String> = (0..needs).map(|at| format!("n{at}")).collect();
        for name in &names {
            text += &ONE.replace("a:", &format!("{name}:"));
        }
        let last = "  z: {needs: [NAMES], runs-on: linux, steps: [{run: x}]}\n";
        text += &last.replace("NAMES", &names.join(", "));
        let run = site.run(&text).await;
        let claimed = site.claim(1, 100).await;
        assert_eq!(claimed.len(), needs);
        let ends: Vec<_> = claimed
            .into_iter()
            .map(|job| {
                let site = site.clone();
                tokio::spawn(async move { site.finish(&job, 1, Success).await })
            })
            .collect();
        for end in ends {
            assert_eq!(end.await.unwrap(), Answer::Accepted);
        }
        assert_eq!(number(&site, "SELECT count(*) FROM queue").await, 1);
        let last = site.claim(1, 100).await;
        assert_eq!(last.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["z"]);
        site.finish(&last[0], 1, Success).await;
        assert_eq!(site.view(run).await.state, RunState::Done(Success));
    }
}
on_both!(needs_that_end_together_queue_the_dependent_once);

/// S8
async fn a_lost_lease_or_a_late_end_wins_but_not_both(store: Store) {
    let site = Site::new(store).await;
    for round in 0..ROUNDS {
        let run = site.run(ONE).await;
        let job = site.claim(1, 1).await.remove(0);
        assert_eq!(site.say(&job, 1, Word::Started).await, Answer::Accepted);
        change(&site, "UPDATE leases SET expires_at = 1").await;
        let other = other_server(&site);
        let (reaped, said) = if round % 2 == 0 {
            tokio::join!(other.runs.reap(), site.say(&job, 1, finished(Success)))
        } else {
            let (said, reaped) =
                tokio::join!(site.say(&job, 1, finished(Success)), other.runs.reap());
            (reaped, said)
        };
        reaped.unwrap();
        let view = site.view(run).await;
        if said == Answer::Accepted {
            assert_eq!(view.jobs[0].state, LegState::Done(Success));
        } else {
            assert!(matches!(said, Answer::Refused(Refused::Rejected(_) | Refused::NotYours)));
            assert_eq!((&view.jobs[0].state, view.jobs[0].losses), (&LegState::Queued, 1));
            let again = site.claim(2, 1).await.remove(0);
            assert_eq!((again.job, again.claim), (job.job, 2));
            assert!(matches!(site.say(&job, 1, finished(Success)).await, Answer::Refused(_)));
            site.finish(&again, 2, Success).await;
        }
        ended_once(&site, run, &[job.job]).await;
    }
}
on_both!(a_lost_lease_or_a_late_end_wins_but_not_both);

/// The run is over, each of these jobs ended once, and nothing of it is left anywhere.
async fn ended_once(site: &Site, run: RunId, jobs: &[JobId]) {
    assert!(matches!(site.view(run).await.state, RunState::Done(_)));
    let ended = async move |tx: &mut Tx<'_>| {
        let sql = "SELECT job_id FROM events WHERE run_id = $1 AND kind = 'job_done'";
        let rows = tx.rows(sql, &[run.0.into()]).await?;
        rows.iter().map(|row| Ok(JobId(row.get(0)?))).collect::<Result<Vec<_>, StoreError>>()
    };
    let mut ended = site.store().read(ended).await.unwrap();
    ended.sort();
    let mut jobs = jobs.to_vec();
    jobs.sort();
    assert_eq!(ended, jobs);
    for table in ["SELECT count(*) FROM queue", "SELECT count(*) FROM leases"] {
        assert_eq!(number(site, table).await, 0, "{table}");
    }
}

/// S10, S14: a job is taken and told to stop, or never taken.
async fn a_cancel_finds_each_job_queued_or_taken(store: Store) {
    let site = Site::new(store).await;
    for _ in 0..ROUNDS {
        let run = site.run(&legs(4)).await;
        let queues = site.queues().await;
        assert!(!queues.is_empty());
        let (claimed, answer) = tokio::join!(site.claim(1, 3), site.tell(run, cancel()));
        assert_eq!(answer, Answer::Accepted);
        let view = site.view(run).await;
        for job in &view.jobs {
            let mine = claimed.iter().any(|claimed| claimed.job == job.id);
            assert_eq!(mine, job.state.is_held(), "{job:?}");
            assert!(mine && job.cancelling || job.state == LegState::Done(Cancelled), "{job:?}");
        }
        assert_eq!(number(&site, "SELECT count(*) FROM queue").await, 0);
        let held: Vec<_> = claimed.iter().map(|claimed| (claimed.job, claimed.claim)).collect();
        let beats = vec![Beat { runner: RunnerId(1), held }];
        let beat = async move |tx: &mut Tx<'_>| claims::heartbeat(tx, &beats).await;
        for held in site.store().write(beat).await.unwrap().remove(0) {
            assert!(matches!(held, Held::Renewed { command: Some(_), .. }), "{held:?}");
        }
        for job in &claimed {
            assert_eq!(site.say(job, 1, finished(Cancelled)).await, Answer::Accepted);
        }
        let jobs: Vec<JobId> = view.jobs.iter().map(|job| job.id).collect();
        ended_once(&site, run, &jobs).await;
    }
}
on_both!(a_cancel_finds_each_job_queued_or_taken);

async fn a_cancel_and_an_end_at_once_end_a_job_once(store: Store) {
    let site = Site::new(store).await;
    for round in 0..ROUNDS {
        let run = site.run(ONE).await;
        let job = site.claim(1, 1).await.remove(0);
        assert_eq!(site.say(&job, 1, Word::Started).await, Answer::Accepted);
        let forced = round % 2 == 0;
        let cancel = Event::Cancel { by: "me".into(), reason: "enough".into(), forced };
        let (cancelled, ended) =
            tokio::join!(site.tell(run, cancel), site.say(&job, 1, finished(Success)));
        // Whoever ends a job that was ended by force hears so.
        let late = forced && ended == Answer::Otherwise(Cancelled);
        assert!(late || ended == Answer::Accepted, "{ended:?}");
        let end = match site.view(run).await.state {
            RunState::Done(end) => end,
            other => panic!("{other:?}"),
        };
        match cancelled {
            Answer::Accepted => assert_eq!(end, if late { Cancelled } else { Success }),
            other => assert!(end == Success && !late, "{other:?}"),
        }
        ended_once(&site, run, &[job.job]).await;
    }
}
on_both!(a_cancel_and_an_end_at_once_end_a_job_once);

/// P10
async fn a_re_run_asked_for_twice_at_once_is_one_attempt(store: Store) {
    let site = Site::new(store).await;
    for _ in 0..ROUNDS {
        let run = site.run(ONE).await;
        let job = site.claim(1, 1).await.remove(0);
        site.finish(&job, 1, Failure).await;
        let asked: Vec<_> = (0..6)
            .map(|_| {
                let site = site.clone();
                tokio::spawn(async move {
                    site.runs.again(SYSTEM, &somebody(), run, Again::Failed).await
                })
            })
            .collect();
        let mut attempts = Vec::new();
        for asked in asked {
            match asked.await.unwrap() {
                Ok(attempt) => attempts.push(attempt),
                Err(StoreError::Refused(Refusal::Conflict(_))) => {}
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(attempts, [2]);
        let jobs = site.claim(1, 9).await;
        assert_eq!(jobs.len(), 1);
        site.finish(&jobs[0], 1, Success).await;
        let view = site.view(run).await;
        assert_eq!((view.attempt, view.state), (2, RunState::Done(Success)));
    }
}
on_both!(a_re_run_asked_for_twice_at_once_is_one_attempt);

/// A word for the run that comes while it is run again is for the new attempt.
async fn a_cancel_beside_a_re_run_is_refused_or_cancels_the_new_attempt(store: Store) {
    let site = Site::new(store).await;
    for _ in 0..ROUNDS {
        let run = site.run(ONE).await;
        let job = site.claim(1, 1).await.remove(0);
        site.finish(&job, 1, Failure).await;
        let actor = somebody();
        let (again, cancelled) = tokio::join!(
            site.runs.again(SYSTEM, &actor, run, Again::All),
            site.tell(run, cancel())
        );
        assert_eq!(again.unwrap(), 2);
        let state = site.view(run).await.state;
        match cancelled {
            Answer::Accepted => assert_eq!(state, RunState::Done(Cancelled)),
            _ => {
                assert_eq!(state, RunState::Active);
                let job = site.claim(1, 1).await.remove(0);
                site.finish(&job, 1, Success).await;
            }
        }
        assert_eq!(number(&site, "SELECT count(*) FROM queue").await, 0);
    }
}
on_both!(a_cancel_beside_a_re_run_is_refused_or_cancels_the_new_attempt);

/// Ends all jobs that can be taken, one after the other, and carries out what follows.
async fn end_all(site: &Site) -> Vec<Claimed> {
    let mut ended = Vec::new();
    loop {
        while site.runs.carry_out().await.unwrap() > 0 {}
        let claimed = site.claim(9, 50).await;
        if claimed.is_empty() {
            return ended;
        }
        for job in &claimed {
            assert_eq!(site.finish(job, 9, Success).await, Answer::Accepted);
        }
        ended.extend(claimed);
    }
}
