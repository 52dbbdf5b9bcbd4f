//! What starts a run and what does not, alone and together with what triggers it.

use std::time::Duration;

use kiln_core::run::{Again, Conclusion, RunState};
use kiln_core::time::Timestamp;
use kiln_store::directory::deliveries::{self, NewDelivery};
use kiln_store::directory::schedules::{self, FoundSchedule};
use kiln_store::directory::{repositories, workflows};
use kiln_store::runs::{Answer, Created, NewRun, Runs};
use kiln_store::{Refusal, Scope, Store, StoreError, Tx};
use kiln_testkit::runs::{Site, add_repository, plan};

use crate::world::{SYSTEM, actor, refusal, write};

const ONE: &str = "  a: {runs-on: linux, steps: [{run: x}]}";

fn push(site: &Site) -> NewRun {
    site.push(plan(&format!("on: push\njobs:\n{ONE}")))
}

/// P12, G1
async fn a_key_is_known_in_its_repository_alone(store: Store) {
    let site = Site::new(store).await;
    let once = vec![("the key".to_owned(), Duration::from_mins(5))];
    let own = NewRun { once, ..push(&site) };
    let first = site.runs.create(own.clone()).await.unwrap();
    for (org, repo) in [("acme", "lib"), ("other", "app")] {
        let (org, repo, workflow) = add_repository(site.store(), org, repo).await;
        let other = NewRun { org, repo, workflow, ..own.clone() };
        let made = site.runs.create(other.clone()).await.unwrap();
        assert!(matches!(made, Created::New(run) if run != first.run()));
        assert_eq!(site.runs.create(other.clone()).await.unwrap(), Created::Before(made.run()));
        // Whose the workflow is counts before the key does.
        let stolen = NewRun { repo: site.repo, ..other };
        let refused = refusal(site.runs.create(stolen).await);
        assert_eq!(refused, Refusal::NotFound("workflow"));
    }
    assert_eq!(site.runs.create(own).await.unwrap(), Created::Before(first.run()));
}
on_both!(a_key_is_known_in_its_repository_alone);

/// P12
async fn a_fingerprint_tells_pushes_apart_and_exempts_what_is_meant(store: Store) {
    let site = Site::new(store).await;
    let with = |change: fn(&mut NewRun)| {
        let mut new = push(&site);
        change(&mut new);
        new.once.extend(new.fingerprint());
        new
    };
    let first = site.runs.create(with(|_| ())).await.unwrap();
    assert_eq!(first.run(), site.runs.create(with(|new| new.title.push('!'))).await.unwrap().run());
    let others: [fn(&mut NewRun); 3] = [
        |new| new.reference = String::from("refs/heads/next"),
        |new| new.head_sha = "1".repeat(40),
        |new| new.event = String::from("pull_request"),
    ];
    for other in others {
        assert!(matches!(site.runs.create(with(other)).await.unwrap(), Created::New(_)));
        assert!(matches!(site.runs.create(with(other)).await.unwrap(), Created::Before(_)));
    }
    let meant: [fn(&mut NewRun); 2] = [
        |new| new.event = String::from("workflow_dispatch"),
        |new| new.event = String::from("schedule"),
    ];
    for meant in meant {
        assert_eq!(with(meant).once, []);
    }
    assert_eq!(with(|_| ()).once[0].1, Duration::from_mins(5));
    let key = push(&site).callers_key(&"\0 any text".repeat(1_000));
    assert_eq!(key.1, Duration::from_hours(24));
    assert_ne!(key, push(&site).callers_key("another"));
    let asked = NewRun { once: vec![key], event: "workflow_dispatch".to_owned(), ..push(&site) };
    let made = site.runs.create(asked.clone()).await.unwrap();
    assert_eq!(site.runs.create(asked).await.unwrap(), Created::Before(made.run()));
}
on_both!(a_fingerprint_tells_pushes_apart_and_exempts_what_is_meant);

/// P12
async fn a_key_that_finds_an_earlier_run_goes_with_it(store: Store) {
    let site = Site::new(store).await;
    let meant = |keys: &[&str], inputs: &[(String, String)]| {
        let mut new = NewRun { event: "workflow_dispatch".to_owned(), ..push(&site) };
        new.once = keys.iter().map(|key| new.callers_key(key)).collect();
        new.once.push(new.fingerprint_within(Duration::from_hours(1), inputs));
        new
    };
    let other = [("colour".to_owned(), "red".to_owned())];
    let first = site.runs.create(meant(&["a"], &[])).await.unwrap().run();
    let create = async |new| site.runs.create(new).await.unwrap();
    assert_eq!(create(meant(&["b"], &[])).await, Created::Before(first), "the same commit");
    assert!(matches!(create(meant(&["c"], &other)).await, Created::New(_)), "other inputs");
    // The key that came with it is known from now on, and asks for the same.
    assert_eq!(create(meant(&["b"], &other)).await, Created::Before(first));
    let keys = async |tx: &mut Tx<'_>| {
        let sql = "SELECT count(*) FROM trigger_keys AS k JOIN runs AS r ON r.id = k.run_id
                   WHERE r.created_at = k.at";
        tx.one("count", sql, &[]).await?.get::<i64>(0)
    };
    assert_eq!(site.store().read(keys).await.unwrap(), 5, "each has the time of its run");
}
on_both!(a_key_that_finds_an_earlier_run_goes_with_it);

async fn what_is_disabled_starts_no_runs_and_what_is_paused_does(store: Store) {
    let site = Site::new(store).await;
    let (store, repo, workflow) = (site.store().clone(), site.repo, site.workflow);
    let scope = Scope::Org(site.org);
    let told = async || refusal(site.runs.create(push(&site)).await);
    write!(store, |tx| workflows::set_enabled(tx, scope, &actor(), workflow, false)).unwrap();
    let words = "the workflow is disabled and starts no runs; enable it first";
    assert_eq!(told().await, Refusal::Conflict(words.to_owned()));
    write!(store, |tx| workflows::set_enabled(tx, scope, &actor(), workflow, true)).unwrap();
    let run = site.run(ONE).await;
    let job = site.claim(1, 1).await.remove(0);
    site.finish(&job, 1, Conclusion::Failure).await;
    write!(store, |tx| repositories::set_enabled(tx, scope, &actor(), repo, false)).unwrap();
    let words = "the repository is disabled and starts no runs; enable it first";
    assert_eq!(told().await, Refusal::Conflict(words.to_owned()));
    let again = site.runs.again(scope, &actor(), run, Again::All).await;
    assert_eq!(refusal(again), Refusal::Conflict(words.to_owned()));
    write!(store, |tx| repositories::set_enabled(tx, scope, &actor(), repo, true)).unwrap();
    write!(store, |tx| repositories::pause(tx, scope, &actor(), repo, "a move")).unwrap();
    let run = site.run(ONE).await;
    assert_eq!(site.view(run).await.state, RunState::Active);
    assert!(site.claim(1, 1).await.is_empty());
    write!(store, |tx| repositories::resume(tx, scope, &actor(), repo)).unwrap();
    assert_eq!(site.claim(1, 1).await[0].run, run);
}
on_both!(what_is_disabled_starts_no_runs_and_what_is_paused_does);

/// PostgreSQL cannot keep the character 0, and nothing is without bounds.
async fn a_run_with_texts_that_cannot_be_kept_is_refused(store: Store) {
    let site = Site::new(store).await;
    let long = "x".repeat(5_000);
    for bad in ["a\0b", long.as_str()] {
        let bad = || bad.to_owned();
        let good = || push(&site);
        let mut all = vec![
            NewRun { event: bad(), ..good() },
            NewRun { actor: bad(), ..good() },
            NewRun { trust: bad(), ..good() },
            NewRun { reference: bad(), ..good() },
            NewRun { head_sha: bad(), ..good() },
            NewRun { head_branch: Some(bad()), ..good() },
            NewRun { title: bad(), ..good() },
            NewRun { once: vec![(bad(), Duration::from_mins(5))], ..good() },
        ];
        if bad().contains('\0') {
            all.push(NewRun { context: bad(), ..good() });
        }
        for new in all {
            let refused = refusal(site.runs.create(new).await);
            assert!(matches!(refused, Refusal::Invalid(_)), "{refused:?}");
        }
    }
    let fine = NewRun { title: String::new(), head_branch: None, ..push(&site) };
    assert!(site.runs.create(fine).await.is_ok());
}
on_both!(a_run_with_texts_that_cannot_be_kept_is_refused);

/// Takes what is due and creates its runs; those of what is disabled are passed over.
async fn fire(tx: &mut Tx<'_>, runs: &Runs, like: &NewRun) -> Result<Vec<Created>, StoreError> {
    let tomorrow = Timestamp(tx.now().0 + 86_400_000);
    let mut made = Vec::new();
    for due in schedules::take_due(tx, SYSTEM, 10, |_| Some(tomorrow)).await? {
        let event = "schedule".to_owned();
        let (org, repo, workflow) = (due.org, due.repo, due.workflow);
        let new = NewRun { org, repo, workflow, event, ..like.clone() };
        match runs.create_in(tx, &new).await {
            Err(StoreError::Refused(Refusal::Conflict(_))) => {}
            created => made.push(created?),
        }
    }
    Ok(made)
}

/// A server that dies between a schedule and its run loses neither.
async fn schedules_move_on_together_with_their_runs(store: Store) {
    let site = Site::new(store).await;
    let store = site.store().clone();
    let (other, _, idle) = add_repository(&store, "other", "app").await;
    for (org, workflow) in [(site.org, site.workflow), (other, idle)] {
        let (cron, timezone) = ("0 3 * * *".to_owned(), "UTC".to_owned());
        let due = [FoundSchedule { cron, timezone, next_at: Timestamp(1_000) }];
        let scope = Scope::Org(org);
        write!(store, |tx| schedules::set(tx, scope, &actor(), workflow, &due)).unwrap();
    }
    let scope = Scope::Org(other);
    write!(store, |tx| workflows::set_enabled(tx, scope, &actor(), idle, false)).unwrap();
    let (runs, like) = (site.runs.clone(), push(&site));
    let died = async move |tx: &mut Tx<'_>| {
        assert_eq!(fire(tx, &runs, &like).await?.len(), 1);
        Err::<(), _>(StoreError::Closed)
    };
    store.write(died).await.unwrap_err();
    assert!(site.claim(1, 5).await.is_empty());
    let (runs, like) = (site.runs.clone(), push(&site));
    let made = store.write(async move |tx: &mut Tx<'_>| fire(tx, &runs, &like).await);
    let made = made.await.unwrap();
    let jobs = site.claim(1, 5).await;
    assert_eq!(jobs.iter().map(|job| Created::New(job.run)).collect::<Vec<_>>(), made);
    let left = write!(store, |tx| schedules::take_due(tx, SYSTEM, 10, |_| None)).unwrap();
    assert_eq!(left, []);
    let report = kiln_store::inspect::inspect(&store).await.unwrap();
    assert!(report.is_clean(), "{report:?}");
}
on_both!(schedules_move_on_together_with_their_runs);

/// Two servers that handle the same delivery make its runs once.
async fn a_delivery_is_handled_together_with_its_runs(store: Store) {
    let site = Site::new(store).await;
    let store = site.store().clone();
    let new = NewDelivery {
        repo: Some(site.repo),
        forge: "github".to_owned(),
        delivery: "d-1".to_owned(),
        event: "push".to_owned(),
        payload: b"{}".to_vec(),
    };
    let id = write!(store, |tx| deliveries::receive(tx, SYSTEM, new.clone())).unwrap().unwrap();
    let handle = || {
        let (store, runs, new) = (store.clone(), site.runs.clone(), push(&site));
        let work = async move |tx: &mut Tx<'_>| {
            deliveries::mark_handled(tx, SYSTEM, id).await?;
            runs.create_in(tx, &new).await
        };
        async move { store.write(work).await }
    };
    let both = tokio::join!(handle(), handle());
    assert_eq!([&both.0, &both.1].iter().filter(|made| made.is_ok()).count(), 1);
    let refused = refusal(if both.0.is_ok() { both.1 } else { both.0 });
    assert!(matches!(refused, Refusal::Conflict(_)), "{refused:?}");
    assert_eq!(site.claim(1, 5).await.len(), 1);
}
on_both!(a_delivery_is_handled_together_with_its_runs);

/// What a workflow's expressions make must not keep its rows from being written.
async fn a_run_goes_on_whatever_its_workflow_calls_things(store: Store) {
    let site = Site::new(store).await;
    let long = "x".repeat(3_000);
    let jobs = format!(
        r#"
  named: {{name: "a\0b", runs-on: linux, steps: [{{run: x}}]}}
  matrix: {{strategy: {{matrix: {{v: ["\0", {long}]}}}}, runs-on: linux, steps: [{{run: x}}]}}
  group: {{concurrency: "g\0", runs-on: linux, steps: [{{run: x}}]}}
  wide: {{concurrency: {long}, runs-on: linux, steps: [{{run: x}}]}}
  label: {{runs-on: "a\0b", steps: [{{run: x}}]}}
  note:
    strategy: {{max-parallel: "${{{{ fromJSON('\"\\u0000{long}\"') }}}}", matrix: {{v: [1]}}}}
    runs-on: linux
    steps: [{{run: x}}]
"#
    );
    let run = site.run(&jobs).await;
    let mut names = Vec::new();
    for job in site.claim(1, 9).await {
        assert_eq!(site.finish(&job, 1, Conclusion::Success).await, Answer::Accepted);
        names.push(job.name);
    }
    names.sort_unstable();
    let cut = format!("matrix ({}…", "x".repeat(391));
    assert_eq!(names, ["a\u{fffd}b", &cut, "matrix (\u{fffd})"]);
    let view = site.view(run).await;
    assert_eq!(view.state, RunState::Done(Conclusion::Failure));
    let notes = view.jobs.iter().filter_map(|job| job.note.as_deref());
    let notes: Vec<_> = notes.chain(view.nodes.iter().filter_map(|n| n.note.as_deref())).collect();
    let has = |part: &str| assert!(notes.iter().any(|note| note.contains(part)), "{notes:?}");
    has("the concurrency group has a control character");
    has("the concurrency group has 3000 characters; expected up to 400");
    has("`runs-on`: a label has a control character");
    has("`max-parallel` is \u{fffd}xxx");
    assert!(notes.iter().all(|note| note.chars().count() <= 2_000));
}
on_both!(a_run_goes_on_whatever_its_workflow_calls_things);

async fn a_run_whose_group_cannot_be_named_fails_and_others_go_on(store: Store) {
    let site = Site::new(store).await;
    let text = format!("on: push\nconcurrency: \"a\\0b\"\njobs:\n{ONE}");
    let run = site.runs.create(site.push(plan(&text))).await.unwrap().run();
    assert_eq!(site.view(run).await.state, RunState::Done(Conclusion::StartupFailure));
    let other = site.run(ONE).await;
    assert_eq!(site.claim(1, 9).await[0].run, other);
}
on_both!(a_run_whose_group_cannot_be_named_fails_and_others_go_on);
