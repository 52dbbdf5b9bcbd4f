//! The auditor finds nothing in a healthy database, and each fault in one that is not.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kiln_store::inspect::{Report, Rule, inspect, inspect_in};
use kiln_store::{Refusal, Sql, Store, StoreError, Tx};
use kiln_testkit::load::{Load, drain, open_site};
use kiln_testkit::runs::Site;

/// Runs that stand still in every way there is: queued, held, waiting for time, group or need, done.
async fn still_life(store: Store) -> Site {
    let site = open_site(store).await;
    let mut plan = kiln_core::plan::Plan::clone(&kiln_testkit::runs::plan(
        "on: push
concurrency: {group: deploy, queue: max}
jobs:
  held: {runs-on: a, steps: [{run: x}]}
  waits: {needs: held, runs-on: a, steps: [{run: x}]}
  legs: {runs-on: b, strategy: {max-parallel: 1, matrix: {n: [1, 2]}}, steps: [{run: x}]}
  retried: {runs-on: a, steps: [{run: x}]}
  queued: {runs-on: a, steps: [{run: x}]}
",
    ));
    plan.workflows[0].jobs[3].retry = Some(kiln_core::plan::Retry {
        max: 1,
        backoff_seconds: 3_600,
        on: kiln_core::plan::RetryOn::Any,
    });
    let mut ended = site.push(kiln_testkit::runs::plan(
        "on: push\njobs:\n  only: {runs-on: c, steps: [{run: x}]}\n",
    ));
    ended.once = vec![("the first".to_owned(), Duration::from_hours(1))];
    site.runs.create(ended).await.unwrap();
    let only = site.claim(1, 1).await.remove(0);
    site.say(&only, 1, kiln_store::runs::Word::Lost { reason: "power".into() }).await;
    let only = site.claim(1, 1).await.remove(0);
    site.finish(&only, 1, kiln_core::run::Conclusion::Failure).await;
    site.runs
        .again(
            kiln_testkit::runs::SYSTEM,
            &kiln_testkit::runs::somebody(),
            only.run,
            kiln_core::run::Again::All,
        )
        .await
        .unwrap();
    let only = site.claim(1, 1).await.remove(0);
    site.finish(&only, 1, kiln_core::run::Conclusion::Success).await;
    let plan = Arc::new(plan);
    for _ in 0..2 {
        site.runs.create(site.push(plan.clone())).await.unwrap();
    }
    for job in site.claim(2, 3).await {
        site.say(&job, 2, kiln_store::runs::Word::Started).await;
        if job.name == "retried" {
            let conclusion = kiln_core::run::Conclusion::Failure;
            let word = kiln_store::runs::Word::Finished { conclusion, outputs: Vec::new() };
            site.say(&job, 2, word).await;
        }
    }
    site
}

/// What a database looks like after a statement, which is then taken back.
async fn after(store: &Store, harm: Sql) -> Report {
    let seen = Arc::new(std::sync::Mutex::new(None));
    let found = seen.clone();
    let work = async move |tx: &mut Tx<'_>| -> Result<(), StoreError> {
        let changed = tx.execute(harm, &[]).await?;
        assert!(changed > 0, "this harms nothing: {harm:?}");
        *found.lock().unwrap() = Some(inspect_in(tx).await?);
        Err(Refusal::Conflict("only to look".to_owned()).into())
    };
    let undone = store.write(work).await.unwrap_err();
    assert!(matches!(undone, StoreError::Refused(_)), "{harm:?}: {undone}");
    seen.lock().unwrap().take().unwrap()
}

const HARM: &[(Rule, &str)] = &[
    (Rule::Words, "UPDATE jobs SET state = 'asleep' WHERE state = 'running'"),
    (Rule::Words, "UPDATE run_nodes SET conclusion = 'success' WHERE state = 'pending'"),
    (Rule::Orphan, "DELETE FROM run_attempts WHERE run_id = 2"),
    (Rule::Orphan, "DELETE FROM runs WHERE id = 2"),
    (Rule::Orphan, "UPDATE jobs SET node = 77 WHERE state = 'running'"),
    (Rule::Counters, "UPDATE run_attempts SET legs = 1 WHERE run_id = 2"),
    (Rule::Counters, "UPDATE run_attempts SET jobs_made = 1 WHERE run_id = 2"),
    (Rule::Counters, "UPDATE jobs SET id = id + 500 WHERE run_id = 2"),
    (Rule::Document, "DELETE FROM documents WHERE hash IN (SELECT plan FROM run_attempts)"),
    (Rule::Document, "UPDATE documents SET body = 'torn'"),
    (Rule::RunRow, "UPDATE runs SET status = 'completed' WHERE id = 2"),
    (Rule::RunRow, "UPDATE runs SET conclusion = 'failure' WHERE id = 1"),
    (Rule::RunRow, "DELETE FROM run_attempts WHERE run_id = 1 AND attempt = 1"),
    (Rule::RunNumber, "UPDATE runs SET run_number = 1"),
    (Rule::RunNumber, "UPDATE workflows SET runs = 1"),
    (Rule::RunState, "UPDATE run_attempts SET state = 'created' WHERE run_id = 2"),
    (Rule::RunState, "UPDATE run_attempts SET conclusion = 'failure' WHERE run_id = 1 AND attempt = 2"),
    (Rule::Scope, "UPDATE run_scopes SET open = open - 1 WHERE run_id = 2"),
    (Rule::Scope, "UPDATE run_scopes SET failed = 1 WHERE run_id = 2"),
    (Rule::Scope, "DELETE FROM run_nodes WHERE run_id = 2 AND number = 1"),
    (Rule::Needs, "UPDATE run_nodes SET needs_remaining = 2 WHERE state = 'pending'"),
    (Rule::Needs, "UPDATE run_nodes SET above_failed = 1 WHERE state = 'pending'"),
    (Rule::Legs, "UPDATE run_nodes SET open_legs = 1 WHERE leg_count = 2"),
    (Rule::Legs, "UPDATE run_nodes SET succeeded = 1 WHERE leg_count = 2"),
    (Rule::Legs, "UPDATE run_nodes SET conclusion = 'skipped' WHERE run_id = 1"),
    (Rule::Legs, "DELETE FROM jobs WHERE state = 'held_back'"),
    (Rule::QueuePlace, "UPDATE jobs SET state = 'held_back' WHERE state = 'queued'"),
    (Rule::QueuePlace, "UPDATE queue SET number = 99"),
    (Rule::QueuedJob, "DELETE FROM queue"),
    (Rule::QueuedJob, "UPDATE jobs SET queue_key = queue_key + 1 WHERE state = 'queued'"),
    (Rule::Lane, "UPDATE lanes SET active = 0"),
    (Rule::Lane, "UPDATE lanes SET floor = floor + 1000000"),
    (Rule::Lease, "UPDATE leases SET claim = claim + 1"),
    (Rule::Lease, "UPDATE leases SET runner_id = 9"),
    (Rule::Lease, "UPDATE leases SET job_id = job_id + 99 * 1048576"),
    (Rule::HeldJob, "DELETE FROM leases"),
    (Rule::Timer, "UPDATE timers SET number = 0"),
    (Rule::Timer, "UPDATE timers SET at = at + 1"),
    (Rule::WaitingJob, "DELETE FROM timers"),
    (Rule::Group, "UPDATE groups SET members = '[[2,1,null],[3,1,null],[9,1,null]]'"),
    (Rule::Group, "UPDATE groups SET members = '[[2,1,null],[3,1,null],[2,1,null]]'"),
    (Rule::Group, "UPDATE groups SET members = '[[1,1,null],[2,1,null],[3,1,null]]'"),
    (Rule::Group, "UPDATE groups SET members = '[[3,1,null],[2,1,null]]'"),
    (Rule::Membership, "DELETE FROM groups"),
    (Rule::Membership, "UPDATE groups SET members = '[[2,1,null]]'"),
    (Rule::Stuck, "UPDATE groups SET members = '[[3,1,null]]'"),
    (Rule::Stuck, "UPDATE jobs SET state = 'held_back' WHERE run_id = 2"),
    (Rule::Stuck, "UPDATE run_nodes SET max_parallel = 2 WHERE leg_count = 2"),
    (Rule::OrgLoad, "UPDATE org_loads SET running = running + 1"),
    (Rule::RunEvents, "DELETE FROM events WHERE kind = 'run_done'"),
    (Rule::RunEvents, "DELETE FROM events WHERE kind = 'run_created'"),
    (
        Rule::RunEvents,
        "INSERT INTO events (run_id, org_id, repo_id, attempt, kind, payload, at)
         SELECT run_id, org_id, repo_id, attempt, kind, payload, at FROM events WHERE kind = 'run_done'",
    ),
    (Rule::JobEvents, "DELETE FROM events WHERE kind = 'job_done'"),
    (
        Rule::JobEvents,
        "INSERT INTO events (run_id, org_id, repo_id, attempt, job_id, kind, payload, at)
         SELECT run_id, org_id, repo_id, attempt, job_id, kind, payload, at FROM events
         WHERE kind = 'job_done'",
    ),
    (Rule::Claim, "DELETE FROM events WHERE kind = 'job_claimed'"),
    (
        Rule::Claim,
        "INSERT INTO events (run_id, org_id, repo_id, attempt, job_id, kind, payload, at)
         SELECT run_id, org_id, repo_id, attempt, job_id, kind, payload, at FROM events
         WHERE kind = 'job_claimed'",
    ),
    (Rule::Claim, "UPDATE job_claims SET claim = 7"),
    (
        Rule::Task,
        "INSERT INTO outbox (kind, run_id, payload, due_at, created_at)
         VALUES ('admit', 99, '{\"admit\":{\"leg\":null}}', 0, 0)",
    ),
    (
        Rule::Task,
        "INSERT INTO outbox (kind, payload, due_at, created_at) VALUES ('continue', '{}', 0, 0)",
    ),
    (
        Rule::Task,
        "INSERT INTO outbox (kind, run_id, payload, due_at, created_at)
         VALUES ('continue', 2, 'torn', 0, 0)",
    ),
    (Rule::Trigger, "UPDATE trigger_keys SET run_id = 0"),
];

async fn each_fault_is_found_and_named(store: Store) {
    let site = still_life(store).await;
    let healthy = inspect(site.store()).await.unwrap();
    assert_eq!(healthy.findings, []);
    assert_eq!((healthy.runs, healthy.open_runs, healthy.leases, healthy.groups), (3, 2, 2, 1));
    assert!(healthy.queued > 0);
    let mut proven = BTreeSet::new();
    for (rule, harm) in HARM {
        let report = after(site.store(), (*harm).into()).await;
        let found = report.findings.iter().any(|finding| finding.rule == *rule);
        assert!(found, "{rule:?} was not found after {harm}: {:#?}", report.findings);
        proven.insert(*rule);
    }
    // SQLite itself keeps two jobs from having the same id.
    let twice = "UPDATE jobs SET id = 2 * 1048576 WHERE run_id = 2";
    let work = async move |tx: &mut Tx<'_>| Ok(tx.is_postgres().then_some(twice));
    if let Some(twice) = site.store().read(work).await.unwrap() {
        let report = after(site.store(), twice.into()).await;
        assert!(report.findings.iter().any(|finding| finding.rule == Rule::Counters));
    }
    assert_eq!(proven.len(), 26, "a rule without harm proves nothing");
    assert!(inspect(site.store()).await.unwrap().is_clean(), "all harm was taken back");
}
on_both!(each_fault_is_found_and_named);

/// S3, S4, S8, S9, S11
async fn a_database_under_load_has_no_faults_at_any_moment(store: Store) {
    let site = open_site(store).await;
    let load = Load::start(site.clone(), 7, Arc::new(|_| ()));
    let mut seen = 0;
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let report = inspect(site.store()).await.unwrap();
        assert_eq!(report.findings, [], "after {} runs", report.runs);
        seen = report.runs;
    }
    load.end().await;
    assert!(seen > 5, "only {seen} runs in all this time");
    drain(&site).await;
    let report = inspect(site.store()).await.unwrap();
    assert_eq!(report.findings, []);
    assert_eq!((report.open_runs, report.queued, report.leases, report.groups), (0, 0, 0, 0));
}
on_both!(a_database_under_load_has_no_faults_at_any_moment);

/// P10: what lists show is the new attempt, also when it ends as soon as it begins.
async fn a_re_run_that_ends_at_once_is_shown_as_it_ended(store: Store) {
    let site = Site::new(store).await;
    let run =
        site.run("  a: {if: github.run_attempt == '1', runs-on: linux, steps: [{run: x}]}").await;
    let job = site.claim(1, 1).await.remove(0);
    site.finish(&job, 1, kiln_core::run::Conclusion::Failure).await;
    site.runs
        .again(
            kiln_testkit::runs::SYSTEM,
            &kiln_testkit::runs::somebody(),
            run,
            kiln_core::run::Again::All,
        )
        .await
        .unwrap();
    let list = async |tx: &mut Tx<'_>| {
        let row = tx.one("run", "SELECT attempt, conclusion FROM runs", &[]).await?;
        Ok((row.get::<u32>(0)?, row.get::<String>(1)?))
    };
    assert_eq!(site.store().read(list).await.unwrap(), (2, "skipped".to_owned()));
    assert_eq!(inspect(site.store()).await.unwrap().findings, []);
}
on_both!(a_re_run_that_ends_at_once_is_shown_as_it_ended);

#[test]
fn a_report_is_data() {
    let mut report = Report { runs: 2, ..Report::default() };
    report.findings.push(kiln_store::inspect::Finding {
        rule: Rule::QueuedJob,
        subject: "run 1".to_owned(),
        text: "gone".to_owned(),
    });
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["findings"][0]["rule"], "queued_job");
    assert_eq!((json["runs"].clone(), json["left_off"].clone()), (2.into(), 0.into()));
}
