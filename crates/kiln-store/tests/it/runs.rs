//! Runs through the store.

use kiln_core::run::{Conclusion, Event, LegState, RunState};
use kiln_store::Store;
use kiln_store::runs::{Answer, Refused, Word};
use kiln_testkit::runs::Site;

use Conclusion::{Cancelled, Failure, Success};

const TWO: &str = "
  a: {runs-on: linux, steps: [{run: 'true'}]}
  b: {needs: a, runs-on: linux, steps: [{run: 'true'}]}
";

async fn what_needs_nothing_is_queued_when_a_run_is_created(store: Store) {
    let site = Site::new(store).await;
    let run = site.run(TWO).await;
    let view = site.view(run).await;
    assert_eq!(view.state, RunState::Active);
    assert_eq!(view.nodes.len(), 2);
    assert_eq!(view.jobs.len(), 1);
    assert_eq!((view.jobs[0].name.as_str(), &view.jobs[0].state), ("a", &LegState::Queued));
    assert_eq!(view.jobs[0].id.run(), run);
    assert!(view.nodes.iter().all(|node| node.conclusion.is_none()));
}
on_both!(what_needs_nothing_is_queued_when_a_run_is_created);

/// S3, S11
async fn a_job_that_ends_lets_the_next_one_go(store: Store) {
    let site = Site::new(store).await;
    let run = site.run(TWO).await;
    let first = site.claim(7, 5).await;
    assert_eq!(first.len(), 1);
    assert_eq!((first[0].name.as_str(), first[0].claim), ("a", 1));
    assert!(site.claim(8, 5).await.is_empty());
    assert_eq!(site.finish(&first[0], 7, Success).await, Answer::Accepted);
    let second = site.claim(8, 5).await;
    assert_eq!(second.len(), 1);
    assert_eq!(second[0].name, "b");
    site.finish(&second[0], 8, Failure).await;
    let view = site.view(run).await;
    assert_eq!(view.state, RunState::Done(Failure));
    assert_eq!(view.jobs[0].runner, Some(7));
    assert!(view.started.is_some() && view.ended.is_some());
}
on_both!(a_job_that_ends_lets_the_next_one_go);

async fn a_late_or_foreign_word_is_refused_and_a_repeated_one_accepted(store: Store) {
    let site = Site::new(store).await;
    site.run(TWO).await;
    let job = site.claim(7, 1).await.remove(0);
    let finished = || Word::Finished { conclusion: Success, outputs: Vec::new() };
    assert_eq!(site.say(&job, 8, Word::Started).await, Answer::Refused(Refused::NotYours));
    assert_eq!(site.say(&job, 7, Word::Lost { reason: "gone".into() }).await, Answer::Accepted);
    let again = site.claim(8, 1).await.remove(0);
    assert_eq!((again.job, again.claim), (job.job, 2));
    assert!(matches!(site.say(&job, 7, finished()).await, Answer::Refused(Refused::Rejected(_))));
    assert_eq!(site.say(&again, 8, Word::Started).await, Answer::Accepted);
    assert_eq!(site.say(&again, 8, finished()).await, Answer::Accepted);
    assert_eq!(site.say(&again, 8, finished()).await, Answer::Accepted);
}
on_both!(a_late_or_foreign_word_is_refused_and_a_repeated_one_accepted);

async fn a_cancelled_run_takes_its_jobs_out_of_the_queue(store: Store) {
    let site = Site::new(store).await;
    let run = site
        .run("  a: {runs-on: linux, strategy: {matrix: {n: [1, 2, 3]}}, steps: [{run: x}]}")
        .await;
    let held = site.claim(1, 1).await.remove(0);
    let cancel = Event::Cancel { by: "me".into(), reason: "no".into(), forced: false };
    assert_eq!(site.tell(run, cancel).await, Answer::Accepted);
    assert!(site.claim(2, 5).await.is_empty());
    let ended = Word::Finished { conclusion: Cancelled, outputs: Vec::new() };
    assert_eq!(site.say(&held, 1, ended).await, Answer::Accepted);
    assert_eq!(site.view(run).await.state, RunState::Done(Cancelled));
}
on_both!(a_cancelled_run_takes_its_jobs_out_of_the_queue);
