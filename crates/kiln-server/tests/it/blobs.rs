//! Bytes over HTTP: sent, looked at, had; and what nobody may do with them.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kiln_blob::{Digest, Name, of_bytes};
use kiln_core::id::OrgId;
use kiln_server::service::garbage::{Freed, Round};
use kiln_store::Tx;
use kiln_store::content::blobs;
use kiln_store::content::objects::{self, NewObject};
use kiln_store::directory::members::Role;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::people::{As, Person, person};
use crate::runner::{LINUX, Runner};
use crate::support::{SYSTEM, Server};

fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend(next());
    }
    bytes.truncate(length);
    bytes
}

fn hash(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}

async fn reserve(who: &Person<'_>, bytes: &[u8]) -> Value {
    let wish = json!({ "owner": "acme", "hash": hash(bytes), "size": bytes.len() });
    who.post("/api/blobs/uploads", wish).await.expect(201)
}

async fn put(server: &Server, url: &str, bytes: &[u8]) -> StatusCode {
    server.client.put(url).body(bytes.to_vec()).send().await.unwrap().status()
}

/// Sends bytes as a client does.
async fn send(server: &Server, who: &Person<'_>, bytes: &[u8]) {
    let upload = reserve(who, bytes).await;
    if upload["stored"] == true {
        return;
    }
    let url = upload["pieces"][0]["url"].as_str().unwrap();
    assert_eq!(put(server, url, bytes).await, 204);
    let path = format!("/api/blobs/uploads/{}/complete", upload["id"]);
    let done = who.post(&path, json!({})).await.expect(200);
    assert_eq!(done, json!({ "hash": hash(bytes), "size": bytes.len() }));
}

async fn get(who: &Person<'_>, bytes: &[u8], range: Option<&str>) -> (u16, Vec<u8>) {
    let path = format!("/api/blobs/{}?owner=acme", hash(bytes));
    let mut request = who.request(Method::GET, &path);
    if let Some(range) = range {
        request = request.header("range", range);
    }
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.bytes().await.unwrap().to_vec())
}

on_both! {
    /// C3
    bytes_of_any_size_are_sent_and_had
}

async fn bytes_of_any_size_are_sent_and_had(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    for size in [0, 1, 64 << 10, (64 << 10) + 1, 3 << 20, 9 << 20] {
        let bytes = noise(size as u64, size);
        send(&server, &ada, &bytes).await;
        assert!(get(&ada, &bytes, None).await == (200, bytes.clone()), "{size}");
        // Once is enough.
        assert_eq!(reserve(&ada, &bytes).await["stored"], true);
        if size > 100 {
            let (status, part) = get(&ada, &bytes, Some("bytes=7-99")).await;
            assert!(status == 206 && part == bytes[7..100], "{size}");
            let (status, part) = get(&ada, &bytes, Some("bytes=-5")).await;
            assert!(status == 206 && part == bytes[size - 5..], "{size}");
        }
        assert_eq!(get(&ada, &bytes, Some(&format!("bytes={size}-"))).await.0, 416);
    }
    // Few bytes may come with the question.
    let wish =
        json!({ "owner": "acme", "hash": hash(b"hi"), "size": 2, "content": BASE64.encode("hi") });
    assert_eq!(ada.post("/api/blobs/uploads", wish).await.expect(201)["stored"], true);
    assert_eq!(get(&ada, b"hi", None).await, (200, b"hi".to_vec()));
    let lie = json!({ "owner": "acme", "hash": hash(b"hi!"), "size": 3, "content": BASE64.encode("ho!") });
    assert!(ada.post("/api/blobs/uploads", lie).await.problem(422).contains("SHA-256"));
    let long = vec![b'x'; (64 << 10) + 1];
    let long = json!({ "owner": "acme", "hash": hash(&long), "size": long.len(), "content": BASE64.encode(&long) });
    ada.post("/api/blobs/uploads", long).await.expect(413);
}

on_both! {
    /// C2
    only_those_who_have_bytes_know_of_them
}

async fn only_those_who_have_bytes_know_of_them(server: Server) {
    let place = server.repository("acme", "app").await;
    let other = server.repository("other", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let eve = person(&server, "eve", As::member(other.org, Role::Admin)).await;
    let viewer = person(&server, "vic", As::member(place.org, Role::Viewer)).await;
    let bytes = noise(1, 100_000);
    send(&server, &ada, &bytes).await;
    let ask = |owner: &str| json!({ "owner": owner, "hashes": [hash(&bytes), hash(b"never")] });
    let present = ada.post("/api/blobs/exists", ask("acme")).await.expect(200);
    assert_eq!(present, json!({ "present": [hash(&bytes)] }));
    assert_eq!(eve.post("/api/blobs/exists", ask("other")).await.expect(200)["present"], json!([]));
    eve.post("/api/blobs/exists", ask("acme")).await.expect(404);
    assert_eq!(get(&eve, &bytes, None).await.0, 404);
    // Who may look may not send.
    assert_eq!(get(&viewer, &bytes, None).await.0, 200);
    let wish = json!({ "owner": "acme", "hash": hash(b"x"), "size": 1 });
    viewer.post("/api/blobs/uploads", wish.clone()).await.expect(403);
    // What somebody reserved, somebody else cannot complete.
    let upload = reserve(&ada, b"x").await;
    let complete = format!("/api/blobs/uploads/{}/complete", upload["id"]);
    eve.post(&complete, json!({})).await.expect(404);
    viewer.post(&complete, json!({})).await.expect(403);
    assert!(ada.post(&complete, json!({})).await.problem(409).contains("not arrived"));
    // A second organization has to prove that it has the bytes, and shares the place.
    let wish = json!({ "owner": "other", "hash": hash(&bytes), "size": bytes.len() });
    assert_eq!(eve.post("/api/blobs/uploads", wish).await.expect(201)["stored"], false);
    let many: Vec<String> = (0..10_001_u32).map(|_| hash(b"")).collect();
    let many = json!({ "owner": "acme", "hashes": many });
    let answer = ada.post("/api/blobs/exists", many).await.status.as_u16();
    assert!(answer == 413 || answer == 422, "{answer}");
}

on_both! {
    /// C3
    an_address_is_good_for_one_upload_and_these_bytes
}

async fn an_address_is_good_for_one_upload_and_these_bytes(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let (bytes, others) = (noise(1, 100_000), noise(2, 100_000));
    let [one, two] = [reserve(&ada, &bytes).await, reserve(&ada, &others).await];
    let url = one["pieces"][0]["url"].as_str().unwrap();
    let id = |upload: &Value| upload["id"].as_i64().unwrap();
    for wrong in [&others[..], &bytes[1..], &[&bytes[..], b"!"].concat(), b""] {
        assert_eq!(put(&server, url, wrong).await, 422);
    }
    let complete = format!("/api/blobs/uploads/{}/complete", id(&one));
    ada.post(&complete, json!({})).await.expect(409);
    assert_eq!(get(&ada, &bytes, None).await.0, 404);
    let changed = [
        url.replace(&format!("/uploads/{}?", id(&one)), &format!("/uploads/{}?", id(&two))),
        url.replace("size=100000", "size=100001"),
        url.replace(&format!("org={}", place.org.0), &format!("org={}", place.org.0 + 1)),
        url.replace("org=", "job=1&org="),
        url.replace("&expires=", "&expires=9"),
        url[..url.len() - 1].to_owned(),
        format!("{url}0"),
    ];
    for changed in changed {
        assert_eq!(put(&server, &changed, &bytes).await, 404, "{changed}");
    }
    assert_eq!(put(&server, url, &bytes).await, 204);
    assert_eq!(get(&ada, &bytes, None).await.0, 404, "it was not looked at yet");
    ada.post(&complete, json!({})).await.expect(200);
    // It is over.
    assert_eq!(put(&server, url, &bytes).await, 404);
    ada.post(&complete, json!({})).await.expect(404);
    // Links are for reading, and for these bytes.
    let link = ada.get(&format!("/api/blobs/{}/link?owner=acme", hash(&bytes))).await.expect(200);
    let link = link["url"].as_str().unwrap();
    let read = async |url: &str| server.client.get(url).send().await.unwrap();
    let answer = read(link).await;
    assert_eq!(
        (answer.status().as_u16(), answer.bytes().await.unwrap().to_vec()),
        (200, bytes.clone())
    );
    assert_eq!(read(&link.replace(&hash(&bytes), &hash(&others))).await.status(), 404);
    assert_eq!(read(&link.replace("size=", "size=1")).await.status(), 404);
    let as_upload =
        link.replace(&format!("/signed/{}", hash(&bytes)), &format!("/uploads/{}", id(&two)));
    assert_eq!(put(&server, &as_upload, &others).await, 404);
}

on_both! {
    /// S24
    a_job_sends_and_reads_for_its_organization_while_it_runs
}

async fn a_job_sends_and_reads_for_its_organization_while_it_runs(server: Server) {
    let place = server.repository("acme", "app").await;
    server.repository("other", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    server.run(&place, "  build: {runs-on: linux, steps: [{run: 'true'}]}\n").await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 0).await.unwrap();
    let post = async |token: &str, path: &str, body: Value| {
        let request = server.client.post(server.url(path)).bearer_auth(token).json(&body);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let bytes = noise(3, 200_000);
    let wish = json!({ "hash": hash(&bytes), "size": bytes.len() });
    let (status, upload) = post(&job.token, "/api/blobs/uploads", wish.clone()).await;
    assert_eq!(status, 201, "{upload}");
    let url = upload["pieces"][0]["url"].as_str().unwrap();
    assert!(url.contains("job="), "{url}");
    assert_eq!(put(&server, url, &bytes).await, 204);
    let complete = format!("/api/blobs/uploads/{}/complete", upload["id"]);
    // People cannot finish what a job began.
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    ada.post(&complete, json!({})).await.expect(404);
    assert_eq!(post(&job.token, &complete, json!({})).await.0, 200);
    let own = json!({ "owner": "acme", "hashes": [hash(&bytes)] });
    assert_eq!(
        post(&job.token, "/api/blobs/exists", own).await.1["present"],
        json!([hash(&bytes)])
    );
    let foreign = json!({ "owner": "other", "hashes": [hash(&bytes)] });
    assert_eq!(post(&job.token, "/api/blobs/exists", foreign.clone()).await.0, 404);
    let url = server.url(&format!("/api/blobs/{}", hash(&bytes)));
    let read = server.client.get(&url).bearer_auth(&job.token).send().await.unwrap();
    assert_eq!(read.bytes().await.unwrap().to_vec(), bytes);
    // Tokens that steps see, and those of jobs that are over, are good for nothing here.
    let end = kiln_proto::report::Complete { ..crate::runner::completion("success") };
    let path = format!("/actions/jobs/{}/attempts/{}/complete", job.job_id, job.attempt);
    let (status, said) = post(&job.token, &path, serde_json::to_value(end).unwrap()).await;
    assert_eq!(status, 200, "{said}");
    assert_eq!(post(&job.token, "/api/blobs/uploads", wish).await.0, 401);
}

/// All that one round does.
async fn round(server: &Server) -> Freed {
    let mut round = Round::default();
    while !round.is_over() {
        round.go_on(&server.app).await.unwrap();
    }
    round.freed
}

async fn object(server: &Server, org: OrgId, bytes: &[u8]) -> Result<i64, kiln_store::StoreError> {
    let digest = Digest::of(bytes);
    let make = async move |tx: &mut Tx<'_>| {
        let blob = blobs::by_hash(tx, SYSTEM, org, &digest.0).await?.id;
        let new = NewObject {
            org,
            kind: "artifact".to_owned(),
            blob: Some(blob),
            provider_object_id: None,
            expires_at: None,
            tags: Vec::new(),
        };
        objects::create(tx, SYSTEM, new).await
    };
    server.app.store.write(make).await.map(|id| id.0)
}

async fn stored(server: &Server) -> Vec<String> {
    let mut names = Vec::new();
    for folder in ["blobs", "packs", "recipes", "uploads"] {
        let backend = server.app.storage.backend();
        let found = backend.list(&Name::new(folder).unwrap(), None, 1000).await.unwrap();
        names.extend(found.into_iter().map(|entry| entry.name.to_string()));
    }
    names
}

/// A server whose collector has no patience.
async fn impatient(database: kiln_testkit::database::Database) -> Server {
    let options = crate::support::Options { grace: Duration::ZERO, ..Default::default() };
    Server::with(database, options).await
}

macro_rules! without_grace {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                let database = kiln_testkit::database::Database::sqlite();
                super::$name(super::impatient(database).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                let database = kiln_testkit::database::Database::postgres().await;
                super::$name(super::impatient(database).await).await;
            }
        }
    };
}

without_grace! {
    /// C6
    what_nothing_refers_to_goes_and_the_rest_stays
}

async fn what_nothing_refers_to_goes_and_the_rest_stays(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let root = person(&server, "root", As::administrator()).await;
    let (used, unused, archive) = (noise(1, 100_000), noise(2, 100_000), noise(3, 9 << 20));
    for bytes in [&used, &unused, &archive] {
        send(&server, &ada, bytes).await;
    }
    let reference = object(&server, place.org, &used).await.unwrap();
    object(&server, place.org, &archive).await.unwrap();
    let dry = root.post("/api/storage/gc", json!({ "dry_run": true })).await.expect(200);
    assert_eq!((&dry["unused"], &dry["unused_bytes"]), (&json!(1), &json!(100_000)));
    ada.post("/api/storage/gc", json!({})).await.expect(403);
    let done = root.post("/api/storage/gc", json!({})).await.expect(200);
    assert_eq!(
        (&done["removed"], &done["removed_bytes"], &done["more"]),
        (&json!(1), &json!(100_000), &json!(false))
    );
    assert_eq!(get(&ada, &unused, None).await.0, 404);
    assert!(get(&ada, &used, None).await == (200, used.clone()));
    assert!(get(&ada, &archive, None).await == (200, archive.clone()));
    let storage = root.get("/api/storage").await.expect(200);
    assert_eq!(storage["last_collection"]["removed"], 1);
    assert_eq!(storage["uses"][0]["owner"], "acme");
    assert_eq!(storage["uses"][0]["bytes"], (9 << 20) + 100_000);
    assert!(ada.get("/api/storage").await.expect(200)["kept"].is_null());
    // What loses its last reference goes, an archive first and its packs after it.
    let drop_all = async move |tx: &mut Tx<'_>| {
        objects::delete(tx, SYSTEM, kiln_core::id::ObjectId(reference)).await?;
        tx.execute("DELETE FROM objects", &[]).await
    };
    server.app.store.write(drop_all).await.unwrap();
    round(&server).await;
    round(&server).await;
    assert_eq!(round(&server).await, Freed::default());
    assert_eq!(stored(&server).await, Vec::<String>::new());
    let storage = root.get("/api/storage").await.expect(200);
    assert_eq!((&storage["kept"]["blobs"], &storage["uses"]), (&json!(0), &json!([])));
}

without_grace! {
    /// C6: many send and use the same bytes while a collector without patience runs all the time.
    nobody_loses_bytes_to_the_collector
}

async fn nobody_loses_bytes_to_the_collector(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let common = noise(99, 5 << 20);
    let bodies: Vec<Vec<u8>> = (0..6)
        .map(|seed| match seed % 3 {
            0 => noise(seed, 1_000),
            1 => noise(seed, 90_000),
            // Archives that share most of their chunks.
            _ => [&common[..], &noise(seed, 200_000)].concat(),
        })
        .collect();
    let over = std::sync::atomic::AtomicBool::new(false);
    let collect = async {
        let mut freed = 0;
        while !over.load(std::sync::atomic::Ordering::SeqCst) {
            freed += round(&server).await.blobs;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        freed
    };
    let work = async {
        let writers = (0..4_usize).map(|writer| {
            let (server, ada, bodies) = (&server, &ada, &bodies);
            async move { write_and_use(server, ada, place.org, bodies, writer).await }
        });
        let kept: usize = futures_util::future::join_all(writers).await.into_iter().sum();
        over.store(true, std::sync::atomic::Ordering::SeqCst);
        kept
    };
    let (freed, kept) = tokio::join!(collect, work);
    assert!(kept > 0 && freed > 0, "{kept} kept, {freed} freed");
}

/// Sends, uses, reads and lets go again and again. Bytes may be refused, but what was accepted is there.
async fn write_and_use(
    server: &Server,
    ada: &Person<'_>,
    org: OrgId,
    bodies: &[Vec<u8>],
    writer: usize,
) -> usize {
    let mut kept = 0;
    for turn in 0..8 {
        let bytes = &bodies[(writer + turn) % bodies.len()];
        let upload = reserve(ada, bytes).await;
        if let Some(url) = upload["pieces"][0]["url"].as_str() {
            // An upload that is complete by another's hand is gone; so may be one without grace.
            if put(server, url, bytes).await != 204 {
                continue;
            }
            let path = format!("/api/blobs/uploads/{}/complete", upload["id"]);
            let status = ada.post(&path, json!({})).await.status.as_u16();
            assert!([200, 404, 409].contains(&status), "{status}");
        }
        match object(server, org, bytes).await {
            Ok(id) => {
                let (status, found) = get(ada, bytes, None).await;
                assert!(status == 200 && found == *bytes, "{status} {turn}");
                kept += 1;
                if turn % 2 == 0 {
                    let id = kiln_core::id::ObjectId(id);
                    let gone = async move |tx: &mut Tx<'_>| objects::delete(tx, SYSTEM, id).await;
                    server.app.store.write(gone).await.unwrap();
                }
            }
            Err(kiln_store::StoreError::Refused(kiln_store::Refusal::NotFound(_))) => {}
            Err(error) => panic!("{error}"),
        }
    }
    kept
}

on_both! {
    /// C6
    grace_protects_what_was_just_sent_or_asked_for
}

async fn grace_protects_what_was_just_sent_or_asked_for(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let bytes = noise(1, 100_000);
    send(&server, &ada, &bytes).await;
    assert_eq!(round(&server).await, Freed { marked: 1, ..Freed::default() });
    // Long ago now, but somebody asks for it.
    let age = async |server: &Server| {
        let age = async |tx: &mut Tx<'_>| {
            tx.execute("UPDATE blobs SET unused_since = 1 WHERE unused_since IS NOT NULL", &[])
                .await
        };
        server.app.store.write(age).await.unwrap()
    };
    assert_eq!(age(&server).await, 1);
    let ask = json!({ "owner": "acme", "hashes": [hash(&bytes)] });
    ada.post("/api/blobs/exists", ask).await.expect(200);
    assert_eq!(round(&server).await.blobs, 0);
    assert!(get(&ada, &bytes, None).await == (200, bytes.clone()));
    assert_eq!(age(&server).await, 1);
    assert_eq!(round(&server).await.blobs, 1);
    assert_eq!(get(&ada, &bytes, None).await.0, 404);
    // What lies in the store without a row is left alone while it is young, and so is an upload.
    let backend = Arc::clone(server.app.storage.backend());
    backend.put(&Name::new("packs/aa/stray").unwrap(), of_bytes("x")).await.unwrap();
    reserve(&ada, &noise(2, 100_000)).await;
    assert_eq!(round(&server).await, Freed::default());
    assert_eq!(stored(&server).await, ["packs/aa/stray"]);
}
