//! Trees that jobs save as caches: what is sent again, who finds which chunk, and what goes.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use bytes::Bytes;
use kiln_blob::Digest;
use kiln_blob::tree::{Packed, Place, Saved, Shelf, Spot, save};
use kiln_store::Tx;
use kiln_store::directory::members::Role;
use kiln_testkit::database::Database;
use serde_json::{Value, json};

use crate::api::people::{As, person, reply};
use crate::blobs::{hash, noise, put};
use crate::bucket::with_bucket;
use crate::content::{Of, PUSH, Worker, builders};
use crate::garbage::{impatient, round, stored};
use crate::support::Server;

const FORK: Of =
    Of { event: "pull_request", reference: "refs/pull/7/merge", trust: "untrusted", base: "main" };

/// Keeps what is put, and knows some chunks.
#[derive(Default)]
struct Collected {
    known: HashMap<Digest, Spot>,
    put: Mutex<Vec<Packed>>,
}

impl Shelf for Collected {
    fn put(&self, pack: Packed) -> io::Result<()> {
        self.put.lock().unwrap().push(pack);
        Ok(())
    }

    fn find(&self, chunks: &[Digest]) -> io::Result<Vec<Option<Spot>>> {
        Ok(chunks.iter().map(|chunk| self.known.get(chunk).copied()).collect())
    }

    fn read(&self, _: Digest, _: u32, _: u32) -> io::Result<Bytes> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

fn tree(folder: &Path, known: HashMap<Digest, Spot>) -> (Saved, Vec<Packed>) {
    let shelf = Collected { known, put: Mutex::default() };
    let places = [Place { name: "./deps".to_owned(), at: folder.to_owned() }];
    let saved = save(&places, &|_| false, &shelf).unwrap();
    (saved, shelf.put.into_inner().unwrap())
}

impl Worker<'_> {
    async fn send_pack(&self, pack: &[u8]) {
        let ask = |path: &str, body: Value| {
            let request = self.server.client.post(self.server.url(path));
            reply(request.bearer_auth(&self.job.token).json(&body))
        };
        let wish = json!({ "hash": hash(pack), "size": pack.len(), "whole": true });
        let upload = ask("/api/blobs/uploads", wish).await.expect(201);
        if upload["stored"] != true {
            let to = upload["pieces"][0]["url"].as_str().unwrap();
            assert!(put(self.server, to, pack).await.is_success());
            let done = format!("/api/blobs/uploads/{}/complete", upload["id"]);
            ask(&done, json!({})).await.expect(200);
        }
    }

    async fn save_tree(&self, key: &str, saved: &Saved, packs: &[Packed]) -> Value {
        let new = json!({ "key": key, "version": "t" });
        let reserved = self.post("caches", new).await.expect(201);
        for pack in packs {
            self.send_pack(&pack.bytes).await;
            let said = json!({ "hash": pack.digest.to_string() });
            assert_eq!(self.post("caches/packs", said).await.status, 204);
        }
        let mut root = self.send(&saved.root).await;
        root["packs"] = saved.packs.iter().map(Digest::to_string).collect();
        let path = format!("caches/{}/tree", reserved["id"]);
        let made = self.post(&path, root.clone()).await.expect(200);
        assert_eq!(self.post(&path, root).await.expect(200), made, "said again");
        made
    }

    /// How many of the chunks of these packs are found.
    async fn known(&self, packs: &[Packed]) -> usize {
        let inside = packs.iter().flat_map(|pack| &pack.inside);
        let hashes: Vec<String> = inside.map(|line| line.digest.to_string()).collect();
        let found = self.post("caches/chunks", json!({ "hashes": hashes })).await.expect(200);
        found["chunks"].as_array().unwrap().len()
    }
}

fn sample() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..50_u64 {
        fs::write(folder.path().join(format!("f{number}")), noise(number + 1, 2_000)).unwrap();
    }
    folder
}

fn count(packs: &[Packed]) -> usize {
    packs.iter().map(|pack| pack.inside.len()).sum()
}

on_both! {
    /// C7 R8
    of_a_second_tree_only_what_changed_is_sent
}

async fn of_a_second_tree_only_what_changed_is_sent(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let folder = sample();
    let (saved, packs) = tree(folder.path(), HashMap::new());
    assert_eq!(job.known(&packs).await, 0);
    let made = job.save_tree("a", &saved, &packs).await;
    let all: usize = packs.iter().map(|pack| pack.bytes.len()).sum();
    assert_eq!(made["size"], all + saved.root.len(), "it counts with what it keeps");
    let found = job.post("caches/find", json!({ "key": "a", "version": "t" })).await.expect(200);
    assert_eq!(found["cache"]["hash"], hash(&saved.root));
    // The next job finds all of it, and sends one file and a page.
    let next = Worker::start(&runner, &place, &PUSH).await;
    assert_eq!(next.known(&packs).await, count(&packs));
    let known = packs
        .iter()
        .flat_map(|pack| pack.inside.iter().map(|line| (line.digest, line.spot(pack.digest))));
    fs::write(folder.path().join("f7"), "another").unwrap();
    let (second, new) = tree(folder.path(), known.collect());
    assert!(second.new_bytes * 20 < saved.new_bytes, "{} {}", second.new_bytes, saved.new_bytes);
    next.save_tree("b", &second, &new).await;
    assert_eq!(next.known(&new).await, count(&new));
    // Threads fill packs of their own, so nobody knows how many there are. All that are not new are of the first tree.
    let added = second.packs.iter().filter(|pack| !saved.packs.contains(pack)).count();
    assert_eq!((added, second.new_packs), (new.len(), new.len() as u64));
}

on_both! {
    /// R8 R9
    a_tree_is_complete_or_not_there_and_a_pack_is_what_it_says
}

async fn a_tree_is_complete_or_not_there_and_a_pack_is_what_it_says(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let folder = sample();
    let (saved, packs) = tree(folder.path(), HashMap::new());
    let new = json!({ "key": "a", "version": "t" });
    let reserved = job.post("caches", new.clone()).await.expect(201);
    let path = format!("caches/{}/tree", reserved["id"]);
    let mut root = job.send(&saved.root).await;
    root["packs"] = saved.packs.iter().map(Digest::to_string).collect();
    // Neither a pack that was never sent, nor one that nobody has looked through.
    job.post(&path, root.clone()).await.expect(409);
    for pack in &packs {
        job.send_pack(&pack.bytes).await;
    }
    job.post(&path, root.clone()).await.expect(409);
    assert_eq!(job.post("caches/find", new.clone()).await.expect(200)["cache"], Value::Null);
    assert_eq!(job.known(&packs).await, 0);
    // A chunk that is another than its hash says makes the pack none.
    let mut evil = packs[0].bytes.clone();
    evil[3] ^= 1;
    for wrong in [evil, b"no pack at all".to_vec(), noise(5, 70_000)] {
        job.send_pack(&wrong).await;
        let said = json!({ "hash": hash(&wrong) });
        assert!(job.post("caches/packs", said).await.problem(422).contains("no pack"));
    }
    job.post("caches/packs", json!({ "hash": hash(b"nowhere") })).await.expect(404);
    job.post("caches/packs", json!({ "hash": "x" })).await.expect(422);
    job.post("caches/chunks", json!({ "hashes": ["x"] })).await.expect(422);
    for pack in &packs {
        let said = json!({ "hash": pack.digest.to_string() });
        assert_eq!(job.post("caches/packs", said).await.status, 204);
    }
    // What nobody needs is found by nobody.
    assert_eq!(job.known(&packs).await, 0);
    let other = Worker::start(&runner, &place, &PUSH).await;
    other.post(&path, root.clone()).await.expect(404);
    job.post(&path, root).await.expect(200);
    assert_eq!(job.known(&packs).await, count(&packs));
}

on_both! {
    /// G8: the path of a poisoned cache, chunk by chunk.
    chunks_are_found_by_those_who_may_read_a_cache_that_has_them
}

async fn chunks_are_found_by_those_who_may_read_a_cache_that_has_them(server: Server) {
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let start = async |of: &Of| Worker::start(&runner, &place, of).await;
    let folder = sample();
    let (saved, packs) = tree(folder.path(), HashMap::new());
    let all = count(&packs);
    let fork = start(&FORK).await;
    fork.save_tree("a", &saved, &packs).await;
    assert_eq!(fork.known(&packs).await, all);
    let main = start(&PUSH).await;
    assert_eq!(main.known(&packs).await, 0, "nothing of a stranger");
    // Nor can a trusted tree be built on packs of a stranger.
    let reserved = main.post("caches", json!({ "key": "a", "version": "t" })).await.expect(201);
    let mut root = main.send(&saved.root).await;
    root["packs"] = saved.packs.iter().map(Digest::to_string).collect();
    main.post(&format!("caches/{}/tree", reserved["id"]), root).await.expect(409);
    // The same tree of a trusted run is its own, although the bytes are the same.
    main.save_tree("b", &saved, &packs).await;
    assert_eq!(main.known(&packs).await, all);
    let feature = start(&Of { reference: "refs/heads/feature", ..PUSH }).await;
    assert_eq!(feature.known(&packs).await, all, "of the default branch");
    let (own, new) = {
        fs::write(folder.path().join("secret"), noise(99, 3_000)).unwrap();
        tree(folder.path(), HashMap::new())
    };
    feature.save_tree("c", &own, &new).await;
    assert_eq!(feature.known(&new).await, count(&new));
    assert!(main.known(&new).await < count(&new), "of a branch that it does not read");
    let elsewhere = server.repository("other", "app").await;
    let others = builders(&server, &elsewhere).await;
    let stranger = Worker::start(&others, &elsewhere, &PUSH).await;
    assert_eq!(stranger.known(&packs).await, 0, "of another organization");
    // With the cache goes what is known of it.
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    ada.delete("/repos/acme/app/actions/caches?key=b").await.expect(200);
    ada.delete("/repos/acme/app/actions/caches?key=c").await.expect(200);
    assert_eq!(main.known(&packs).await, 0);
}

async fn rows(server: &Server, sql: &'static str) -> i64 {
    let count = async move |tx: &mut Tx<'_>| tx.one("row", sql, &[]).await?.get::<i64>(0);
    server.app.store.read(count).await.unwrap()
}

async fn what_no_tree_needs_goes(database: Database) {
    let server = impatient(database).await;
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let folder = sample();
    fs::write(folder.path().join("large"), noise(3, 200_000)).unwrap();
    let (first, packs) = tree(folder.path(), HashMap::new());
    job.save_tree("a", &first, &packs).await;
    let known = packs
        .iter()
        .flat_map(|pack| pack.inside.iter().map(|line| (line.digest, line.spot(pack.digest))));
    fs::write(folder.path().join("f7"), "another").unwrap();
    let (second, new) = tree(folder.path(), known.collect());
    job.save_tree("b", &second, &new).await;
    for _ in 0..3 {
        round(&server).await;
    }
    assert_eq!(job.known(&packs).await, count(&packs));
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    ada.delete("/repos/acme/app/actions/caches?key=a").await.expect(200);
    for _ in 0..3 {
        round(&server).await;
    }
    assert_eq!(job.known(&packs).await, count(&packs), "the second needs them still");
    ada.delete("/repos/acme/app/actions/caches?key=b").await.expect(200);
    // First the roots, then what only they needed.
    for _ in 0..4 {
        round(&server).await;
    }
    assert_eq!(rows(&server, "SELECT count(*) FROM tree_chunks").await, 0);
    assert_eq!(rows(&server, "SELECT count(*) FROM tree_packs").await, 0);
    assert_eq!(rows(&server, "SELECT count(*) FROM blobs").await, 0);
    assert_eq!(stored(&server).await, [""; 0]);
}

/// C6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_tree_needs_goes_on_sqlite() {
    what_no_tree_needs_goes(Database::sqlite()).await;
}

/// C6
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_tree_needs_goes_on_postgres() {
    what_no_tree_needs_goes(Database::postgres().await).await;
}

/// C3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_in_a_bucket_stays_whole_and_is_read_in_parts() {
    let (server, store, _folder) = with_bucket().await;
    let place = server.repository("acme", "app").await;
    let runner = builders(&server, &place).await;
    let job = Worker::start(&runner, &place, &PUSH).await;
    let folder = sample();
    fs::write(folder.path().join("large"), noise(3, 6 << 20)).unwrap();
    let (saved, packs) = tree(folder.path(), HashMap::new());
    job.save_tree("a", &saved, &packs).await;
    assert_eq!(job.known(&packs).await, count(&packs));
    assert_eq!(rows(&server, "SELECT count(*) FROM blobs WHERE place LIKE 'recipes/%'").await, 0);
    let pack = packs.iter().max_by_key(|pack| pack.bytes.len()).unwrap();
    let url = server.url(&format!("/api/blobs/{}", pack.digest));
    let asked = server.client.get(url).bearer_auth(&job.job.token).header("range", "bytes=10-19");
    let answer = asked.send().await.unwrap();
    let part = if answer.status().is_redirection() {
        let there = answer.headers()["location"].to_str().unwrap().to_owned();
        assert!(there.starts_with(&store.endpoint()), "{there}");
        server.client.get(there).header("range", "bytes=10-19").send().await.unwrap()
    } else {
        answer
    };
    assert_eq!(part.bytes().await.unwrap(), pack.bytes[10..20]);
}
