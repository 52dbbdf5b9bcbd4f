//! Runners that a job prefers, runners that know its repository, and both policies through the traffic.

use std::sync::Arc;
use std::time::Duration;

use kiln_core::id::{JobId, RunnerId};
use kiln_core::queue::{Capabilities, Policy};
use kiln_store::claims::{self, Asking, Claimed, Given, Serving};
use kiln_store::{Store, Traffic, Tx};
use kiln_testkit::database::Database;
use kiln_testkit::queue::Depth;
use kiln_testkit::runs::{Beside, Site, add_repository, plan, plan_with};
use tokio::sync::Semaphore;

use super::{asking, claim_as, execute, jobs_of, number};

const ONE: &str = "on: push\njobs:\n  a: {runs-on: linux, steps: [{run: x}]}\n";

async fn serving(store: &Store, capabilities: &str) -> Vec<Serving> {
    let queues = store.read(async |tx| claims::queues(tx).await).await.unwrap();
    claims::serving(&queues, &Capabilities::parse(capabilities).unwrap())
}

async fn ask(store: &Store, asking: Asking) -> Given {
    let work = async move |tx: &mut Tx<'_>| {
        claims::claim(tx, Policy::Fair, std::slice::from_ref(&asking)).await
    };
    store.write(work).await.unwrap()
}

/// All that waits has waited for so much longer.
pub(super) async fn let_wait(store: &Store, by: Duration) {
    let by = i64::try_from(by.as_millis()).unwrap();
    for sql in [
        "UPDATE lanes SET floor = floor - $1",
        "UPDATE queue SET key = key - $1",
        "UPDATE jobs SET queue_key = queue_key - $1, queued_at = queued_at - $1
         WHERE state = 'queued'",
    ] {
        execute(store, sql, vec![by.into()]).await;
    }
}

/// S2, S20
async fn a_job_waits_for_the_runners_it_prefers(store: Store) {
    let site = Site::new(store).await;
    let store = site.store();
    let beside = "jobs:\n  a:\n    requires: {tools: docker, cores: 2}\n    \
                  prefer: [{labels: warm, after: 40}, {labels: spot, after: 20}]\n";
    let plan = plan_with(ONE, &Beside(beside.to_owned()));
    site.runs.create(site.push(plan.clone())).await.unwrap();
    site.runs.create(site.push(plan)).await.unwrap();
    let has = |labels: &str, cores: u32| {
        format!(r#"{{"labels":["linux"{labels}],"tools":["docker"],"cores":{cores}}}"#)
    };
    assert_eq!(serving(store, &has("", 1)).await, [], "it is too small");
    let (warm, spot, any) = (has(r#","warm""#, 2), has(r#","spot""#, 4), has("", 2));
    let delay = async |has: &str| serving(store, has).await[0].delay.as_secs();
    assert_eq!((delay(&warm).await, delay(&spot).await, delay(&any).await), (0, 40, 60));
    let anybody = Asking::new(RunnerId(1), serving(store, &any).await, 5, "any");
    let given = ask(store, anybody.clone()).await;
    assert_eq!((jobs_of(&given.jobs[0]), given.passed_over), (Vec::new(), false));
    let sql = "SELECT min(queued_at) FROM jobs WHERE state = 'queued'";
    let first = number(store, sql, vec![]).await.unsigned_abs();
    assert_eq!(given.again[0].map(|at| at.0), Some(first + 60_000));
    let preferred = Asking::new(RunnerId(2), serving(store, &warm).await, 1, "warm");
    let given = ask(store, preferred).await;
    assert_eq!((given.jobs[0].len(), given.again[0]), (1, None));
    let_wait(store, Duration::from_secs(41)).await;
    assert_eq!(ask(store, anybody.clone()).await.jobs[0], []);
    let second = Asking::new(RunnerId(3), serving(store, &spot).await, 5, "spot");
    let given = ask(store, second).await;
    assert_eq!((given.jobs[0].len(), given.again[0]), (1, None), "nothing is left to wait for");
}
on_both!(a_job_waits_for_the_runners_it_prefers);

/// S20: a runner that waits is told by the traffic when to come back.
async fn the_traffic_says_when_to_ask_again(store: Store) {
    let site = Site::new(store).await;
    let beside = "jobs:\n  a:\n    prefer: [{pool: fast}]\n";
    let plan = plan_with(ONE, &Beside(beside.to_owned()));
    site.runs.create(site.push(plan)).await.unwrap();
    let traffic = Traffic::new(&site.runs, Policy::Fair);
    let queues = serving(site.store(), r#"{"labels":["linux"],"pool":"slow"}"#).await;
    let offered = traffic.claim(Asking::new(RunnerId(1), queues.clone(), 1, "a")).await.unwrap();
    assert_eq!(offered.jobs, []);
    assert!(offered.again.is_some());
    let_wait(site.store(), Duration::from_secs(30)).await;
    let offered = traffic.claim(Asking::new(RunnerId(1), queues, 1, "b")).await.unwrap();
    assert_eq!((offered.jobs.len(), offered.again), (1, None));
}
on_both!(the_traffic_says_when_to_ask_again);

/// S15
async fn of_equal_runners_the_one_that_knows_the_repository_gets_its_job(store: Store) {
    store.migrate().await.unwrap();
    let mut depth = Depth::new(&store, 1, 2).await;
    depth.fill(&store, 4).await;
    let repos = async |sql| number(&store, sql, vec![]).await;
    let first = repos("SELECT min(repo_id) FROM lanes").await;
    let second = repos("SELECT max(repo_id) FROM lanes").await;
    let queue = depth.queue;
    let runner = |runner, warm| {
        let warm = vec![kiln_core::id::RepoId(warm)];
        Asking { warm, ..asking(runner, &[queue], 2, "n") }
    };
    for policy in Policy::ALL {
        let questions = vec![runner(1, second), runner(2, first)];
        let answers = claim_as(&store, policy, questions).await;
        let of = |answer: &[Claimed]| answer.iter().map(|one| one.repo.0).collect::<Vec<_>>();
        assert_eq!((of(&answers[0]), of(&answers[1])), (vec![second; 2], vec![first; 2]));
        depth.fill(&store, 4).await;
        execute(&store, "DELETE FROM leases", vec![]).await;
    }
}
on_both!(of_equal_runners_the_one_that_knows_the_repository_gets_its_job);

/// S8: what the policy of a server is decides what its traffic hands out.
async fn both_policies_hand_out_through_the_traffic(store: Store) {
    let site = Site::new(store).await;
    let (org, repo, workflow) = add_repository(site.store(), "other", "app").await;
    let queues =
        async || -> Vec<Serving> { serving(site.store(), r#"{"labels":["linux"]}"#).await };
    for (policy, urgent_first) in [(Policy::Fair, false), (Policy::Score, true)] {
        // The organization with the urgent job has used far more than its share.
        let urgent =
            "on: push\njobs:\n  a: {runs-on: linux, environment: live, steps: [{run: x}]}\n";
        let urgent = site.runs.create(site.push(plan(urgent))).await.unwrap().run();
        let mut idle = site.push(plan(ONE));
        (idle.org, idle.repo, idle.workflow) = (org, repo, workflow);
        let idle = site.runs.create(idle).await.unwrap().run();
        let sql = "INSERT INTO usage (org_id, repo_id, consumed, hour) VALUES ($1, 0, 1e9, $2)
                   ON CONFLICT (org_id, repo_id) DO NOTHING";
        execute(site.store(), sql, vec![site.org.0.into(), (1_i64 << 40).into()]).await;
        let traffic = Traffic::new(&site.runs, policy);
        let mut order = Vec::new();
        for nonce in ["1", "2"] {
            let nonce = format!("{}-{nonce}", policy.word());
            let asking = Asking::new(RunnerId(1), queues().await, 1, nonce);
            order.push(traffic.claim(asking).await.unwrap().jobs.remove(0).run);
        }
        let expect = if urgent_first { [urgent, idle] } else { [idle, urgent] };
        assert_eq!(order, expect, "{policy:?}");
    }
}
on_both!(both_policies_hand_out_through_the_traffic);

/// S10: a requirement that only a newer server knows stops nobody else.
async fn a_queue_that_cannot_be_read_does_not_block_the_others(store: Store) {
    let site = Site::new(store).await;
    site.run("  a: {runs-on: gpu, steps: [{run: x}]}").await;
    let sql = r#"UPDATE queues SET requirements = '{"min_gpus":8}'"#;
    execute(site.store(), sql, vec![]).await;
    let broken = "  a: {runs-on: \"${{ fromJSON('[]') }}\", steps: [{run: x}]}\n  \
                  b: {runs-on: linux, steps: [{run: x}]}";
    let run = site.run(broken).await;
    let claimed = site.claim(1, 9).await;
    let claimed: Vec<_> = claimed.iter().map(|one| (one.run, one.name.as_str())).collect();
    assert_eq!(claimed, [(run, "b")], "what cannot be placed has failed, and blocks nothing");
    assert_eq!(site.runs.fail_unsupported(Duration::ZERO).await.unwrap().taken, 0);
}
on_both!(a_queue_that_cannot_be_read_does_not_block_the_others);

/// S3: on PostgreSQL another server may have the only job in its hands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_passed_over_is_told_so() {
    let database = Database::postgres().await;
    let site = Site::new(database.open()).await;
    site.run("  a: {runs-on: linux, steps: [{run: x}]}").await;
    let queues = site.queues().await;
    let (held, release) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let first = asking(1, &queues, 1, "first");
    let holder = {
        let (held, release) = (Arc::clone(&held), Arc::clone(&release));
        let store = site.store().clone();
        tokio::spawn(async move {
            let work = async move |tx: &mut Tx<'_>| {
                let given = claims::claim(tx, Policy::Fair, std::slice::from_ref(&first)).await?;
                held.add_permits(1);
                release.acquire().await.unwrap().forget();
                Ok(given.jobs[0].iter().map(|one| one.job).collect::<Vec<JobId>>())
            };
            store.write(work).await.unwrap()
        })
    };
    held.acquire().await.unwrap().forget();
    let given = ask(site.store(), asking(2, &queues, 1, "second")).await;
    assert_eq!((given.jobs[0].len(), given.passed_over), (0, true));
    release.add_permits(1);
    assert_eq!(holder.await.unwrap().len(), 1);
    let given = ask(site.store(), asking(2, &queues, 1, "third")).await;
    assert_eq!((given.jobs[0].len(), given.passed_over), (0, false));
}
