//! Buttons: who may press them, and from where.

use kiln_store::directory::members::Role;

use super::browser::{Browser, World};
use crate::api::people::{As, person};
use crate::support::Server;

on_both! {
    /// O1
    a_run_is_cancelled_and_run_again_by_buttons
}

async fn a_run_is_cancelled_and_run_again_by_buttons(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    let (cancel, here) = (world.path("/cancel"), world.path(""));
    // Without the token of the form, and from a page of somebody else.
    browser.send(browser.form(&cancel, &[])).await.expect(403);
    let token = browser.form_token().await;
    let form = [("form_token", token.as_str())];
    for (name, value) in [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")] {
        let request = browser.form(&cancel, &form).header(name, value);
        browser.send(request).await.expect(403).has(&["another site"]);
    }
    let other = person(&server, "other", As::administrator()).await;
    let other = Browser::of(&other).await;
    other.send(other.form(&cancel, &form)).await.expect(403);
    assert_eq!(browser.press(&cancel, &[]).await.location(), here);
    browser.get(&here).await.expect(200).has(&["Cancelled by adam"]);
    browser.press(&world.path("/force-cancel"), &[]).await;
    browser.press(&cancel, &[]).await.expect(409).has(&["The run has ended already."]);
    assert_eq!(browser.press(&world.path("/rerun"), &[]).await.location(), here);
    browser.get(&here).await.expect(200).has(&["?attempt=2\" aria-current=\"true\""]);
    browser.get(&format!("{here}?attempt=1")).await.expect(200).has(&["This is attempt 1."]);
    browser.press(&world.path("/explode"), &[]).await.expect(404);
}

on_both! {
    /// S20
    what_is_not_ones_own_is_not_there
}

async fn what_is_not_ones_own_is_not_there(server: Server) {
    let world = World::new(&server).await;
    let elsewhere = server.repository("other", "app").await;
    let eve = person(&server, "eve", As::member(elsewhere.org, Role::Admin)).await;
    let browser = Browser::of(&eve).await;
    let name = &world.place.name;
    for path in [
        world.path(""),
        world.path("/error"),
        world.job(""),
        world.job("/lines"),
        world.job("/follow"),
        format!("/live?run={}", world.run),
        format!("/{name}"),
        format!("/{name}/settings"),
        format!("/{name}/actions"),
        format!("/{name}/actions/workflows/ci.yml"),
        format!("/{name}/badge.svg"),
    ] {
        browser.get(&path).await.expect(404);
    }
    browser.get("/runs").await.expect(200).has(&["Nothing has run yet"]);
    browser.get("/repositories").await.expect(200).has(&["other/app"]).lacks(&["acme/app"]);
    let token = browser.form_token().await;
    let form = [("form_token", token.as_str())];
    for path in [
        world.path("/cancel"),
        world.path("/rerun"),
        format!("/{name}/settings/pause"),
        format!("/{name}/settings/disable"),
        format!("/{name}/actions/workflows/ci.yml/dispatch"),
        "/runners/1/drain".to_owned(),
    ] {
        browser.send(browser.form(&path, &form)).await.expect(404);
    }
    // A viewer looks, and sees no buttons.
    let vera = person(&server, "vera", As::member(world.place.org, Role::Viewer)).await;
    let viewer = Browser::of(&vera).await;
    viewer.get(&world.path("")).await.expect(200).lacks(&[">Cancel<"]);
    viewer.press(&world.path("/cancel"), &[]).await.expect(403).has(&["Viewers may not do this"]);
    viewer.get(&format!("/{name}/settings")).await.expect(200).lacks(&[">Pause<", ">Disable<"]);
}

on_both! {
    /// S22
    a_repository_is_paused_by_its_settings
}

async fn a_repository_is_paused_by_its_settings(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    let reason = [("reason", "moving <house>")];
    let page = browser.press("/acme/app/settings/pause", &reason).await;
    assert_eq!(page.location(), "/acme/app/settings");
    browser.get("/acme/app").await.expect(200).has(&["moving &lt;house&gt;"]);
    browser.press("/acme/app/settings/resume", &[]).await;
    browser.get("/acme/app").await.expect(200).lacks(&["Paused"]);
    browser.press("/acme/app/settings/disable", &[]).await;
    browser.get("/acme/app/settings").await.expect(200).has(&["it is disabled", ">Enable<"]);
}
