//! Runs by what people look for, and runs that could not start.

use kiln_core::id::{OrgId, RepoId, RunId};
use kiln_core::run::{Again, Conclusion, RunState};
use kiln_store::directory::workflows::{self, FoundWorkflow};
use kiln_store::events::EventKind;
use kiln_store::inspect::inspect;
use kiln_store::runs::{self, Created, NewFailedRun, NewRun, RunFilter, RunStatus};
use kiln_store::{Page, Refusal, Scope, Store};
use kiln_testkit::runs::{SYSTEM, Site, add_repository, plan, somebody};

use crate::world::{refusal, told_all, write};

const ONE: &str = "on: push\njobs: {a: {runs-on: linux, steps: [{run: x}]}}";

async fn create(site: &Site, change: impl FnOnce(&mut NewRun)) -> RunId {
    let mut new = site.push(plan(ONE));
    change(&mut new);
    site.runs.create(new).await.unwrap().run()
}

async fn found(store: &Store, scope: Scope, filter: &RunFilter, page: Page) -> Vec<RunId> {
    let (one, other) = (filter.clone(), filter.clone());
    let runs = write!(store, |tx| runs::search(tx, scope, &one, page)).unwrap();
    let total = write!(store, |tx| runs::total(tx, scope, &other)).unwrap();
    assert!(usize::try_from(total).unwrap() >= runs.len());
    runs.into_iter().map(|run| run.id).collect()
}

/// O7
async fn runs_are_found_by_what_is_known_of_them(store: Store) {
    let site = Site::new(store.clone()).await;
    let (org, repo, workflow) = add_repository(&store, "other", "app").await;
    let main = create(&site, |_| ()).await;
    let branch = create(&site, |new| new.head_branch = Some("topic".to_owned())).await;
    let dispatch = create(&site, |new| new.event = String::from("workflow_dispatch")).await;
    let sha = create(&site, |new| new.head_sha = "1".repeat(40)).await;
    let ada = create(&site, |new| new.actor = String::from("ada")).await;
    let foreign = create(&site, |new| {
        (new.org, new.repo, new.workflow) = (org, repo, workflow);
    })
    .await;
    let ended = site.claim(7, 1).await.remove(0);
    site.finish(&ended, 7, Conclusion::Failure).await;
    assert_eq!(ended.run, main);

    let check = async |filter: RunFilter, expected: &[RunId]| {
        assert_eq!(found(&store, SYSTEM, &filter, Page::first(9)).await, expected, "{filter:?}");
    };
    let text = |text: &str| Some(text.to_owned());
    let any = RunFilter::default;
    check(any(), &[foreign, ada, sha, dispatch, branch, main]).await;
    check(RunFilter { repo: Some(repo), ..any() }, &[foreign]).await;
    check(RunFilter { workflow: Some(workflow), ..any() }, &[foreign]).await;
    check(RunFilter { branch: text("topic"), ..any() }, &[branch]).await;
    check(RunFilter { event: text("workflow_dispatch"), ..any() }, &[dispatch]).await;
    check(RunFilter { head_sha: Some("1".repeat(40)), ..any() }, &[sha]).await;
    check(RunFilter { actor: text("ada"), repo: Some(site.repo), ..any() }, &[ada]).await;
    check(RunFilter { status: Some(RunStatus::Completed), ..any() }, &[main]).await;
    check(RunFilter { conclusion: Some(Conclusion::Failure), ..any() }, &[main]).await;
    let queued = RunFilter { status: Some(RunStatus::Queued), repo: Some(site.repo), ..any() };
    check(queued, &[ada, sha, dispatch, branch]).await;
    check(RunFilter { actor: text("x\0"), ..any() }, &[]).await;
    check(RunFilter { actor: text("ada"), event: text("fork"), ..any() }, &[]).await;

    let pages = RunFilter { repo: Some(site.repo), ..any() };
    assert_eq!(found(&store, SYSTEM, &pages, Page::first(2)).await, [ada, sha]);
    assert_eq!(found(&store, SYSTEM, &pages, Page::after(sha.0, 2)).await, [dispatch, branch]);
    let own = Scope::Org(org);
    assert_eq!(found(&store, own, &any(), Page::first(9)).await, [foreign]);
    assert!(
        found(&store, own, &RunFilter { workflow: Some(site.workflow), ..any() }, Page::first(9))
            .await
            .is_empty()
    );
    let asked = write!(store, |tx| runs::search(tx, own, &pages, Page::first(9)));
    assert_eq!(refusal(asked), Refusal::NotFound("repository"));
    let asked = write!(store, |tx| runs::get(tx, own, main));
    assert_eq!(refusal(asked), Refusal::NotFound("run"));
    assert_eq!(write!(store, |tx| runs::get(tx, SYSTEM, main)).unwrap().id, main);
}
on_both!(runs_are_found_by_what_is_known_of_them);

/// O7
async fn runs_are_found_by_what_their_workflow_is_called(store: Store) {
    let site = Site::new(store.clone()).await;
    let (org, repo, _) = add_repository(&store, "other", "app").await;
    let deploy = async |repo: RepoId| {
        let (path, name) = (".github/workflows/deploy.yml".to_owned(), "Deploy it".to_owned());
        let found = FoundWorkflow { path, name, triggers: "[]".to_owned() };
        write!(store, |tx| workflows::upsert(tx, SYSTEM, &somebody(), repo, found.clone())).unwrap()
    };
    let (own, theirs) = (deploy(site.repo).await, deploy(repo).await);
    let _other = create(&site, |_| ()).await;
    let first = create(&site, |new| new.workflow = own).await;
    let second = create(&site, |new| new.workflow = own).await;
    let foreign = create(&site, |new| {
        (new.org, new.repo, new.workflow) = (org, repo, theirs);
    })
    .await;
    let named =
        |name: &str| RunFilter { workflow_named: Some(name.to_owned()), ..RunFilter::default() };
    for name in ["deploy.yml", ".github/workflows/deploy.yml", "Deploy it"] {
        let all = found(&store, SYSTEM, &named(name), Page::first(9)).await;
        assert_eq!(all, [foreign, second, first], "{name}");
        assert_eq!(found(&store, SYSTEM, &named(name), Page::first(1)).await, [foreign]);
        let of_repo = RunFilter { repo: Some(site.repo), ..named(name) };
        assert_eq!(found(&store, SYSTEM, &of_repo, Page::first(9)).await, [second, first]);
        assert_eq!(found(&store, Scope::Org(org), &named(name), Page::first(9)).await, [foreign]);
    }
    for name in ["eploy.yml", "deploy", "", "%", "x\0"] {
        assert!(found(&store, SYSTEM, &named(name), Page::first(9)).await.is_empty(), "{name}");
    }
}
on_both!(runs_are_found_by_what_their_workflow_is_called);

/// P19
async fn a_broken_file_makes_a_run_that_says_why(store: Store) {
    let site = Site::new(store.clone()).await;
    let mut run = site.push(std::sync::Arc::default());
    run.once.extend(run.fingerprint());
    let new = NewFailedRun { run, note: "ci.yml:3: `stpes` is not a key\0".to_owned() };
    let created = site.runs.create_failed(new.clone()).await.unwrap();
    let id = created.run();
    assert_eq!(created, Created::New(id));
    assert_eq!(site.runs.create_failed(new).await.unwrap(), Created::Before(id));

    let view = site.view(id).await;
    assert_eq!(view.state, RunState::Done(Conclusion::StartupFailure));
    assert_eq!(view.note.as_deref(), Some("ci.yml:3: `stpes` is not a key\u{fffd}"));
    assert!(view.jobs.is_empty() && view.nodes.is_empty() && view.ended.is_some());
    let listed = write!(store, |tx| runs::get(tx, SYSTEM, id)).unwrap();
    assert_eq!((listed.status, listed.note), (RunStatus::Completed, view.note));
    assert_eq!((listed.conclusion, listed.number), (Some(Conclusion::StartupFailure), 1));
    let done = EventKind::RunDone { conclusion: Conclusion::StartupFailure };
    assert_eq!(told_all(&store, id).await, [EventKind::RunCreated, done]);

    let again = site.runs.again(SYSTEM, &somebody(), id, Again::All).await;
    assert!(refusal(again).to_string().contains("cannot be run again"));
    assert!(site.runs.cancel(SYSTEM, &somebody(), id, "why", false).await.is_ok());
    let report = inspect(&store).await.unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}
on_both!(a_broken_file_makes_a_run_that_says_why);

async fn a_run_whose_group_cannot_be_evaluated_says_why(store: Store) {
    let site = Site::new(store.clone()).await;
    let text = format!("concurrency: '${{{{ fromJSON(github.ref) }}}}'\n{ONE}");
    let run = site.runs.create(site.push(plan(&text))).await.unwrap().run();
    let view = site.view(run).await;
    assert_eq!(view.state, RunState::Done(Conclusion::StartupFailure));
    let note = view.note.unwrap();
    assert!(note.contains("concurrency") && note.contains("fromJSON"), "{note}");
    let fine = site.view(create(&site, |_| ()).await).await;
    assert_eq!(fine.note, None);
}
on_both!(a_run_whose_group_cannot_be_evaluated_says_why);

/// G1
async fn a_failed_run_is_refused_where_a_run_would_be(store: Store) {
    let site = Site::new(store.clone()).await;
    let mut run = site.push(std::sync::Arc::default());
    run.org = OrgId(site.org.0 + 1);
    let made = site.runs.create_failed(NewFailedRun { run, note: "no".to_owned() }).await;
    assert_eq!(refusal(made), Refusal::NotFound("workflow"));
    assert_eq!(write!(store, |tx| runs::total(tx, SYSTEM, &RunFilter::default())).unwrap(), 0);
}
on_both!(a_failed_run_is_refused_where_a_run_would_be);
