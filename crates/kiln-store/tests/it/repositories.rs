//! Repositories, workflows and environments.

use kiln_store::directory::holder::Holder;
use kiln_store::directory::repositories::{self, NewRepository, RepositoryChange, Visibility};
use kiln_store::directory::workflows::{self, FoundWorkflow};
use kiln_store::directory::{audit, environments, secrets, variables};
use kiln_store::{Page, Refusal, Store};

use crate::world::{SYSTEM, World, actor, ci, refusal, world, write};

async fn a_repository_changes_only_where_it_is_told_to(store: Store) {
    let acme = world(&store, "acme").await;
    let (repo, scope) = (acme.repo, acme.scope());
    let change = RepositoryChange {
        name: Some("website".to_owned()),
        visibility: Some(Visibility::Public),
        ..RepositoryChange::default()
    };
    write!(store, |tx| async {
        repositories::update(tx, scope, &actor(), repo, change.clone()).await?;
        repositories::set_enabled(tx, scope, &actor(), repo, false).await?;
        repositories::set_shares(tx, scope, &actor(), repo, 5).await?;
        repositories::set_priorities(tx, scope, &actor(), repo, Some(r#"{"low":0}"#)).await?;
        repositories::pause(tx, scope, &actor(), repo, "broken disk").await
    })
    .unwrap();
    let found = write!(store, |tx| repositories::by_name(tx, scope, "acme/website")).unwrap();
    assert_eq!(found.id, repo);
    assert_eq!((found.default_branch.as_str(), found.visibility), ("main", Visibility::Public));
    assert_eq!((found.enabled, found.shares), (false, 5));
    assert_eq!(found.priorities.as_deref(), Some(r#"{"low":0}"#));
    assert_eq!(found.paused.as_deref(), Some("ada: broken disk"));
    write!(store, |tx| repositories::resume(tx, scope, &actor(), repo)).unwrap();
    assert_eq!(write!(store, |tx| repositories::get(tx, scope, repo)).unwrap().paused, None);
}
on_both!(a_repository_changes_only_where_it_is_told_to);

async fn a_repository_that_is_wrong_is_refused(store: Store) {
    let acme = world(&store, "acme").await;
    let (org, repo, scope) = (acme.org, acme.repo, acme.scope());
    let taken = Refusal::Conflict("the organization has a repository `app` already".to_owned());
    let new = NewRepository::named(org, "app");
    let twice = write!(store, |tx| repositories::create(tx, scope, &actor(), new.clone()));
    assert_eq!(refusal(twice), taken);
    let second = NewRepository::named(org, "second");
    let second =
        write!(store, |tx| repositories::create(tx, scope, &actor(), second.clone())).unwrap();
    let change = RepositoryChange { name: Some("app".to_owned()), ..RepositoryChange::default() };
    let renamed =
        write!(store, |tx| repositories::update(tx, scope, &actor(), second, change.clone()));
    assert_eq!(refusal(renamed), taken);
    for (wrong, word) in [("{", "not JSON"), (r#"{"soon":1}"#, "`soon` is no class")] {
        let broken = write!(store, |tx| repositories::set_priorities(
            tx,
            scope,
            &actor(),
            repo,
            Some(wrong)
        ));
        assert!(refusal(broken).to_string().contains(word), "{wrong}");
    }
    let silent = write!(store, |tx| repositories::pause(tx, scope, &actor(), repo, ""));
    assert!(refusal(silent).to_string().contains("cannot be a reason"));
    for name in ["acme", "acme/", "/app", "acme/app/x", "acme/a\0pp", "other/app"] {
        let missing = write!(store, |tx| repositories::by_name(tx, scope, name));
        assert_eq!(refusal(missing), Refusal::NotFound("repository"), "{name}");
    }
}
on_both!(a_repository_that_is_wrong_is_refused);

async fn repositories_come_in_pages(store: Store) {
    let acme = world(&store, "acme").await;
    let (org, scope) = (acme.org, acme.scope());
    for name in ["b", "c", "d"] {
        let new = NewRepository::named(org, name);
        write!(store, |tx| repositories::create(tx, scope, &actor(), new.clone())).unwrap();
    }
    let mut names = Vec::new();
    let mut page = Page::first(3);
    loop {
        let found = write!(store, |tx| repositories::list(tx, scope, org, page)).unwrap();
        let Some(last) = found.last() else { break };
        page = Page::after(last.id.0, 3);
        names.extend(found.into_iter().map(|one| one.name));
    }
    assert_eq!(names, ["app", "b", "c", "d"]);
}
on_both!(repositories_come_in_pages);

async fn a_workflow_is_known_by_its_path(store: Store) {
    let acme = world(&store, "acme").await;
    let (org, repo, id, scope) = (acme.org, acme.repo, acme.workflow, acme.scope());
    write!(store, |tx| async {
        workflows::next_run_number(tx, scope, id).await?;
        workflows::set_enabled(tx, scope, &actor(), id, false).await
    })
    .unwrap();
    let entries =
        async || write!(store, |tx| audit::list(tx, scope, org, Page::first(1_000))).unwrap().len();
    let before = entries().await;
    let same = write!(store, |tx| workflows::upsert(tx, scope, &actor(), repo, ci())).unwrap();
    assert_eq!((same, entries().await), (id, before));
    let renamed = FoundWorkflow { name: "Build".to_owned(), ..ci() };
    let again =
        write!(store, |tx| workflows::upsert(tx, scope, &actor(), repo, renamed.clone())).unwrap();
    assert_eq!((again, entries().await), (id, before + 1));
    let found = write!(store, |tx| workflows::by_path(tx, scope, repo, &ci().path)).unwrap();
    assert_eq!((found.name.as_str(), found.enabled, found.runs), ("Build", false, 1));
}
on_both!(a_workflow_is_known_by_its_path);

async fn no_two_runs_get_the_same_number(store: Store) {
    let World { workflow, .. } = world(&store, "acme").await;
    let tasks: Vec<_> = (0..40)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                write!(store, |tx| workflows::next_run_number(tx, SYSTEM, workflow)).unwrap()
            })
        })
        .collect();
    let mut numbers = Vec::new();
    for task in tasks {
        numbers.push(task.await.unwrap());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=40).collect::<Vec<i64>>());
}
on_both!(no_two_runs_get_the_same_number);

async fn an_environment_goes_with_its_secrets_and_variables(store: Store) {
    let acme = world(&store, "acme").await;
    let (repo, id, scope) = (acme.repo, acme.environment, acme.scope());
    let rules = r#"{"wait_minutes":5}"#;
    let same =
        write!(store, |tx| environments::put(tx, scope, &actor(), repo, "prod", rules)).unwrap();
    assert_eq!(same, id);
    let found = write!(store, |tx| environments::by_name(tx, scope, repo, "prod")).unwrap();
    assert_eq!(found.rules, rules);
    let holder = Holder::Environment(id);
    write!(store, |tx| async {
        let sealed = secrets::Sealed { key_id: "k1".to_owned(), bytes: vec![1] };
        secrets::put(tx, scope, &actor(), holder, "A", sealed).await?;
        variables::put(tx, scope, &actor(), holder, "B", "1").await?;
        environments::delete(tx, scope, &actor(), id).await
    })
    .unwrap();
    let left = write!(store, |tx| secrets::sealed_with(tx, SYSTEM, "k1", Page::first(9))).unwrap();
    let left: Vec<_> = left.iter().map(|secret| secret.name.as_str()).collect();
    assert_eq!(left, ["TOKEN"]);
    let gone = write!(store, |tx| variables::list(tx, scope, holder, Page::first(9)));
    assert_eq!(refusal(gone), Refusal::NotFound("environment"));
}
on_both!(an_environment_goes_with_its_secrets_and_variables);
