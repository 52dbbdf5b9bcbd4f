//! Bytes in S3: they go straight there and come straight from there.

use std::time::Duration;

use futures_util::StreamExt as _;
use kiln_blob::S3Options;
use kiln_server::config::Place as Bytes;
use kiln_store::directory::members::Role;
use kiln_testkit::database::Database;
use kiln_testkit::proxy::Proxy;
use kiln_testkit::s3::{BUCKET, KEY, S3Server};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::{Instant, timeout};

use crate::api::live::{PATIENCE, line, next, socket, sse};
use crate::api::logs::running;
use crate::api::people::{As, person};
use crate::blobs::{get, hash, noise, reserve};
use crate::support::{Options, Server};

/// A bucket of a real S3 server, with a wire in front of it that can fail.
pub(crate) struct Bucket {
    _store: S3Server,
    pub(crate) wire: Proxy,
    _folder: TempDir,
}

impl Bucket {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = S3Server::start(folder.path());
        let wire = Proxy::start(store.port);
        Self { _store: store, wire, _folder: folder }
    }

    /// A server that keeps bytes and logs there, and does not wait long for answers.
    pub(crate) fn options(&self) -> Options {
        let options = S3Options {
            endpoint: Some(self.endpoint()),
            key: Some((KEY.0.to_owned(), KEY.1.to_owned())),
            request_timeout: Duration::from_secs(1),
            give_up_after: Duration::from_secs(3),
            retries: 1,
            ..S3Options::new(BUCKET, "us-east-1")
        };
        Options { bytes: Some(Bytes::S3(Box::new(options))), ..Options::default() }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.wire.port)
    }
}

pub(crate) async fn with_bucket() -> (Server, S3Server, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = S3Server::start(folder.path());
    let options = S3Options {
        endpoint: Some(store.endpoint()),
        key: Some((KEY.0.to_owned(), KEY.1.to_owned())),
        ..S3Options::new(BUCKET, "us-east-1")
    };
    let options = Options { bytes: Some(Bytes::S3(Box::new(options))), ..Options::default() };
    (Server::with(Database::sqlite(), options).await, store, folder)
}

/// C3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_go_straight_to_the_bucket_in_parts_if_they_are_many() {
    let (server, store, _folder) = with_bucket().await;
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    for (size, pieces) in [(1_000, 1), (100_000, 1), (5 << 20, 1), (70 << 20, 2)] {
        let bytes = noise(size as u64, size);
        let upload = reserve(&ada, &bytes).await;
        let mut tags = Vec::new();
        let all = upload["pieces"].as_array().unwrap();
        assert_eq!(all.len(), pieces);
        for piece in all {
            let url = piece["url"].as_str().unwrap();
            assert!(url.starts_with(&store.endpoint()), "{url}");
            let at = |end: &str| usize::try_from(piece[end].as_u64().unwrap()).unwrap();
            let body = bytes[at("from")..at("to")].to_vec();
            let answer = server.client.put(url).body(body).send().await.unwrap();
            assert_eq!(answer.status(), 200);
            tags.push(answer.headers()["etag"].to_str().unwrap().to_owned());
        }
        assert_eq!(get(&ada, &bytes, None).await.0, 404, "it was not looked at yet");
        let path = format!("/api/blobs/uploads/{}/complete", upload["id"]);
        ada.post(&path, json!({ "tags": tags })).await.expect(200);
        assert!(get(&ada, &bytes, None).await == (200, bytes.clone()), "{size}");
        let (status, part) = get(&ada, &bytes, Some("bytes=10-19")).await;
        assert!(status == 206 && part == bytes[10..20], "{size}");
    }
}

/// C3: whoever still has the address of an upload cannot change what was looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_looked_at_cannot_be_replaced_and_wrong_bytes_are_refused() {
    let (server, _store, _folder) = with_bucket().await;
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let (right, wrong) = (noise(1, 100_000), noise(2, 100_000));
    let upload = reserve(&ada, &right).await;
    let url = upload["pieces"][0]["url"].as_str().unwrap();
    let send = async |bytes: &[u8]| {
        server.client.put(url).body(bytes.to_vec()).send().await.unwrap().status().as_u16()
    };
    let path = format!("/api/blobs/uploads/{}/complete", upload["id"]);
    assert_eq!(send(&wrong).await, 200);
    assert!(ada.post(&path, json!({})).await.problem(422).contains(&hash(&right)));
    assert_eq!(get(&ada, &right, None).await.0, 404);
    assert_eq!(send(&right).await, 200);
    ada.post(&path, json!({})).await.expect(200);
    assert_eq!(send(&wrong).await, 200, "S3 knows nothing of our rows");
    assert!(get(&ada, &right, None).await == (200, right));
}

/// C9: a log in the bucket is seen whole and in order by whoever watches, and nobody holds it up.
async fn a_log_in_the_bucket_is_followed_by_fast_and_slow_viewers(database: Database) {
    let bucket = Bucket::new();
    let server = Server::with(database, bucket.options()).await;
    let ada = person(&server, "adam", As::administrator()).await;
    let (log, site) = running(&server, &ada).await;
    let path = format!("/api/jobs/{}/log/live", log.job);
    let bearer = format!("Bearer {}", ada.token);
    let mut fast = sse(&ada, &path, None).await;
    let blocked = socket(&server, &path, &[("authorization", &bearer)]).await.unwrap();
    let mut length = 0;
    let mut append = async |text: String| {
        let appended = server.app.logs.append(log, length, text.into());
        length = timeout(PATIENCE, appended).await.expect("nobody holds it up").unwrap();
    };
    for number in 0..60_u64 {
        let lines: Vec<String> = (0..50)
            .map(|line| format!("1000 0 {} {}\n", number * 50 + line, "x".repeat(200)))
            .collect();
        append(lines.concat()).await;
    }
    for number in 1..=3_000 {
        assert_eq!(next(&mut fast).await.1["line_number"], number);
    }
    let mut delays = Vec::new();
    for number in 3_001..3_031 {
        let begun = Instant::now();
        append(format!("1000 0 line {number}\n")).await;
        assert_eq!(next(&mut fast).await.1, line(1, number, &format!("line {number}")));
        delays.push(begun.elapsed());
    }
    delays.sort_unstable();
    assert!(delays[15] < Duration::from_millis(700), "{delays:?}");
    // The one that took nothing has missed nothing.
    let numbers = blocked.map(|message| message["line_number"].as_u64().unwrap());
    let seen: Vec<u64> = timeout(PATIENCE * 3, numbers.take(3_030).collect()).await.unwrap();
    assert_eq!(seen, (1..=3_030).collect::<Vec<_>>());
    // Archived, it is the same.
    let raw = ada.get(&format!("/api/jobs/{}/log", log.job)).await.expect(200);
    assert!(server.app.logs.archive(log).await.unwrap());
    assert!(ada.get(&format!("/api/jobs/{}/log", log.job)).await.expect(200) == raw);
    assert_eq!(site.view(log.job.run()).await.jobs.len(), 1);
}

mod a_log_in_the_bucket_is_followed {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_sqlite() {
        a_log_in_the_bucket_is_followed_by_fast_and_slow_viewers(Database::sqlite()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_postgres() {
        a_log_in_the_bucket_is_followed_by_fast_and_slow_viewers(Database::postgres().await).await;
    }
}

/// C9 H2
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_in_the_bucket_is_followed_on_another_server_to_its_end() {
    let bucket = Bucket::new();
    let database = Database::postgres().await;
    let other = Database::same(&database);
    let one = Server::with(database, bucket.options()).await;
    let two = Server::with(other, bucket.options()).await;
    let ada = person(&two, "adam", As::administrator()).await;
    let root = person(&one, "root", As::administrator()).await;
    let (log, site) = running(&one, &root).await;
    let path = format!("/api/jobs/{}/log/live", log.job);
    let bearer = format!("Bearer {}", ada.token);
    let mut socket = socket(&two, &path, &[("authorization", &bearer)]).await.unwrap();
    let mut length = 0;
    for number in 1..=200_u64 {
        // Now one server is written to, now the other.
        let server = if number % 50 < 25 { &one } else { &two };
        let text = format!("1000 0 line {number}\n");
        length = server.app.logs.append(log, length, text.into()).await.unwrap();
        server.app.tails.grew(log.job);
    }
    for number in 1..=200 {
        assert_eq!(next(&mut socket).await, line(1, number, &format!("line {number}")));
    }
    // The end comes from the server that nobody watches at, and is archived at once.
    length = one.app.logs.append(log, length, "1000 0 the end\n".into()).await.unwrap();
    let view = site.view(log.job.run()).await;
    assert_eq!(view.jobs[0].claim, log.claim);
    assert!(one.app.logs.archive(log).await.unwrap());
    assert_eq!(next(&mut socket).await, line(1, 201, "the end"));
    assert_eq!(two.app.logs.length(log).await.unwrap(), length);
}
