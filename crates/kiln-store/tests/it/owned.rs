//! What a manifest owns lives as that says; what nobody owns goes by its own time and quota.

use kiln_core::id::{ArtifactId, CacheId, ManifestId, ObjectId};
use kiln_core::time::Timestamp;
use kiln_store::content::artifacts::{self, NewArtifact};
use kiln_store::content::caches::{self, NewCache};
use kiln_store::content::objects::{self, NewObject};
use kiln_store::content::{garbage, manifests};
use kiln_store::{Page, Refusal, Store, Tx};

use crate::content::{add_cache, resource};
use crate::world::{SYSTEM, World, actor, hash_of, new_artifact, new_cache, refusal, world, write};

const LONG_AGO: Timestamp = Timestamp(1);
const LATER: Timestamp = Timestamp(u64::MAX >> 2);

/// A complete artifact whose own time is over.
async fn over(store: &Store, of: &World, name: &'static str) -> ArtifactId {
    let (run, object) = (of.run, of.object);
    let new = NewArtifact { expires_at: Some(LONG_AGO), ..new_artifact(run, name) };
    store
        .write(async move |tx: &mut Tx<'_>| {
            let id = artifacts::create(tx, SYSTEM, &actor(), new.clone()).await?;
            artifacts::finalize(tx, SYSTEM, id, object, &hash_of(name), 7).await?;
            Ok(id)
        })
        .await
        .unwrap()
}

async fn object(store: &Store, of: &World) -> ObjectId {
    let new = NewObject {
        org: of.org,
        kind: "snapshot".to_owned(),
        blob: None,
        provider_object_id: None,
        expires_at: Some(LONG_AGO),
        tags: vec!["mine".to_owned()],
    };
    write!(store, |tx| objects::create(tx, SYSTEM, new.clone())).unwrap()
}

async fn own(store: &Store, manifest: ManifestId, kind: &'static str, id: i64) {
    let one = resource(kind, &id.to_string(), None);
    write!(store, |tx| manifests::add(tx, SYSTEM, manifest, one.clone())).unwrap();
}

/// How many artifacts, caches and objects go now because of their time, and how many caches by a quota of none.
async fn passes(store: &Store, of: &World) -> [u64; 4] {
    let repo = of.repo;
    store
        .write(async move |tx: &mut Tx<'_>| {
            let artifacts = artifacts::expire(tx, SYSTEM, 9).await?.count;
            let evicted = caches::evict(tx, SYSTEM, (repo, "trusted"), 0, 9).await?.len();
            let caches = caches::expire(tx, SYSTEM, LATER, 9).await?.count;
            let objects = garbage::expire(tx, SYSTEM, 9).await?.count;
            Ok([artifacts, caches, objects, evicted as u64])
        })
        .await
        .unwrap()
}

/// C5: neither its own time nor a quota takes away what a manifest owns, nor does anybody else.
async fn what_a_manifest_owns_lives_as_that_says(store: Store) {
    let acme = world(&store, "acme").await;
    let (org, scope, repo) = (acme.org, acme.scope(), acme.repo);
    write!(store, |tx| caches::delete(tx, SYSTEM, &actor(), acme.cache)).unwrap();
    let artifact = over(&store, &acme, "owned").await;
    let cache = add_cache(&store, &acme, new_cache(repo, "owned"), 40).await;
    let thing = object(&store, &acme).await;
    let manifest = write!(store, |tx| manifests::create(tx, SYSTEM, org, None, None)).unwrap();
    for (kind, id) in [("artifact", artifact.0), ("cache", cache.0), ("object", thing.0)] {
        own(&store, manifest, kind, id).await;
    }
    assert_eq!(passes(&store, &acme).await, [0; 4]);
    let budgets = [0, 0];
    let over = write!(store, |tx| caches::over_budget(tx, SYSTEM, "trusted", budgets, 9)).unwrap();
    assert_eq!(over, [], "its bytes are those of the manifest");
    // It is there for everybody.
    let found = write!(store, |tx| artifacts::get(tx, scope, artifact)).unwrap();
    assert_eq!((found.manifest, found.is_expired(LATER)), (Some(manifest), false));
    let tags = vec!["mine".to_owned()];
    let tagged = write!(store, |tx| objects::find(tx, scope, org, &tags, Page::first(9))).unwrap();
    assert_eq!(tagged.iter().map(|one| one.id).collect::<Vec<_>>(), [thing]);
    // Nobody removes it behind the back of its owner.
    let said =
        |what: &str| format!("the manifest {} owns the {what}; it goes with that", manifest.slug());
    let one = write!(store, |tx| artifacts::delete(tx, scope, &actor(), artifact));
    assert_eq!(refusal(one).to_string(), said("artifact"));
    let one = write!(store, |tx| caches::delete(tx, scope, &actor(), cache));
    assert_eq!(refusal(one).to_string(), said("cache"));
    let one = write!(store, |tx| caches::delete_by_key(tx, scope, &actor(), (repo, "owned", None)));
    assert_eq!(refusal(one).to_string(), said("cache"));
    let one = write!(store, |tx| objects::remove(tx, scope, &actor(), thing));
    assert_eq!(refusal(one).to_string(), said("object"));
    // Given up, each goes as if it had never been owned.
    for (kind, id) in [("artifact", artifact.0), ("cache", cache.0), ("object", thing.0)] {
        write!(store, |tx| manifests::give_up(tx, SYSTEM, manifest, kind, &id.to_string()))
            .unwrap();
    }
    assert_eq!(passes(&store, &acme).await, [1, 0, 1, 1]);
}
on_both!(what_a_manifest_owns_lives_as_that_says);

/// C5, R9: a manifest that cleans up has no say over what somebody keeps.
async fn what_somebody_keeps_stays_when_its_manifest_goes(store: Store) {
    let acme = world(&store, "acme").await;
    let scope = acme.scope();
    let (kept, other) = (over(&store, &acme, "kept").await, over(&store, &acme, "other").await);
    write!(store, |tx| artifacts::set_keep(tx, scope, &actor(), kept, true)).unwrap();
    for id in [kept, other] {
        write!(store, |tx| artifacts::delete_unkept(tx, scope, &actor(), id)).unwrap();
    }
    assert!(write!(store, |tx| artifacts::get(tx, scope, kept)).unwrap().keep);
    let gone = write!(store, |tx| artifacts::get(tx, scope, other));
    assert_eq!(refusal(gone), Refusal::NotFound("artifact"));
    // Whoever asks for it by name may still remove it.
    write!(store, |tx| artifacts::delete(tx, scope, &actor(), kept)).unwrap();
}
on_both!(what_somebody_keeps_stays_when_its_manifest_goes);

/// C5: one that is overwritten hands its manifest on.
async fn what_takes_the_place_of_an_artifact_does_so_in_its_manifest(store: Store) {
    let acme = world(&store, "acme").await;
    let (org, run, object) = (acme.org, acme.run, acme.object);
    let old = over(&store, &acme, "report").await;
    let manifest = write!(store, |tx| manifests::create(tx, SYSTEM, org, None, None)).unwrap();
    own(&store, manifest, "artifact", old.0).await;
    let new =
        NewArtifact { overwrite: true, expires_at: Some(LONG_AGO), ..new_artifact(run, "report") };
    let new = write!(store, |tx| artifacts::create(tx, SYSTEM, &actor(), new.clone())).unwrap();
    write!(store, |tx| artifacts::finalize(tx, SYSTEM, new, object, &hash_of("new"), 7)).unwrap();
    let owned = write!(store, |tx| manifests::resources(tx, SYSTEM, manifest)).unwrap();
    assert_eq!(owned, [resource("artifact", &new.to_string(), None)]);
    assert_eq!(passes(&store, &acme).await[0], 0);
}
on_both!(what_takes_the_place_of_an_artifact_does_so_in_its_manifest);

/// Whoever gives something to a manifest while it expires either has it, or hears that it is gone.
async fn what_is_given_to_a_manifest_while_it_expires_is_there_or_is_not(store: Store) {
    let acme = world(&store, "acme").await;
    let (org, repo) = (acme.org, acme.repo);
    let manifest = write!(store, |tx| manifests::create(tx, SYSTEM, org, None, None)).unwrap();
    for round in 0..20 {
        let key = format!("k{round}");
        let cache = add_cache(&store, &acme, new_cache(repo, &key), 5).await;
        let give = async {
            write!(store, |tx| async move {
                manifests::add(tx, SYSTEM, manifest, resource("cache", &cache.to_string(), None))
                    .await?;
                caches::get(tx, SYSTEM, cache).await
            })
        };
        let expire =
            async { write!(store, |tx| caches::expire(tx, SYSTEM, Timestamp(1 << 30), 9)) };
        let (given, expired) = tokio::join!(give, expire);
        expired.unwrap();
        let there = write!(store, |tx| caches::get(tx, SYSTEM, cache));
        assert_eq!(given.is_ok(), there.is_ok(), "round {round}: {given:?} {there:?}");
    }
}
on_both!(what_is_given_to_a_manifest_while_it_expires_is_there_or_is_not);

/// PEERS 15: a ref that writes too much pushes out its own entries, neither those of the default branch nor those
/// of other refs.
async fn a_ref_that_writes_too_much_pushes_out_its_own(store: Store) {
    let acme = world(&store, "acme").await;
    let repo = acme.repo;
    write!(store, |tx| caches::delete(tx, SYSTEM, &actor(), acme.cache)).unwrap();
    let on = |branch: &str, key: String| NewCache {
        git_ref: format!("refs/heads/{branch}"),
        ..new_cache(repo, &key)
    };
    // All of them older than what follows.
    let mut stay: Vec<CacheId> = Vec::new();
    for at in 0..5 {
        stay.push(add_cache(&store, &acme, on("main", format!("main-{at}")), 100).await);
    }
    stay.push(add_cache(&store, &acme, on("quiet", "quiet".to_owned()), 100).await);
    let mut flood = Vec::new();
    for at in 0..20 {
        flood.push(add_cache(&store, &acme, on("loud", format!("loud-{at}")), 100).await);
    }
    let evict = async |budget: i64| {
        let gone = write!(store, |tx| caches::evict(tx, SYSTEM, (repo, "trusted"), budget, 99));
        let mut gone: Vec<CacheId> = gone.unwrap().iter().map(|cache| cache.id).collect();
        gone.sort_unstable_by_key(|id| id.0);
        gone
    };
    // 500 for the default branch, 100 for the quiet one: 400 are left to the loud one, which keeps its newest.
    assert_eq!(evict(1_000).await, flood[..16]);
    assert_eq!(evict(1_000).await, []);
    // Half is the default branch's; the rest is shared, and of the loud one's as much stays as of the quiet one's.
    let gone = evict(400).await;
    let expected: Vec<CacheId> = stay[..3].iter().chain(&flood[16..19]).copied().collect();
    assert_eq!(gone, expected);
}
on_both!(a_ref_that_writes_too_much_pushes_out_its_own);

/// What the default branch has above its half is worth no more than what other refs have.
async fn the_default_branch_does_not_push_out_all_others(store: Store) {
    let acme = world(&store, "acme").await;
    let repo = acme.repo;
    write!(store, |tx| caches::delete(tx, SYSTEM, &actor(), acme.cache)).unwrap();
    let topic = NewCache { git_ref: "refs/heads/topic".to_owned(), ..new_cache(repo, "topic") };
    let topic = add_cache(&store, &acme, topic, 200).await;
    let mut main = Vec::new();
    for at in 0..10 {
        main.push(add_cache(&store, &acme, new_cache(repo, &format!("main-{at}")), 100).await);
    }
    let gone = write!(store, |tx| caches::evict(tx, SYSTEM, (repo, "trusted"), 1_000, 99)).unwrap();
    let mut gone: Vec<CacheId> = gone.iter().map(|cache| cache.id).collect();
    gone.sort_unstable_by_key(|id| id.0);
    assert_eq!(gone, main[..2]);
    write!(store, |tx| caches::get(tx, SYSTEM, topic)).unwrap();
}
on_both!(the_default_branch_does_not_push_out_all_others);
