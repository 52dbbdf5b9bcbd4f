//! Signing in and out.

use reqwest::{Method, header};

use super::browser::{Browser, World};
use crate::api::people::{As, person, reply};
use crate::support::Server;

on_both! {
    /// O1
    every_page_asks_who_one_is
}

async fn every_page_asks_who_one_is(server: Server) {
    let world = World::new(&server).await;
    let nobody = Browser::new(&server);
    assert_eq!(nobody.get("/").await.location(), "/sign-in");
    let name = &world.place.name;
    for path in [
        "/runs".to_owned(),
        "/queue".to_owned(),
        "/runners".to_owned(),
        "/repositories".to_owned(),
        "/live".to_owned(),
        format!("/{name}"),
        format!("/{name}/settings"),
        format!("/{name}/actions"),
        format!("/{name}/actions/workflows/ci.yml"),
        "/no/such".to_owned(),
        world.path(""),
        world.path("/error"),
        world.job(""),
        world.job("/lines"),
        world.job("/follow"),
        world.job("/search?q=x"),
    ] {
        let page = nobody.get(&path).await;
        assert!(page.location().starts_with("/sign-in?next=/"), "{path}: {}", page.location());
    }
    for path in [
        "/sign-out".to_owned(),
        "/runners/1/drain".to_owned(),
        format!("/{name}/settings/pause"),
        format!("/{name}/actions/workflows/ci.yml/dispatch"),
        world.path("/cancel"),
    ] {
        let page = nobody.send(nobody.request(Method::POST, &path)).await;
        assert_eq!(page.location(), "/sign-in", "{path}");
    }
    nobody.get(&format!("/{name}/badge.svg")).await.expect(404);
    nobody.get(&format!("/{name}/badge.svg?key=x")).await.expect(404);
}

on_both! {
    /// O1
    a_token_becomes_a_session
}

async fn a_token_becomes_a_session(server: Server) {
    let ada = person(&server, "ada", As::administrator()).await;
    let mut browser = Browser::new(&server);
    browser
        .get("/sign-in?next=/runs")
        .await
        .expect(200)
        .has(&["value=\"/runs\"", "<label for=\"token\""]);
    let enter = |form: &[(&str, &str)]| browser.form("/sign-in", form);
    for wrong in ["", "kpat_x", "kot_x", "x"] {
        let page = browser.send(enter(&[("token", wrong)])).await.expect(401);
        assert!(page.headers.get("set-cookie").is_none());
        page.has(&["role=\"alert\""]);
    }
    let foreign = enter(&[("token", &ada.token)]).header(header::ORIGIN, "https://evil.example");
    browser.send(foreign).await.expect(403);
    let page =
        browser.send(enter(&[("token", ada.token.as_str()), ("next", "//evil.example")])).await;
    assert_eq!(page.location(), "/");
    let cookie = page.headers["set-cookie"].to_str().unwrap().to_owned();
    assert!(cookie.contains("; HttpOnly; SameSite=Lax") && !cookie.contains("Secure"), "{cookie}");
    assert!(!cookie.contains(&ada.token), "the cookie is no token");
    browser.keep(&page);
    browser.get("/").await.expect(200).has(&["Kiln is up"]);
    assert_eq!(browser.get("/sign-in?next=/runs").await.location(), "/runs");
    // Pages look through the API, and change nothing there.
    browser.get("/api/me").await.expect(200).has(&["\"ada\""]);
    browser.send(browser.request(Method::POST, "/api/tokens").body("{}")).await.expect(401);
    browser.send(browser.form("/sign-out", &[])).await.expect(403);
    let out = browser.press("/sign-out", &[]).await;
    assert_eq!(out.location(), "/sign-in");
    assert!(
        out.headers["set-cookie"].to_str().unwrap().starts_with("kiln_session=; Path=/; Max-Age=0")
    );
}

on_both! {
    /// O1
    a_session_ends_with_its_token
}

async fn a_session_ends_with_its_token(server: Server) {
    let ada = person(&server, "ada", As::administrator()).await;
    let browser = Browser::of(&ada).await;
    browser.get("/").await.expect(200);
    let tokens = ada.get("/api/tokens").await.expect(200);
    let id = tokens["items"][0]["id"].as_i64().unwrap();
    assert_eq!(ada.delete(&format!("/api/tokens/{id}")).await.status.as_u16(), 204);
    assert_eq!(browser.get("/").await.location(), "/sign-in");
    let mut forged = Browser::new(&server);
    forged.cookie = Some("kiln_session=AAAA".to_owned());
    assert_eq!(forged.get("/").await.location(), "/sign-in");
}

on_both! {
    addresses_of_the_api_go_on_as_before
}

async fn addresses_of_the_api_go_on_as_before(server: Server) {
    let ada = person(&server, "ada", As::administrator()).await;
    let browser = Browser::of(&ada).await;
    for path in
        ["/api", "/api/", "/api/nothing", "/repos/x", "/actions/x/y", "/assets/a", "/a/b/c/d/e/f/g"]
    {
        let plain = reply(server.client.get(server.url(path))).await;
        assert_eq!(plain.headers["content-type"], "application/problem+json", "{path}");
        plain.expect(404);
    }
    reply(server.client.post(server.url("/api/nothing"))).await.expect(404);
    reply(server.client.delete(server.url("/acme/app"))).await.expect(404);
    // A browser reads a page.
    browser.get("/nowhere").await.expect(404).has(&["There is nothing here"]);
    browser.get("/acme/nothing").await.expect(404).has(&["There is nothing here"]);
}
