//! What becomes of a claim: repeated, renewed, given back, lost; and what it costs.

use std::time::Duration;

use kiln_core::id::RunnerId;
use kiln_core::queue::Policy;
use kiln_core::run::{Conclusion, Event, LegState, RunState};
use kiln_core::time::Timestamp;
use kiln_store::claims::{self, Asking, Beat, Claimed, Command, Held, LEASE, Pulse};
use kiln_store::runs::{Answer, Word};
use kiln_store::{Store, Traffic, Tx};
use kiln_testkit::runs::Site;

use super::{asking, claim, claim_as, execute, jobs_of, number};

const THREE: &str = "  a: {runs-on: linux, strategy: {matrix: {n: [1, 2, 3]}}, steps: [{run: x}]}";
const ONE: &str = "  a: {runs-on: linux, steps: [{run: x}]}";

/// S3
async fn the_same_question_gets_the_same_answer_and_another_does_not(store: Store) {
    let site = Site::new(store).await;
    site.run(THREE).await;
    let queues = site.queues().await;
    let ask = |runner, nonce: &str| asking(runner, &queues, 1, nonce);
    let first = claim(site.store(), ask(1, "x")).await;
    assert_eq!(first.len(), 1);
    // As if the response had been lost: also in company, and with another wish.
    let more = Asking { want: 3, ..ask(1, "x") };
    let together = claim_as(site.store(), Policy::default(), vec![ask(2, "x"), more]).await;
    assert_eq!(together[1], first);
    assert_ne!(jobs_of(&together[0]), jobs_of(&first), "the nonce is the runner's own");
    let other = claim(site.store(), ask(1, "y")).await;
    assert_eq!(other.len(), 1);
    assert!(![jobs_of(&first), jobs_of(&together[0])].contains(&jobs_of(&other)));
    assert_eq!(claim(site.store(), ask(1, "x")).await, first);
    assert!(claim(site.store(), ask(3, "z")).await.is_empty(), "there were three");
}
on_both!(the_same_question_gets_the_same_answer_and_another_does_not);

/// S3: a runner that asks again before it was answered meets itself in one batch.
async fn a_question_that_comes_twice_at_once_is_answered_once(store: Store) {
    let site = Site::new(store).await;
    site.run(THREE).await;
    let queues = site.queues().await;
    let twice = vec![asking(1, &queues, 1, "x"), asking(1, &queues, 1, "x")];
    let answers = claim_as(site.store(), Policy::default(), twice).await;
    assert_eq!(answers[0].len(), 1);
    assert_eq!(answers[0], answers[1]);
    assert_eq!(number(site.store(), "SELECT count(*) FROM leases", vec![]).await, 1);
}
on_both!(a_question_that_comes_twice_at_once_is_answered_once);

/// S4
async fn a_claim_that_was_never_acknowledged_goes_back_and_costs_nothing(store: Store) {
    let site = Site::new(store).await;
    let run = site.run(ONE).await;
    let limit = "INSERT INTO org_loads (org_id, running, job_limit) VALUES ($1, 0, 1)";
    execute(site.store(), limit, vec![site.org.0.into()]).await;
    for claim in 1..=5 {
        let claimed = site.claim(7, 1).await.remove(0);
        assert_eq!(claimed.claim, claim);
        assert!(site.claim(8, 1).await.is_empty());
        assert_eq!(site.runs.reap().await.unwrap().taken, 0, "it has a minute");
        expire(site.store()).await;
        assert_eq!(site.runs.reap().await.unwrap().taken, 1);
        assert_eq!(site.runs.reap().await.unwrap().taken, 0);
    }
    assert_eq!(site.view(run).await.jobs[0].state, LegState::Queued);
    let losses = "SELECT losses FROM jobs WHERE run_id = $1";
    assert_eq!(number(site.store(), losses, vec![run.0.into()]).await, 0);
    assert_eq!(number(site.store(), "SELECT running FROM org_loads", vec![]).await, 0);
    let (seconds, ended) = charged(site.store()).await;
    assert!(seconds.abs() < 1e-9 && ended == 0, "{seconds} seconds, {ended} jobs");
}
on_both!(a_claim_that_was_never_acknowledged_goes_back_and_costs_nothing);

/// S4
async fn a_job_whose_runner_fell_silent_is_tried_three_more_times(store: Store) {
    let site = Site::new(store).await;
    let run = site.run(ONE).await;
    for claim in 1..=4 {
        let claimed = site.claim(7, 1).await.remove(0);
        assert_eq!(claimed.claim, claim);
        let pulse = beat(site.store(), 7, &[(&claimed, claim)]).await;
        assert!(matches!(pulse[0], Held::Renewed { command: None, .. }));
        expire(site.store()).await;
        assert_eq!(site.runs.reap().await.unwrap().taken, 1);
        if claim < 4 {
            assert_eq!(site.view(run).await.jobs[0].state, LegState::Queued);
        }
    }
    assert_eq!(site.view(run).await.state, RunState::Done(Conclusion::Failure));
    assert!(site.claim(7, 1).await.is_empty());
    assert_eq!(number(site.store(), "SELECT count(*) FROM leases", vec![]).await, 0);
}
on_both!(a_job_whose_runner_fell_silent_is_tried_three_more_times);

/// S4
async fn a_heartbeat_renews_tells_what_to_do_and_says_what_is_gone(store: Store) {
    let site = Site::new(store).await;
    let run = site.run(THREE).await;
    let claimed = site.claim(7, 2).await;
    let now = now(site.store()).await;
    // Almost over.
    let shorten = "UPDATE leases SET expires_at = $1";
    execute(site.store(), shorten, vec![i64::try_from(now.0 + 1000).unwrap().into()]).await;
    let held = [(&claimed[0], 1), (&claimed[1], 1), (&claimed[0], 9)];
    let pulse = beat(site.store(), 7, &held).await;
    let Held::Renewed { until, command: None } = &pulse[0] else { panic!("{pulse:#?}") };
    assert!(*until >= now + LEASE);
    assert!(matches!(pulse[1], Held::Renewed { .. }));
    assert_eq!(pulse[2], Held::Gone, "it is of another claim");
    assert_eq!(beat(site.store(), 8, &held[..1]).await, [Held::Gone], "it is another's");
    let kept = "SELECT count(*) FROM leases WHERE expires_at > $1 AND acknowledged = 1";
    let soon = i64::try_from(now.0 + 30_000).unwrap();
    assert_eq!(number(site.store(), kept, vec![soon.into()]).await, 2);
    let cancel = |forced| Event::Cancel { by: "me".into(), reason: "no".into(), forced };
    site.tell(run, cancel(false)).await;
    let pulse = beat(site.store(), 7, &held[..2]).await;
    let told = |held: &Held| matches!(held, Held::Renewed { command: Some(Command::Cancel), .. });
    assert!(pulse.iter().all(told), "{pulse:#?}");
    let ended = Word::Finished { conclusion: Conclusion::Cancelled, outputs: Vec::new() };
    assert_eq!(site.say(&claimed[0], 7, ended).await, Answer::Accepted);
    assert_eq!(beat(site.store(), 7, &held[..1]).await, [Held::Gone], "it has ended");
    site.tell(run, cancel(true)).await;
    assert_eq!(beat(site.store(), 7, &held[1..2]).await, [Held::Gone], "it was ended");
}
on_both!(a_heartbeat_renews_tells_what_to_do_and_says_what_is_gone);

/// S8
async fn charges_are_added_up_and_forgotten_by_the_hour(store: Store) {
    let site = Site::new(store).await;
    let (org, repo) = (site.org.0, site.repo.0);
    let hour = i64::try_from(now(site.store()).await.0 / 3_600_000).unwrap();
    let old = "INSERT INTO usage (org_id, repo_id, consumed, hour) VALUES ($1, 0, 1000, $2)";
    execute(site.store(), old, vec![org.into(), (hour - 2).into()]).await;
    for (seconds, ended, took) in [(60.0, 0_u32, 0.0), (-20.0, 1, 40.0), (5.0, 1, 20.0)] {
        let sql = "INSERT INTO usage_deltas (org_id, repo_id, seconds, ended, took, at)
                   VALUES ($1, $2, $3, $4, $5, 0)";
        let values = vec![org.into(), repo.into(), seconds.into(), ended.into(), took.into()];
        execute(site.store(), sql, values).await;
    }
    let fold = async |tx: &mut Tx<'_>| claims::fold(tx).await;
    assert_eq!(site.store().write(fold).await.unwrap(), 3);
    assert_eq!(site.store().write(fold).await.unwrap(), 0);
    let used = |repo: i64| {
        let sql = "SELECT consumed, typical FROM usage WHERE org_id = $1 AND repo_id = $2";
        site.store().read(async move |tx: &mut Tx<'_>| {
            let row = tx.one("usage", sql, &[org.into(), repo.into()]).await?;
            Ok((row.get::<f64>(0)?, row.get::<f64>(1)?))
        })
    };
    let (consumed, typical) = used(repo).await.unwrap();
    assert!((consumed - 45.0).abs() < 1e-9 && (typical - 30.0).abs() < 1e-9);
    let (consumed, _) = used(0).await.unwrap();
    // The hour may have turned since.
    let decayed = |hours| 1000.0 * 0.95_f64.powi(hours) + 45.0;
    assert!([2, 3].map(decayed).iter().any(|expect| (consumed - expect).abs() < 1e-6));
}
on_both!(charges_are_added_up_and_forgotten_by_the_hour);

/// S8: claims read charges only as long as there are few; where each repository has one row, there are always.
async fn many_charges_are_added_up_by_those_who_read_them(store: Store) {
    let site = Site::new(store).await;
    site.run(THREE).await;
    let (org, repo) = (site.org.0, site.repo.0);
    let at = i64::try_from(now(site.store()).await.0).unwrap();
    let many = async move |tx: &mut Tx<'_>| {
        let sql = "INSERT INTO usage_deltas (org_id, repo_id, seconds, ended, took, at)
                   VALUES ($1, $2, 2.0, 1, 2.0, $3)";
        for _ in 0..1_500 {
            tx.execute(sql, &[org.into(), repo.into(), at.into()]).await?;
        }
        Ok(tx.is_postgres())
    };
    let is_postgres = site.store().write(many).await.unwrap();
    let asking = asking(1, &site.queues().await, 1, "x");
    let given = Traffic::new(&site.runs, Policy::Fair).claim(asking).await.unwrap();
    assert_eq!(given.jobs.len(), 1);
    let charges = || number(site.store(), "SELECT count(*) FROM usage_deltas", vec![]);
    if is_postgres {
        while charges().await > 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let used = "SELECT count(*) FROM usage WHERE consumed >= 3000 AND typical = 2";
        assert_eq!(number(site.store(), used, vec![]).await, 2, "the repository's and all");
    } else {
        assert!(charges().await >= 1_500);
    }
}
on_both!(many_charges_are_added_up_by_those_who_read_them);

/// S4: a clock that was ahead and is right again.
async fn times_of_a_clock_that_was_ahead_are_mended_when_it_is_set_back(store: Store) {
    let site = Site::new(store).await;
    site.run(THREE).await;
    site.claim(7, 2).await;
    let look = async |tx: &mut Tx<'_>| Ok(kiln_store::look_at_clock(tx).await?.1);
    assert!(!site.store().read(look).await.unwrap(), "what there is is right");
    let now = i64::try_from(now(site.store()).await.0).unwrap();
    let ahead = now + 3_600_000;
    let one = "UPDATE leases SET expires_at = $1 WHERE job_id = (SELECT min(job_id) FROM leases)";
    execute(site.store(), one, vec![(ahead + 60_000).into()]).await;
    let task =
        "INSERT INTO outbox (kind, payload, due_at, created_at) VALUES ('notify', '{}', $1, $2)";
    execute(site.store(), task, vec![(ahead + 5_000).into(), ahead.into()]).await;
    execute(site.store(), task, vec![(ahead + 5_000).into(), (now - 9_000).into()]).await;
    assert!(site.store().read(look).await.unwrap(), "an hour is noticed");
    let mend = async |tx: &mut Tx<'_>| kiln_store::clock_was_set(tx).await;
    site.store().write(mend).await.unwrap();
    let soon = i64::try_from(LEASE.as_millis()).unwrap() + now + 30_000;
    let late = "SELECT count(*) FROM leases WHERE expires_at > $1";
    assert_eq!(number(site.store(), late, vec![soon.into()]).await, 0);
    assert_eq!(number(site.store(), "SELECT count(*) FROM leases", vec![]).await, 2);
    // What was put in by the wrong clock waits five seconds, as it was meant to; the other for as long as
    // somebody said.
    let soon = "SELECT count(*) FROM outbox WHERE due_at - created_at = 5000 AND due_at <= $1";
    assert_eq!(number(site.store(), soon, vec![(now + 35_000).into()]).await, 1);
    let due = "SELECT max(due_at) FROM outbox";
    assert_eq!(number(site.store(), due, vec![]).await, ahead + 5_000);
}
on_both!(times_of_a_clock_that_was_ahead_are_mended_when_it_is_set_back);

async fn beat(store: &Store, runner: i64, held: &[(&Claimed, u32)]) -> Pulse {
    let held = held.iter().map(|(claimed, claim)| (claimed.job, *claim)).collect();
    let beats = vec![Beat { runner: RunnerId(runner), held }];
    let work = async move |tx: &mut Tx<'_>| claims::heartbeat(tx, &beats).await;
    store.write(work).await.unwrap().remove(0)
}

/// Lets all leases run out.
async fn expire(store: &Store) {
    execute(store, "UPDATE leases SET expires_at = 1", vec![]).await;
}

async fn now(store: &Store) -> Timestamp {
    store.read(async |tx: &mut Tx<'_>| Ok(tx.now())).await.unwrap()
}

/// Seconds charged in all, and how many jobs count as ended.
async fn charged(store: &Store) -> (f64, i64) {
    let sql = "SELECT sum(seconds), CAST(sum(ended) AS BIGINT) FROM usage_deltas";
    let read = async move |tx: &mut Tx<'_>| {
        let row = tx.one("sum", sql, &[]).await?;
        Ok((row.get(0)?, row.get(1)?))
    };
    store.read(read).await.unwrap()
}
