//! Several jobs with one request: claimed together, and told of together.

use kiln_core::run::{Conclusion, RunState};
use kiln_proto::job::Job;
use kiln_proto::report::{Complete, End, Ended, Ends, Heard, What};
use kiln_proto::runner::{Claim, Jobs};
use kiln_store::Tx;
use reqwest::RequestBuilder;

use crate::runner::{
    LINUX, Reporter, Runner, completion, good, numbered, refused, registration, state,
};
use crate::support::Server;

const FIVE: &str = "  build:
    strategy: {matrix: {n: [1, 2, 3, 4, 5]}}
    runs-on: linux
    steps: [{run: 'true'}]
";

/// One that runs four jobs at once.
async fn wide<'s>(server: &'s Server, key: &str, name: &str) -> Runner<'s> {
    let (mut asked, private) = registration(key, name, LINUX);
    asked.capabilities.max_parallel = 4;
    Runner::of(server, &asked, private).await
}

fn asking(runner: &Runner<'_>, nonce: &str, want: u32, wait: u32) -> RequestBuilder {
    let claim = Claim { nonce: nonce.to_owned(), wait, want, ..Claim::default() };
    runner.post(&format!("/actions/runners/{}/jobs/claim", runner.id)).json(&claim)
}

async fn claim(runner: &Runner<'_>, nonce: &str, want: u32, wait: u32) -> Vec<Job> {
    let answer = asking(runner, nonce, want, wait).send().await.unwrap();
    if answer.status() == 204 {
        return Vec::new();
    }
    good::<Jobs>(answer).await.jobs
}

fn ids(jobs: &[Job]) -> Vec<i64> {
    jobs.iter().map(|job| job.job_id).collect()
}

fn telling(runner: &Runner<'_>, ends: Vec<End>) -> RequestBuilder {
    runner.post(&format!("/actions/runners/{}/jobs/complete", runner.id)).json(&Ends { ends })
}

/// A job that began and ended, of which nothing was said before.
fn end(job: &Job) -> End {
    let events = numbered(1, vec![What::started()]);
    let complete = Complete { sequence: 1, events, ..completion("success") };
    End { job_id: job.job_id, attempt: job.attempt, token: job.token.clone(), complete }
}

/// How each ended, as far as it was heard.
async fn told(runner: &Runner<'_>, ends: Vec<End>) -> Vec<Option<String>> {
    let ended: Ended = good(telling(runner, ends).send().await.unwrap()).await;
    ended.ended.into_iter().map(|end| end.map(|end| end.conclusion)).collect()
}

on_both!(
    /// Q1
    a_runner_with_room_for_several_gets_several_at_once
);

async fn a_runner_with_room_for_several_gets_several_at_once(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let runner = wide(&server, &key, "wide").await;
    server.run(&place, FIVE).await;
    let first = claim(&runner, "a", 3, 20).await;
    assert_eq!(first.len(), 3);
    for job in &first {
        assert_eq!(runner.open(job).visible[0].0, "GITHUB_TOKEN", "what is sealed is its own");
    }
    // A lost answer is given again, however much is wanted then.
    for want in [3, 2, 16] {
        assert_eq!(ids(&claim(&runner, "a", want, 0).await), ids(&first), "{want}");
    }
    // Whoever wants one gets the answer that runners always got.
    let single = runner.claim("b", 0).await.unwrap();
    assert!(!ids(&first).contains(&single.job_id));
    assert_eq!(claim(&runner, "c", 16, 0).await.len(), 1, "there is one left");
    assert!(claim(&runner, "d", 16, 0).await.is_empty());
    // A runner that understands one job at a time has one of those, and the others go back.
    let one = runner.claim("a", 0).await.unwrap();
    assert!(ids(&first).contains(&one.job_id));
    let again = claim(&runner, "e", 16, 2).await;
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|job| ids(&first).contains(&job.job_id) && job.attempt == 2));
}

on_both!(
    /// S9
    work_spreads_over_runners_that_wait
);

async fn work_spreads_over_runners_that_wait(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let (one, two) = (wide(&server, &key, "one").await, wide(&server, &key, "two").await);
    // From now on the queue is known.
    let job = "  first: {runs-on: linux, steps: [{run: 'true'}]}\n";
    server.run(&place, job).await;
    let first = claim(&one, "first", 4, 20).await;
    assert_eq!(told(&one, vec![end(&first[0])]).await, [Some("success".to_owned())]);
    let waiting = async { tokio::join!(claim(&one, "a", 4, 20), claim(&two, "a", 4, 20)) };
    let pushing = async {
        while server.app.fleet.sleeping() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let pair = job.replace("runs-on", "strategy: {matrix: {n: [1, 2]}}, runs-on");
        server.run(&place, &pair).await
    };
    let ((one, two), _) = tokio::join!(waiting, pushing);
    assert_eq!((one.len(), two.len()), (1, 1));
}

on_both!(
    /// S6
    ends_that_come_together_are_heard_each_for_itself
);

async fn ends_that_come_together_are_heard_each_for_itself(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let (runner, other) = (wide(&server, &key, "one").await, wide(&server, &key, "two").await);
    let run = server.run(&place, FIVE).await;
    let mine = claim(&runner, "a", 4, 20).await;
    let theirs = claim(&other, "a", 4, 0).await;
    assert_eq!((mine.len(), theirs.len()), (4, 1));

    let borrowed = End { token: mine[1].token.clone(), ..end(&mine[0]) };
    let gap = Complete { log_bytes: 10, ..end(&mine[1]).complete };
    let early = End { complete: gap.clone(), ..end(&mine[1]) };
    let all = vec![end(&mine[0]), borrowed, early, end(&theirs[0]), end(&mine[2])];
    let success = || Some("success".to_owned());
    // The log of one is missing, and with the token of a job one speaks for no other.
    assert_eq!(told(&runner, all.clone()).await, [success(), None, None, None, success()]);
    assert_eq!(told(&runner, all).await, [success(), None, None, None, success()], "once more");
    // Told alone, the answer says why.
    refused(Reporter::new(&server, &mine[1]).completing(&gap), 409).await;
    assert_eq!(state(&server, run).await, RunState::Active);

    let rest = vec![end(&mine[1]), end(&mine[3])];
    assert_eq!(told(&runner, rest).await, [success(), success()]);
    assert_eq!(told(&other, vec![end(&theirs[0])]).await, [success()]);
    assert_eq!(state(&server, run).await, RunState::Done(Conclusion::Success));

    let many = vec![end(&mine[0]); 65];
    let problem = refused(telling(&runner, many), 422).await;
    assert!(problem.detail.unwrap().contains("64 at most"));
    let path = format!("/actions/runners/{}/jobs/complete", other.id);
    refused(runner.post(&path).json(&Ends::default()), 404).await;
}

on_both!(
    /// S6
    what_cannot_be_told_of_goes_back_and_spoils_nothing
);

async fn what_cannot_be_told_of_goes_back_and_spoils_nothing(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let runner = wide(&server, &key, "one").await;
    let jobs = "
  plain: {runs-on: linux, steps: [{run: 'true'}]}
  deploys: {runs-on: linux, environment: production, steps: [{run: 'true'}]}
";
    server.run(&place, jobs).await;
    let rename = async |sql: &'static str| {
        server.app.store.write(async move |tx: &mut Tx<'_>| tx.execute(sql, &[]).await).await
    };
    rename("ALTER TABLE environments RENAME TO hidden").await.unwrap();
    let plain = claim(&runner, "a", 4, 20).await;
    assert_eq!(plain.iter().map(|job| &*job.job_name).collect::<Vec<_>>(), ["plain"]);
    rename("ALTER TABLE hidden RENAME TO environments").await.unwrap();
    let deploys = claim(&runner, "b", 4, 20).await;
    assert_eq!((&*deploys[0].job_name, deploys[0].attempt), ("deploys", 2));

    // Asked for again, but for one alone: the other goes back, or stays where it began.
    server.run(&place, jobs).await;
    let mut both = claim(&runner, "c", 4, 20).await;
    assert_eq!(both.len(), 2);
    // The first of the answer is the one that was made first.
    both.sort_by_key(|job| job.job_id);
    let began = Reporter::new(&server, &both[1]).telling(1, vec![What::started()]);
    good::<Heard>(began.send().await.unwrap()).await;
    let one = runner.claim("c", 0).await.unwrap();
    assert_eq!(one.job_id, both[0].job_id);
    assert!(claim(&runner, "d", 4, 0).await.is_empty());
    let ends = [&both[0], &both[1]].map(end).to_vec();
    assert_eq!(told(&runner, ends).await, [(); 2].map(|()| Some("success".to_owned())));
}
