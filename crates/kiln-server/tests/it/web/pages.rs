//! What pages show.

use kiln_core::run::Conclusion;
use kiln_store::directory::members::Role;

use super::browser::{Browser, TWO, World};
use crate::api::people::{As, commit, person};
use crate::support::Server;

on_both! {
    /// O1
    a_run_shows_its_jobs_in_three_ways_and_says_why_they_wait
}

async fn a_run_shows_its_jobs_in_three_ways_and_says_why_they_wait(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    let graph = browser.get(&world.path("")).await.expect(200);
    graph.has(&[
        "0 of 2 jobs done, 1 running, 1 waiting",
        "class=\"node running\"",
        "Waits for `build`.",
        ">Cancel<",
    ]);
    let list = browser.get(&world.path("?view=list")).await.expect(200);
    list.has(&["A runner prepares it.", &world.job("")]);
    browser.get(&world.path("?view=waterfall")).await.expect(200).has(&["class=\"wait\""]);
    world.finish(Conclusion::Failure).await;
    let page = browser.get(&world.path("")).await.expect(200);
    page.has(&["1 of 2 jobs failed", "Go to the first error", "Re-run failed jobs"])
        .lacks(&["data-live"]);
    let dashboard = browser.get("/").await.expect(200);
    dashboard.has(&["Broke since yesterday", "First error", "All is quiet.", "0 % green"]);
    browser.get(&world.path("?attempt=7")).await.expect(404);
    browser.get("/acme/other/actions/runs/1").await.expect(404);
}

on_both! {
    /// O1 G1
    whoever_is_in_two_organizations_sees_the_pages_of_both
}

async fn whoever_is_in_two_organizations_sees_the_pages_of_both(server: Server) {
    let world = World::new(&server).await;
    let other = server.repository("other", "tool").await;
    let roles = vec![(world.place.org, Role::Developer), (other.org, Role::Viewer)];
    let both = As { roles, scopes: vec![kiln_core::access::Right::Write], ..As::default() };
    let both = person(&server, "both", both).await;
    let browser = Browser::of(&both).await;
    let name = &world.place.name;
    for path in ["/", "/runs", "/repositories"] {
        browser.get(path).await.expect(200).has(&[name.as_str()]);
    }
    for path in [format!("/{name}"), format!("/{name}/actions"), format!("/{}", other.name)] {
        browser.get(&path).await.expect(200);
    }
    browser.get(&format!("/runs?repo={}", name.replace('/', "%2F"))).await.expect(200);
    both.get(&format!("/api/runs?repo={name}")).await.expect(200);
}

on_both! {
    /// O1
    runs_are_filtered_and_come_in_pages
}

async fn runs_are_filtered_and_come_in_pages(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    world.finish(Conclusion::Failure).await;
    for _ in 0..45 {
        world.again(&server).await;
    }
    let count = |text: &str| text.matches("<li data-entry").count();
    let first = browser.get("/runs").await.expect(200);
    assert_eq!(count(&first.text), 40);
    let older = first.text.split("rel=\"next\"").next().unwrap().rsplit("href=\"").next().unwrap();
    let older = older.split('"').next().unwrap().replace("&amp;", "&");
    assert_eq!(count(&browser.get(&older).await.expect(200).text), 6);
    let check = async |query: &str, expect: usize| {
        let page = browser.get(&format!("/runs?{query}")).await.expect(200);
        assert_eq!(count(&page.text), expect, "{query}");
    };
    check("status=failure&branch=main&event=push&actor=adam&workflow=ci.yml", 1).await;
    check("status=failure&branch=&event=&actor=nobody", 0).await;
    check("q=COMMIT&repo=acme%2Fapp&status=failure", 1).await;
    check("q=100%25", 0).await;
    browser.get("/runs?after=x").await.expect(422);
    browser.get("/runs?repo=no/such").await.expect(404);
    browser.get("/acme/app/actions?q=commit").await.expect(200).has(&["Older"]);
}

on_both! {
    /// O2
    a_log_comes_by_blocks_and_leads_to_its_first_error
}

async fn a_log_comes_by_blocks_and_leads_to_its_first_error(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    browser.get(&world.job("")).await.expect(200).has(&["Nothing printed yet", "data-follow"]);
    let texts: Vec<String> = (1..=1_000).map(|number| format!("line {number}")).collect();
    let mut lines: Vec<(u32, &str)> = texts.iter().map(|text| (0, text.as_str())).collect();
    lines[699] = (1, "##[error]\u{1b}[31mbroken\u{1b}[0m");
    lines[700] = (1, "10%\r100%");
    world.print(&server, &lines).await;
    // A log that grows is shown from its end.
    browser
        .get(&world.job(""))
        .await
        .expect(200)
        .has(&["line 1000", "data-lines=\"1000\""])
        .lacks(&["line 1<"]);
    world.finish(Conclusion::Failure).await;
    browser.get(&world.job("")).await.expect(200).has(&[
        "line 1<",
        "data-line=\"700\"",
        "First error",
    ]);
    assert_eq!(browser.get(&world.path("/error")).await.location(), world.job("?line=700#L700"));
    assert_eq!(browser.get(&world.job("?at=error")).await.location(), world.job("?line=700#L700"));
    assert_eq!(browser.get(&world.job("?step=2")).await.location(), world.job("?line=700#L700"));
    let there = browser.get(&world.job("?line=700")).await.expect(200);
    there
        .has(&["id=\"L700\"", "class=\"f1\">broken</span>", "100%", "Earlier lines", "Later lines"])
        .lacks(&["10%\r"]);
    let block = browser.get(&world.job("/lines?from=201&count=200")).await.expect(200);
    assert_eq!(block.headers["kiln-log-lines"], "1000");
    assert_eq!(block.text.matches("class=\"l").count(), 200);
    block.has(&["id=\"L201\"", "id=\"L400\""]).lacks(&["step-head", "id=\"L401\""]);
    let beyond = browser.get(&world.job("/lines?from=99999&count=200")).await.expect(200);
    assert_eq!(beyond.text, "");
    browser.get(&world.job("/lines?from=699&count=3")).await.expect(200).has(&["data-step=\"2\""]);
    assert_eq!(browser.get(&world.job("/lines?first_of=2")).await.text, "700");
    assert_eq!(browser.get(&world.job("/lines?first_of=9")).await.text, "null");
    browser.get(&world.job("?line=99999999")).await.expect(200).has(&["line 1000"]);
    browser.get(&world.path("/job/12345")).await.expect(404);
}

on_both! {
    /// S16
    the_queue_says_why_and_repositories_have_their_pages
}

async fn the_queue_says_why_and_repositories_have_their_pages(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    world.again(&server).await;
    let queue = browser.get("/queue").await.expect(200);
    queue.has(&["1 job waits", "aria-label=\"Position 1\"", "No runner is there.", "labels linux"]);
    browser.get("/runners").await.expect(200).has(&["No runner is there"]);
    browser.get("/repositories").await.expect(200).has(&["acme/app"]);
    browser.get("/acme/app").await.expect(200).has(&[
        "Two",
        ".github/workflows/ci.yml",
        "Latest runs",
    ]);
    browser
        .get("/acme/app/settings")
        .await
        .expect(200)
        .has(&["/in/memory/acme/app", "badge.svg?key="]);
}

const TYPED: &str = "name: Typed
on:
  workflow_dispatch:
    inputs:
      where: {type: choice, options: [here, there], default: there, description: The place}
      fast: {type: boolean, default: true}
      count: {type: number, default: 3, required: true}
jobs:
  build:
    runs-on: linux
    steps: [{run: make}]
";

on_both! {
    /// O1
    a_workflow_is_shown_with_its_form_and_its_mistakes
}

async fn a_workflow_is_shown_with_its_form_and_its_mistakes(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::administrator()).await;
    let broken = "on: push\njobs:\n  a:\n    runs-onn: x\n";
    commit(&server, &place, &[("typed.yml", TYPED), ("broken.yml", broken), ("two.yml", TWO)]);
    let browser = Browser::of(&ada).await;
    let page = browser.get("/acme/app/actions/workflows/typed.yml").await.expect(200);
    page.has(&[
        "<option value=\"there\" selected>",
        "type=\"checkbox\" name=\"input.fast\" value=\"true\" checked",
        "type=\"number\" step=\"any\" name=\"input.count\" value=\"3\" required",
        "The place",
        "It has not run yet.",
    ]);
    let page = browser.get("/acme/app/actions/workflows/broken.yml").await.expect(200);
    page.has(&[
        "The file cannot be used",
        "class=\"l error\" id=\"S4\"",
        "class=\"finding error\"",
    ])
    .lacks(&["Start it by hand"]);
    browser.get("/acme/app/actions/workflows/none.yml").await.expect(404);
    let fields = [
        ("ref", "main"),
        ("input.where", "here"),
        ("input.fast", "false"),
        ("input.fast", "true"),
        ("input.count", "7"),
    ];
    let made = browser.press("/acme/app/actions/workflows/typed.yml/dispatch", &fields).await;
    let there = made.location().to_owned();
    assert!(there.starts_with("/acme/app/actions/runs/"), "{there}");
    browser.get(&there).await.expect(200).has(&["workflow_dispatch"]);
    let wrong = [("ref", "main"), ("input.where", "nowhere"), ("input.count", "7")];
    let back = browser.press("/acme/app/actions/workflows/typed.yml/dispatch", &wrong).await;
    // The form comes back with what was typed, and says at the field what is wrong.
    back.expect(422).has(&[
        "id=\"dispatch\" open",
        "name=\"input.count\" value=\"7\"",
        "aria-invalid=\"true\" aria-describedby=\"problem.where\"",
        "id=\"problem.where\" role=\"alert\">The input `where` is `nowhere`, expected one of",
    ]);
}

on_both! {
    /// O1
    a_badge_says_how_the_last_run_ended
}

async fn a_badge_says_how_the_last_run_ended(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    let settings = browser.get("/acme/app/settings").await.expect(200).text;
    let address =
        settings.split("<img src=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let nobody = Browser::new(&server);
    nobody.get(&address).await.expect(200).has(&["no runs"]);
    world.finish(Conclusion::Failure).await;
    let badge = nobody.get(&address).await.expect(200).has(&["failing"]);
    assert_eq!(badge.headers["content-type"], "image/svg+xml");
    nobody.get(&format!("{address}&branch=other")).await.expect(200).has(&["no runs"]);
    nobody.get(&format!("{address}&event=schedule")).await.expect(200).has(&["no runs"]);
    nobody.get(&address.replace("acme/app", "acme/other")).await.expect(404);
    nobody.get("/acme/app/badge.svg").await.expect(404);
    // Where GitHub's interface says that it is.
    let listed = world.ada.get("/repos/acme/app/actions/workflows").await.expect(200);
    let named = listed["workflows"][0]["badge_url"].as_str().unwrap().to_owned();
    let named = named.strip_prefix(&server.url("")).unwrap();
    assert_eq!(named, "/acme/app/actions/workflows/ci.yml/badge.svg");
    nobody.get(named).await.expect(404);
    browser.get(named).await.expect(200).has(&["failing"]);
    let key = address.split_once('?').unwrap().1;
    let badge = nobody.get(&format!("{named}?{key}")).await.expect(200).has(&["failing"]);
    assert_eq!(badge.headers["content-type"], "image/svg+xml");
    let other = named.replace("ci.yml", "other.yml");
    nobody.get(&format!("{other}?{key}")).await.expect(200).has(&["no runs"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_pages_are_kept_for_ever_under_their_hash() {
    let server = Server::start(kiln_testkit::database::Database::sqlite()).await;
    let nobody = Browser::new(&server);
    let page = nobody.get("/sign-in").await.expect(200);
    let policy = page.headers["content-security-policy"].to_str().unwrap().to_owned();
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    page.text.split("=\"/assets/").skip(1).for_each(|part| assert!(!part.is_empty()));
    for name in ["kiln.css", "kiln.js", "icon.svg"] {
        let start = page.text.split("/assets/").nth(1).unwrap();
        let hash = start.split('/').next().unwrap();
        let asset = nobody.get(&format!("/assets/{hash}/{name}")).await.expect(200);
        assert!(asset.headers["cache-control"].to_str().unwrap().contains("immutable"));
        let other = nobody.get(&format!("/assets/other/{name}")).await.expect(200);
        assert_eq!(other.headers["cache-control"], "no-store");
    }
    nobody.get("/assets/x/none.js").await.expect(404);
}
