//! The same run as graph, list and waterfall: folded matrices, reasons in words, the critical path, remarks in the log.

use kiln_core::id::RunnerId;
use kiln_core::run::Conclusion;
use kiln_store::Tx;
use kiln_store::directory::members::Role;
use kiln_store::events::{Annotation, Level};
use kiln_store::runs::{self, Report, Reported, Said};

use super::browser::{Browser, World};
use crate::api::people::{As, person};
use crate::support::Server;

on_both! {
    /// O1
    all_views_fold_matrices_and_say_why_and_what_held_it_up
}

async fn all_views_fold_matrices_and_say_why_and_what_held_it_up(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    let waterfall = browser.get(&world.path("?view=waterfall")).await.expect(200);
    waterfall.has(&["Waiting: Waits for `build`."]).lacks(&["critical path"]);
    world.finish(Conclusion::Success).await;
    let mut legs = world.site.claim(1, 2).await;
    let (first, second) = (legs.remove(0), legs.remove(0));
    world.site.finish(&first, 1, Conclusion::Success).await;
    world.site.finish(&second, 1, Conclusion::Failure).await;
    let meaning = "critical path: without these jobs the run would have ended earlier";
    let graph = browser.get(&world.path("")).await.expect(200);
    let graph = graph.has(&[
        "class=\"node success critical\"",
        "class=\"node failed critical\"",
        "On the critical path.",
        meaning,
        "1 of 2 jobs failed",
    ]);
    // Whichever leg failed, its reason is the one that is told.
    let title = graph.text.split("<title>check: Failed. ").nth(1).unwrap();
    let title = title.split("</title>").next().unwrap();
    assert!(title.to_lowercase().contains("fail"), "{title}");
    let list = browser.get(&world.path("?view=list")).await.expect(200);
    list.has(&[
        "<details class=\"fold\" id=\"list-1\" open>",
        "1 of 2 jobs failed",
        "check (a)",
        "check (b)",
    ]);
    let waterfall = browser.get(&world.path("?view=waterfall")).await.expect(200);
    let waterfall = waterfall.has(&[
        "<details class=\"fold\" id=\"waterfall-1\" open>",
        "aria-label=\"On the critical path\"",
        meaning,
        "Failed: ",
        "aria-label=\"Failed, waited ",
    ]);
    // The job before, the matrix, the leg that ended last, and the legend.
    assert_eq!(waterfall.text.matches("aria-label=\"On the critical path\"").count(), 4);
    let dashboard = browser.get("/").await.expect(200);
    dashboard.has(&["#1 · Failed in "]);
    browser.get("/acme/app").await.expect(200).has(&["#1 · Failed in ", "The last 1 runs"]);
}

async fn remark(
    server: &Server,
    world: &World<'_>,
    message: &str,
    step: Option<u32>,
    sequence: u64,
) {
    let annotation = Annotation {
        level: Level::Error,
        message: message.to_owned(),
        title: None,
        file: Some("src/main.rs".to_owned()),
        line: Some(3),
        code: None,
        step,
        end_line: None,
        column: None,
        end_column: None,
    };
    let report = Report {
        job: world.log.job,
        claim: world.log.claim,
        runner: RunnerId(1),
        events: vec![Reported {
            sequence,
            at: kiln_server::clock::now(),
            what: Said::Annotation(annotation),
        }],
    };
    let work = async move |tx: &mut Tx<'_>| runs::report(tx, std::slice::from_ref(&report)).await;
    server.app.store.write(work).await.unwrap();
}

on_both! {
    /// O1
    a_remark_leads_to_its_own_line_of_the_log
}

async fn a_remark_leads_to_its_own_line_of_the_log(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    let texts: Vec<String> = (1..=500).map(|number| format!("line {number}")).collect();
    let mut lines: Vec<(u32, &str)> = texts.iter().map(|text| (0, text.as_str())).collect();
    lines[99] = (0, "first it says: no such type");
    lines[299] = (0, "##[error]no such type");
    lines[399] = (1, "warning: unused");
    world.print(&server, &lines).await;
    remark(&server, &world, "no such type\nand more", Some(0), 1).await;
    remark(&server, &world, "said nowhere", Some(1), 2).await;
    remark(&server, &world, "warning: unused", None, 3).await;
    let page = browser.get(&world.path("")).await.expect(200);
    page.has(&["/annotations/0?attempt=1\">build</a>", "/annotations/2?attempt=1\">build</a>"]);
    let to = async |at: &str| {
        let path = world.path(&format!("/annotations/{at}?attempt=1"));
        browser.get(&path).await.expect(303).location().to_owned()
    };
    assert_eq!(to("0").await, world.job("?line=300#L300"));
    assert_eq!(to("1").await, world.job("?step=2"));
    assert_eq!(to("2").await, world.job("?line=400#L400"));
    browser.get(&world.path("/annotations/3")).await.expect(404);
    browser.get(&world.path("/annotations/x")).await.expect(404);
}

on_both! {
    /// O1
    runs_are_paged_in_both_directions_and_searched_piece_by_piece
}

async fn runs_are_paged_in_both_directions_and_searched_piece_by_piece(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    for _ in 0..99 {
        world.again(&server).await;
    }
    let numbers = |text: &str| -> Vec<i64> {
        let rows = text.split("Two #").skip(1);
        rows.map(|row| row.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap())
            .collect()
    };
    let link = |text: &str, rel: &str| -> Option<String> {
        let before = text
            .split(&format!("\" rel=\"{rel}\""))
            .next()
            .filter(|part| part.len() < text.len())?;
        Some(before.rsplit("href=\"").next()?.replace("&amp;", "&"))
    };
    let first = browser.get("/runs").await.expect(200).text;
    assert_eq!(numbers(&first), (61..=100).rev().collect::<Vec<_>>());
    assert_eq!((link(&first, "prev"), link(&first, "first")), (None, None));
    let second = browser.get(&link(&first, "next").unwrap()).await.expect(200).text;
    assert_eq!(numbers(&second), (21..=60).rev().collect::<Vec<_>>());
    let third = browser.get(&link(&second, "next").unwrap()).await.expect(200).text;
    assert_eq!(numbers(&third), (1..=20).rev().collect::<Vec<_>>());
    assert_eq!(link(&third, "next"), None);
    let back = browser.get(&link(&third, "prev").unwrap()).await.expect(200).text;
    assert_eq!(numbers(&back), (21..=60).rev().collect::<Vec<_>>());
    let forth = browser.get(&link(&back, "next").unwrap()).await.expect(200).text;
    assert_eq!(numbers(&forth), numbers(&third));
    let top = browser.get(&link(&back, "prev").unwrap()).await.expect(200).text;
    assert_eq!(numbers(&top), numbers(&first));
    assert_eq!(link(&top, "prev"), None);
    browser.get("/runs?newer=x").await.expect(422);
    browser
        .get("/runs?status=skipped")
        .await
        .expect(200)
        .has(&["No run fits", "selected>skipped<"]);
    // The same for programs.
    let page = world.ada.get("/api/runs?limit=60").await.expect(200);
    let next = page["next"].as_str().unwrap();
    let rest = world.ada.get(&format!("/api/runs?limit=60&after={next}")).await.expect(200);
    assert_eq!(rest["items"].as_array().unwrap().len(), 40);
    assert!(rest["next"].is_null());
}

on_both! {
    /// O1 O2
    all_logs_of_a_repository_are_searched_from_one_box
}

async fn all_logs_of_a_repository_are_searched_from_one_box(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    let texts: Vec<String> = (1..=150).map(|number| format!("Needle {number} <b>")).collect();
    let lines: Vec<(u32, &str)> = texts.iter().map(|text| (0, text.as_str())).collect();
    world.print(&server, &lines).await;
    let here = format!("/{}/logs", world.place.name);
    browser.get(&here).await.expect(200).has(&["What are you looking for?"]);
    let page = browser.get(&format!("{here}?q=needle")).await.expect(200);
    assert_eq!(page.text.matches("<li data-entry").count(), 100);
    let page = page.has(&["Needle 1 &lt;b&gt;", "100 lines in 1 log"]).lacks(&["<b>"]);
    let page = page.has(&["?line=7&amp;claim=1#L7"]);
    let next = page.text.split("rel=\"next\" href=\"").nth(1).unwrap();
    let next = next.split('"').next().unwrap().replace("&amp;", "&");
    let rest = browser.get(&format!("{here}{next}")).await.expect(200);
    assert_eq!(rest.text.matches("<li data-entry").count(), 50);
    browser.get(&format!("{here}?q=needle&case=1")).await.expect(200).has(&["0 lines in 1 log"]);
    let exact = browser.get(&format!("{here}?q=Needle%20%5Cd%7B3%7D&regex=1")).await.expect(200);
    exact.has(&["51 lines"]);
    browser.get(&format!("{here}?q=%28&regex=1")).await.expect(422);
    browser.get(&format!("{here}?q=x&after=y")).await.expect(422);
    let other = server.repository("other", "tool").await;
    let eve = person(&server, "eve", As::member(other.org, Role::Admin)).await;
    Browser::of(&eve).await.get(&format!("{here}?q=needle")).await.expect(404);
}
