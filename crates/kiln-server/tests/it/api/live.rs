//! Logs as they grow: on a WebSocket, as a stream of events, and across two servers.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt as _, Stream, StreamExt as _};
use kiln_core::run::Conclusion;
use kiln_proto::report::{Heard, Stored, What};
use kiln_testkit::database::Database;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use super::people::{As, Person, person};
use crate::runner::{LINUX, Reporter, Runner, completion, good};
use crate::support::{Options, Server};

/// Longer than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
const JOB: &str = "  build: {runs-on: linux, steps: [{run: 'true'}]}\n";

/// Messages of a WebSocket.
pub(crate) async fn socket(
    server: &Server,
    path: &str,
    headers: &[(&'static str, &str)],
) -> Result<impl Stream<Item = Value> + Unpin + use<>, u16> {
    let mut request = format!("ws://{}{path}", server.address).into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    match tokio_tungstenite::client_async(request, stream).await {
        Ok((socket, _)) => Ok(Box::pin(socket.filter_map(async |frame| match frame {
            Ok(tungstenite::Message::Text(text)) => Some(serde_json::from_str(&text).unwrap()),
            _ => None,
        }))),
        Err(tungstenite::Error::Http(response)) => Err(response.status().as_u16()),
        Err(other) => panic!("{other}"),
    }
}

/// The events of a stream, each with its id.
pub(crate) fn events(
    response: reqwest::Response,
) -> impl Stream<Item = (Option<String>, Value)> + Unpin {
    let lines = response.bytes_stream().map(Result::unwrap_or_default);
    let mut rest = String::new();
    Box::pin(lines.flat_map(move |piece: Bytes| {
        rest.push_str(&String::from_utf8_lossy(&piece));
        let mut found = Vec::new();
        while let Some((event, after)) = rest.split_once("\n\n") {
            let field = |name: &str| {
                event.lines().find_map(|line| Some(line.strip_prefix(name)?.to_owned()))
            };
            if let Some(data) = field("data: ") {
                found.push((field("id: "), serde_json::from_str(&data).unwrap()));
            }
            rest = after.to_owned();
        }
        futures_util::stream::iter(found)
    }))
}

pub(crate) async fn next<T>(stream: &mut (impl Stream<Item = T> + Unpin)) -> T {
    timeout(PATIENCE, stream.next()).await.expect("it comes in time").expect("it goes on")
}

pub(crate) async fn sse<'s>(
    ada: &Person<'s>,
    path: &str,
    last: Option<&str>,
) -> impl Stream<Item = (Option<String>, Value)> + Unpin + use<'s> {
    let mut request = ada.request(Method::GET, path).header("accept", "text/event-stream");
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    events(response)
}

async fn log(reporter: &Reporter<'_>, from: u64, text: &str) -> u64 {
    let stored: Stored = good(reporter.logging(from, text).send().await.unwrap()).await;
    stored.offset
}

pub(crate) fn line(step: u32, number: u64, content: &str) -> Value {
    let timestamp = "1970-01-01T00:00:01.000Z";
    json!({ "type": "log_line", "step": step, "line_number": number, "timestamp": timestamp, "content": content })
}

on_both! {
    /// C9
    a_job_is_followed_to_its_end_on_a_socket_and_as_events
}

async fn a_job_is_followed_to_its_end_on_a_socket_and_as_events(server: Server) {
    let place = server.repository("acme", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    let run = server.run(&place, JOB).await;
    let ada = person(&server, "adam", As::administrator()).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let reporter = Reporter::new(&server, &job);
    let bearer = format!("Bearer {}", ada.token);
    let path = format!("/repos/acme/app/actions/runs/{run}/jobs/{}/logs/live", job.job_id);
    let mut socket = socket(&server, &path, &[("authorization", &bearer)]).await.unwrap();
    let short = format!("/api/jobs/{}/log/live", job.job_id);
    let mut stream = sse(&ada, &short, None).await;
    let said = vec![What::started(), What::StepStarted { step: 0, name: "Build".to_owned() }];
    good::<Heard>(reporter.telling(1, said).send().await.unwrap()).await;
    let expect = json!({
        "type": "step_status", "step": 1, "name": "Build", "status": "in_progress",
        "conclusion": null, "duration_ms": null,
    });
    assert_eq!(next(&mut socket).await, expect);
    assert_eq!(next(&mut stream).await, (None, expect));
    let length = log(&reporter, 0, "1000 0 one\n1000 0 two\n1000 0 half").await;
    for (number, text) in [(1, "one"), (2, "two")] {
        assert_eq!(next(&mut socket).await, line(1, number, text));
        assert_eq!(next(&mut stream).await, (Some(format!("1-{number}")), line(1, number, text)));
    }
    let length = log(&reporter, length, " a line\n").await;
    assert_eq!(next(&mut socket).await, line(1, 3, "half a line"));
    // Who comes back goes on behind what was seen.
    drop(stream);
    let mut stream = sse(&ada, &short, Some("1-2")).await;
    assert_eq!(next(&mut stream).await, (Some("1-3".to_owned()), line(1, 3, "half a line")));
    let mut tail = sse(&ada, &format!("{short}?tail=1"), None).await;
    assert_eq!(next(&mut tail).await.1, line(1, 3, "half a line"));
    let finished = What::StepFinished {
        step: 0,
        outcome: "success".to_owned(),
        conclusion: "success".to_owned(),
        exit_code: Some(0),
    };
    good::<Heard>(reporter.telling(3, vec![finished]).send().await.unwrap()).await;
    let mut done = completion("success");
    (done.log_bytes, done.sequence) = (length, 3);
    assert_eq!(reporter.completing(&done).send().await.unwrap().status(), 200);
    let rest: Vec<Value> = timeout(PATIENCE, socket.collect()).await.unwrap();
    let kinds: Vec<&str> = rest.iter().map(|message| message["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["step_status", "job_complete"], "{rest:#?}");
    assert_eq!(rest[0]["status"], "completed");
    assert!(rest[0]["duration_ms"].is_u64() && rest[1]["duration_ms"].is_u64(), "{rest:#?}");
    assert_eq!(rest[1]["conclusion"], "success");
    // After the end, and after the archive, all of it can be had again.
    let id = kiln_server::logs::LogId { job: kiln_core::id::JobId(job.job_id), claim: job.attempt };
    assert!(server.app.logs.archive(id).await.unwrap());
    let again: Vec<Value> =
        timeout(PATIENCE, sse(&ada, &short, None).await.map(|(_, data)| data).collect())
            .await
            .unwrap();
    assert_eq!(again.len(), 5, "{again:#?}");
    assert_eq!(again[2], line(1, 3, "half a line"));
    assert_eq!(again[4]["type"], "job_complete");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_those_who_may_open_a_socket_and_no_page_of_another_site() {
    let server = Server::start(Database::sqlite()).await;
    let ada = person(&server, "adam", As::administrator()).await;
    let (log, _) = super::logs::running(&server, &ada).await;
    let path = format!("/api/jobs/{}/log/live", log.job);
    let bearer = format!("Bearer {}", ada.token);
    let own = format!("http://{}", server.address);
    let refused = async |headers| socket(&server, &path, headers).await.err();
    assert_eq!(refused(&[]).await, Some(401));
    let evil: &[_] = &[("authorization", bearer.as_str()), ("origin", "http://evil.example")];
    assert_eq!(refused(evil).await, Some(403));
    let fine: &[_] = &[("authorization", bearer.as_str()), ("origin", own.as_str())];
    assert_eq!(refused(fine).await, None);
    let wrong = ada.request(Method::GET, &path).header("upgrade", "websocket");
    assert_eq!(wrong.send().await.unwrap().status(), 400);
    for bad in ["?after=x", "?from_line=x", "?attempt=-1"] {
        ada.get(&format!("{path}{bad}")).await.expect(422);
    }
    ada.get(&format!("{path}?attempt=9")).await.expect(404);
}

/// S7 C9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_begins_again_is_followed_into_its_next_log() {
    let server = Server::start(Database::sqlite()).await;
    let ada = person(&server, "adam", As::administrator()).await;
    let (log, site) = super::logs::running(&server, &ada).await;
    let path = format!("/api/jobs/{}/log/live", log.job);
    let mut stream = sse(&ada, &path, None).await;
    let text = Bytes::from_static(b"1000 0 first try\n");
    server.app.logs.append(log, 0, text).await.unwrap();
    assert_eq!(next(&mut stream).await.1, line(1, 1, "first try"));
    let claimed = site.view(log.job.run()).await;
    assert_eq!(claimed.jobs[0].claim, 1);
    let lost = kiln_store::runs::Word::Lost { reason: "gone".to_owned() };
    let news = kiln_store::runs::JobNews {
        job: log.job,
        claim: Some(1),
        runner: None,
        word: lost,
        heard: None,
    };
    server.app.traffic.happened(kiln_store::runs::Happened::Job(news)).await.unwrap();
    let (id, message) = next(&mut stream).await;
    assert_eq!(
        (id.as_deref(), message),
        (Some("2-0"), json!({ "type": "restarted", "attempt": 2 }))
    );
    let again = site.claim(2, 1).await.remove(0);
    let second = kiln_server::logs::LogId { job: again.job, claim: again.claim };
    server.app.logs.append(second, 0, Bytes::from_static(b"1000 0 second try\n")).await.unwrap();
    assert_eq!(next(&mut stream).await, (Some("2-1".to_owned()), line(1, 1, "second try")));
    site.finish(&again, 2, Conclusion::Success).await;
    assert_eq!(next(&mut stream).await.1["type"], "job_complete");
    // One claim alone ends where it ended.
    let mut first = sse(&ada, &format!("{path}?attempt=1"), None).await;
    assert_eq!(next(&mut first).await.1, line(1, 1, "first try"));
    assert_eq!(next(&mut first).await.1["type"], "job_complete");
}

/// C9 H2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_grows_on_one_server_is_followed_on_another_without_delay() {
    let logs = tempfile::tempdir().unwrap();
    let shared = || Options { logs: Some(logs.path().to_owned()), ..Options::default() };
    let database = Database::postgres().await;
    let other = Database::same(&database);
    let one = Server::with(database, shared()).await;
    let two = Server::with(other, shared()).await;
    let place = one.repository("acme", "app").await;
    let (_, key) = one.pool(Some(place.org), "builders").await;
    one.run(&place, JOB).await;
    let ada = person(&two, "adam", As::administrator()).await;
    let runner = Runner::new(&one, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let reporter = Reporter::new(&one, &job);
    let path = format!("/api/jobs/{}/log/live", job.job_id);
    let mut stream = sse(&ada, &path, None).await;
    let bearer = format!("Bearer {}", ada.token);
    let mut socket = socket(&two, &path, &[("authorization", &bearer)]).await.unwrap();
    let mut length = log(&reporter, 0, "1000 0 line 0\n").await;
    assert_eq!(next(&mut stream).await.1, line(1, 1, "line 0"));
    assert_eq!(next(&mut socket).await, line(1, 1, "line 0"));
    let mut delays = Vec::new();
    for number in 1..40 {
        let begun = Instant::now();
        length = log(&reporter, length, &format!("1000 0 line {number}\n")).await;
        let expect = line(1, number + 1, &format!("line {number}"));
        assert_eq!(next(&mut stream).await.1, expect);
        delays.push(begun.elapsed());
        assert_eq!(next(&mut socket).await, expect);
    }
    delays.sort_unstable();
    // Without hints it would take a second. How long it takes with them is for a benchmark to say.
    assert!(delays[20] < Duration::from_millis(700), "{delays:?}");
    // The server dies; the other has all of it, and takes what comes.
    drop(one);
    let elsewhere = Reporter::new(&two, &job);
    let length = log(&elsewhere, length, "1000 0 the end\n").await;
    assert_eq!(next(&mut stream).await.1, line(1, 41, "the end"));
    assert_eq!(next(&mut socket).await, line(1, 41, "the end"));
    let mut done = completion("success");
    done.log_bytes = length;
    assert_eq!(elsewhere.completing(&done).send().await.unwrap().status(), 200);
    assert_eq!(next(&mut stream).await.1["type"], "job_complete");
    assert_eq!(next(&mut socket).await["type"], "job_complete");
}

/// C9: those who follow a log share what is read of it, and each is told all of it nevertheless.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn viewers_who_come_at_different_times_are_told_the_same() {
    const ROUNDS: u64 = 20;
    let server = Server::start(Database::sqlite()).await;
    let ada = person(&server, "adam", As::administrator()).await;
    let (log, _site) = super::logs::running(&server, &ada).await;
    let path = format!("/api/jobs/{}/log/live", log.job);
    let bearer = format!("Bearer {}", ada.token);
    let text = |round: u64| format!("line {round} in two parts");
    let (mut streams, mut sockets, mut length) = (Vec::new(), Vec::new(), 0);
    let mut late = sse(&ada, &format!("{path}?from_line={ROUNDS}"), None).await;
    for round in 1..=ROUNDS {
        streams.push(sse(&ada, &path, None).await);
        sockets.push(socket(&server, &path, &[("authorization", &bearer)]).await.unwrap());
        for part in [format!("1000 0 line {round} in "), "two parts\n".to_owned()] {
            length = server.app.logs.append(log, length, part.into()).await.unwrap();
        }
        // Some keep up, and the others take nothing yet.
        for stream in streams.iter_mut().skip(1).step_by(3).take(2) {
            assert!(next(stream).await.0.is_some());
        }
    }
    for stream in streams.iter_mut().chain([&mut late]) {
        let mut number = 0;
        while number < ROUNDS {
            let (id, message) = next(stream).await;
            let before = std::mem::replace(&mut number, message["line_number"].as_u64().unwrap());
            assert!(before == 0 || number == before + 1, "{number} after {before}");
            assert_eq!(id, Some(format!("1-{number}")));
            assert_eq!(message, line(1, number, &text(number)));
        }
    }
    for socket in &mut sockets {
        for number in 1..=ROUNDS {
            assert_eq!(next(socket).await, line(1, number, &text(number)));
        }
    }
}

/// C9
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn viewers_that_read_nothing_hold_nobody_up_and_miss_nothing() {
    let server = Server::start(Database::sqlite()).await;
    let ada = person(&server, "adam", As::administrator()).await;
    let (log, site) = super::logs::running(&server, &ada).await;
    let path = format!("/api/jobs/{}/log/live", log.job);
    let bearer = format!("Bearer {}", ada.token);
    let mut request = format!("ws://{}{path}", server.address).into_client_request().unwrap();
    request.headers_mut().insert("authorization", bearer.parse().unwrap());
    let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    let slow = sse(&ada, &path, None).await;
    let mut length = 0;
    let text = "x".repeat(900);
    for number in 0..200 {
        let lines: Vec<String> =
            (0..100).map(|line| format!("1000 0 {number} {line} {text}\n")).collect();
        let piece = lines.concat();
        let appended = server.app.logs.append(log, length, piece.into());
        length = timeout(PATIENCE, appended).await.expect("nobody holds it up").unwrap();
    }
    let view = site.view(log.job.run()).await;
    assert_eq!(view.jobs.len(), 1);
    // One dies without a word, the other begins to read after all.
    drop(socket.send(tungstenite::Message::Ping(Bytes::new())).await);
    drop(socket);
    let lines = slow.take(20_000).map(|(_, line)| line["line_number"].as_u64().unwrap());
    let seen: Vec<u64> = timeout(PATIENCE * 3, lines.collect()).await.unwrap();
    assert_eq!(seen, (1..=20_000).collect::<Vec<u64>>());
}

/// C9: a viewer that takes nothing is cut off, and goes on where it was when it comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_that_takes_nothing_is_cut_off_and_can_come_back() {
    let options = Options { slow_viewer: Duration::from_millis(500), ..Options::default() };
    let server = Server::with(Database::sqlite(), options).await;
    let ada = person(&server, "adam", As::administrator()).await;
    let (log, _site) = super::logs::running(&server, &ada).await;
    let path = format!("/api/jobs/{}/log/live", log.job);
    let bearer = format!("Bearer {}", ada.token);
    // More than fits in the buffers of a connection.
    let text = format!("1000 0 {}\n", "x".repeat(1_000)).repeat(30_000);
    server.app.logs.append(log, 0, text.into()).await.unwrap();
    let open = async |after: String| {
        let url = format!("ws://{}{path}{after}", server.address);
        let mut request = url.into_client_request().unwrap();
        request.headers_mut().insert("authorization", bearer.parse().unwrap());
        let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        tokio_tungstenite::client_async(request, stream).await.unwrap().0
    };
    let mut slow = open(String::new()).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    // What was on its way still comes, and then nothing.
    let mut seen = 0;
    let read = async {
        while let Some(Ok(frame)) = slow.next().await {
            if let tungstenite::Message::Text(text) = frame {
                let message: Value = serde_json::from_str(&text).unwrap();
                seen = message["line_number"].as_u64().unwrap();
            }
        }
    };
    timeout(PATIENCE, read).await.expect("it is cut off");
    assert!(seen > 0 && seen < 30_000, "{seen}");
    let again = open(format!("?after=1-{seen}")).await;
    let rest = again.filter_map(async |frame| frame.ok()?.into_text().ok());
    let rest = rest.filter(|text| std::future::ready(text.contains("log_line")));
    let left = usize::try_from(30_000 - seen).unwrap();
    let numbers: Vec<u64> = timeout(
        PATIENCE * 3,
        rest.take(left)
            .map(|text| {
                let message: Value = serde_json::from_str(&text).unwrap();
                message["line_number"].as_u64().unwrap()
            })
            .collect(),
    )
    .await
    .unwrap();
    assert_eq!(numbers, (seen + 1..=30_000).collect::<Vec<_>>());
}
