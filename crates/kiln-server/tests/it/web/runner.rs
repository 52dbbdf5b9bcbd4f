//! One runner: what it has done, and who may drain it.

use kiln_core::access::Right;
use kiln_store::directory::members::Role;
use serde_json::json;

use super::browser::Browser;
use crate::api::people::{As, person};
use crate::content::{PUSH, Worker, builders};
use crate::runner::completion;
use crate::support::Server;

on_both! {
    /// O1 S22
    whoever_administers_an_organization_drains_its_runners
}

async fn whoever_administers_an_organization_drains_its_runners(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let (_, key) = server.pool(None, "shared").await;
    let shared = crate::runner::Runner::new(&server, &key, "common", crate::runner::LINUX).await;
    let boss = person(&server, "boss", As::member(place.org, Role::Admin)).await;
    let browser = Browser::of(&boss).await;
    let here = format!("/runners/{}", runner.id);
    browser.get("/runners").await.expect(200).has(&[">one<", ">Drain<"]).lacks(&["common"]);
    assert_eq!(browser.press(&format!("{here}/drain"), &[]).await.location(), "/runners");
    let page = browser.get(&here).await.expect(200);
    page.has(&["Draining", ">Take jobs again<"]).lacks(&[">Drain<"]);
    let seen = boss.get(&format!("/api/runners/{}", runner.id)).await.expect(200);
    assert_eq!(seen["status"], "draining");
    browser.press(&format!("{here}/undrain"), &[]).await.expect(303);
    browser.get(&here).await.expect(200).has(&[">Drain<"]).lacks(&["Draining"]);
    browser.press(&format!("{here}/explode"), &[]).await.expect(404);
    // Shared ones are not theirs, and those who only write may not either.
    browser.get(&format!("/runners/{}", shared.id)).await.expect(404);
    browser.press(&format!("/runners/{}/drain", shared.id), &[]).await.expect(404);
    let dev = person(&server, "dev", As::member(place.org, Role::Developer)).await;
    let developer = Browser::of(&dev).await;
    developer.get("/runners").await.expect(200).has(&[">one<"]).lacks(&[">Drain<"]);
    developer.get(&here).await.expect(200).lacks(&[">Drain<"]);
    developer.press(&format!("{here}/drain"), &[]).await.expect(403);
    let read = As { scopes: vec![Right::Read], ..As::member(place.org, Role::Admin) };
    let reader = Browser::of(&person(&server, "reader", read).await).await;
    reader.get("/runners").await.expect(200).lacks(&[">Drain<"]);
    let other = server.repository("other", "tool").await;
    let eve = person(&server, "eve", As::member(other.org, Role::Admin)).await;
    Browser::of(&eve).await.get(&here).await.expect(404);
    // Over the API, too.
    let drained = boss.post(&format!("/api/runners/{}/drain", runner.id), json!({})).await;
    assert_eq!(drained.expect(200)["status"], "draining");
    dev.post(&format!("/api/runners/{}/drain", runner.id), json!({})).await.expect(403);
}

on_both! {
    /// O1
    a_runner_shows_what_it_has_done
}

async fn a_runner_shows_what_it_has_done(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let boss = person(&server, "boss", As::member(place.org, Role::Viewer)).await;
    let browser = Browser::of(&boss).await;
    let here = format!("/runners/{}", runner.id);
    browser.get(&here).await.expect(200).has(&["History", "It has had no job yet."]);
    let mut jobs = Vec::new();
    for at in 0..53 {
        let job = Worker::start(&runner, &place, &PUSH).await;
        jobs.push((job.job.run_id, job.job.job_id));
        if at < 52 {
            let said = completion(if at == 51 { "failure" } else { "success" });
            let answer = job.post("complete", serde_json::to_value(said).unwrap()).await;
            assert!(answer.status.is_success(), "{:#}", answer.body);
        }
    }
    let page = browser.get(&here).await.expect(200);
    let (run, job) = jobs[52];
    page.has(&[
        &format!("/acme/app/actions/runs/{run}/job/{job}\" data-open"),
        "acme/app · Running",
        "acme/app · Failed",
        "acme/app · Succeeded",
        "rel=\"next\">Older<",
    ]);
    let list = async |query: &str| {
        let path = format!("/api/runners/{}/jobs{query}", runner.id);
        boss.get(&path).await.expect(200)
    };
    let first = list("").await;
    let ids = |page: &serde_json::Value| -> Vec<i64> {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["job_id"].as_i64().unwrap())
            .collect()
    };
    let expect: Vec<i64> = jobs.iter().rev().map(|(_, job)| *job).collect();
    assert_eq!(ids(&first), expect[..50]);
    assert_eq!(
        (&first["items"][0]["outcome"], &first["items"][1]["outcome"]),
        (&json!("in_progress"), &json!("failure"))
    );
    let next = first["next"].as_str().unwrap();
    let rest = list(&format!("?after={next}")).await;
    assert_eq!((ids(&rest), &rest["next"]), (expect[50..].to_vec(), &json!(null)));
    let older = browser.get(&format!("{here}?after={next}")).await.expect(200);
    assert_eq!(older.text.matches("acme/app · Succeeded").count(), 3);
    older.has(&["rel=\"first\">Newest<"]).lacks(&[">Older<"]);
    browser.get(&format!("{here}?after=x")).await.expect(422);
    boss.get(&format!("/api/runners/{}/jobs?after=x", runner.id)).await.expect(422);
    browser.get("/runners/99999").await.expect(404);
}
