//! Repositories and workflows, found by words of their names.

use kiln_store::directory::places::{self, Place};
use kiln_store::directory::workflows::{self, FoundWorkflow};
use kiln_store::{Scope, Store};
use kiln_testkit::runs::add_repository;

use crate::world::{SYSTEM, actor, write};

/// O1: every word must be there, wherever and however it is written, and what is shorter comes first.
async fn words_find_repositories_and_workflows(store: Store) {
    store.migrate().await.unwrap();
    let (acme, repo, _) = add_repository(&store, "Acme", "kiln_web").await;
    add_repository(&store, "Acme", "kiln-web-next").await;
    let (other, foreign, _) = add_repository(&store, "other", "kiln").await;
    for (repo, path, name) in [
        (repo, "nightly.yml", "Nightly 100%"),
        (repo, "release.yml", "Release"),
        (foreign, "nightly.yml", "Nightly"),
    ] {
        let path = format!(".github/workflows/{path}");
        let found = FoundWorkflow { path, name: name.to_owned(), triggers: "{}".to_owned() };
        write!(store, |tx| workflows::upsert(tx, SYSTEM, &actor(), repo, found.clone())).unwrap();
    }
    let repos = async |scope: Scope, words: &'static [&'static str], limit: u32| {
        let found = write!(store, |tx| places::repositories(tx, scope, words, limit)).unwrap();
        assert!(found.iter().all(|place| place.workflow.is_none()));
        found.into_iter().map(|place| place.repo).collect::<Vec<_>>()
    };
    let ours = Scope::Org(acme);
    assert_eq!(repos(ours, &["KILN"], 9).await, ["Acme/kiln_web", "Acme/kiln-web-next"]);
    assert_eq!(repos(ours, &["next", "acme/"], 9).await, ["Acme/kiln-web-next"]);
    assert_eq!(repos(ours, &["kiln"], 1).await, ["Acme/kiln_web"]);
    assert_eq!(repos(SYSTEM, &["kiln"], 1).await, ["other/kiln"]);
    // What stands for anything elsewhere stands for itself here.
    assert_eq!(repos(ours, &["n_w"], 9).await, ["Acme/kiln_web"]);
    for nothing in [&["%"][..], &["kiln", "nowhere"], &["other"], &["a\0"]] {
        assert_eq!(repos(ours, nothing, 9).await, [""; 0], "{nothing:?}");
    }
    let named = async |scope: Scope, words: &'static [&'static str]| {
        let found = write!(store, |tx| places::workflows(tx, scope, words, 9)).unwrap();
        let shown = |place: Place| (place.repo, place.workflow.unwrap().1);
        found.into_iter().map(shown).collect::<Vec<_>>()
    };
    let pair = |repo: &str, name: &str| (repo.to_owned(), name.to_owned());
    assert_eq!(named(ours, &["nightly.yml"]).await, [pair("Acme/kiln_web", "Nightly 100%")]);
    assert_eq!(named(ours, &["web", "100%"]).await, [pair("Acme/kiln_web", "Nightly 100%")]);
    assert_eq!(named(Scope::Org(other), &["release"]).await, []);
    assert_eq!(
        named(SYSTEM, &["nightly"]).await,
        [pair("other/kiln", "Nightly"), pair("Acme/kiln_web", "Nightly 100%")]
    );
}
on_both!(words_find_repositories_and_workflows);
