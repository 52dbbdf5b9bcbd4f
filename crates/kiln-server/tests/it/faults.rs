//! A server whose place for bytes fails, is slow, or is full: it says so, loses nothing, and goes on.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use kiln_proto::report::Stored;
use kiln_server::config::Place as Bytes;
use kiln_server::service::garbage::Round;
use kiln_store::Tx;
use kiln_store::directory::members::Role;
use kiln_testkit::database::Database;
use kiln_testkit::disk::{on_small_disk, with_small_disk};
use kiln_testkit::proxy::Fault;
use reqwest::{Method, Response};
use serde_json::json;
use tokio::time::timeout;

use crate::api::people::{As, Person, person, reply};
use crate::blobs::{get, noise, put, reserve};
use crate::bucket::Bucket;
use crate::garbage::{object, round};
use crate::runner::{LINUX, Reporter, Runner, completion, good};
use crate::support::{Options, Server};

/// Longer than the server waits for its store, several times.
const PATIENCE: Duration = Duration::from_secs(30);
const JOB: &str = "  build: {runs-on: linux, steps: [{run: 'true'}]}\n";

/// Refused for now: it says so, and when to ask again.
async fn unavailable(answer: Response, what: &str) -> String {
    assert_eq!(answer.status(), 503, "{what}");
    assert!(answer.headers().contains_key("retry-after"), "{what}");
    let problem: serde_json::Value = answer.json().await.unwrap();
    problem["detail"].as_str().unwrap().to_owned()
}

async fn asked(request: reqwest::RequestBuilder) -> Response {
    timeout(PATIENCE, request.send()).await.expect("it answers in time").unwrap()
}

struct World<'s> {
    bucket: &'s Bucket,
    server: &'s Server,
    ada: Person<'s>,
    org: kiln_core::id::OrgId,
}

impl World<'_> {
    fn complete(&self, upload: &serde_json::Value) -> reqwest::RequestBuilder {
        let path = format!("/api/blobs/uploads/{}/complete", upload["id"]);
        self.ada.request(Method::POST, &path).json(&json!({}))
    }

    /// Sends bytes and uses them.
    async fn keep(&self, bytes: &[u8]) {
        let upload = reserve(&self.ada, bytes).await;
        let url = upload["pieces"][0]["url"].as_str().unwrap();
        assert!(put(self.server, url, bytes).await.is_success());
        assert_eq!(asked(self.complete(&upload)).await.status(), 200);
        object(self.server, self.org, bytes).await.unwrap();
    }

    /// An upload in parts whose time is over: the store is to forget it. Says where a part would go.
    async fn given_up(&self, seed: u64) -> String {
        let wish = json!({ "owner": "acme", "hash": hash_of(seed), "size": 70 << 20 });
        let many = self.ada.post("/api/blobs/uploads", wish).await.expect(201);
        let id = many["id"].as_i64().unwrap();
        let over = async move |tx: &mut Tx<'_>| {
            tx.execute("UPDATE uploads SET expires_at = 1 WHERE id = $1", &[id.into()]).await
        };
        assert_eq!(self.server.app.store.write(over).await.unwrap(), 1);
        many["pieces"][0]["url"].as_str().unwrap().to_owned()
    }

    /// How many uploads in parts the store is still to forget.
    async fn parts_left(&self) -> i64 {
        let count = async |tx: &mut Tx<'_>| {
            let sql = "SELECT count(*) FROM removals WHERE parts IS NOT NULL";
            tx.one("removal", sql, &[]).await?.get::<i64>(0)
        };
        self.server.app.store.read(count).await.unwrap()
    }

    /// What is to be forgotten has been so for long.
    async fn long_ago(&self) {
        let age =
            async |tx: &mut Tx<'_>| tx.execute("UPDATE removals SET created_at = 1", &[]).await;
        self.server.app.store.write(age).await.unwrap();
    }

    /// What people and jobs do with bytes, before, while and after the store fails.
    async fn bytes(&self, fault: Fault, seed: u64) {
        let (old, new, unused) =
            (noise(seed, 5 << 20), noise(seed + 1, 100_000), noise(seed + 2, 100_000));
        self.keep(&old).await;
        let upload = reserve(&self.ada, &new).await;
        let url = upload["pieces"][0]["url"].as_str().unwrap().to_owned();
        assert!(put(self.server, &url, &new).await.is_success());
        let left = reserve(&self.ada, &unused).await;
        let url = left["pieces"][0]["url"].as_str().unwrap().to_owned();
        assert!(put(self.server, &url, &unused).await.is_success());
        assert_eq!(asked(self.complete(&left)).await.status(), 200);

        let many = self.given_up(seed).await;

        self.bucket.wire.fail(fault, usize::MAX);
        let said = unavailable(asked(self.complete(&upload)).await, "complete").await;
        assert!(said.contains("try again"), "{said}");
        let path = format!("/api/blobs/{}?owner=acme", crate::blobs::hash(&old));
        unavailable(asked(self.ada.request(Method::GET, &path)).await, "download").await;
        // An upload in parts begins at the store.
        let wish = json!({ "owner": "acme", "hash": crate::blobs::hash(b"x"), "size": 70 << 20 });
        let wish = self.ada.request(Method::POST, "/api/blobs/uploads").json(&wish);
        unavailable(asked(wish).await, "reserve").await;
        let mut doomed = Round::default();
        let failed = async {
            while !doomed.is_over() {
                doomed.go_on(&self.server.app).await?;
            }
            Ok::<(), kiln_server::service::garbage::Trouble>(())
        };
        timeout(PATIENCE, failed).await.expect("it ends").unwrap_err();
        assert_eq!(self.parts_left().await, 1, "it is not forgotten");
        if fault != Fault::Error {
            // The store may have heard it: this one then says that it is forbidden, others that there is none.
            self.long_ago().await;
        }

        self.bucket.wire.heal();
        assert_eq!(asked(self.complete(&upload)).await.status(), 200);
        object(self.server, self.org, &new).await.unwrap();
        // The next round finishes what the last one began; what is used is not touched.
        round(self.server).await;
        assert_eq!(round(self.server).await.blobs, 0);
        assert_eq!(self.parts_left().await, 0);
        assert!(!put(self.server, &many, b"late").await.is_success(), "the store forgot it");
        assert_eq!(get(&self.ada, &unused, None).await.0, 404);
        for bytes in [&old, &new] {
            assert!(get(&self.ada, bytes, None).await == (200, bytes.clone()));
        }
        let root = person(self.server, &format!("root{seed}"), As::administrator()).await;
        let storage = root.get("/api/storage").await.expect(200);
        assert_eq!(storage["kept"]["removals"], 0);
    }
}

/// A hash that nothing has.
fn hash_of(seed: u64) -> String {
    crate::blobs::hash(format!("never sent {seed}").as_bytes())
}

/// C3 C6
async fn a_store_that_fails_is_said_to_fail_and_nothing_is_lost(database: Database) {
    let bucket = Bucket::new();
    let options = Options { grace: Duration::ZERO, ..bucket.options() };
    let server = Server::with(database, options).await;
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let world = World { bucket: &bucket, server: &server, ada, org: place.org };
    for (seed, fault) in [(10, Fault::Error), (20, Fault::Silence), (30, Fault::Cut(40))] {
        world.bytes(fault, seed).await;
    }
}

/// C6: a store that refuses to forget an upload holds up nothing else, and is not asked for ever.
async fn what_a_store_refuses_to_forget_is_left_to_it_in_the_end(database: Database) {
    let bucket = Bucket::new();
    let options = Options { grace: Duration::ZERO, ..bucket.options() };
    let server = Server::with(database, options).await;
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let world = World { bucket: &bucket, server: &server, ada, org: place.org };
    let unknown = async |tx: &mut Tx<'_>| {
        let sql = "INSERT INTO removals (place, stored, created_at, parts) VALUES \
                   ('uploads/aa/refused', 1, $1, '00000000-0000-0000-0000-000000000000'), \
                   ('uploads/bb/goes', 1, $1, NULL)";
        tx.execute(sql, &[tx.now().into()]).await
    };
    server.app.store.write(unknown).await.unwrap();
    let mut doomed = Round::default();
    let failed = async {
        while !doomed.is_over() {
            doomed.go_on(&server.app).await?;
        }
        Ok::<(), kiln_server::service::garbage::Trouble>(())
    };
    failed.await.unwrap_err();
    // It was said, and the round goes on behind it to its end.
    while !doomed.is_over() {
        doomed.go_on(&server.app).await.unwrap();
    }
    let left = async |tx: &mut Tx<'_>| {
        let rows = tx.rows("SELECT place FROM removals", &[]).await?;
        rows.iter().map(|row| row.get::<String>(0)).collect::<Result<Vec<_>, _>>()
    };
    assert_eq!(server.app.store.read(left).await.unwrap(), ["uploads/aa/refused"]);
    world.long_ago().await;
    round(&server).await;
    assert_eq!(world.parts_left().await, 0);
}

/// C8 C11: a runner that is told to wait says it again, and no line is lost or doubled.
async fn a_log_waits_for_its_store(database: Database) {
    let bucket = Bucket::new();
    let server = Server::with(database, bucket.options()).await;
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    server.run(&place, JOB).await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let reporter = Reporter::new(&server, &job);
    let api = format!("/api/jobs/{}/log", job.job_id);
    let mut expect = String::new();
    let mut length = 0;
    for (number, fault) in [Fault::Error, Fault::Silence, Fault::Cut(0)].into_iter().enumerate() {
        let line = format!("1000 0 before {number}\n");
        let stored: Stored = good(reporter.logging(length, &line).send().await.unwrap()).await;
        bucket.wire.fail(fault, usize::MAX);
        let more = format!("1000 0 while it fails {number}\n");
        let said = unavailable(asked(reporter.logging(stored.offset, &more)).await, "log").await;
        assert!(said.contains("cannot be kept") && said.contains("try again"), "{said}");
        let said = unavailable(asked(ada.request(Method::GET, &api)).await, "read").await;
        assert!(said.contains("cannot be read"), "{said}");
        bucket.wire.heal();
        let stored: Stored = good(asked(reporter.logging(stored.offset, &more)).await).await;
        length = stored.offset;
        let _ = write!(expect, "before {number}\nwhile it fails {number}\n");
        assert_eq!(reply(ada.request(Method::GET, &api)).await.expect(200), expect);
    }
    // Slow is not broken.
    bucket.wire.fail(Fault::Slow(Duration::from_millis(100)), usize::MAX);
    let stored: Stored = good(asked(reporter.logging(length, "1000 0 slow\n")).await).await;
    expect.push_str("slow\n");
    bucket.wire.heal();
    let mut done = completion("success");
    done.log_bytes = stored.offset;
    assert_eq!(reporter.completing(&done).send().await.unwrap().status(), 200);

    // An archive that fails leaves the log as it was, and is made later.
    let log =
        kiln_server::logs::LogId { job: kiln_core::id::JobId(job.job_id), claim: job.attempt };
    for fault in [Fault::Error, Fault::Cut(40)] {
        bucket.wire.fail(fault, usize::MAX);
        let archive = timeout(PATIENCE, server.app.logs.archive(log)).await.expect("it ends");
        archive.unwrap_err();
        bucket.wire.heal();
        assert_eq!(reply(ada.request(Method::GET, &api)).await.expect(200), expect);
    }
    assert!(server.app.logs.archive(log).await.unwrap());
    assert_eq!(reply(ada.request(Method::GET, &api)).await.expect(200), expect);
}

mod on_sqlite {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_store_that_fails_is_said_to_fail_and_nothing_is_lost() {
        super::a_store_that_fails_is_said_to_fail_and_nothing_is_lost(Database::sqlite()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_a_store_refuses_to_forget_is_left_to_it_in_the_end() {
        super::what_a_store_refuses_to_forget_is_left_to_it_in_the_end(Database::sqlite()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_log_waits_for_its_store() {
        super::a_log_waits_for_its_store(Database::sqlite()).await;
    }
}

mod on_postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_store_that_fails_is_said_to_fail_and_nothing_is_lost() {
        let database = Database::postgres().await;
        super::a_store_that_fails_is_said_to_fail_and_nothing_is_lost(database).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_a_store_refuses_to_forget_is_left_to_it_in_the_end() {
        let database = Database::postgres().await;
        super::what_a_store_refuses_to_forget_is_left_to_it_in_the_end(database).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_log_waits_for_its_store() {
        super::a_log_waits_for_its_store(Database::postgres().await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by another test, where a small disk is mounted"]
async fn on_a_small_disk() {
    on_small_disk(bytes_have_no_room).await;
}

async fn bytes_have_no_room(folder: PathBuf) {
    let bytes = Some(Bytes::Folder(folder.join("objects")));
    let options = Options { bytes, grace: Duration::ZERO, ..Options::default() };
    let server = Server::with(Database::sqlite(), options).await;
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let (first, second) = (noise(1, 3 << 20), noise(2, 7 << 20));
    crate::blobs::send(&server, &ada, &first).await;
    let reference = object(&server, place.org, &first).await.unwrap();
    let upload = reserve(&ada, &second).await;
    let url = upload["pieces"][0]["url"].as_str().unwrap();
    for _ in 0..3 {
        let said =
            unavailable(asked(server.client.put(url).body(second.clone())).await, "full").await;
        assert!(said.contains("no room"), "{said}");
    }
    let complete = format!("/api/blobs/uploads/{}/complete", upload["id"]);
    ada.post(&complete, json!({})).await.expect(409);
    assert!(get(&ada, &first, None).await == (200, first.clone()), "what was there is whole");
    // With room it is taken. Without grace the collector may give the upload up that was begun.
    let id = kiln_core::id::ObjectId(reference);
    let gone = async move |tx: &mut Tx<'_>| {
        kiln_store::content::objects::delete(tx, crate::support::SYSTEM, id).await
    };
    server.app.store.write(gone).await.unwrap();
    while round(&server).await.blobs > 0 {}
    assert_eq!(get(&ada, &first, None).await.0, 404);
    crate::blobs::send(&server, &ada, &second).await;
    assert!(get(&ada, &second, None).await == (200, second));
}

/// C3
#[test]
fn bytes_for_which_a_server_has_no_room_are_refused_clearly_and_taken_later() {
    with_small_disk("faults::on_a_small_disk");
}
