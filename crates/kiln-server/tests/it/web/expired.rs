//! Logs go earlier than their runs, and whoever asks for one hears since when.

use std::time::Duration;

use kiln_core::run::Conclusion;
use kiln_server::logs::LogId;
use kiln_store::claims::Claimed;
use kiln_testkit::database::Database;
use kiln_testkit::runs::Site;
use reqwest::Method;

use super::browser::Browser;
use crate::api::live::socket;
use crate::api::people::{As, CI, Person, commit, empty, person, site};
use crate::support::{Options, Server};

/// A server that keeps logs for no time at all.
async fn forgetful(database: Database) -> Server {
    let options = Options { keep_logs: Duration::ZERO, ..Options::default() };
    Server::with(database, options).await
}

mod an_expired_log_is_said_to_be_so_everywhere {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_sqlite() {
        an_expired_log_is_said_to_be_so(forgetful(Database::sqlite()).await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_postgres() {
        an_expired_log_is_said_to_be_so(forgetful(Database::postgres().await).await).await;
    }
}

/// H3
async fn an_expired_log_is_said_to_be_so(server: Server) {
    let ada = person(&server, "adam", As::administrator()).await;
    let (claimed, site) = claimed(&server, &ada).await;
    let (job, run) = (claimed.job, claimed.run);
    let log = LogId { job, claim: claimed.claim };
    let api = format!("/api/jobs/{job}/log");
    // A job that runs has printed nothing yet.
    ada.get(&api).await.expect(200);
    server.app.logs.append(log, 0, "1 0 hello\n".into()).await.unwrap();
    site.finish(&claimed, 1, Conclusion::Failure).await;
    // What is still there is shown, however old it is.
    assert_eq!(ada.get(&api).await.expect(200), "hello\n");
    server.app.logs.forget(run).await.unwrap();

    let today = kiln_server::clock::now().rfc3339();
    let said = format!("the log expired on {}", &today[..10]);
    for path in
        [api.clone(), format!("{api}?tail=1"), format!("{api}?follow=true"), format!("{api}/live")]
    {
        assert_eq!(ada.get(&path).await.problem(410), said, "{path}");
    }
    let bearer = format!("Bearer {}", ada.token);
    let refused = socket(&server, &format!("{api}/live"), &[("authorization", &bearer)]).await;
    assert_eq!(refused.err(), Some(410));
    // GitHub's addresses lead to the same answer; so does the archive of all logs.
    for path in [format!("jobs/{job}/logs"), format!("runs/{run}/logs")] {
        let path = format!("/repos/acme/app/actions/{path}");
        let answer = ada.request(Method::GET, &path).send().await.unwrap();
        assert_eq!(answer.status(), 410, "{path}");
        assert!(answer.text().await.unwrap().contains(&said), "{path}");
    }
    let found = ada.get(&format!("{api}/search?q=hello")).await.expect(200);
    assert_eq!(found["items"], serde_json::json!([]));
    // The run itself is there, and its page says where the log is.
    assert_eq!(ada.get(&format!("/api/runs/{run}")).await.expect(200)["conclusion"], "failure");
    let page = Browser::of(&ada).await;
    let page = page.get(&format!("/acme/app/actions/runs/{run}/job/{job}")).await.expect(200);
    page.has(&[&format!("The log expired on {}", &today[..10])]).lacks(&["It printed nothing"]);
}

/// A job that a runner has, with a log of nothing yet.
async fn claimed(server: &Server, ada: &Person<'_>) -> (Claimed, Site) {
    let place = server.repository("acme", "app").await;
    commit(server, &place, &[("ci.yml", CI)]);
    ada.trigger(&place, empty()).await;
    let site = site(server, &place);
    (site.claim(1, 1).await.remove(0), site)
}

/// H3: a log that nobody kept is not missed while it is young.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_printed_nothing_is_no_expired_one() {
    let server = Server::start(Database::sqlite()).await;
    let ada = person(&server, "adam", As::administrator()).await;
    let (claimed, site) = claimed(&server, &ada).await;
    site.finish(&claimed, 1, Conclusion::Success).await;
    assert_eq!(ada.get(&format!("/api/jobs/{}/log", claimed.job)).await.expect(200), "");
}
