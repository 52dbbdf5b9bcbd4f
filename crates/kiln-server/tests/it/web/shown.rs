//! What runs show of themselves: summaries of steps, attempts side by side, files of artifacts.

use kiln_core::id::RunnerId;
use kiln_core::run::Conclusion;
use kiln_store::Tx;
use kiln_store::directory::members::Role;
use kiln_store::runs::{self, Report, Reported, Said};
use kiln_testkit::zip::archive;
use serde_json::json;

use super::browser::{Browser, World, encoded};
use crate::api::people::{As, person};
use crate::blobs::noise;
use crate::content::{PUSH, Worker, builders};
use crate::support::Server;

const EVIL: &str = "<script>alert(1)</script>";

/// Steps of the world's first job write these summaries.
async fn write(server: &Server, world: &World<'_>, texts: &[&str]) {
    let said = texts.iter().zip(0..).map(|(text, step)| Reported {
        sequence: u64::from(step) + 1,
        at: kiln_server::clock::now(),
        what: Said::Summary { step, text: (*text).to_owned() },
    });
    let report = Report {
        job: world.log.job,
        claim: world.log.claim,
        runner: RunnerId(1),
        events: said.collect(),
    };
    let work = async move |tx: &mut Tx<'_>| runs::report(tx, std::slice::from_ref(&report)).await;
    server.app.store.write(work).await.unwrap();
}

on_both! {
    /// O1
    summaries_are_drawn_without_what_could_do_harm
}

async fn summaries_are_drawn_without_what_could_do_harm(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    let good = "## Coverage\n\n| file | lines |\n|---|--:|\n| a.rs | 93 % |\n\n- [x] done";
    let bad = format!(
        "{EVIL}<img src=x onerror=alert(2)>\n\n[go](javascript:alert(3))\n\n<p onclick=x>text</p>"
    );
    write(&server, &world, &[good, &bad]).await;
    let page = browser.get(&world.path("")).await.expect(200);
    page.has(&[
        "<h4>Coverage</h4>",
        "<td align=\"right\">93 %</td>",
        "☑ done",
        "To the log of this step",
    ])
    .lacks(&["<script>alert", "onerror", "javascript:", "onclick"]);
    browser.get(&world.path("/summary")).await.expect(200).has(&["<h1>Summaries</h1>", "93 %"]);
    let list = world.ada.get(&format!("/api/runs/{}/summaries", world.run)).await.expect(200);
    assert_eq!(list["items"][0]["markdown"], good);
    assert_eq!(list["items"][0]["job"], "build");
    assert_eq!((&list["items"][1]["step"], &list["next"]), (&json!(2), &json!(null)));
    // Not for strangers.
    let other = server.repository("other", "tool").await;
    let eve = person(&server, "eve", As::member(other.org, Role::Developer)).await;
    eve.get(&format!("/api/runs/{}/summaries", world.run)).await.expect(404);
    Browser::of(&eve).await.get(&world.path("/summary")).await.expect(404);
}

on_both! {
    /// O1
    many_and_large_summaries_come_in_pieces
}

async fn many_and_large_summaries_come_in_pieces(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    let large: Vec<String> =
        (0..7).map(|n| format!("piece-{n} {}", "word ".repeat(180_000))).collect();
    let texts: Vec<&str> = large.iter().map(String::as_str).collect();
    write(&server, &world, &texts).await;
    let page = browser.get(&world.path("")).await.expect(200);
    assert!(page.text.len() < 600_000, "{}", page.text.len());
    page.has(&["All summaries", "/summary?attempt=1"]);
    let (mut after, mut found) = (String::new(), Vec::new());
    loop {
        let path = format!("/api/runs/{}/summaries{after}", world.run);
        let piece = world.ada.get(&path).await.expect(200);
        let items = piece["items"].as_array().unwrap();
        assert!(items.len() < 7, "all at once");
        found.extend(items.iter().map(|one| one["step"].as_u64().unwrap()));
        let Some(next) = piece["next"].as_str() else { break };
        after = format!("?after={next}");
    }
    assert_eq!(found, [1, 2, 3, 4, 5, 6, 7]);
    let first = browser.get(&world.path("/summary")).await.expect(200);
    first.has(&["piece-0", "&amp;after="]).lacks(&["piece-3"]);
    world.ada.get(&format!("/api/runs/{}/summaries?after=x", world.run)).await.expect(422);
}

on_both! {
    /// O1
    attempts_stand_side_by_side
}

async fn attempts_stand_side_by_side(server: Server) {
    let world = World::new(&server).await;
    let browser = Browser::of(&world.ada).await;
    browser.get(&world.path("?view=attempts")).await.expect(200).lacks(&["Attempts side by side"]);
    world.finish(Conclusion::Failure).await;
    browser.press(&world.path("/rerun"), &[]).await.expect(303);
    let claimed = world.site.claim(1, 1).await.remove(0);
    world.site.finish(&claimed, 1, Conclusion::Success).await;
    let page = browser.get(&world.path("?view=attempts")).await.expect(200);
    page.has(&[
        "Attempts side by side",
        "?attempt=1\">Attempt 1</a>",
        "?attempt=2\" aria-current=\"true\">Attempt 2</a>",
        "<th scope=\"row\">build</th>",
        ">Failed</a>",
        ">Succeeded</a>",
    ]);
    browser.get(&world.path("")).await.expect(200).has(&["?view=attempts\">Attempts</a>"]);
}

on_both! {
    /// O1 R9
    files_of_an_artifact_are_a_tree_with_previews
}

async fn files_of_an_artifact_are_a_tree_with_previews(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let page_text = format!("<html><body>{EVIL}<img src=logo.png></body></html>");
    let picture = noise(1, 5_000);
    let zip = archive(&[
        ("report/index.html", page_text.as_bytes(), 0o100_644),
        ("report/logo.png", &picture, 0o100_644),
        ("notes/<script>alert(1)</script>.txt", b"plain <b>text</b>", 0o100_644),
        ("README.md", b"# Hello\n\n<script>alert(1)</script>", 0o100_644),
        ("app.bin", &[0, 1, 2], 0o100_755),
        ("link", b"/etc/passwd", 0o120_777),
    ]);
    let new = json!({ "name": "site", "content_type": "application/zip" });
    let id = job.upload(new, &zip).await["id"].as_i64().unwrap();
    let ada = person(&server, "ada", As::member(place.org, Role::Viewer)).await;
    let browser = Browser::of(&ada).await;
    let here = format!("/{}/actions/runs/{}/artifacts/{id}/files", place.name, job.job.run_id);
    let tree = browser.get(&here).await.expect(200);
    tree.has(&["report/</summary>", ">index.html</a>", "Download all", "&lt;script&gt;"])
        .lacks(&[EVIL, ">link<", "<iframe"]);
    // Text and Markdown are part of the page; nothing of them is markup of ours.
    let evil = encoded("notes/<script>alert(1)</script>.txt");
    let text = browser.get(&format!("{here}?file={evil}")).await.expect(200);
    text.has(&["plain &lt;b&gt;text&lt;/b&gt;"]).lacks(&[EVIL]);
    let read = browser.get(&format!("{here}?file=README.md")).await.expect(200);
    read.has(&["<h3>Hello</h3>"]).lacks(&["<script>alert"]);
    browser.get(&format!("{here}?file=app.bin")).await.expect(200).has(&["no preview"]);
    browser.get(&format!("{here}?file=none")).await.expect(404);
    browser.get(&format!("{here}?file=link")).await.expect(404);

    // A page is shown in a frame, in a sandbox, from an address that needs no cookie.
    let page = browser.get(&format!("{here}?file=report%2Findex.html")).await.expect(200);
    let policy = page.headers["content-security-policy"].to_str().unwrap().to_owned();
    assert!(
        policy.contains("frame-src 'self'") && policy.contains("script-src 'self'"),
        "{policy}"
    );
    let address = page.text.split("<iframe").nth(1).unwrap().split("src=\"").nth(1).unwrap();
    let address = address.split('"').next().unwrap();
    assert!(page.text.contains("sandbox=\"allow-scripts\""), "{}", page.text);
    let stranger = Browser::new(&server);
    let shown = stranger.get(address).await.expect(200);
    assert_eq!(shown.text, page_text);
    let policy = shown.headers["content-security-policy"].to_str().unwrap();
    assert!(
        policy.starts_with("sandbox allow-scripts;") && policy.contains("connect-src 'none'"),
        "{policy}"
    );
    assert_eq!(shown.headers["x-content-type-options"], "nosniff");
    assert!(!policy.contains("allow-same-origin") && shown.headers.get("set-cookie").is_none());
    // What lies beside it is found from there, and nothing else.
    let beside = address.replace("index.html", "logo.png");
    let answer = server.client.get(server.url(&beside)).send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "image/png");
    assert!(answer.bytes().await.unwrap() == picture);
    let kept = stranger.get(&format!("{beside}?download=1")).await.expect(200);
    assert_eq!(kept.headers["content-disposition"], "attachment; filename=\"logo.png\"");
    stranger.get(&address.replace("index.html", "none")).await.expect(404);
    let forged = address.replacen(&format!("/{id}/"), &format!("/{}/", id + 1), 1);
    stranger.get(&forged).await.expect(404);
    let (start, rest) = address.split_once(&format!("/{id}/")).unwrap();
    let (_, rest) = rest.split_once('/').unwrap();
    stranger.get(&format!("{start}/{id}/99999999999999/{rest}")).await.expect(404);
    Browser::new(&server).get(&here).await.expect(303);
}

on_both! {
    /// O1 R9
    an_artifact_that_is_no_archive_is_its_only_file
}

async fn an_artifact_that_is_no_archive_is_its_only_file(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let new = json!({ "name": "notes.txt", "content_type": "text/plain" });
    let one = job.upload(new, b"one <i>line</i>").await["id"].as_i64().unwrap();
    let new = json!({ "name": "broken", "content_type": "application/zip" });
    let broken = job.upload(new, &noise(3, 40_000)).await["id"].as_i64().unwrap();
    let ada = person(&server, "ada", As::member(place.org, Role::Viewer)).await;
    let browser = Browser::of(&ada).await;
    let of =
        |id: i64| format!("/{}/actions/runs/{}/artifacts/{id}/files", place.name, job.job.run_id);
    browser.get(&of(one)).await.expect(200).has(&["one &lt;i&gt;line&lt;/i&gt;"]);
    browser.get(&of(broken)).await.expect(422).has(&["no zip archive"]);
}
