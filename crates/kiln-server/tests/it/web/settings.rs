//! Settings of a repository on their page.

use kiln_store::Tx;
use kiln_store::directory::holder::Holder;
use kiln_store::directory::members::Role;
use kiln_store::directory::secrets::{self, Sealed};
use kiln_store::directory::variables;

use super::browser::{Browser, World};
use crate::api::people::{As, person};
use crate::support::{SYSTEM, Server, somebody};

on_both! {
    /// O1 X1
    settings_show_names_and_never_values
}

async fn settings_show_names_and_never_values(server: Server) {
    let place = server.repository("acme", "app").await;
    let (org, repo) = (place.org, place.repo);
    let work = async move |tx: &mut Tx<'_>| {
        let sealed = || Sealed { key_id: "k1".to_owned(), bytes: b"open sesame".to_vec() };
        let actor = somebody();
        secrets::put(tx, SYSTEM, &actor, Holder::Repo(repo), "DEPLOY_KEY", sealed()).await?;
        secrets::put(tx, SYSTEM, &actor, Holder::Org(org), "SHARED_KEY", sealed()).await?;
        variables::put(tx, SYSTEM, &actor, Holder::Repo(repo), "REGION", "a-value-of-ours").await?;
        variables::put(tx, SYSTEM, &actor, Holder::Org(org), "COLOUR", "a-value-of-all").await
    };
    server.app.store.write(work).await.unwrap();
    let dev = person(&server, "dev", As::member(org, Role::Developer)).await;
    let page = Browser::of(&dev).await.get("/acme/app/settings").await.expect(200);
    page.has(&["DEPLOY_KEY", "SHARED_KEY", "REGION", "COLOUR"]).lacks(&[
        "a-value",
        "sesame",
        ">Remove<",
        "settings/default-branch",
    ]);
    let vic = person(&server, "vic", As::member(org, Role::Viewer)).await;
    let page = Browser::of(&vic).await.get("/acme/app/settings").await.expect(200);
    page.lacks(&["DEPLOY_KEY", "SHARED_KEY", "REGION", "COLOUR"]);
    // GitHub's interface has those of the organization, too.
    let names = dev.get("/repos/acme/app/actions/organization-secrets").await.expect(200);
    assert_eq!(
        (&names["total_count"], &names["secrets"][0]["name"]),
        (&1.into(), &"SHARED_KEY".into())
    );
    let names = dev.get("/repos/acme/app/actions/organization-variables").await.expect(200);
    assert_eq!(names["variables"][0]["name"], "COLOUR");
    vic.get("/repos/acme/app/actions/organization-secrets").await.expect(403);
}

on_both! {
    /// O1
    the_default_branch_is_changed_by_a_form
}

async fn the_default_branch_is_changed_by_a_form(server: Server) {
    let place = server.repository("acme", "app").await;
    let boss = person(&server, "boss", As::member(place.org, Role::Admin)).await;
    let browser = Browser::of(&boss).await;
    let form = "/acme/app/settings/default-branch";
    assert_eq!(browser.press(form, &[("branch", "trunk")]).await.location(), "/acme/app/settings");
    browser.get("/acme/app/settings").await.expect(200).has(&["name=\"branch\" value=\"trunk\""]);
    let seen = boss.get("/api/repos/acme/app").await.expect(200);
    assert_eq!(seen["default_branch"], "trunk");
    for bad in ["", "-x", "a b"] {
        browser.press(form, &[("branch", bad)]).await.expect(422);
    }
    let dev = person(&server, "dev", As::member(place.org, Role::Developer)).await;
    Browser::of(&dev).await.press(form, &[("branch", "mine")]).await.expect(403);
}

on_both! {
    /// O1
    a_repository_is_removed_once_it_is_empty
}

async fn a_repository_is_removed_once_it_is_empty(server: Server) {
    let world = World::new(&server).await;
    let empty = server.repository("acme", "unused").await;
    let browser = Browser::of(&world.ada).await;
    let named = [("confirm", "acme/app")];
    let page = browser.press("/acme/app/settings/remove", &named).await.expect(409);
    page.has(&["The repository has runs"]);
    let unused = "/acme/unused/settings/remove";
    browser.press(unused, &[("confirm", "acme/app")]).await.expect(422);
    let dev = person(&server, "dev", As::member(empty.org, Role::Developer)).await;
    Browser::of(&dev).await.press(unused, &[("confirm", "acme/unused")]).await.expect(403);
    let page = browser.press(unused, &[("confirm", "acme/unused")]).await;
    assert_eq!(page.location(), "/repositories");
    browser.get("/repositories").await.expect(200).has(&["acme/app"]).lacks(&["acme/unused"]);
    browser.get("/acme/unused").await.expect(404);
    // The name is free again.
    server.repository("acme", "unused").await;
}
