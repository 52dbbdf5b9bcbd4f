//! What runs leave behind, on pages: artifacts of a run, caches of a repository.

use kiln_store::Tx;
use kiln_store::directory::members::Role;
use serde_json::json;

use super::browser::Browser;
use crate::api::people::{As, person};
use crate::blobs::noise;
use crate::content::{PUSH, Worker, builders};
use crate::support::Server;

/// Hostile in a page.
const EVIL: &str = "<script>alert(1)</script>";

on_both! {
    /// O1 R9
    artifacts_are_downloaded_kept_and_removed_by_buttons
}

async fn artifacts_are_downloaded_kept_and_removed_by_buttons(server: Server) {
    let place = server.repository("acme", "app").await;
    let other = server.repository("acme", "other").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let bytes = noise(1, 1_234_567);
    let made = job.upload(json!({ "name": "report", "content_type": "application/zip" }), &bytes);
    let id = made.await["id"].as_i64().unwrap();
    job.upload(json!({ "name": "odd & so on", "content_type": EVIL }), b"x").await;
    let here = format!("/{}/actions/runs/{}", place.name, job.job.run_id);
    let artifact = format!("{here}/artifacts/{id}");

    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let browser = Browser::of(&ada).await;
    let page = browser.get(&here).await.expect(200);
    page.has(&[
        "Artifacts",
        ">report<",
        "1.2 MB",
        "odd &amp; so on",
        "&lt;script&gt;",
        ">Keep<",
        ">Delete<",
    ])
    .lacks(&[EVIL]);
    let link = browser.get(&artifact).await.expect(303).location().to_owned();
    let answer = server.client.get(&link).send().await.unwrap();
    assert_eq!(answer.headers()["content-disposition"], "attachment; filename=\"report.zip\"");
    assert!(answer.bytes().await.unwrap() == bytes);

    assert_eq!(
        browser.press(&format!("{artifact}/keep"), &[]).await.location(),
        format!("{here}#artifacts")
    );
    browser.get(&here).await.expect(200).has(&["· kept ·", ">Stop keeping<"]);
    // Not below another run or repository, and not for those who may only look.
    browser
        .get(&format!("/{}/actions/runs/{}/artifacts/{id}", other.name, job.job.run_id))
        .await
        .expect(404);
    let vic = person(&server, "vic", As::member(place.org, Role::Viewer)).await;
    let viewer = Browser::of(&vic).await;
    viewer.get(&here).await.expect(200).has(&[">report<"]).lacks(&[">Delete<"]);
    viewer.press(&format!("{artifact}/delete"), &[]).await.expect(403);
    browser.press(&format!("{artifact}/explode"), &[]).await.expect(404);
    browser.press(&format!("{artifact}/delete"), &[]).await.expect(303);
    browser.get(&here).await.expect(200).lacks(&[">report<"]);
    browser.get(&artifact).await.expect(404);
}

on_both! {
    /// O1 R8
    caches_are_listed_searched_and_removed
}

async fn caches_are_listed_searched_and_removed(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let browser = Browser::of(&ada).await;
    let here = format!("/{}/caches", place.name);
    browser.get(&here).await.expect(200).has(&["No cache has been written yet"]);
    let job = Worker::start(&runner, &place, &PUSH).await;
    let id = job.save("deps-1", &noise(1, 200_000)).await["id"].as_i64().unwrap();
    job.save(EVIL, b"x").await;
    job.find("deps-1", &[]).await.unwrap();
    let page = browser.get(&here).await.expect(200);
    page.has(&[
        "deps-1",
        "200.0 kB",
        "found 1 time",
        "&lt;script&gt;",
        "2 caches",
        "of 10.0 GB in",
    ])
    .lacks(&[EVIL]);
    let some = browser.get(&format!("{here}?key=deps")).await.expect(200);
    some.has(&["deps-1"]).lacks(&["&lt;script&gt;alert"]);
    browser.get(&format!("{here}?key=none")).await.expect(200).has(&["No key begins like this."]);
    let vic = person(&server, "vic", As::member(place.org, Role::Viewer)).await;
    let delete = format!("{here}/{id}/delete");
    Browser::of(&vic).await.press(&delete, &[]).await.expect(403);
    assert_eq!(browser.press(&delete, &[]).await.location(), here);
    browser.get(&here).await.expect(200).lacks(&["deps-1"]);
    assert_eq!(job.find("deps-1", &[]).await, None);
}

on_both! {
    /// O1 R8
    caches_that_were_used_last_come_first
}

async fn caches_that_were_used_last_come_first(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let browser = Browser::of(&ada).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let total = 53;
    for number in 0..total {
        job.save(&format!("deps-{number:02}."), b"x").await;
    }
    // When each was used is what counts, not when it came.
    let work = async move |tx: &mut Tx<'_>| {
        let sql = "UPDATE caches SET used_at = 1000 * CAST(substr(key, 6, 2) AS INTEGER)";
        tx.execute(sql, &[]).await
    };
    server.app.store.write(work).await.unwrap();
    let here = format!("/{}/caches", place.name);
    let keys = |text: &str| -> Vec<usize> {
        let parts = text.split(">deps-").skip(1);
        parts.map(|part| part[..2].parse().unwrap()).collect()
    };
    let first = browser.get(&here).await.expect(200);
    assert_eq!(keys(&first.text), (3..total).rev().collect::<Vec<_>>());
    first.has(&["page=1\" rel=\"next\">Used earlier<"]).lacks(&["Used later"]);
    let second = browser.get(&format!("{here}?key=&page=1")).await.expect(200);
    assert_eq!(keys(&second.text), [2, 1, 0]);
    second.has(&["page=0\" rel=\"prev\">Used later<"]).lacks(&["Used earlier"]);
}

on_both! {
    /// O1 R8
    strangers_have_their_own_room_for_caches
}

async fn strangers_have_their_own_room_for_caches(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    job.save("deps", b"x").await;
    let work =
        async move |tx: &mut Tx<'_>| tx.execute("UPDATE caches SET trust = 'untrusted'", &[]).await;
    server.app.store.write(work).await.unwrap();
    let page = Browser::of(&ada).await.get(&format!("/{}/caches", place.name)).await.expect(200);
    page.has(&["Of untrusted runs", "of 2.5 GB in 1 cache"]).lacks(&["10.0 GB"]);
}
