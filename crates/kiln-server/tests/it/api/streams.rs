//! Events and logs: in pieces, and as they come.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use kiln_core::run::Conclusion;
use kiln_proto::log::Line;
use kiln_server::logs::LogId;
use reqwest::Method;
use serde_json::Value;
use tokio::time::timeout;

use super::people::{As, CI, Person, commit, empty, person, site};
use crate::support::Server;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

fn lines(texts: &[&str]) -> Bytes {
    let mut bytes = Vec::new();
    for text in texts {
        Line { at: 1_000, step: 0, text: text.as_bytes() }.write(&mut bytes);
    }
    bytes.into()
}

/// Reads until a text has come.
async fn until(
    response: &mut (impl futures_util::Stream<Item = reqwest::Result<Bytes>> + Unpin),
    part: &str,
) -> String {
    let mut text = String::new();
    while !text.contains(part) {
        let piece = timeout(PATIENCE, response.next()).await.unwrap();
        let Some(piece) = piece else { panic!("the stream ended without `{part}`: {text}") };
        text.push_str(&String::from_utf8_lossy(&piece.unwrap()));
    }
    text
}

on_both! {
    /// O7
    a_log_is_read_and_followed_until_the_job_is_done
}

async fn a_log_is_read_and_followed_until_the_job_is_done(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    commit(&server, &place, &[("ci.yml", CI)]);
    ada.trigger(&place, empty()).await;
    let site = site(&server, &place);
    let claimed = site.claim(1, 1).await.remove(0);
    let log = LogId { job: claimed.job, claim: claimed.claim };
    let first = lines(&["one", "two"]);
    let length = server.app.logs.append(log, 0, first).await.unwrap();
    let path = format!("/api/jobs/{}/log", claimed.job);
    assert_eq!(ada.get(&path).await.expect(200), "one\ntwo\n");
    let raw = ada.get(&format!("{path}?format=raw&from=11")).await.expect(200);
    assert_eq!(raw, "1000 0 two\n");
    // A part of it says how much there is; that is how the last lines are found.
    for (part, expect) in [
        ("limit=11", "1000 0 one\n"),
        ("from=11&limit=6", "1000 0"),
        ("from=11&limit=99", "1000 0 two\n"),
        ("limit=0&follow=true", ""),
        ("from=99", ""),
    ] {
        let answer = ada.get(&format!("{path}?format=raw&{part}")).await;
        assert_eq!(answer.headers["kiln-log-length"], length.to_string().as_str(), "{part}");
        assert_eq!(answer.expect(200), expect, "{part}");
    }
    let request = ada.request(Method::GET, &format!("{path}?follow=true"));
    let mut following = request.send().await.unwrap().bytes_stream();
    assert_eq!(until(&mut following, "two\n").await, "one\ntwo\n");
    server.app.logs.append(log, length, lines(&["three"])).await.unwrap();
    assert_eq!(until(&mut following, "three\n").await, "three\n");
    site.finish(&claimed, 1, Conclusion::Success).await;
    let end = timeout(PATIENCE, following.next()).await.unwrap();
    assert!(end.is_none(), "{end:?}");
    let timed = ada.get(&format!("/repos/acme/app/actions/jobs/{}/logs", claimed.job)).await;
    assert!(timed.expect(200).as_str().unwrap().starts_with("1970-01-01T00:00:01.000Z one\n"));
    for bad in ["?format=xml", "?from=-1", "?limit=-1", "?attempt=x", "?follow=maybe"] {
        ada.get(&format!("{path}{bad}")).await.expect(422);
    }
    ada.get(&format!("{path}?attempt=2")).await.expect(404);
}

async fn page(ada: &Person<'_>, path: &str) -> (Vec<String>, Value) {
    let found = ada.get(path).await.expect(200);
    let items = found["items"].as_array().unwrap();
    let kinds = items.iter().map(|event| event["kind"].as_str().unwrap().to_owned()).collect();
    (kinds, found)
}

on_both! {
    /// O8
    events_come_as_pages_and_as_a_stream_that_goes_on_where_it_was
}

async fn events_come_as_pages_and_as_a_stream_that_goes_on_where_it_was(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "adam", As::administrator()).await;
    commit(&server, &place, &[("ci.yml", CI)]);
    let run = ada.trigger(&place, empty()).await;
    let path = format!("/api/runs/{run}/events");
    // PostgreSQL shows events when nothing older is under way, in whatever database of the cluster.
    let first = ada.request(Method::GET, &path).header("accept", "text/event-stream");
    until(&mut first.send().await.unwrap().bytes_stream(), "job_queued").await;
    let (kinds, found) = page(&ada, &path).await;
    assert!(kinds.contains(&"run_created".to_owned()) && kinds.contains(&"job_queued".to_owned()));
    let items = found["items"].as_array().unwrap();
    let cursor = items.last().unwrap()["cursor"].as_str().unwrap().to_owned();
    let (rest, _) = page(&ada, &format!("{path}?after={cursor}")).await;
    assert_eq!(rest, Vec::<String>::new());
    let request = ada.request(Method::GET, &path).header("accept", "text/event-stream");
    let response = request.header("last-event-id", &cursor).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut stream = response.bytes_stream();
    let claimed = site(&server, &place).claim(1, 1).await.remove(0);
    let text = until(&mut stream, "job_claimed").await;
    assert!(text.contains("event: job_claimed"), "{text}");
    assert!(!text.contains("run_created"), "what was seen comes not again: {text}");
    site(&server, &place).finish(&claimed, 1, Conclusion::Success).await;
    until(&mut stream, "run_done").await;
    let all = ada.request(Method::GET, "/api/events").header("accept", "text/event-stream");
    let mut all = all.send().await.unwrap().bytes_stream();
    until(&mut all, "run_done").await;
    server.app.stopping.cancel();
    let end = timeout(PATIENCE, async { while all.next().await.is_some() {} }).await;
    assert!(end.is_ok(), "a server that stops ends its streams");
    for bad in ["?after=x", "?after=1-99999999999999999999", "?limit=-1"] {
        ada.get(&format!("{path}{bad}")).await.expect(422);
    }
}
