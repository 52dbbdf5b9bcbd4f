//! The collector of bytes, also while others send and use them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use kiln_blob::{Digest, Name, of_bytes};
use kiln_core::id::OrgId;
use kiln_server::service::garbage::{Freed, Round};
use kiln_store::Tx;
use kiln_store::content::blobs;
use kiln_store::content::objects::{self, NewObject};
use kiln_store::directory::members::Role;
use kiln_testkit::database::Database;
use serde_json::{Value, json};

use crate::api::people::{As, Person, person};
use crate::blobs::{get, hash, noise, put, reserve, send};
use crate::packing::pack_all;
use crate::support::{Options, SYSTEM, Server};

/// All that one round does.
pub(crate) async fn round(server: &Server) -> Freed {
    let mut round = Round::default();
    while !round.is_over() {
        round.go_on(&server.app).await.unwrap();
    }
    round.freed
}

pub(crate) async fn object(
    server: &Server,
    org: OrgId,
    bytes: &[u8],
) -> Result<i64, kiln_store::StoreError> {
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

pub(crate) async fn stored(server: &Server) -> Vec<String> {
    let mut names = Vec::new();
    for folder in ["blobs", "large", "packs", "recipes", "small", "uploads", "whole"] {
        let backend = server.app.storage.backend();
        let found = backend.list(&Name::new(folder).unwrap(), None, 1000).await.unwrap();
        names.extend(found.into_iter().map(|entry| entry.name.to_string()));
    }
    names
}

/// A server whose collector has no patience.
pub(crate) async fn impatient(database: Database) -> Server {
    let options = Options { grace: Duration::ZERO, ..Options::default() };
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
    assert_eq!(pack_all(&server).await, 1);
    let dry = root.post("/api/storage/gc", json!({ "dry_run": true })).await.expect(200);
    // What does not shrink takes a few bytes more.
    let takes = json!(100_024);
    assert_eq!((&dry["unused"], &dry["unused_bytes"]), (&json!(1), &takes));
    ada.post("/api/storage/gc", json!({})).await.expect(403);
    let collections = async || {
        let all = root.get("/api/audit").await.expect(200);
        let all = all["items"].as_array().unwrap();
        let asked = |one: &&Value| one["action"] == "storage.collect";
        all.iter().filter(asked).map(|one| one["actor"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(collections().await, Vec::<Value>::new(), "a question and a refusal leave nothing");
    let done = root.post("/api/storage/gc", json!({})).await.expect(200);
    let collected = collections().await;
    assert!(collected.len() == 1 && collected[0].to_string().contains("root"), "{collected:?}");
    assert_eq!(
        (&done["removed"], &done["removed_bytes"], &done["more"]),
        (&json!(1), &takes, &json!(false))
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

/// How many rounds each collector makes while others write.
const ROUNDS: usize = 12;

without_grace! {
    /// C6: many send and use the same bytes while two collectors without patience run all the time, and
    /// archives are cut.
    nobody_loses_bytes_to_the_collectors
}

/// C6: the same where bytes lie in S3, and are copied when they are complete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_loses_bytes_to_the_collectors_in_a_bucket() {
    let bucket = crate::bucket::Bucket::new();
    let options = Options { grace: Duration::ZERO, ..bucket.options() };
    let server = Server::with(Database::postgres().await, options).await;
    nobody_loses_bytes_to_the_collectors(server).await;
}

async fn nobody_loses_bytes_to_the_collectors(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let root = person(&server, "root", As::administrator()).await;
    let common = noise(99, 5 << 20);
    let bodies: Vec<Vec<u8>> = (0..6)
        .map(|seed| match seed % 3 {
            0 => noise(seed, 1_000),
            1 => noise(seed, 90_000),
            // Archives that share most of their chunks.
            _ => [&common[..], &noise(seed, 200_000)].concat(),
        })
        .collect();
    let (left, freed) = (AtomicUsize::new(2), AtomicU64::new(0));
    let is_over = || left.load(Ordering::SeqCst) == 0;
    let collect = async || {
        for _ in 0..ROUNDS {
            freed.fetch_add(round(&server).await.blobs, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        left.fetch_sub(1, Ordering::SeqCst);
    };
    let pack = async {
        while !is_over() {
            pack_all(&server).await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let write = async |writer: usize| {
        let mut kept = 0;
        for turn in 0.. {
            if is_over() && turn > 1 {
                break;
            }
            kept += write_and_use(&server, &ada, place.org, &bodies, writer + turn).await;
        }
        kept
    };
    let writers = futures_util::future::join_all((0..4).map(write));
    let ((), (), (), kept) = tokio::join!(collect(), collect(), pack, writers);
    let (kept, freed) = (kept.into_iter().sum::<usize>(), freed.load(Ordering::SeqCst));
    assert!(kept > 0 && freed > 0, "{kept} kept, {freed} freed");
    // Nobody uses anything any more: archives go, and their packs after them.
    while round(&server).await != Freed::default() {}
    let storage = root.get("/api/storage").await.expect(200);
    assert_eq!((&storage["kept"]["blobs"], &storage["kept"]["removals"]), (&json!(0), &json!(0)));
}

/// Sends, uses, reads and lets go again and again. Bytes may be refused, but what was accepted is there, and stays
/// while it is used.
async fn write_and_use(
    server: &Server,
    ada: &Person<'_>,
    org: OrgId,
    bodies: &[Vec<u8>],
    writer: usize,
) -> usize {
    let (mut kept, mut held) = (0, Vec::new());
    for turn in 0..8 {
        let bytes = &bodies[(writer + turn) % bodies.len()];
        let upload = reserve(ada, bytes).await;
        if let Some(url) = upload["pieces"][0]["url"].as_str() {
            // An upload that is complete by another's hand is gone; so may be one without grace.
            if !put(server, url, bytes).await.is_success() {
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
                    let_go(server, id).await;
                } else {
                    held.push((id, bytes));
                }
            }
            Err(kiln_store::StoreError::Refused(kiln_store::Refusal::NotFound(_))) => {}
            Err(error) => panic!("{error}"),
        }
    }
    for (id, bytes) in held {
        let (status, found) = get(ada, bytes, None).await;
        assert!(status == 200 && found == *bytes, "{status}: it was used all the time");
        let_go(server, id).await;
    }
    kept
}

async fn let_go(server: &Server, id: i64) {
    let id = kiln_core::id::ObjectId(id);
    let gone = async move |tx: &mut Tx<'_>| objects::delete(tx, SYSTEM, id).await;
    server.app.store.write(gone).await.unwrap();
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
