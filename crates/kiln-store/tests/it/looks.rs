//! Looks at many runs and jobs whose cost is bounded, and at what waits for concurrency groups.

use kiln_core::id::{JobId, RunId, RunnerId};
use kiln_core::run::Conclusion;
use kiln_store::claims::{self, End, Past, PastJob};
use kiln_store::runs::{self, Holds, Look, Looked, NewRun, RunFilter, RunStatus, Word};
use kiln_store::{Refusal, Scope, Store, Tx};
use kiln_testkit::runs::{SYSTEM, Site, add_repository, plan};

use crate::world::{refusal, write};

const ONE: &str = "on: push\njobs: {a: {runs-on: linux, steps: [{run: x}]}}";

async fn create(site: &Site, change: impl FnOnce(&mut NewRun)) -> RunId {
    let mut new = site.push(plan(ONE));
    change(&mut new);
    site.runs.create(new).await.unwrap().run()
}

fn older(from: Option<i64>, limit: u32, most: u32) -> Look {
    Look { from, newer: false, limit, most }
}

async fn look(store: &Store, filter: &RunFilter, look: Look) -> (Vec<RunId>, Option<i64>) {
    let filter = filter.clone();
    let Looked { runs, further } =
        write!(store, |tx| runs::look(tx, SYSTEM, &filter, look)).unwrap();
    (runs.into_iter().map(|run| run.id).collect(), further)
}

/// O1 O7
async fn a_look_reads_no_more_runs_than_it_may(store: Store) {
    let site = Site::new(store.clone()).await;
    let (org, repo, workflow) = add_repository(&store, "other", "app").await;
    let rare = create(&site, |new| "the rare one".clone_into(&mut new.title)).await;
    let branch = create(&site, |new| new.head_branch = Some("topic".to_owned())).await;
    let mut common = Vec::new();
    for _ in 0..18 {
        common.push(create(&site, |_| ()).await);
    }
    let text = |text: &str| Some(text.to_owned());
    let by_text = RunFilter { text: text("rare"), ..RunFilter::default() };
    // The newest ten of twenty do not have it, and more was not looked at.
    let (found, further) = look(&store, &by_text, older(None, 5, 10)).await;
    assert_eq!(found, []);
    assert_eq!(further, Some(common[7].0 + 1), "{common:?}");
    let (found, further) = look(&store, &by_text, older(further, 5, 10)).await;
    assert_eq!((found, further), (vec![rare], None));
    // Enough was found before the end of what may be looked at.
    let many = RunFilter { text: text("push"), ..RunFilter::default() };
    let (found, further) = look(&store, &many, older(None, 3, 10)).await;
    assert_eq!((found.len(), further), (3, Some(common[15].0)));
    // What an index leads to is found however far away it is.
    let here = RunFilter { repo: Some(site.repo), branch: text("topic"), ..RunFilter::default() };
    assert_eq!(look(&store, &here, older(None, 5, 3)).await, (vec![branch], None));
    // Also together with what none leads to.
    let both = RunFilter { text: text("PUSH"), ..here.clone() };
    assert_eq!(look(&store, &both, older(None, 5, 3)).await, (vec![branch], None));
    let by_event = RunFilter { repo: Some(site.repo), event: text("push"), ..RunFilter::default() };
    assert_eq!(look(&store, &by_event, older(Some(rare.0 + 2), 5, 9)).await.0, [branch, rare]);
    let newer = Look { newer: true, ..older(Some(rare.0), 1, 9) };
    assert_eq!(look(&store, &by_event, newer).await, (vec![branch], Some(branch.0)));
    let anywhere = RunFilter { branch: text("topic"), ..RunFilter::default() };
    assert_eq!(look(&store, &anywhere, older(None, 5, 3)).await.0, []);
    assert_eq!(look(&store, &anywhere, older(None, 5, 30)).await, (vec![branch], None));
    let queued = RunFilter { status: Some(RunStatus::Queued), ..RunFilter::default() };
    assert_eq!(look(&store, &queued, older(None, 50, 3)).await.0.len(), 20);
    // Towards newer ones, still the newest first.
    let newer = Look { newer: true, ..older(Some(rare.0), 2, 10) };
    let all = RunFilter::default();
    assert_eq!(look(&store, &all, newer).await, (vec![common[0], branch], Some(common[0].0)));
    let newer = Look { newer: true, ..older(Some(branch.0), 2, 4) };
    let (found, further) = look(&store, &by_text, newer).await;
    assert_eq!((found, further), (vec![], Some(common[4].0 - 1)));
    let newer = Look { newer: true, ..older(Some(common[17].0), 2, 4) };
    assert_eq!(look(&store, &all, newer).await, (vec![], None));
    // Others see nothing of it.
    let own = Scope::Org(org);
    let seen = write!(store, |tx| runs::look(tx, own, &all, older(None, 5, 10))).unwrap();
    assert_eq!(seen, Looked::default());
    let asked = write!(store, |tx| runs::look(tx, own, &here, older(None, 5, 10)));
    assert_eq!(refusal(asked), Refusal::NotFound("repository"));
    let none = RunFilter { workflow_named: text("none.yml"), ..RunFilter::default() };
    assert_eq!(look(&store, &none, older(None, 5, 10)).await, (vec![], None));
    let foreign = RunFilter { repo: Some(repo), workflow: Some(workflow), ..RunFilter::default() };
    assert_eq!(look(&store, &foreign, older(None, 5, 10)).await, (vec![], None));
}
on_both!(a_look_reads_no_more_runs_than_it_may);

/// O1
async fn a_busy_workflow_hides_no_other(store: Store) {
    let site = Site::new(store.clone()).await;
    let (org, repo, workflow) = add_repository(&store, "other", "app").await;
    add_repository(&store, "other", "silent").await;
    let quiet = create(&site, |new| {
        (new.org, new.repo, new.workflow) = (org, repo, workflow);
    })
    .await;
    let mut last = quiet;
    for _ in 0..5 {
        last = create(&site, |_| ()).await;
    }
    let latest = async |scope, repo, bounds| {
        let found = write!(store, |tx| runs::latest_of_workflows(tx, scope, repo, bounds)).unwrap();
        found.into_iter().map(|run| run.id).collect::<Vec<_>>()
    };
    assert_eq!(latest(SYSTEM, None, (100, 9)).await, [last, quiet]);
    assert_eq!(latest(SYSTEM, None, (100, 1)).await, [last]);
    assert_eq!(latest(SYSTEM, Some(repo), (100, 9)).await, [quiet]);
    assert_eq!(latest(Scope::Org(org), None, (100, 9)).await, [quiet]);
    assert_eq!(latest(Scope::Org(org), Some(site.repo), (100, 9)).await, []);
}
on_both!(a_busy_workflow_hides_no_other);

/// S16 P12
async fn what_waits_for_a_group_is_listed_with_who_has_it(store: Store) {
    let site = Site::new(store.clone()).await;
    let (org, repo, ..) = add_repository(&store, "other", "app").await;
    let gated = "on: push\nconcurrency: deploy\njobs: {a: {runs-on: linux, steps: [{run: x}]}}";
    let inside =
        "on: push\njobs: {a: {name: Ship, concurrency: ship, runs-on: linux, steps: [{run: x}]}}";
    let run = async |text: &str| site.runs.create(site.push(plan(text))).await.unwrap().run();
    let (first, second) = (run(gated).await, run(gated).await);
    let (third, fourth) = (run(inside).await, run(inside).await);
    run("on: push\nconcurrency: alone\njobs: {a: {runs-on: linux, steps: [{run: x}]}}").await;
    let held = write!(store, |tx| runs::held(tx, SYSTEM, Holds::default(), 10)).unwrap();
    let shown: Vec<_> = held
        .iter()
        .map(|held| {
            let job = held.job.as_ref().map(|(id, name)| (id.run(), name.as_str()));
            let holder = held.holder.as_ref().map(|run| run.id);
            (held.run.id, held.group.as_str(), job, holder, held.before)
        })
        .collect();
    assert_eq!(
        shown,
        [
            (second, "deploy", None, Some(first), 0),
            (fourth, "ship", Some((fourth, "Ship")), Some(third), 0)
        ]
    );
    assert_eq!(write!(store, |tx| runs::held(tx, SYSTEM, Holds::default(), 1)).unwrap().len(), 1);
    let some = async |holds: Holds| {
        let held = write!(store, |tx| runs::held(tx, SYSTEM, holds, 10)).unwrap();
        held.into_iter().map(|held| held.run.id).collect::<Vec<_>>()
    };
    let of = |run| Holds { run: Some(run), ..Holds::default() };
    assert_eq!(some(of(fourth)).await, [fourth]);
    assert_eq!(some(of(first)).await, []);
    assert_eq!(some(Holds { repo: Some(site.repo), ..Holds::default() }).await, [second, fourth]);
    assert_eq!(some(Holds { repo: Some(repo), ..Holds::default() }).await, []);
    let after = |place| Holds { after: Some(place), ..Holds::default() };
    assert_eq!(some(after(held[0].place)).await, [fourth]);
    assert_eq!(some(after(held[1].place)).await, []);
    assert_eq!(
        write!(store, |tx| runs::held(tx, Scope::Org(org), Holds::default(), 10)).unwrap(),
        []
    );
    let groups = write!(store, |tx| runs::groups_of(tx, &[first, second, third])).unwrap();
    let groups: Vec<_> = groups.iter().map(|(run, group)| (*run, group.as_str())).collect();
    assert_eq!(groups, [(first, "deploy"), (second, "deploy")]);
    // Once the first has ended, nothing waits for its group.
    for claimed in site.claim(1, 9).await {
        site.finish(&claimed, 1, Conclusion::Success).await;
    }
    let left = write!(store, |tx| runs::held(tx, SYSTEM, Holds::default(), 10)).unwrap();
    assert_eq!(left, []);
}
on_both!(what_waits_for_a_group_is_listed_with_who_has_it);

/// S16: however many groups there are, what waits in any of them is found.
async fn what_waits_in_many_groups_is_listed_to_the_end(store: Store) {
    let site = Site::new(store.clone()).await;
    let gated = "on: push\nconcurrency: g\njobs: {a: {runs-on: linux, steps: [{run: x}]}}";
    let run = async || site.runs.create(site.push(plan(gated))).await.unwrap().run();
    let (_, second) = (run().await, run().await);
    // Groups whose members are all the same: only where they are found matters.
    let copy = async |tx: &mut Tx<'_>| {
        let members = "SELECT repo_id, members FROM groups WHERE name = 'g'";
        let row = tx.one("group", members, &[]).await?;
        let (repo, members): (i64, String) = (row.get(0)?, row.get(1)?);
        for number in 0..1_200 {
            let name = format!("a{number:04}");
            let sql = "INSERT INTO groups (repo_id, name, members) VALUES ($1, $2, $3)";
            tx.execute(sql, &[repo.into(), name.into(), (&members).into()]).await?;
        }
        Ok(())
    };
    store.write(copy).await.unwrap();
    let held = write!(store, |tx| runs::held(tx, SYSTEM, Holds::default(), 5_000)).unwrap();
    assert_eq!(held.len(), 1_201);
    assert!(held.iter().all(|held| held.run.id == second));
    assert!(held.iter().any(|held| held.group == "g"), "the last one in the order of names");
    assert_eq!(write!(store, |tx| runs::held(tx, SYSTEM, Holds::default(), 7)).unwrap().len(), 7);
}
on_both!(what_waits_in_many_groups_is_listed_to_the_end);

async fn past(store: &Store, runner: i64, past: Past) -> (Vec<PastJob>, Option<JobId>) {
    write!(store, |tx| claims::history(tx, SYSTEM, RunnerId(runner), past)).unwrap()
}

/// O1
async fn a_runner_has_a_history(store: Store) {
    let site = Site::new(store.clone()).await;
    let (org, ..) = add_repository(&store, "other", "app").await;
    let mut own = Vec::new();
    for at in 0..6 {
        create(&site, |_| ()).await;
        let claimed = site.claim(1 + at % 2, 1).await.remove(0);
        let end = if at == 4 { Conclusion::Failure } else { Conclusion::Success };
        site.finish(&claimed, 1 + at % 2, end).await;
        own.push(claimed.job);
    }
    create(&site, |_| ()).await;
    let returned = site.claim(1, 1).await.remove(0);
    site.say(&returned, 1, Word::Returned).await;
    let open = site.claim(1, 1).await.remove(0);
    assert_eq!((open.job, open.claim), (returned.job, 2));

    let all = Past { before: None, limit: 10, most: 100 };
    let (found, further) = past(&store, 1, all).await;
    let ends: Vec<_> = found.iter().map(|past| (past.job, past.claim, past.end.clone())).collect();
    let ended = |at: usize, end| (own[at], 1, End::Ended(end));
    let why = Some("the runner gave it back".to_owned());
    let gave_back = End::LetGo { how: "returned".to_owned(), why };
    assert_eq!(
        ends,
        [
            (open.job, 2, End::Open),
            (open.job, 1, gave_back),
            ended(4, Conclusion::Failure),
            ended(2, Conclusion::Success),
            ended(0, Conclusion::Success),
        ]
    );
    assert_eq!(further, None);
    assert_eq!((found[4].name.as_str(), found[4].repo.as_str()), ("a", "acme/app"));
    assert!(found[4].ended >= found[4].started && found[4].started >= found[4].claimed);
    // In pieces: claims of one job stay together.
    let (first, next) = past(&store, 1, Past { limit: 1, ..all }).await;
    assert_eq!((first.len(), next), (2, Some(open.job)));
    let (second, next) = past(&store, 1, Past { before: next, limit: 2, ..all }).await;
    assert_eq!(second.iter().map(|past| past.job).collect::<Vec<_>>(), [own[4], own[2]]);
    assert_eq!(past(&store, 1, Past { before: next, limit: 2, ..all }).await.0[0].job, own[0]);
    // No further than it may.
    let (found, further) = past(&store, 2, Past { most: 1, ..all }).await;
    assert_eq!((found, further), (vec![], Some(JobId(own[5].0 + 1))));
    let (found, _) = past(&store, 2, Past { before: further, most: 1, ..all }).await;
    assert_eq!(found[0].job, own[5]);
    // Nothing of others.
    assert_eq!(past(&store, 9, all).await, (vec![], None));
    let seen = write!(store, |tx| claims::history(tx, Scope::Org(org), RunnerId(1), all)).unwrap();
    assert_eq!(seen, (vec![], None));
}
on_both!(a_runner_has_a_history);
