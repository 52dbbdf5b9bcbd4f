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
        format!("/{name}"),
        format!("/{name}/actions"),
        format!("/{name}/actions/runs/{run}"),
        format!("/{name}/actions/runs/{run}?view=list"),
        format!("/{name}/actions/runs/{run}?view=waterfall"),
        format!("/{name}/actions/workflows/evil.yml?ref=%3Cscript%3E"),
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
        page.lacks(&["<script>alert", "<img src=x", "\"onload=", " style=\""]);
    }
    // What cannot be shown is not shown as markup, either.
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
    let report =
        Report { job: claimed.job, claim: claimed.claim, runner: RunnerId(1), events: vec![said] };
    let work = async move |tx: &mut Tx<'_>| runs::report(tx, std::slice::from_ref(&report)).await;
    server.app.store.write(work).await.unwrap();
}
