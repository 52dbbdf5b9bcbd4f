//! Runs through the store.

use kiln_core::id::RepoId;
use kiln_core::run::{Conclusion, Event, LegState, RunState};
use kiln_store::runs::{self, Answer, NewRun, Refused, RunStatus, RunSummary, Word};
use kiln_store::{Page, Scope, Store, Tx};
use kiln_testkit::runs::{SYSTEM, Site, add_repository, plan, somebody};

use Conclusion::{Cancelled, Failure, Success};

const TWO: &str = "
  a: {runs-on: linux, steps: [{run: 'true'}]}
  b: {needs: a, runs-on: linux, steps: [{run: 'true'}]}
";

const ONE: &str = "on: push\njobs: {a: {runs-on: linux, steps: [{run: x}]}}";

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

async fn a_list_of_runs_begins_with_the_newest_and_ends_at_the_organization(store: Store) {
    let site = Site::new(store).await;
    let first = site.run(TWO).await;
    let second = site.run("  a: {runs-on: linux, steps: [{run: x}]}").await;
    let job = site.claim(1, 1).await.remove(0);
    assert_eq!(site.say(&job, 1, Word::Started).await, Answer::Accepted);
    let (org, repo, workflow) = add_repository(site.store(), "other", "app").await;
    let foreign = NewRun { org, repo, workflow, ..site.push(plan(ONE)) };
    let foreign = site.runs.create(foreign).await.unwrap().run();
    let cancelled = site.runs.cancel(SYSTEM, &somebody(), second, "no", true).await.unwrap();
    assert_eq!(cancelled, Answer::Accepted);
    let list = async |scope: Scope, repo: Option<RepoId>, page: Page| {
        let read = async move |tx: &mut Tx<'_>| runs::list(tx, scope, repo, page).await;
        site.store().read(read).await
    };
    let ids = |runs: Vec<RunSummary>| runs.into_iter().map(|run| run.id).collect::<Vec<_>>();
    let own = Scope::Org(site.org);
    let all = list(own, Some(site.repo), Page::first(9)).await.unwrap();
    let shown = |run: &RunSummary| (run.id, run.number, run.status, run.conclusion);
    assert_eq!(shown(&all[0]), (second, 2, RunStatus::Completed, Some(Cancelled)));
    assert_eq!(shown(&all[1]), (first, 1, RunStatus::InProgress, None));
    assert!(all[0].ended.is_some() && all[1].started.is_some() && all[1].ended.is_none());
    assert_eq!((all[0].title.as_str(), all[0].head_branch.as_deref()), ("a push", Some("main")));
    assert_eq!(list(own, None, Page::first(9)).await.unwrap(), all);
    assert_eq!(ids(list(own, None, Page::first(1)).await.unwrap()), [second]);
    assert_eq!(ids(list(own, None, Page::after(second.0, 9)).await.unwrap()), [first]);
    let everything = list(SYSTEM, None, Page::first(9)).await.unwrap();
    assert_eq!(ids(everything), [foreign, second, first]);
    let refused = list(own, Some(repo), Page::first(9)).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no such repository");
}
on_both!(a_list_of_runs_begins_with_the_newest_and_ends_at_the_organization);

async fn a_run_that_waits_for_its_group_is_listed_as_pending(store: Store) {
    let site = Site::new(store).await;
    let plan = plan(&format!("concurrency: deploy\n{ONE}"));
    site.runs.create(site.push(plan.clone())).await.unwrap();
    site.runs.create(site.push(plan)).await.unwrap();
    let read = async |tx: &mut Tx<'_>| runs::list(tx, SYSTEM, None, Page::first(9)).await;
    let all = site.store().read(read).await.unwrap();
    let statuses: Vec<_> = all.iter().map(|run| run.status).collect();
    assert_eq!(statuses, [RunStatus::Pending, RunStatus::Queued]);
}
on_both!(a_run_that_waits_for_its_group_is_listed_as_pending);
