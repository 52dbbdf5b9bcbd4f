//! What becomes of runs besides success: the same trigger twice, another attempt, timers, and jobs that
//! nobody could take.

use std::time::Duration;

use kiln_core::id::RunId;
use kiln_core::run::{Again, Conclusion, LegState, RunState};
use kiln_store::directory::audit;
use kiln_store::runs::{Answer, Created, Word};
use kiln_store::{Actor, ActorKind, Duty, Page, Refusal, Scope, Store, StoreError, Tx};
use kiln_testkit::runs::{Site, add_repository, like_others, plan, somebody};
use serde_json::json;

use Conclusion::{Failure, Skipped, Success};

const ONE: &str = "
  a: {runs-on: linux, steps: [{run: 'true'}]}
";
const SYSTEM: Scope = Scope::System(Duty::Claims);

/// P12
async fn the_same_trigger_makes_one_run_within_its_time(store: Store) {
    let site = Site::new(store).await;
    let plan = plan(&format!("on: push\njobs:\n{ONE}"));
    let trigger = |key: &str| {
        let mut new = site.push(plan.clone());
        new.once = vec![(key.to_owned(), Duration::from_mins(5))];
        new
    };
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (runs, new) = (site.runs.clone(), trigger("push main 0000"));
            tokio::spawn(async move { runs.create(new).await.unwrap() })
        })
        .collect();
    let mut created = Vec::new();
    for task in tasks {
        created.push(task.await.unwrap());
    }
    let first = created[0].run();
    assert!(created.iter().all(|created| created.run() == first));
    assert_eq!(created.iter().filter(|created| matches!(created, Created::New(_))).count(), 1);
    assert!(matches!(site.runs.create(trigger("other")).await.unwrap(), Created::New(_)));
    let old =
        async |tx: &mut Tx<'_>| tx.execute("UPDATE trigger_keys SET at = at - 300000", &[]).await;
    site.store().write(old).await.unwrap();
    let later = site.runs.create(trigger("push main 0000")).await.unwrap();
    assert!(matches!(later, Created::New(run) if run != first));
    let numbers = async |tx: &mut Tx<'_>| {
        let rows = tx.rows("SELECT run_number FROM runs ORDER BY id", &[]).await?;
        rows.iter().map(|row| row.get::<i64>(0)).collect::<Result<Vec<_>, _>>()
    };
    assert_eq!(site.store().read(numbers).await.unwrap(), [1, 2, 3]);
}
on_both!(the_same_trigger_makes_one_run_within_its_time);

/// P10
async fn what_failed_runs_again_as_a_new_attempt_and_goes_first(store: Store) {
    let site = Site::new(store).await;
    let run = site
        .run(
            "
  good: {runs-on: linux, steps: [{run: x}]}
  bad: {runs-on: linux, steps: [{run: x}]}
  after: {needs: [good, bad], runs-on: linux, steps: [{run: x}]}
",
        )
        .await;
    for job in site.claim(1, 5).await {
        let end = if job.name == "bad" { Failure } else { Success };
        assert_eq!(site.finish(&job, 1, end).await, Answer::Accepted);
    }
    assert_eq!(site.view(run).await.state, RunState::Done(Failure));
    let other = site.run(ONE).await;
    assert_eq!(site.runs.again(SYSTEM, &somebody(), run, Again::Failed).await.unwrap(), 2);
    let twice = site.runs.again(SYSTEM, &somebody(), run, Again::Failed).await;
    assert!(matches!(twice, Err(StoreError::Refused(Refusal::Conflict(_)))), "{twice:?}");
    let first = site.claim(2, 1).await.remove(0);
    assert_eq!((first.run, first.attempt, first.name.as_str()), (run, 2, "bad"));
    site.finish(&first, 2, Success).await;
    let then = site.claim(2, 1).await.remove(0);
    assert_eq!((then.run, then.name.as_str()), (run, "after"));
    site.finish(&then, 2, Success).await;
    let view = site.view(run).await;
    assert_eq!((view.attempt, view.state), (2, RunState::Done(Success)));
    assert_eq!(view.actor, "me");
    assert_eq!(view.jobs.iter().filter(|job| job.name == "good").count(), 1);
    let earlier =
        async move |tx: &mut Tx<'_>| kiln_store::runs::view(tx, SYSTEM, run, Some(1)).await;
    let earlier = site.store().read(earlier).await.unwrap();
    assert_eq!(earlier.state, RunState::Done(Failure));
    assert!(earlier.nodes.iter().any(|node| node.conclusion == Some(Skipped)));
    assert_eq!(site.claim(2, 5).await[0].run, other);
}
on_both!(what_failed_runs_again_as_a_new_attempt_and_goes_first);

/// Invariant 6 of the design.
async fn another_organization_finds_no_run_here(store: Store) {
    let site = Site::new(store).await;
    let run = site.run(ONE).await;
    let (other, ..) = add_repository(site.store(), "other", "app").await;
    let not_found =
        |error: StoreError| matches!(error, StoreError::Refused(Refusal::NotFound("run")));
    let scope = Scope::Org(other);
    assert!(not_found(site.runs.cancel(scope, &somebody(), run, "no", true).await.unwrap_err()));
    assert!(not_found(site.runs.again(scope, &somebody(), run, Again::All).await.unwrap_err()));
    let view = async move |tx: &mut Tx<'_>| kiln_store::runs::view(tx, scope, run, None).await;
    assert!(not_found(site.store().read(view).await.unwrap_err()));
    let nothing = RunId(999);
    assert!(not_found(
        site.runs.cancel(scope, &somebody(), nothing, "no", true).await.unwrap_err()
    ));
    let mut stolen = site.push(plan(&format!("on: push\njobs:\n{ONE}")));
    stolen.org = other;
    assert!(site.runs.create(stolen).await.is_err());
}
on_both!(another_organization_finds_no_run_here);

async fn what_people_do_to_a_run_is_in_the_audit_log(store: Store) {
    let site = Site::new(store).await;
    let (run, scope) = (site.run(ONE).await, Scope::Org(site.org));
    let actor = Actor::new(ActorKind::Token, "a\0da").at("127.0.0.1");
    let cancel = || site.runs.cancel(scope, &actor, run, "no need", true);
    assert_eq!(cancel().await.unwrap(), Answer::Accepted);
    assert_eq!(site.view(run).await.cancelled_by.as_deref(), Some("ada"));
    assert!(matches!(cancel().await.unwrap(), Answer::Refused(_)), "it has ended");
    assert_eq!(site.runs.again(scope, &actor, run, Again::All).await.unwrap(), 2);
    site.runs.again(scope, &actor, run, Again::All).await.unwrap_err();
    let org = site.org;
    let log = async move |tx: &mut Tx<'_>| audit::list(tx, scope, org, Page::first(9)).await;
    let log = site.store().read(log).await.unwrap();
    let told = |at: usize| {
        let detail: serde_json::Value =
            serde_json::from_str(log[at].detail.as_deref().unwrap()).unwrap();
        (log[at].action.as_str(), detail)
    };
    assert_eq!(told(0), ("run.again", json!({ "attempt": 2, "what": "all" })));
    assert_eq!(told(1), ("run.cancel", json!({ "forced": true, "reason": "no need" })));
    assert!(log.len() == 2 && log.iter().all(|entry| entry.subject == Some(run.0)));
    assert!(log.iter().all(|entry| entry.actor.name == "ada" && entry.actor.address.is_some()));
}
on_both!(what_people_do_to_a_run_is_in_the_audit_log);

/// S10
async fn a_job_that_no_runner_could_ever_take_fails_after_its_grace(store: Store) {
    let site = Site::new(store).await;
    let run = site
        .run("  a: {runs-on: [linux, gpu], steps: [{run: x}]}\n  b: {runs-on: linux, steps: [{run: x}]}")
        .await;
    add_runner(site.store(), r#"{"labels":["linux"]}"#).await;
    assert_eq!(site.runs.fail_unsupported(Duration::from_mins(30)).await.unwrap().taken, 0);
    assert_eq!(site.runs.fail_unsupported(Duration::ZERO).await.unwrap().taken, 1);
    let view = site.view(run).await;
    let job = |name: &str| view.jobs.iter().find(|job| job.name == name).unwrap();
    assert_eq!(job("a").state, LegState::Done(Failure));
    let note = job("a").note.clone().unwrap();
    assert_eq!(note, "no runner could ever take it: no runner has the label `gpu`");
    assert_eq!(job("b").state, LegState::Queued);
}
on_both!(a_job_that_no_runner_could_ever_take_fails_after_its_grace);

async fn add_runner(store: &Store, capabilities: &'static str) {
    let work = async move |tx: &mut Tx<'_>| {
        let sql = "INSERT INTO pools (name, created_at) VALUES ('default', 0) RETURNING id";
        let pool: i64 = tx.one("pool", sql, &[]).await?.get(0)?;
        let sql = "INSERT INTO runners (pool_id, name, capabilities, os, architecture, version,
                       protocol, credential, registered_at, last_seen_at)
                   VALUES ($1, 'one', $2, 'linux', 'x64', '1', 1, $3, 0, $4)";
        let values = [pool.into(), capabilities.into(), vec![0_u8].into(), tx.now().into()];
        tx.execute(sql, &values).await
    };
    store.write(work).await.unwrap();
}

/// P15
async fn a_declared_retry_waits_for_its_timer(store: Store) {
    let site = Site::new(store).await;
    let mut plan = (*plan(&format!("on: push\njobs:\n{ONE}"))).clone();
    plan.workflows[0].jobs[0].retry = Some(kiln_core::plan::Retry {
        max: 1,
        backoff_seconds: 3600,
        on: kiln_core::plan::RetryOn::Failure,
    });
    let run = site.runs.create(site.push(plan.into())).await.unwrap().run();
    let job = site.claim(1, 1).await.remove(0);
    site.finish(&job, 1, Failure).await;
    assert!(matches!(site.view(run).await.jobs[0].state, LegState::Waiting(_)));
    assert_eq!(site.runs.wake().await.unwrap().taken, 0);
    let earlier = async |tx: &mut Tx<'_>| {
        tx.execute("UPDATE timers SET at = at - 3700000", &[]).await?;
        like_others(tx).await?;
        tx.execute("UPDATE jobs SET wake_at = wake_at - 3700000", &[]).await
    };
    site.store().write(earlier).await.unwrap();
    assert_eq!(site.runs.wake().await.unwrap().taken, 1);
    assert_eq!(site.runs.wake().await.unwrap().taken, 0);
    let again = site.claim(2, 1).await.remove(0);
    assert_eq!((again.job, again.claim), (job.job, 2));
    site.finish(&again, 2, Failure).await;
    assert_eq!(site.view(run).await.state, RunState::Done(Failure));
    let claims = async |tx: &mut Tx<'_>| {
        let row = tx.one("claim", "SELECT outcome, runner_id FROM job_claims", &[]).await?;
        Ok((row.get::<String>(0)?, row.get::<i64>(1)?))
    };
    assert_eq!(site.store().read(claims).await.unwrap(), ("retried".to_owned(), 1));
}
on_both!(a_declared_retry_waits_for_its_timer);

/// S9
async fn a_concurrency_group_lets_one_run_in_after_the_other(store: Store) {
    let site = Site::new(store).await;
    let plan = plan(&format!("on: push\nconcurrency: Deploy\njobs:\n{ONE}"));
    let first = site.runs.create(site.push(plan.clone())).await.unwrap().run();
    let second = site.runs.create(site.push(plan.clone())).await.unwrap().run();
    let third = site.runs.create(site.push(plan)).await.unwrap().run();
    assert_eq!(site.view(second).await.state, RunState::Gated("deploy".to_owned()));
    while site.runs.carry_out().await.unwrap() > 0 {}
    // The newest replaces the one that waited.
    assert_eq!(site.view(second).await.state, RunState::Done(Conclusion::Cancelled));
    let job = site.claim(1, 5).await;
    assert_eq!(job.len(), 1);
    assert_eq!(job[0].run, first);
    site.finish(&job[0], 1, Success).await;
    while site.runs.carry_out().await.unwrap() > 0 {}
    assert_eq!(site.view(third).await.state, RunState::Active);
    let job = site.claim(1, 5).await.remove(0);
    assert_eq!(job.run, third);
    assert_eq!(site.say(&job, 1, Word::Started).await, Answer::Accepted);
    site.finish(&job, 1, Success).await;
    let left = async |tx: &mut Tx<'_>| {
        tx.one("count", "SELECT count(*) FROM groups", &[]).await?.get::<i64>(0)
    };
    assert_eq!(site.store().read(left).await.unwrap(), 0);
}
on_both!(a_concurrency_group_lets_one_run_in_after_the_other);

/// S6: what cannot be given back must not keep the reaper from the rest.
async fn one_damaged_run_does_not_stop_the_reaper(store: Store) {
    let site = Site::new(store).await;
    let bad = site.run(TWO_KINDS).await;
    let good = site.run(ONE).await;
    assert_eq!(site.claim(1, 5).await.len(), 2);
    let damage = async move |tx: &mut Tx<'_>| {
        tx.execute("UPDATE leases SET expires_at = 1", &[]).await?;
        like_others(tx).await?;
        let sql = "UPDATE run_nodes SET job = 77 WHERE run_id = $1";
        tx.execute(sql, &[bad.0.into()]).await
    };
    site.store().write(damage).await.unwrap();
    let chore = site.runs.reap().await.unwrap();
    assert_eq!((chore.taken, chore.failed.len()), (2, 1), "{chore:?}");
    assert_eq!(site.view(good).await.jobs[0].state, LegState::Queued);
    assert_eq!(site.runs.reap().await.unwrap().taken, 0, "the other one is put off");
}
on_both!(one_damaged_run_does_not_stop_the_reaper);

const TWO_KINDS: &str = "
  a: {runs-on: linux, steps: [{run: 'true'}]}
  b: {needs: a, runs-on: linux, steps: [{run: 'true'}]}
";

async fn a_text_with_the_character_0_is_kept_without_it(store: Store) {
    let site = Site::new(store).await;
    let run = site.run(ONE).await;
    let job = site.claim(1, 1).await.remove(0);
    let outputs = vec![("a".to_owned(), "b\0c".to_owned())];
    let word = Word::Finished { conclusion: Success, outputs };
    assert_eq!(site.say(&job, 1, word).await, Answer::Accepted);
    assert_eq!(site.view(run).await.jobs[0].outputs[0].1, "b\u{fffd}c");
}
on_both!(a_text_with_the_character_0_is_kept_without_it);

/// C10: a job that starts and ends in one transaction is heard of in full.
async fn a_start_and_an_end_in_one_batch_are_both_told(store: Store) {
    let site = Site::new(store).await;
    let run = site.run(ONE).await;
    let job = site.claim(1, 1).await.remove(0);
    let news = |word| {
        let (job, claim) = (job.job, Some(job.claim));
        let runner = Some(kiln_core::id::RunnerId(1));
        kiln_store::runs::Happened::Job(kiln_store::runs::JobNews {
            job,
            claim,
            runner,
            word,
            heard: None,
        })
    };
    let finished = Word::Finished { conclusion: Success, outputs: Vec::new() };
    let answers = site.runs.happened(vec![news(Word::Started), news(finished)]).await.unwrap();
    assert_eq!(answers, [Answer::Accepted, Answer::Accepted]);
    assert!(site.view(run).await.started.is_some());
    let kinds = async move |tx: &mut Tx<'_>| {
        let rows = tx.rows("SELECT kind FROM events ORDER BY id", &[]).await?;
        rows.iter().map(|row| row.get::<String>(0)).collect::<Result<Vec<_>, _>>()
    };
    let kinds = site.store().read(kinds).await.unwrap();
    let expected = [
        "run_created",
        "job_queued",
        "job_claimed",
        "run_started",
        "job_started",
        "job_done",
        "run_done",
    ];
    assert_eq!(kinds, expected);
}
on_both!(a_start_and_an_end_in_one_batch_are_both_told);
