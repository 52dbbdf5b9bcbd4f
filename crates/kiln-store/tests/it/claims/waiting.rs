//! What is said about jobs that wait.

use std::collections::BTreeSet;
use std::time::Duration;

use kiln_core::id::{JobId, OrgId, RunId, RunnerId};
use kiln_core::queue::Policy;
use kiln_core::run::Conclusion;
use kiln_store::claims::{self, ShownBefore, WaitingJob, Waits};
use kiln_store::{Scope, Store, Tx, Value};
use kiln_testkit::queue::Depth;
use kiln_testkit::runs::{Beside, SYSTEM, Site, add_repository, plan, plan_with};

use super::prefer::let_wait;
use super::{asking, claim, execute};

const ONE: &str = "on: push\njobs:\n  a: {runs-on: linux, steps: [{run: x}]}\n";

async fn waiting(store: &Store, scope: Scope, waits: Waits) -> Vec<WaitingJob> {
    let read =
        async move |tx: &mut Tx<'_>| claims::waiting(tx, scope, Policy::Fair, &waits, 100).await;
    store.read(read).await.unwrap()
}

async fn all(store: &Store) -> Vec<WaitingJob> {
    waiting(store, SYSTEM, Waits::default()).await
}

async fn why(store: &Store, job: JobId) -> Option<WaitingJob> {
    let read = async move |tx: &mut Tx<'_>| claims::why(tx, SYSTEM, Policy::Fair, job, None).await;
    store.read(read).await.unwrap()
}

/// A runner that is there, in a pool of its own.
async fn add_runner(store: &Store, name: &'static str, org: Option<OrgId>, has: &'static str) {
    let work = async move |tx: &mut Tx<'_>| {
        let sql = "INSERT INTO pools (name, org_id, created_at) VALUES ($1, $2, 0) RETURNING id";
        let pool: i64 = tx.one("pool", sql, &[name.into(), org.into()]).await?.get(0)?;
        let sql = "INSERT INTO runners (pool_id, org_id, name, capabilities, os, architecture,
                       version, protocol, credential, registered_at, last_seen_at)
                   VALUES ($1, $2, $3, $4, 'linux', 'x64', '1', 1, $5, 0, $6)";
        let key = vec![0_u8].into();
        let values = [pool.into(), org.into(), name.into(), has.into(), key, tx.now().into()];
        tx.execute(sql, &values).await
    };
    store.write(work).await.unwrap();
}

async fn runner_id(store: &Store, name: &'static str) -> RunnerId {
    let sql = "SELECT id FROM runners WHERE name = $1";
    RunnerId(super::number(store, sql, vec![name.into()]).await)
}

/// The reason of the only job that waits.
async fn reason(store: &Store) -> String {
    let jobs = all(store).await;
    assert_eq!(jobs.len(), 1, "{jobs:#?}");
    jobs[0].reason.clone()
}

const LINUX: &str = r#"{"labels":["linux"]}"#;

/// S16, S22
async fn every_job_that_waits_has_a_reason(store: Store) {
    let site = Site::new(store).await;
    let store = site.store();
    let run = site.run("  a: {runs-on: [linux, gpu], steps: [{run: x}]}").await;
    assert_eq!(reason(store).await, "no runner is there");
    add_runner(store, "one", None, LINUX).await;
    assert_eq!(reason(store).await, "no runner has the label `gpu`");
    add_runner(store, "two", None, r#"{"labels":["linux","gpu"]}"#).await;
    let job = all(store).await.remove(0);
    assert_eq!((job.reason.as_str(), job.position), ("first in line", 1));
    assert_eq!((job.run, job.repo_name.as_str(), job.name.as_str()), (run, "acme/app", "a"));
    assert_eq!((job.requirements.as_str(), job.runners.join(" ")), ("gpu, linux", "two".into()));
    assert_eq!(job.estimate, Some(Duration::ZERO), "a runner is free");
    execute(store, "UPDATE runners SET last_seen_at = 0 WHERE name = 'two'", vec![]).await;
    assert_eq!(reason(store).await, "the only runner that could take it is offline");
    for (sql, expect) in [
        (
            "INSERT INTO org_loads (org_id, running, job_limit) SELECT id, 3, 3 FROM organizations",
            "the organization is at its limit of 3 jobs",
        ),
        ("UPDATE queues SET paused = 'ann: new disks'", "its queue is paused (ann: new disks)"),
        (
            "UPDATE repositories SET paused = 'bob: a move'",
            "the repository is paused (bob: a move)",
        ),
    ] {
        execute(store, sql, vec![]).await;
        let job = why(store, job.job).await.unwrap();
        assert_eq!((job.reason.as_str(), job.estimate, job.position), (expect, None, 1));
    }
    let waits = Waits { server_paused: Some("cy: upgrade".to_owned()), ..Waits::default() };
    let jobs = waiting(store, SYSTEM, waits).await;
    assert_eq!(jobs[0].reason, "the server is paused (cy: upgrade)");
}
on_both!(every_job_that_waits_has_a_reason);

/// S16, S20
async fn a_job_says_until_when_it_waits_for_preferred_runners(store: Store) {
    let site = Site::new(store).await;
    let beside = Beside("jobs:\n  a:\n    prefer: [{labels: warm, after: 60}]\n".to_owned());
    site.runs.create(site.push(plan_with(ONE, &beside))).await.unwrap();
    add_runner(site.store(), "cold", None, LINUX).await;
    let job = all(site.store()).await.remove(0);
    assert!(job.reason.starts_with("waits for a preferred runner until "), "{}", job.reason);
    assert!(job.estimate.is_some_and(|left| left <= Duration::from_mins(1)), "{job:?}");
    assert_eq!(job.requirements, "linux; prefers warm");
    let_wait(site.store(), Duration::from_mins(1)).await;
    assert_eq!(reason(site.store()).await, "first in line");
}
on_both!(a_job_says_until_when_it_waits_for_preferred_runners);

/// S16
async fn positions_and_estimates_follow_the_real_choice(store: Store) {
    let site = Site::new(store).await;
    let store = site.store();
    let (org, repo, workflow) = add_repository(store, "other", "app").await;
    add_runner(store, "one", None, LINUX).await;
    let mut runs: Vec<RunId> = Vec::new();
    for _ in 0..3 {
        runs.push(site.runs.create(site.push(plan(ONE))).await.unwrap().run());
    }
    let mut other = site.push(plan(ONE));
    (other.org, other.repo, other.workflow) = (org, repo, workflow);
    runs.push(site.runs.create(other).await.unwrap().run());
    let order = async || -> Vec<RunId> { all(store).await.iter().map(|job| job.run).collect() };
    assert_eq!(order().await, [runs[0], runs[3], runs[1], runs[2]], "each organization in turn");
    let jobs = all(store).await;
    let positions: Vec<u64> = jobs.iter().map(|job| job.position).collect();
    assert_eq!(positions, [1, 2, 3, 4]);
    assert_eq!(jobs[1].reason, "1 job is before it");
    let estimates: Vec<_> =
        jobs.iter().map(|job| job.estimate.map(|left| left.as_secs())).collect();
    assert_eq!(estimates, [Some(0), None, None, None], "nobody knows how long such jobs take");
    for (org, repo, typical) in [(site.org, site.repo, 100.0), (org, repo, 30.0)] {
        let sql = "INSERT INTO usage (org_id, repo_id, consumed, hour, typical)
                   VALUES ($1, $2, 0, 0, $3)";
        execute(store, sql, vec![org.into(), repo.into(), Value::from(typical)]).await;
    }
    let estimates = async || -> Vec<u64> {
        let jobs = all(store).await;
        jobs.iter().map(|job| job.estimate.unwrap().as_secs()).collect()
    };
    assert_eq!(order().await, [runs[0], runs[3], runs[1], runs[2]]);
    assert_eq!(estimates().await, [0, 100, 130, 230]);
    // One claims the first: the others come nearer, and wait for the end of that job.
    let runner = runner_id(store, "one").await;
    let queues = site.queues().await;
    let claimed = claim(store, asking(runner.0, &queues, 1, "n")).await.remove(0);
    let jobs = all(store).await;
    let told: Vec<_> = jobs.iter().map(|job| (job.run, job.position, &*job.reason)).collect();
    let busy = "the only runner that could take it is busy";
    assert_eq!(told, [(runs[3], 1, busy), (runs[1], 2, busy), (runs[2], 3, busy)]);
    let left = estimates().await;
    assert!((90..=100).contains(&left[0]) && (120..=130).contains(&left[1]), "{left:?}");
    assert_eq!(why(store, claimed.job).await, None, "it does not wait any more");
    site.finish(&claimed, runner.0, Conclusion::Success).await;
    assert_eq!(all(store).await[0].reason, "first in line");
}
on_both!(positions_and_estimates_follow_the_real_choice);

/// S16
async fn an_organization_sees_its_own_jobs_and_runners_at_their_true_place(store: Store) {
    let site = Site::new(store).await;
    let store = site.store();
    let (org, repo, workflow) = add_repository(store, "other", "app").await;
    let first = site.run("  a: {runs-on: linux, steps: [{run: x}]}").await;
    let mut other = site.push(plan(ONE));
    (other.org, other.repo, other.workflow) = (org, repo, workflow);
    let second = site.runs.create(other).await.unwrap().run();
    add_runner(store, "shared", None, LINUX).await;
    add_runner(store, "theirs", Some(site.org), LINUX).await;
    add_runner(store, "own", Some(org), LINUX).await;
    let jobs = waiting(store, Scope::Org(org), Waits::default()).await;
    assert_eq!(jobs.iter().map(|job| (job.run, job.position)).collect::<Vec<_>>(), [(second, 2)]);
    let mut runners = jobs[0].runners.clone();
    runners.sort();
    assert_eq!(runners, ["own", "pool shared"]);
    let of_run = |run| Waits { run: Some(run), ..Waits::default() };
    assert_eq!(waiting(store, Scope::Org(org), of_run(first)).await, []);
    assert_eq!(waiting(store, Scope::Org(org), of_run(second)).await, jobs);
    let of_repo = Waits { repo: Some(repo), ..Waits::default() };
    let seen = waiting(store, SYSTEM, of_repo).await;
    assert_eq!(seen.iter().map(|job| job.run).collect::<Vec<_>>(), [second]);
    // Runners of its own alone: jobs of others are not before it.
    execute(store, "UPDATE runners SET draining = 1 WHERE name = 'shared'", vec![]).await;
    let jobs = waiting(store, Scope::Org(org), Waits::default()).await;
    assert_eq!((jobs[0].position, jobs[0].runners.join(" ")), (1, "own".to_owned()));
}
on_both!(an_organization_sees_its_own_jobs_and_runners_at_their_true_place);

/// S16: what is behind the first thousand is counted, and no more is read than a page needs.
async fn a_long_queue_is_explained_from_its_beginning(store: Store) {
    store.migrate().await.unwrap();
    let mut depth = Depth::new(&store, 2, 2).await;
    depth.fill(&store, 20_000).await;
    add_runner(&store, "one", None, "{}").await;
    let jobs = all(&store).await;
    let positions: Vec<u64> = jobs.iter().map(|job| job.position).collect();
    assert_eq!(positions, (1..=100).collect::<Vec<u64>>());
    // One in the middle of its lane.
    let sql = "SELECT job_id FROM queue WHERE lane_id = (SELECT min(lane_id) FROM queue)
               ORDER BY key, job_id LIMIT 1 OFFSET 3000";
    let deep = JobId(super::number(&store, sql, vec![]).await);
    let job = why(&store, deep).await.unwrap();
    assert!((3_000..=20_000).contains(&job.position), "{}", job.position);
    assert_eq!(job.reason, format!("{} jobs are before it", job.position - 1));
}
on_both!(a_long_queue_is_explained_from_its_beginning);

/// S16: a long queue can be read to its end, page by page, also while its front is handed out.
async fn a_long_queue_is_read_page_by_page(store: Store) {
    store.migrate().await.unwrap();
    let mut depth = Depth::new(&store, 1, 2).await;
    depth.fill(&store, 1_430).await;
    add_runner(&store, "one", None, "{}").await;
    let page = async |after: Option<ShownBefore>| {
        let waits = Waits { after: after.clone(), ..Waits::default() };
        let jobs = waiting(&store, SYSTEM, waits).await;
        let mut jobs = match after {
            Some(after) => claims::behind(jobs, &after),
            None => jobs,
        };
        jobs.truncate(100);
        jobs
    };
    let end = |jobs: &[WaitingJob]| {
        let last = jobs.last()?.rank();
        Some(ShownBefore { last, beside: vec![jobs[jobs.len() / 2].job] })
    };
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let jobs = page(after).await;
        after = end(&jobs);
        if after.is_none() {
            break;
        }
        seen.extend(jobs.iter().map(|job| job.job));
    }
    assert_eq!(seen.len(), 1_430);
    assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), 1_430, "none comes twice");
    let total = async |scope, repo| {
        let read = async move |tx: &mut Tx<'_>| claims::waiting_total(tx, scope, repo).await;
        store.read(read).await.unwrap()
    };
    assert_eq!(total(SYSTEM, None).await, 1_430);
    let (other, repo, _) = add_repository(&store, "other", "app").await;
    assert_eq!((total(Scope::Org(other), None).await, total(SYSTEM, Some(repo)).await), (0, 0));
    // Those before it move up when some are handed out; what follows the last one stays what follows it.
    let edge = end(&page(None).await);
    let taken = |count: usize| {
        let list: Vec<String> = seen[..count].iter().map(|job| job.0.to_string()).collect();
        format!("DELETE FROM queue WHERE job_id IN ({})", list.join(","))
    };
    let sql: &'static str = taken(40).leak();
    execute(&store, sql, vec![]).await;
    assert_eq!(page(edge.clone()).await[0].job, seen[100]);
    // When that one is gone itself, those beside it lead on: what still waits of the piece behind them comes again.
    let gone = format!("DELETE FROM queue WHERE job_id IN ({})", seen[99].0).leak();
    execute(&store, gone, vec![]).await;
    assert_eq!(page(edge.clone()).await[0].job, seen[51]);
    // When all of them are gone, nothing is passed over.
    let sql: &'static str = taken(130).leak();
    execute(&store, sql, vec![]).await;
    assert_eq!(page(edge).await[0].job, seen[130]);
}
on_both!(a_long_queue_is_read_page_by_page);
