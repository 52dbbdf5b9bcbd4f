//! What a run leaves belongs to a manifest of its own.

use std::time::Duration;

use kiln_core::id::{ArtifactId, JobId, ManifestId, ObjectId, OrgId, RunId};
use kiln_core::time::Timestamp;
use kiln_store::content::artifacts::{self, NewArtifact};
use kiln_store::content::belongings::{self, Bytes};
use kiln_store::content::blobs;
use kiln_store::content::caches::{self, Looks};
use kiln_store::content::manifests::{self, ManifestState};
use kiln_store::content::objects::{self, Which};
use kiln_store::directory::audit;
use kiln_store::{Page, Refusal, Store, StoreError, Tx};

use crate::world::{SYSTEM, World, actor, hash_of, new_artifact, refusal, world, write};

const WEEK: Duration = Duration::from_hours(24 * 7);

/// Completes an artifact of a run with the bytes that the world has.
async fn leave(
    tx: &mut Tx<'_>,
    (org, hash): (OrgId, Vec<u8>),
    new: NewArtifact,
) -> Result<ArtifactId, StoreError> {
    let blob = blobs::by_hash(tx, SYSTEM, org, &hash).await?;
    let id = artifacts::create(tx, SYSTEM, &actor(), new).await?;
    let bytes = Bytes { blob: blob.id, hash: hash_of("bytes"), size: blob.size };
    belongings::complete(tx, SYSTEM, &actor(), id, &bytes, WEEK).await?;
    Ok(id)
}

macro_rules! left {
    ($store:expr, $of:expr, $new:expr) => {{
        let (new, bytes) = ($new, ($of.org, $of.blob_hash.clone()));
        write!($store, |tx| leave(tx, bytes.clone(), new.clone())).unwrap()
    }};
}

/// The object of an artifact.
async fn object_of(store: &Store, id: ArtifactId) -> ObjectId {
    write!(store, |tx| artifacts::get(tx, SYSTEM, id)).unwrap().object.unwrap()
}

async fn owner(store: &Store, of: &World, object: ObjectId) -> Option<ManifestId> {
    let (org, object) = (of.org, object.0.to_string());
    write!(store, |tx| manifests::owner(tx, SYSTEM, org, "object", &object)).unwrap()
}

async fn with_tags(store: &Store, of: &World, tags: &[String]) -> Vec<ObjectId> {
    let which = Which { kind: Some("artifact".to_owned()), tags: tags.to_vec() };
    let (org, page) = (of.org, Page::first(9));
    let found = write!(store, |tx| objects::search(tx, SYSTEM, org, &which, page)).unwrap();
    found.into_iter().map(|one| one.id).collect()
}

/// The run is over, or goes on again.
async fn ends(store: &Store, run: RunId, conclusion: Option<&'static str>) {
    let sql = "UPDATE runs SET conclusion = $2 WHERE id = $1";
    write!(store, |tx| tx.execute(sql, &[run.into(), conclusion.into()])).unwrap();
}

/// C4 C5: the first artifact brings the manifest, all of a run have one, and each object is found by its tags.
async fn the_objects_of_a_run_s_artifacts_have_one_owner_and_tags(store: Store) {
    let acme = world(&store, "acme").await;
    let (org, run, page) = (acme.org, acme.run, Page::first(99));
    let all = async || write!(store, |tx| manifests::list(tx, SYSTEM, (org, None), page)).unwrap();
    let before = all().await.len();
    let job = NewArtifact { job: Some(JobId(7)), claim: Some(1), ..new_artifact(run, "a, b") };
    let (one, two) = (left!(store, acme, job), left!(store, acme, new_artifact(run, "two")));
    let objects = [object_of(&store, one).await, object_of(&store, two).await];
    let found = all().await;
    assert_eq!(found.len(), before + 1, "one manifest for both");
    let own = &found[0];
    assert!(own.own && own.run == Some(run) && own.state == ManifestState::Draft, "{own:?}");
    assert_eq!(own.retention_ms, Some(i64::try_from(WEEK.as_millis()).unwrap()));
    for object in objects {
        assert_eq!(owner(&store, &acme, object).await, Some(own.id));
    }
    let of_run = format!("run_id:{}", run.0);
    let both: Vec<ObjectId> = objects.iter().rev().copied().collect();
    assert_eq!(with_tags(&store, &acme, std::slice::from_ref(&of_run)).await, both);
    // Lists of tags have commas between them.
    let named = [of_run.clone(), "name:a%2C b".to_owned(), "job_id:7".to_owned()];
    assert_eq!(with_tags(&store, &acme, &named).await, [objects[0]]);
    assert_eq!(with_tags(&store, &acme, &[of_run, "name:none".to_owned()]).await, []);
    let entries = write!(store, |tx| audit::list(tx, SYSTEM, org, page)).unwrap();
    let made = entries.iter().filter(|entry| entry.action == "manifest.create");
    assert_eq!(made.filter(|entry| entry.subject == Some(own.id.0)).count(), 1);
}
on_both!(the_objects_of_a_run_s_artifacts_have_one_owner_and_tags);

/// C5: an object goes with its artifact, however that goes, and leaves nothing in the manifest.
async fn an_object_leaves_the_manifest_of_its_run_with_its_artifact(store: Store) {
    let acme = world(&store, "acme").await;
    let run = acme.run;
    let over = |name| NewArtifact { expires_at: Some(Timestamp(1)), ..new_artifact(run, name) };
    let deleted = left!(store, acme, new_artifact(run, "deleted"));
    let expired = left!(store, acme, over("expired"));
    let replaced = left!(store, acme, new_artifact(run, "replaced"));
    let mut gone = Vec::new();
    for id in [deleted, expired, replaced] {
        gone.push(object_of(&store, id).await);
    }
    let manifest = owner(&store, &acme, gone[0]).await.unwrap();
    write!(store, |tx| artifacts::delete(tx, SYSTEM, &actor(), deleted)).unwrap();
    write!(store, |tx| artifacts::expire(tx, SYSTEM, 9)).unwrap();
    let new = NewArtifact { overwrite: true, ..new_artifact(run, "replaced") };
    let new = left!(store, acme, new);
    for object in gone {
        assert_eq!(owner(&store, &acme, object).await, None);
        let object = write!(store, |tx| objects::get(tx, SYSTEM, object));
        assert_eq!(refusal(object), Refusal::NotFound("object"));
    }
    let left = object_of(&store, new).await;
    let owned = write!(store, |tx| manifests::resources(tx, SYSTEM, manifest)).unwrap();
    assert_eq!(owned.iter().map(|one| one.id.clone()).collect::<Vec<_>>(), [left.0.to_string()]);
    // It is found by the name that it took, and not by the one that it had until then.
    let tags = ["name:replaced".to_owned()];
    assert_eq!(with_tags(&store, &acme, &tags).await, [left]);
}
on_both!(an_object_leaves_the_manifest_of_its_run_with_its_artifact);

/// C5: it is sealed when the run ends; what comes after that, in another attempt, has a manifest of its own.
async fn the_manifest_of_a_run_is_sealed_with_it(store: Store) {
    let acme = world(&store, "acme").await;
    let run = acme.run;
    let first = object_of(&store, left!(store, acme, new_artifact(run, "first"))).await;
    let sealed = owner(&store, &acme, first).await.unwrap();
    let get = async |id| write!(store, |tx| manifests::get(tx, SYSTEM, id)).unwrap();
    ends(&store, run, None).await;
    write!(store, |tx| manifests::seal_ended(tx, SYSTEM, 99)).unwrap();
    assert_eq!(get(sealed).await.state, ManifestState::Draft, "the run goes on");
    ends(&store, run, Some("success")).await;
    write!(store, |tx| manifests::seal_ended(tx, SYSTEM, 99)).unwrap();
    let found = get(sealed).await;
    assert_eq!(found.state, ManifestState::Sealed);
    assert_eq!(found.expires_at.unwrap(), found.released_at.unwrap() + WEEK);
    let second = object_of(&store, left!(store, acme, new_artifact(run, "second"))).await;
    let next = owner(&store, &acme, second).await.unwrap();
    assert_ne!(next, sealed);
    // Somebody claims what is sealed: it stays when its artifact goes.
    let to = acme.manifest;
    let id = first.0.to_string();
    write!(store, |tx| manifests::transfer(tx, SYSTEM, sealed, to, "object", &id)).unwrap();
    let artifact = write!(store, |tx| artifacts::by_name(tx, SYSTEM, run, "first")).unwrap().id;
    write!(store, |tx| artifacts::delete(tx, SYSTEM, &actor(), artifact)).unwrap();
    assert_eq!(owner(&store, &acme, first).await, Some(to));
    write!(store, |tx| objects::get(tx, SYSTEM, first)).unwrap();
    // A manifest of a run is looked at again later; others are not put off.
    let later = Timestamp(u64::MAX >> 12);
    for id in [sealed, to] {
        write!(store, |tx| belongings::put_off(tx, SYSTEM, id, later)).unwrap();
    }
    assert_eq!((get(sealed).await.expires_at, get(to).await.expires_at), (Some(later), None));
}
on_both!(the_manifest_of_a_run_is_sealed_with_it);

/// C5: of two jobs that leave the first artifact at once, one makes the manifest and both have it.
async fn two_first_artifacts_share_the_manifest(store: Store) {
    let acme = world(&store, "acme").await;
    let run = acme.run;
    let make = async |name: &'static str| left!(store, acme, new_artifact(run, name));
    let (one, two, three) = tokio::join!(make("one"), make("two"), make("three"));
    let mut owners = Vec::new();
    for id in [one, two, three] {
        owners.push(owner(&store, &acme, object_of(&store, id).await).await.unwrap());
    }
    owners.dedup();
    assert_eq!(owners.len(), 1, "{owners:?}");
}
on_both!(two_first_artifacts_share_the_manifest);

/// R8: looks for caches are counted, those that found nothing, too.
async fn looks_for_caches_are_counted(store: Store) {
    let (acme, other) = (world(&store, "acme").await, world(&store, "other").await);
    let (repo, scope) = (acme.repo, acme.scope());
    for found in [true, false, false] {
        write!(store, |tx| caches::looked(tx, scope, repo, found)).unwrap();
    }
    let looks = async |repo| write!(store, |tx| caches::looks(tx, SYSTEM, repo)).unwrap();
    assert_eq!(looks(repo).await, Looks { hits: 1, misses: 2 });
    assert_eq!(looks(other.repo).await, Looks::default());
    let foreign = write!(store, |tx| caches::looked(tx, other.scope(), repo, true));
    assert!(matches!(refusal(foreign), Refusal::NotFound(_)));
}
on_both!(looks_for_caches_are_counted);
