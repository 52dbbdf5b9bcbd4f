//! Nothing that people write becomes markup.

use std::sync::Arc;

use kiln_core::id::RunnerId;
use kiln_core::plan::Plan;
use kiln_core::run::Conclusion;
use kiln_store::Tx;
use kiln_store::directory::workflows::{self, FoundWorkflow};
use kiln_store::events::{Annotation, Level};
use kiln_store::runs::{self, NewRun, Report, Reported, Said};

use super::browser::{Browser, World, encoded};
use crate::api::people::{As, person};
use crate::content::{PUSH, Worker, builders};
use crate::support::{SYSTEM, Server, somebody};

const EVIL: &str = "<script>alert(1)</script>\"onload=\"x' <img src=x onerror=alert(2)>";

fn plan() -> Arc<Plan> {
    let text = format!(
        "on: push\njobs:\n  evil:\n    name: {}\n    runs-on: linux\n    steps: [{{run: make, name: {0}}}]\n",
        serde_json::to_string(EVIL).unwrap()
    );
    kiln_testkit::runs::plan(&text)
}

on_both! {
    /// O1
    nothing_that_people_write_becomes_markup
}

async fn nothing_that_people_write_becomes_markup(server: Server) {
    let world = World::new(&server).await;
    world.finish(Conclusion::Success).await;
    let browser = Browser::of(&world.ada).await;
    let (repo, path) = (world.place.repo, ".github/workflows/evil.yml".to_owned());
    let work = async move |tx: &mut Tx<'_>| {
        let found =
            FoundWorkflow { path: path.clone(), name: EVIL.to_owned(), triggers: "{}".to_owned() };
        workflows::upsert(tx, SYSTEM, &somebody(), repo, found).await
    };
    let workflow = server.app.store.write(work).await.unwrap();
    let push = world.site.push(plan());
    let new = NewRun {
        workflow,
        title: EVIL.to_owned(),
        actor: EVIL.to_owned(),
        reference: format!("refs/heads/{EVIL}"),
        head_branch: Some(EVIL.to_owned()),
        context: "{}".to_owned(),
        ..push
    };
    let run = server.app.runs.create(new).await.unwrap().run();
    let name = &world.place.name;
    let mut pages = vec![
        "/".to_owned(),
        "/runs".to_owned(),
        format!("/runs?q={}&branch=%3Cscript%3E", encoded(EVIL)),
        "/queue".to_owned(),
        "/jump".to_owned(),
        format!("/jump?q={}", encoded(EVIL)),
        format!("/{name}"),
        format!("/{name}/actions"),
        format!("/{name}/actions/runs/{run}"),
        format!("/{name}/actions/runs/{run}?view=list"),
        format!("/{name}/actions/runs/{run}?view=waterfall"),
        format!("/{name}/actions/runs/{run}/summary"),
        format!("/{name}/actions/workflows/evil.yml?ref=%3Cscript%3E"),
        format!("/{name}/logs?q={}", encoded(EVIL)),
        format!("/runners?q={}", encoded(EVIL)),
        format!("/repositories?q={}", encoded(EVIL)),
    ];
    let claimed = loop {
        let claimed = world.site.claim(1, 1).await.remove(0);
        if claimed.run == run {
            break claimed;
        }
        world.site.finish(&claimed, 1, Conclusion::Success).await;
    };
    let line = kiln_proto::log::Line { at: 1, step: 0, text: EVIL.as_bytes() };
    let mut bytes = Vec::new();
    line.write(&mut bytes);
    let log = kiln_server::logs::LogId { job: claimed.job, claim: claimed.claim };
    server.app.logs.append(log, 0, bytes.into()).await.unwrap();
    annotate(&server, &claimed).await;
    pages.push(format!("/{name}/actions/runs/{run}/job/{}", claimed.job));
    pages.push(format!("/{name}/actions/runs/{run}/job/{}/lines?from=1&count=9", claimed.job));
    for path in pages {
        let page = browser.get(&path).await.expect(200);
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("script-src 'self'") && policy.contains("form-action 'self'"));
        page.lacks(&["<script>alert", "<img", "\"onload=", " style=\"", "javascript:"]);
    }
    // What cannot be shown is not shown as markup, either.
    let status = format!("/runs?status={}", encoded(EVIL));
    browser.get(&status).await.expect(422).lacks(&["<script>alert", "<img", "\"onload="]);
    browser.get("/%3Cscript%3Ealert(1)%3C/script%3E").await.expect(404).lacks(&["<script>alert"]);
}

async fn annotate(server: &Server, claimed: &kiln_store::claims::Claimed) {
    let annotation = Annotation {
        level: Level::Error,
        message: EVIL.to_owned(),
        title: Some(EVIL.to_owned()),
        file: Some(EVIL.to_owned()),
        line: Some(1),
        end_line: None,
        column: None,
        end_column: None,
        step: Some(0),
        code: None,
    };
    let said =
        Reported { sequence: 1, at: kiln_server::clock::now(), what: Said::Annotation(annotation) };
    let summary = Reported {
        sequence: 2,
        at: kiln_server::clock::now(),
        what: Said::Summary {
            step: 0,
            text: EVIL.replace('"', "") + "\n\n[x](javascript:alert(1))",
        },
    };
    let events = vec![said, summary];
    let report = Report { job: claimed.job, claim: claimed.claim, runner: RunnerId(1), events };
    let work = async move |tx: &mut Tx<'_>| runs::report(tx, std::slice::from_ref(&report)).await;
    server.app.store.write(work).await.unwrap();
}

/// Two runs of it, of which the second waits for the group.
fn grouped() -> Arc<Plan> {
    let text = format!(
        "on: push\nconcurrency: {}\njobs:\n  a:\n    runs-on: linux\n    steps: [{{run: make}}]\n",
        serde_json::to_string(EVIL).unwrap()
    );
    kiln_testkit::runs::plan(&text)
}

on_both! {
    /// O1
    names_of_machines_groups_and_files_do_not_become_markup
}

async fn names_of_machines_groups_and_files_do_not_become_markup(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::administrator()).await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let new = serde_json::json!({ "name": "site", "content_type": "text/plain" });
    let artifact = job.upload(new, b"x").await["id"].as_i64().unwrap();
    job.save("deps", b"x").await;
    let first = server.run_plan(&place, grouped()).await;
    let second = server.run_plan(&place, grouped()).await;
    let third = server.run_plan(&place, plan()).await;
    let scope = kiln_store::Scope::Org(place.org);
    server.app.runs.cancel(scope, &somebody(), third, EVIL.to_owned(), false).await.unwrap();
    server.app.runs.again(scope, &somebody(), third, kiln_core::run::Again::All).await.unwrap();
    // What no interface takes must do no harm either, should it get there.
    let labels = serde_json::json!({ "labels": [EVIL], "os": EVIL }).to_string();
    let work = async move |tx: &mut Tx<'_>| {
        let values = [EVIL.into(), labels.as_str().into()];
        tx.execute("UPDATE runners SET name = $1, capabilities = $2, version = $1", &values)
            .await?;
        tx.execute("UPDATE caches SET key = $1", &[EVIL.into()]).await?;
        tx.execute("UPDATE artifacts SET name = $1", &[EVIL.into()]).await
    };
    server.app.store.write(work).await.unwrap();
    let browser = Browser::of(&ada).await;
    let run = job.job.run_id;
    let (name, of) = (&place.name, |run: i64| format!("/{}/actions/runs/{run}", place.name));
    let pages = [
        "/".to_owned(),
        "/queue".to_owned(),
        "/runners".to_owned(),
        format!("/runners/{}", runner.id),
        "/runs".to_owned(),
        format!("/{name}/caches"),
        of(run),
        format!("{}?view=list", of(run)),
        format!("{}/artifacts/{artifact}/files", of(run)),
        of(first.0),
        of(second.0),
        format!("{}?view=list", of(second.0)),
        format!("{}?view=waterfall", of(second.0)),
        format!("{}?attempt=1", of(third.0)),
        format!("{}?view=attempts", of(third.0)),
    ];
    for path in pages {
        let page = browser.get(&path).await.expect(200);
        page.lacks(&["<script>alert", "<img", "\"onload=", " style=\"", "javascript:"]);
    }
    // They are there, as text.
    let text = "&lt;script&gt;alert(1)";
    for path in ["/runners".to_owned(), format!("/{name}/caches"), of(second.0), of(run)] {
        browser.get(&path).await.expect(200).has(&[text]);
    }
    browser
        .get(&format!("{}?attempt=1", of(third.0)))
        .await
        .expect(200)
        .has(&["Cancelled by", text]);
}
