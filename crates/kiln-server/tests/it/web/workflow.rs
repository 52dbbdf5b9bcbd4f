//! The page of a workflow: its file with what is wrong beside the lines, at any ref, and its switch.

use kiln_store::Tx;
use kiln_store::directory::environments;
use kiln_store::directory::members::Role;
use serde_json::json;

use super::browser::Browser;
use crate::api::people::{As, commit, file, person};
use crate::support::{SYSTEM, Server, somebody};

/// An error in line 5, something likely to be wrong in lines 4 and 9.
const WRONG: &str = "name: Wrong
on: [push, workflow_dispatch]
jobs:
  build:
    runs-onn: x
    runs-on: linux
    steps:
      - run: make
      - run: echo '${{ github.event.pull_request.title }}'
";

const NEWER: &str = "name: Good
on:
  workflow_dispatch:
    inputs:
      later: {type: string, default: tomorrow}
jobs:
  build:
    runs-on: linux
    steps: [{run: make}]
";

on_both! {
    /// O1 P6 P19
    findings_stand_beside_their_lines
}

async fn findings_stand_beside_their_lines(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::administrator()).await;
    commit(&server, &place, &[("wrong.yml", WRONG)]);
    let browser = Browser::of(&ada).await;
    let page = browser.get("/acme/app/actions/workflows/wrong.yml").await.expect(200);
    let page = page.has(&[
        "The file cannot be used: 1 error, the first in <a href=\"#S5\">line 5</a>.",
        "class=\"l error\" id=\"S5\"",
        "class=\"l warning\" id=\"S9\"",
        "class=\"finding error\"",
        "class=\"finding warning\"",
        "script-injection",
    ]);
    // Each below its own line, before the next one.
    let mut shown = Vec::new();
    for line in page.text.split("id=\"S").skip(1) {
        let number: u64 = line.split('"').next().unwrap().parse().unwrap();
        let kinds = line.split("class=\"finding ").skip(1);
        shown.extend(kinds.map(|kind| (number, kind.split('"').next().unwrap().to_owned())));
    }
    page.lacks(&["Start it by hand"]);
    // The same for programs.
    let path = "/api/repos/acme/app/workflows/wrong.yml/file";
    let read = ada.get(path).await.expect(200);
    assert_eq!((&read["text"], &read["ref"]), (&json!(WRONG), &json!("main")));
    assert_eq!((&read["path"], &read["enabled"]), (&json!(file("wrong.yml")), &json!(true)));
    assert_eq!(read["events"], json!(["push", "workflow_dispatch"]));
    let found = read["findings"].as_array().unwrap();
    let mut told: Vec<(u64, String)> = found
        .iter()
        .map(|one| (one["line"].as_u64().unwrap(), one["severity"].as_str().unwrap().to_owned()))
        .collect();
    told.sort_unstable();
    let kind = |line: u64, word: &str| (line, word.to_owned());
    let expect = [kind(4, "warning"), kind(5, "error"), kind(9, "warning")];
    assert_eq!(told, expect, "{read:#}");
    assert_eq!(shown, told);
    ada.get("/api/repos/acme/app/workflows/none.yml/file").await.expect(404);
    ada.get(&format!("{path}?ref=none")).await.expect(404);
    ada.get(&format!("{path}?ref=-x")).await.expect(422);
}

on_both! {
    /// O1
    a_workflow_is_looked_at_on_another_branch
}

async fn a_workflow_is_looked_at_on_another_branch(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::administrator()).await;
    commit(&server, &place, &[("ci.yml", crate::api::people::CI)]);
    let source = format!("/in/memory/{}", place.name);
    server.sources.commit(&source, "topic", &[(&file("ci.yml"), NEWER)]);
    let browser = Browser::of(&ada).await;
    let here = "/acme/app/actions/workflows/ci.yml";
    let page = browser.get(here).await.expect(200);
    page.has(&["name=\"ref\" value=\"main\"", "data-live=\"0\""]).lacks(&["input.later"]);
    let page = browser.get(&format!("{here}?ref=topic")).await.expect(200);
    page.has(&[
        "type=\"hidden\" name=\"ref\" value=\"topic\"",
        "name=\"input.later\" value=\"tomorrow\"",
        "on topic",
    ]);
    let fields = [("ref", "topic"), ("input.later", "today")];
    let made = browser.press(&format!("{here}/dispatch"), &fields).await;
    browser.get(made.location()).await.expect(200).has(&["topic"]);
    browser
        .get(&format!("{here}?ref=none"))
        .await
        .expect(200)
        .has(&["There is no branch, tag or commit none."]);
    browser.get(&format!("{here}?ref=-x")).await.expect(422);
}

on_both! {
    /// O1
    a_disabled_workflow_offers_no_form
}

async fn a_disabled_workflow_offers_no_form(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::administrator()).await;
    commit(&server, &place, &[("ci.yml", crate::api::people::CI)]);
    let browser = Browser::of(&ada).await;
    let here = "/acme/app/actions/workflows/ci.yml";
    browser.get(here).await.expect(200).has(&["Start it by hand", ">Disable<"]);
    assert_eq!(browser.press(&format!("{here}/disable"), &[]).await.location(), here);
    let page = browser.get(here).await.expect(200);
    page.has(&["It is disabled and starts no runs.", ">Enable<"]).lacks(&["Start it by hand"]);
    let read = ada.get("/api/repos/acme/app/workflows/ci.yml/file").await.expect(200);
    assert_eq!(read["enabled"], false);
    browser.press(&format!("{here}/dispatch"), &[("ref", "main")]).await.expect(409);
    let vic = person(&server, "vic", As::member(place.org, Role::Viewer)).await;
    let viewer = Browser::of(&vic).await;
    viewer.get(here).await.expect(200).lacks(&[">Enable<", ">Disable<"]);
    viewer.press(&format!("{here}/enable"), &[]).await.expect(403);
    browser.press(&format!("{here}/enable"), &[]).await.expect(303);
    browser.get(here).await.expect(200).has(&["Start it by hand"]);
    browser.press(&format!("{here}/explode"), &[]).await.expect(404);
    browser.press("/acme/app/actions/workflows/none.yml/disable", &[]).await.expect(404);
}

const TARGET: &str = "on:
  workflow_dispatch:
    inputs:
      target: {type: environment, required: true}
jobs:
  build:
    runs-on: linux
    steps: [{run: make}]
";

on_both! {
    /// O1
    an_environment_is_chosen_among_those_that_there_are
}

async fn an_environment_is_chosen_among_those_that_there_are(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::administrator()).await;
    commit(&server, &place, &[("ci.yml", TARGET)]);
    let browser = Browser::of(&ada).await;
    let here = "/acme/app/actions/workflows/ci.yml";
    browser.get(here).await.expect(200).has(&["type=\"text\" name=\"input.target\""]);
    let repo = place.repo;
    let work = async move |tx: &mut Tx<'_>| {
        environments::put(tx, SYSTEM, &somebody(), repo, "production", "{}").await
    };
    server.app.store.write(work).await.unwrap();
    browser.get(here).await.expect(200).has(&[
        "<select name=\"input.target\" required",
        "<option value=\"production\">production</option>",
    ]);
}

on_both! {
    /// O1
    a_page_that_says_no_looks_like_the_others
}

async fn a_page_that_says_no_looks_like_the_others(server: Server) {
    let ada = person(&server, "ada", As::administrator()).await;
    let browser = Browser::of(&ada).await;
    for (path, status) in
        [("/acme/none", 404), ("/no/such/page/at/all", 404), ("/runs?status=bogus", 422)]
    {
        browser.get(path).await.expect(status).has(&["Signed in as", ">Sign out<"]);
    }
    browser.get("/runs?status=bogus").await.has(&["`bogus` is no status", "timed_out"]);
    let told = ada.get("/api/runs?status=bogus").await.problem(422);
    assert!(told.contains("in_progress") && told.contains("timed_out"), "{told}");
}
