//! The order in which jobs are handed out.

use std::collections::BTreeSet;

use kiln_core::queue::Policy;
use kiln_store::{Store, claims};
use kiln_testkit::queue::Depth;
use kiln_testkit::runs::{Site, add_repository, plan};
use proptest::test_runner::TestRunner;

use super::world::World;
use super::{asking, claim, claim_as, execute, jobs_of, number};

/// How many random queues are emptied; each is random in another way.
const WORLDS: usize = 6;

/// S2, S3, S8
async fn every_claim_gets_what_the_whole_queue_in_order_would_give(store: Store) {
    store.migrate().await.unwrap();
    let mut runner = TestRunner::deterministic();
    for number in 0..WORLDS {
        let policy = Policy::ALL[number % 2];
        // Those of the last world are in nobody's queue any more.
        clear(&store).await;
        let mut world = World::new(&store, &mut runner, policy).await;
        let most = if number < WORLDS / 2 { 1 } else { 6 };
        for round in 0..60 {
            if round % 5 == 0 {
                claims::tidy_lanes(&store).await.unwrap();
                world.tidy();
            }
            let questions = world.questions(&mut runner, most);
            let expected = world.expect(&questions);
            let answers = claim_as(&store, policy, questions.clone()).await;
            let given: Vec<_> = answers.iter().map(|answer| jobs_of(answer)).collect();
            assert_eq!(given, expected, "{questions:#?}\n{world:#?}");
        }
    }
}
on_both!(every_claim_gets_what_the_whole_queue_in_order_would_give);

async fn clear(store: &Store) {
    for sql in [
        "DELETE FROM queue",
        "DELETE FROM lanes",
        "DELETE FROM queues",
        "DELETE FROM jobs",
        "DELETE FROM leases",
        "DELETE FROM usage",
        "DELETE FROM usage_deltas",
        "DELETE FROM org_loads",
        "DELETE FROM workflows",
        "DELETE FROM repositories",
        "DELETE FROM organizations",
    ] {
        execute(store, sql, Vec::new()).await;
    }
}

/// S8
async fn priority_100_goes_before_everything_else(store: Store) {
    let site = Site::new(store).await;
    let ordinary = site.run("  a: {runs-on: linux, steps: [{run: x}]}").await;
    let mut urgent = site.push(plan("on: push\njobs:\n  a: {runs-on: linux, steps: [{run: x}]}"));
    urgent.priority = 100;
    let first = site.runs.create(urgent).await.unwrap().run();
    // It comes from a repository that has used far more than its share.
    let sql = "INSERT INTO usage (org_id, repo_id, consumed, hour) VALUES ($1, $2, 1000000, 0)";
    execute(site.store(), sql, vec![site.org.0.into(), site.repo.0.into()]).await;
    let claimed = site.claim(1, 2).await;
    assert_eq!(claimed.iter().map(|claimed| claimed.run).collect::<Vec<_>>(), [first, ordinary]);
}
on_both!(priority_100_goes_before_everything_else);

/// S2, S8
async fn a_batch_is_shared_out_over_organizations_and_runners(store: Store) {
    store.migrate().await.unwrap();
    let mut depth = Depth::new(&store, 4, 2).await;
    depth.fill(&store, 80).await;
    let questions = (1..=4).map(|runner| asking(runner, &[depth.queue], 4, "n")).collect();
    let answers = claim_as(&store, Policy::Fair, questions).await;
    assert!(answers.iter().all(|answer| answer.len() == 4), "everybody has work: {answers:#?}");
    for org in answers.iter().flatten().map(|claimed| claimed.org).collect::<BTreeSet<_>>() {
        let of_org: Vec<_> =
            answers.iter().flatten().filter(|claimed| claimed.org == org).collect();
        assert_eq!(of_org.len(), 4, "16 jobs for 4 organizations");
        let repos: BTreeSet<_> = of_org.iter().map(|claimed| claimed.repo).collect();
        assert_eq!(repos.len(), 2, "and within each for both repositories");
    }
}
on_both!(a_batch_is_shared_out_over_organizations_and_runners);

/// S8
async fn nothing_of_a_paused_repository_or_queue_is_handed_out(store: Store) {
    let site = Site::new(store).await;
    let (org, repo, workflow) = add_repository(site.store(), "acme", "other").await;
    let text = "on: push\njobs:\n  a: {runs-on: linux, steps: [{run: x}]}";
    let mut other = site.push(plan(text));
    (other.org, other.repo, other.workflow) = (org, repo, workflow);
    site.runs.create(other).await.unwrap();
    let run = site.run("  a: {runs-on: linux, steps: [{run: x}]}").await;
    let queue = site.queues().await[0];
    let pause_repo = "UPDATE repositories SET paused = $2 WHERE id = $1";
    let pause_queue = "UPDATE queues SET paused = $2 WHERE id = $1";
    let (on, off) = (Some("me: a fire"), None::<&str>);
    execute(site.store(), pause_queue, vec![queue.0.into(), on.into()]).await;
    assert!(site.claim(1, 9).await.is_empty());
    execute(site.store(), pause_queue, vec![queue.0.into(), off.into()]).await;
    execute(site.store(), pause_repo, vec![repo.0.into(), on.into()]).await;
    let claimed = site.claim(1, 9).await;
    assert_eq!(claimed.iter().map(|claimed| claimed.run).collect::<Vec<_>>(), [run]);
    execute(site.store(), pause_repo, vec![repo.0.into(), off.into()]).await;
    assert_eq!(site.claim(1, 9).await.len(), 1);
}
on_both!(nothing_of_a_paused_repository_or_queue_is_handed_out);

/// S4
async fn the_limit_of_an_organization_holds_against_claimers_in_parallel(store: Store) {
    store.migrate().await.unwrap();
    let mut depth = Depth::new(&store, 2, 2).await;
    depth.fill(&store, 200).await;
    let org = number(&store, "SELECT min(id) FROM organizations", vec![]).await;
    let limit = "INSERT INTO org_loads (org_id, running, job_limit) VALUES ($1, 0, 5)";
    execute(&store, limit, vec![org.into()]).await;
    let claimers: Vec<_> = (1..=8)
        .map(|runner| {
            let (store, queue) = (store.clone(), depth.queue);
            tokio::spawn(async move {
                let mut got = Vec::new();
                for count in 0..6 {
                    got.extend(
                        claim(&store, asking(runner, &[queue], 3, &count.to_string())).await,
                    );
                }
                got
            })
        })
        .collect();
    let mut claimed = Vec::new();
    for claimer in claimers {
        claimed.extend(claimer.await.unwrap());
    }
    let all: BTreeSet<_> = jobs_of(&claimed).into_iter().collect();
    assert_eq!(all.len(), claimed.len(), "no job was handed out twice");
    assert_eq!(claimed.iter().filter(|claimed| claimed.org.0 == org).count(), 5);
    assert!(claimed.len() > 50, "the others went on: {}", claimed.len());
    assert_eq!(number(&store, "SELECT max(running) FROM org_loads", vec![]).await, 5);
}
on_both!(the_limit_of_an_organization_holds_against_claimers_in_parallel);
