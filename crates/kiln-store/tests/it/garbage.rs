//! What nothing refers to goes, and nothing else.

use kiln_core::id::{BlobId, OrgId};
use kiln_core::time::Timestamp;
use kiln_store::content::blobs::{self, NewBlob};
use kiln_store::content::chunks::{self, NewChunk};
use kiln_store::content::garbage::{self, Step};
use kiln_store::content::objects::{self, NewObject};
use kiln_store::content::{storage, uploads};
use kiln_store::{Refusal, Store, StoreError, Tx};

use crate::world::{SYSTEM, hash_of, new_blob, new_upload, refusal, world, write};

const LATER: Timestamp = Timestamp(u64::MAX >> 2);

async fn refer(tx: &mut Tx<'_>, org: OrgId, blob: BlobId) -> Result<(), StoreError> {
    let new = NewObject {
        org,
        kind: "artifact".to_owned(),
        blob: Some(blob),
        provider_object_id: None,
        expires_at: None,
        tags: Vec::new(),
    };
    objects::create(tx, SYSTEM, new).await.map(|_| ())
}

async fn mark(store: &Store) -> u64 {
    write!(store, |tx| garbage::mark(tx, SYSTEM, BlobId(0), 100)).unwrap().0
}

async fn sweep(store: &Store) -> Step {
    write!(store, |tx| garbage::sweep(tx, SYSTEM, LATER, 100)).unwrap()
}

async fn removals(store: &Store) -> Vec<String> {
    let next = write!(store, |tx| garbage::removals(tx, SYSTEM, "", 100)).unwrap();
    next.into_iter().map(|removal| removal.place).collect()
}

/// C6
async fn what_is_used_again_loses_its_mark(store: Store) {
    let org = world(&store, "acme").await.org;
    let keep = async |name: &'static str| {
        write!(store, |tx| blobs::keep(tx, SYSTEM, org, new_blob(name))).unwrap().id
    };
    let (used, asked, put) = (keep("used").await, keep("asked").await, keep("put").await);
    keep("gone").await;
    assert_eq!(mark(&store).await, 4);
    assert_eq!(mark(&store).await, 0);
    write!(store, |tx| refer(tx, org, used)).unwrap();
    let hashes = || [hash_of("asked"), hash_of("nothing")];
    assert!(write!(store, |tx| blobs::are_unused(tx, SYSTEM, org, &hashes())).unwrap());
    assert_eq!(
        write!(store, |tx| blobs::hold(tx, SYSTEM, org, &hashes())).unwrap(),
        [hash_of("asked")]
    );
    assert!(!write!(store, |tx| blobs::are_unused(tx, SYSTEM, org, &hashes())).unwrap());
    // The second copy is not needed; the first one stays.
    let again = NewBlob { place: "blobs/second".to_owned(), ..new_blob("put") };
    assert_eq!(write!(store, |tx| blobs::keep(tx, SYSTEM, org, again.clone())).unwrap().id, put);
    assert_eq!(sweep(&store).await, Step { count: 1, bytes: 70_000, more: false });
    assert_eq!(removals(&store).await, ["blobs/gone"]);
    let known = ["blobs/gone", "blobs/put", "blobs/second", "uploads/acme"].map(str::to_owned);
    let mut found = write!(store, |tx| garbage::known(tx, SYSTEM, &known)).unwrap();
    found.sort();
    assert_eq!(found, ["blobs/gone", "blobs/put", "uploads/acme"]);
    write!(store, |tx| garbage::removed(tx, SYSTEM, &["blobs/gone".to_owned()])).unwrap();
    assert_eq!(removals(&store).await, Vec::<String>::new());
    // Whoever comes too late hears so.
    assert_eq!(mark(&store).await, 2);
    sweep(&store).await;
    let late = write!(store, |tx| refer(tx, org, asked));
    assert_eq!(refusal(late), Refusal::NotFound("blob"));
}
on_both!(what_is_used_again_loses_its_mark);

fn chunk(name: &str) -> NewChunk {
    NewChunk { hash: hash_of(name), start: 0, stored: 10, size: 20 }
}

/// C7
async fn packs_stay_as_long_as_an_archive_needs_them(store: Store) {
    let org = world(&store, "acme").await.org;
    let other = world(&store, "other").await.org;
    let pack = NewBlob { place: "packs/p".to_owned(), ..new_blob("pack") };
    let add = async |org: OrgId, pack: NewBlob| {
        let chunks = [chunk("a"), chunk("b")];
        write!(store, |tx| chunks::add(tx, SYSTEM, org, pack.clone(), &chunks)).unwrap()
    };
    assert_eq!(add(org, pack.clone()).await, "packs/p");
    // The same pack of another organization lies at the same place, and only its own chunks are found.
    let hashes = || ["a", "b", "a", "c"].map(hash_of);
    let find = async |org| write!(store, |tx| chunks::find(tx, SYSTEM, org, &hashes())).unwrap();
    assert_eq!((find(org).await.len(), find(other).await.len()), (2, 0));
    assert_eq!(
        add(other, NewBlob { place: "packs/q".to_owned(), ..pack.clone() }).await,
        "packs/p"
    );
    assert_eq!(find(other).await[0].pack, "packs/p");
    let archive = NewBlob { packs: vec!["packs/p".to_owned()], ..new_blob("archive") };
    let archive = write!(store, |tx| blobs::keep(tx, SYSTEM, org, archive.clone())).unwrap();
    write!(store, |tx| refer(tx, org, archive.id)).unwrap();
    assert_eq!((mark(&store).await, sweep(&store).await.count), (0, 0));
    write!(store, |tx| async {
        tx.execute("DELETE FROM objects WHERE blob_id = $1", &[archive.id.into()]).await
    })
    .unwrap();
    // First the archive, then its packs, and whoever asks for a chunk keeps them.
    assert_eq!((mark(&store).await, sweep(&store).await.count), (1, 1));
    assert_eq!(mark(&store).await, 1);
    assert_eq!(find(org).await.len(), 2);
    assert_eq!(sweep(&store).await.count, 0);
    assert_eq!((mark(&store).await, sweep(&store).await.count), (1, 1));
    assert_eq!(find(org).await, []);
    // An archive that comes too late is refused, and nothing of it is kept.
    let late = NewBlob { packs: vec!["packs/p".to_owned()], ..new_blob("late") };
    let refused = write!(store, |tx| blobs::keep(tx, SYSTEM, org, late.clone()));
    assert!(matches!(refusal(refused), Refusal::Conflict(_)));
    let gone = write!(store, |tx| blobs::by_hash(tx, SYSTEM, org, &hash_of("late")));
    assert_eq!(refusal(gone), Refusal::NotFound("blob"));
}
on_both!(packs_stay_as_long_as_an_archive_needs_them);

async fn uploads_end_once_and_those_that_nobody_completes_are_given_up(store: Store) {
    let acme = world(&store, "acme").await;
    let (org, forgotten) = (acme.org, acme.upload);
    let reserve = async |name: &'static str, parts: Option<&str>| {
        let parts = parts.map(str::to_owned);
        let new = uploads::NewUpload { parts, ..new_upload(org, name) };
        write!(store, |tx| uploads::reserve(tx, SYSTEM, new.clone())).unwrap().id
    };
    let (stays, goes) = (reserve("stays", None).await, reserve("goes", None).await);
    reserve("forgotten", Some("s3-id")).await;
    let finish = async |id, stays| write!(store, |tx| uploads::finish(tx, SYSTEM, id, stays));
    finish(stays, true).await.unwrap();
    finish(goes, false).await.unwrap();
    assert_eq!(refusal(finish(goes, true).await), Refusal::NotFound("upload"));
    assert_eq!(removals(&store).await, ["uploads/goes"]);
    let none = write!(store, |tx| garbage::give_up(tx, SYSTEM, Timestamp(1), 9)).unwrap();
    assert_eq!(none.count, 0);
    let step = write!(store, |tx| garbage::give_up(tx, SYSTEM, LATER, 9)).unwrap();
    assert_eq!(step.count, 2);
    // What the store calls it is known until somebody says that the store has let go of it.
    let given_up = write!(store, |tx| garbage::removals(tx, SYSTEM, "", 9)).unwrap();
    let parts: Vec<_> = given_up.iter().filter_map(|one| one.parts.as_deref()).collect();
    assert_eq!(parts, ["s3-id"]);
    let gone = write!(store, |tx| uploads::get(tx, SYSTEM, forgotten));
    assert_eq!(refusal(gone), Refusal::NotFound("upload"));
}
on_both!(uploads_end_once_and_those_that_nobody_completes_are_given_up);

async fn who_uses_what_is_counted(store: Store) {
    let acme = world(&store, "acme").await;
    let (org, scope) = (acme.org, acme.scope());
    world(&store, "other").await;
    let blob = write!(store, |tx| blobs::keep(tx, SYSTEM, org, new_blob("x"))).unwrap();
    write!(store, |tx| refer(tx, org, blob.id)).unwrap();
    let uses = write!(store, |tx| storage::uses(tx, scope, 10)).unwrap();
    let lines: Vec<_> = uses.iter().map(|one| (one.kind.as_str(), one.count, one.bytes)).collect();
    assert_eq!(lines, [("artifact", 1, 70_000), ("cache", 1, 10), ("artifact", 1, 0)]);
    assert!(uses.iter().all(|one| one.owner == "acme"));
    let kept = write!(store, |tx| storage::kept(tx, SYSTEM)).unwrap();
    assert_eq!((kept.blobs, kept.bytes, kept.removals), (3, 70_009, 0));
    let (unused, due) = write!(store, |tx| garbage::foresee(tx, SYSTEM, LATER)).unwrap();
    assert_eq!((unused.count, due.count), (0, 0));
    write!(store, |tx| blobs::keep(tx, SYSTEM, org, new_blob("y"))).unwrap();
    mark(&store).await;
    let (unused, due) = write!(store, |tx| garbage::foresee(tx, SYSTEM, LATER)).unwrap();
    assert_eq!((unused.count, unused.bytes, due.bytes), (1, 70_000, 70_000));
}
on_both!(who_uses_what_is_counted);

/// C6: what a job begins stays as long as the job, is bounded, and goes with it.
async fn uploads_of_a_job_live_as_long_as_the_job(store: Store) {
    use std::time::Duration;
    let org = world(&store, "acme").await.org;
    let job = kiln_core::id::JobId(77);
    let new = move |name: &str| uploads::NewUpload {
        job: Some(job),
        life: Duration::ZERO,
        ..new_upload(org, name)
    };
    let made = write!(store, |tx| uploads::reserve(tx, SYSTEM, new("one"))).unwrap();
    let gone = write!(store, |tx| uploads::get(tx, SYSTEM, made.id));
    assert_eq!(refusal(gone), Refusal::NotFound("upload"), "nobody holds the job");
    let second = write!(store, |tx| uploads::reserve(tx, SYSTEM, new("two")));
    let Refusal::Invalid(why) = refusal(second) else { panic!("it is too much") };
    assert!(why.contains("limits.open_uploads"), "{why}");
    let step = write!(store, |tx| garbage::give_up(tx, SYSTEM, Timestamp(1), 9)).unwrap();
    assert_eq!(step.count, 1, "it goes with its job, whatever its time");
    write!(store, |tx| uploads::reserve(tx, SYSTEM, new("two"))).unwrap();
}
on_both!(uploads_of_a_job_live_as_long_as_the_job);
