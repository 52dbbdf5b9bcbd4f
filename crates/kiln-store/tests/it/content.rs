//! Blobs, objects, manifests, artifacts and caches.

use std::time::Duration;

use kiln_core::id::{CacheId, ManifestId, OrgId};
use kiln_core::time::Timestamp;
use kiln_store::content::artifacts::{self, NewArtifact};
use kiln_store::content::blobs::{self, Body};
use kiln_store::content::caches::{self, NewCache, Wanted};
use kiln_store::content::manifests::{self, ManifestState, Resource};
use kiln_store::content::objects::{self, NewObject};
use kiln_store::{Page, Refusal, Store, StoreError, Tx};

use crate::world::{SYSTEM, World, actor, hash_of, new_artifact, new_cache, refusal, world, write};

/// C2: two organizations may have the same bytes, and neither learns of the other.
async fn bytes_exist_only_for_those_who_put_them(store: Store) {
    let acme = world(&store, "acme").await;
    let other = world(&store, "other").await;
    let hash = hash_of("same");
    let put = |org: OrgId, place: &'static str| {
        let (store, hash) = (store.clone(), hash.clone());
        async move {
            let body = Body::At(place.to_owned());
            write!(store, |tx| blobs::put(tx, SYSTEM, org, &hash, 4, body.clone())).unwrap()
        }
    };
    let exists = |org: OrgId| {
        let store = store.clone();
        let hashes = [hash.clone(), acme.blob_hash.clone(), hash_of("never")];
        async move { write!(store, |tx| blobs::exists(tx, SYSTEM, org, &hashes)).unwrap() }
    };
    let first = put(acme.org, "disk/1").await;
    assert_eq!(exists(acme.org).await.len(), 2);
    assert_eq!(exists(other.org).await, Vec::<Vec<u8>>::new());
    // The second copy is not kept, and the answer says where the first one is.
    let second = put(other.org, "disk/2").await;
    assert_eq!(second, first);
    assert_eq!(exists(other.org).await, vec![hash.clone()]);
}
on_both!(bytes_exist_only_for_those_who_put_them);

async fn only_small_bytes_stay_in_the_database(store: Store) {
    let acme = world(&store, "acme").await;
    let (org, scope, hash) = (acme.org, acme.scope(), acme.blob_hash.clone());
    let small = write!(store, |tx| blobs::by_hash(tx, scope, org, &hash)).unwrap();
    assert_eq!(small.body, Body::Inline(b"acme".to_vec()));
    for (bytes, size) in [(vec![0; (64 << 10) + 1], (64 << 10) + 1), (vec![0; 3], 4)] {
        let hash = hash_of("big");
        let refused = write!(store, |tx| {
            blobs::put(tx, scope, org, &hash, size, Body::Inline(bytes.clone()))
        });
        assert!(refusal(refused).to_string().contains("cannot be kept in the database"));
    }
}
on_both!(only_small_bytes_stay_in_the_database);

async fn add_object(
    tx: &mut Tx<'_>,
    org: OrgId,
    tags: &[&str],
    expires_at: Option<Timestamp>,
) -> Result<kiln_core::id::ObjectId, StoreError> {
    let new = NewObject {
        org,
        kind: "snapshot".to_owned(),
        blob: None,
        provider_object_id: Some("i-1".to_owned()),
        expires_at,
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
    };
    objects::create(tx, SYSTEM, new).await
}

/// C4
async fn an_object_is_found_by_all_of_its_tags(store: Store) {
    let acme = world(&store, "acme").await;
    let org = acme.org;
    let (one, both) = write!(store, |tx| async {
        let one = add_object(tx, org, &["a"], None).await?;
        let both = add_object(tx, org, &["a", "b", "b"], None).await?;
        add_object(tx, org, &["a", "b"], Some(tx.now())).await?;
        Ok((one, both))
    })
    .unwrap();
    let find = |tags: &'static [&'static str]| {
        let store = store.clone();
        let tags: Vec<String> = tags.iter().map(|tag| (*tag).to_owned()).collect();
        async move {
            let found = write!(store, |tx| objects::find(tx, SYSTEM, org, &tags, Page::first(9)))?;
            Ok::<_, StoreError>(found.into_iter().map(|one| one.id).collect::<Vec<_>>())
        }
    };
    assert_eq!(find(&["a"]).await.unwrap(), [both, one]);
    assert_eq!(find(&["b", "a", "a"]).await.unwrap(), [both]);
    assert_eq!(find(&["a", "c"]).await.unwrap(), []);
    assert!(matches!(refusal(find(&[]).await), Refusal::Invalid(_)));
    assert_eq!(write!(store, |tx| objects::tags(tx, SYSTEM, both)).unwrap(), ["a", "b"]);
    write!(store, |tx| objects::delete(tx, SYSTEM, both)).unwrap();
    assert_eq!(find(&["a"]).await.unwrap(), [one]);
    // Bytes of somebody else cannot be given a name.
    let other = world(&store, "other").await;
    let stolen = write!(store, |tx| async {
        let blob = blobs::by_hash(tx, SYSTEM, acme.org, &acme.blob_hash).await?.id;
        let new = NewObject {
            org: other.org,
            kind: "x".to_owned(),
            blob: Some(blob),
            provider_object_id: None,
            expires_at: None,
            tags: Vec::new(),
        };
        objects::create(tx, other.scope(), new).await
    });
    assert_eq!(refusal(stolen), Refusal::NotFound("blob"));
}
on_both!(an_object_is_found_by_all_of_its_tags);

pub(crate) fn resource(kind: &str, id: &str, cleanup_priority: Option<i64>) -> Resource {
    Resource { kind: kind.to_owned(), id: id.to_owned(), cleanup_priority }
}

/// C5
async fn a_sealed_manifest_takes_nothing_and_expires(store: Store) {
    let org = world(&store, "acme").await.org;
    let id = write!(store, |tx| async {
        let id = manifests::create(tx, SYSTEM, org, None, Some(Duration::ZERO)).await?;
        manifests::add(tx, SYSTEM, id, resource("instance", "i-1", None)).await?;
        manifests::add(tx, SYSTEM, id, resource("snapshot", "s-1", Some(10))).await?;
        manifests::add(tx, SYSTEM, id, resource("allocation", "a-1", Some(90))).await?;
        Ok(id)
    })
    .unwrap();
    let state = async || write!(store, |tx| manifests::get(tx, SYSTEM, id)).unwrap().state;
    assert_eq!(state().await, ManifestState::Draft);
    write!(store, |tx| manifests::seal(tx, SYSTEM, id)).unwrap();
    let late =
        write!(store, |tx| manifests::add(tx, SYSTEM, id, resource("instance", "i-2", None)));
    assert_eq!(refusal(late).to_string(), "the manifest is SEALED; it would have to be DRAFT");
    assert!(matches!(
        refusal(write!(store, |tx| manifests::seal(tx, SYSTEM, id))),
        Refusal::Conflict(_)
    ));
    assert_eq!(state().await, ManifestState::Due);
    let due =
        write!(store, |tx| manifests::due(tx, SYSTEM, (Timestamp(0), ManifestId(0)), 9)).unwrap();
    assert_eq!(due.iter().map(|one| one.id).collect::<Vec<_>>(), [id]);
    let owned = write!(store, |tx| manifests::resources(tx, SYSTEM, id)).unwrap();
    let order: Vec<_> = owned.iter().map(|one| one.kind.as_str()).collect();
    assert_eq!(order, ["allocation", "instance", "snapshot"]);
    for one in owned {
        write!(store, |tx| manifests::remove(tx, SYSTEM, id, &one.kind, &one.id)).unwrap();
    }
    assert_eq!(state().await, ManifestState::Expired);
}
on_both!(a_sealed_manifest_takes_nothing_and_expires);

/// C5
async fn a_resource_has_one_owner(store: Store) {
    let org = world(&store, "acme").await.org;
    let (from, one, two) = write!(store, |tx| async {
        let from = manifests::create(tx, SYSTEM, org, None, None).await?;
        manifests::add(tx, SYSTEM, from, resource("instance", "i-1", None)).await?;
        let one = manifests::create(tx, SYSTEM, org, None, None).await?;
        Ok((from, one, manifests::create(tx, SYSTEM, org, None, None).await?))
    })
    .unwrap();
    let taken =
        write!(store, |tx| manifests::add(tx, SYSTEM, one, resource("instance", "i-1", None)));
    assert_eq!(refusal(taken).to_string(), "the instance `i-1` has an owner already");
    let claim = |to| {
        let store = store.clone();
        async move { write!(store, |tx| manifests::transfer(tx, SYSTEM, from, to, "instance", "i-1")) }
    };
    assert_eq!(refusal(claim(one).await), Refusal::NotFound("resource"), "it is not sealed");
    write!(store, |tx| manifests::seal(tx, SYSTEM, from)).unwrap();
    assert_eq!(write!(store, |tx| manifests::get(tx, SYSTEM, from)).unwrap().expires_at, None);
    let (first, second) = tokio::join!(claim(one), claim(two));
    assert_eq!(u8::from(first.is_ok()) + u8::from(second.is_ok()), 1);
    let owned = write!(store, |tx| async {
        let one = manifests::resources(tx, SYSTEM, one).await?.len();
        Ok(one + manifests::resources(tx, SYSTEM, two).await?.len())
    });
    assert_eq!(owned.unwrap(), 1);
}
on_both!(a_resource_has_one_owner);

/// R9
async fn the_name_of_an_artifact_is_taken_unless_overwriting_is_asked(store: Store) {
    let acme = world(&store, "acme").await;
    let (run, id, object, scope) = (acme.run, acme.artifact, acme.object, acme.scope());
    let new = new_artifact(run, "dist");
    let twice = write!(store, |tx| artifacts::create(tx, scope, &actor(), new.clone()));
    let expected =
        "the run has an artifact `dist` already; choose another name or ask to overwrite it";
    assert_eq!(refusal(twice), Refusal::Conflict(expected.to_owned()));
    let hash = hash_of("dist");
    let finalize = async |id| {
        let hash = hash.clone();
        write!(store, |tx| artifacts::finalize(tx, scope, id, object, &hash, 5))
    };
    finalize(id).await.unwrap();
    assert!(matches!(refusal(finalize(id).await), Refusal::Conflict(_)));
    let mut new = new_artifact(run, "dist");
    new.overwrite = true;
    (new.job, new.claim) = (Some(kiln_core::id::JobId(7)), Some(1));
    let twice = new.clone();
    let again = write!(store, |tx| artifacts::create(tx, scope, &actor(), new.clone())).unwrap();
    assert_ne!(again, id);
    // The one before is there until the new one is complete.
    let named = async || write!(store, |tx| artifacts::by_name(tx, scope, run, "dist")).unwrap();
    assert_eq!(named().await.id, id);
    let reserved = write!(store, |tx| artifacts::get(tx, scope, again)).unwrap();
    assert_eq!((reserved.finalized_at, reserved.trust.as_str()), (None, "trusted"));
    assert_eq!((reserved.org, reserved.repo), (acme.org, acme.repo));
    let asked = write!(store, |tx| artifacts::create(tx, scope, &actor(), twice.clone())).unwrap();
    assert_eq!(asked, again, "whoever did not hear the answer asks again");
    finalize(again).await.unwrap();
    let found = named().await;
    assert!(found.id == again && found.name == "dist" && found.finalized_at.is_some());
    write!(store, |tx| artifacts::set_keep(tx, scope, &actor(), again, true)).unwrap();
    let listed = write!(store, |tx| artifacts::list(tx, scope, run, Page::first(9))).unwrap();
    assert!(listed.len() == 1 && listed[0].keep);
    write!(store, |tx| artifacts::delete(tx, scope, &actor(), again)).unwrap();
    let gone = write!(store, |tx| artifacts::get(tx, scope, again));
    assert_eq!(refusal(gone), Refusal::NotFound("artifact"));
}
on_both!(the_name_of_an_artifact_is_taken_unless_overwriting_is_asked);

/// A complete entry. The place of `git_ref` and `trust` is the world's unless they are given.
pub(crate) async fn add_cache(store: &Store, world: &World, new: NewCache, size: i64) -> CacheId {
    let object = world.object;
    store
        .write(async move |tx: &mut Tx<'_>| {
            let id = caches::reserve(tx, SYSTEM, new.clone()).await?;
            caches::finalize(tx, SYSTEM, id, object, &hash_of("cache"), size).await?;
            // Ages must differ for "newest" to mean something.
            let sql = "UPDATE caches SET finalized_at = id, used_at = id WHERE id = $1";
            tx.execute(sql, &[id.into()]).await?;
            Ok(id)
        })
        .await
        .unwrap()
}

fn wanted(world: &World, key: &str, restore_keys: &[&str]) -> Wanted {
    Wanted {
        repo: world.repo,
        trusts: vec!["trusted".to_owned()],
        refs: vec!["refs/heads/topic".to_owned(), "refs/heads/main".to_owned()],
        key: key.to_owned(),
        restore_keys: restore_keys.iter().map(|key| (*key).to_owned()).collect(),
        version: "v1".to_owned(),
    }
}

/// R8
async fn a_cache_is_found_by_key_then_by_beginnings_newest_first(store: Store) {
    let acme = world(&store, "acme").await;
    let on_main = |key| new_cache(acme.repo, key);
    let on_topic =
        |key| NewCache { git_ref: "refs/heads/topic".to_owned(), ..new_cache(acme.repo, key) };
    add_cache(&store, &acme, on_main("linux-a"), 1).await;
    let newer = add_cache(&store, &acme, on_main("linux-b"), 1).await;
    let percent = add_cache(&store, &acme, on_main("100%_x"), 1).await;
    let topic = add_cache(&store, &acme, on_topic("linux-z"), 1).await;
    let exact = add_cache(&store, &acme, on_main("mac-1"), 1).await;
    let unfinished = new_cache(acme.repo, "wip-1");
    write!(store, |tx| caches::reserve(tx, SYSTEM, unfinished.clone())).unwrap();
    let check = async |key: &str, restore: &[&str], expected: Option<CacheId>| {
        let wanted = wanted(&acme, key, restore);
        let found = write!(store, |tx| caches::look_up(tx, SYSTEM, &wanted)).unwrap();
        assert_eq!(found.map(|cache| cache.id), expected, "{key} {restore:?}");
    };
    check("mac-1", &["linux-"], Some(topic)).await;
    check("mac-1", &["mac-2"], Some(exact)).await;
    check("mac", &[], Some(exact)).await;
    check("mac-", &["mac-2"], Some(exact)).await;
    check("none", &["linux-a", "linux-"], Some(topic)).await;
    check("none", &["linux-b"], Some(newer)).await;
    check("none", &["100%_"], Some(percent)).await;
    check("none", &["1%", "l_nux", "LINUX-"], None).await;
    check("wip-1", &["wip"], None).await;
    check("none", &[""], None).await;
}
on_both!(a_cache_is_found_by_key_then_by_beginnings_newest_first);

/// G8: what an untrusted run wrote is not even looked at by a trusted one.
async fn a_cache_is_read_only_from_the_refs_and_trusts_that_are_allowed(store: Store) {
    let acme = world(&store, "acme").await;
    let base = |key| new_cache(acme.repo, key);
    let untrusted = NewCache { trust: "untrusted".to_owned(), ..base("k-1") };
    let untrusted = add_cache(&store, &acme, untrusted, 1).await;
    let elsewhere = NewCache { git_ref: "refs/heads/else".to_owned(), ..base("k-1") };
    add_cache(&store, &acme, elsewhere, 1).await;
    let version = NewCache { version: "v2".to_owned(), ..base("k-1") };
    add_cache(&store, &acme, version, 1).await;
    let asked = wanted(&acme, "k-1", &["k"]);
    let found = write!(store, |tx| caches::look_up(tx, SYSTEM, &asked)).unwrap();
    assert_eq!(found, None);
    // The untrusted one does not stand in the way of a trusted one, and is found by its own kind.
    let trusted = add_cache(&store, &acme, base("k-1"), 1).await;
    for (trusts, expected) in [(["trusted"].as_slice(), trusted), (&["untrusted"], untrusted)] {
        let mut asked = wanted(&acme, "k-1", &[]);
        asked.trusts = trusts.iter().map(|trust| (*trust).to_owned()).collect();
        let found = write!(store, |tx| caches::look_up(tx, SYSTEM, &asked)).unwrap();
        assert_eq!(found.map(|cache| cache.id), Some(expected));
    }
    let mut many = wanted(&acme, "k", &[]);
    many.refs = vec!["x".to_owned(); 33];
    let refused = write!(store, |tx| caches::look_up(tx, SYSTEM, &many));
    assert!(matches!(refusal(refused), Refusal::Invalid(_)));
}
on_both!(a_cache_is_read_only_from_the_refs_and_trusts_that_are_allowed);

/// R8
async fn the_least_recently_used_caches_go_first(store: Store) {
    let acme = world(&store, "acme").await;
    let repo = acme.repo;
    // The world's own entry has 10 bytes and was used just now.
    let a = add_cache(&store, &acme, new_cache(repo, "a"), 40).await;
    let b = add_cache(&store, &acme, new_cache(repo, "b"), 40).await;
    let c = add_cache(&store, &acme, new_cache(repo, "c"), 40).await;
    write!(store, |tx| caches::hit(tx, SYSTEM, a, true)).unwrap();
    let gone = write!(store, |tx| caches::evict(tx, SYSTEM, (repo, "trusted"), 130, 9)).unwrap();
    assert_eq!(gone, []);
    let gone = write!(store, |tx| caches::evict(tx, SYSTEM, (repo, "trusted"), 90, 9)).unwrap();
    assert_eq!(gone.iter().map(|cache| cache.id).collect::<Vec<_>>(), [b]);
    let left = write!(store, |tx| caches::list(tx, SYSTEM, repo, Page::first(9))).unwrap();
    assert_eq!(left.iter().map(|cache| cache.id).collect::<Vec<_>>(), [c, a, acme.cache]);
}
on_both!(the_least_recently_used_caches_go_first);

/// R8
async fn a_reservation_that_was_given_up_is_free_again(store: Store) {
    let acme = world(&store, "acme").await;
    let object = acme.object;
    let reserve = async || {
        let new = new_cache(acme.repo, "wip");
        write!(store, |tx| caches::reserve(tx, SYSTEM, new.clone()))
    };
    let first = reserve().await.unwrap();
    assert_eq!(refusal(reserve().await).to_string(), "the cache `wip` exists already");
    write!(store, |tx| tx.execute("UPDATE caches SET created_at = 0", &[])).unwrap();
    let second = reserve().await.unwrap();
    assert_ne!(second, first);
    let late =
        write!(store, |tx| caches::finalize(tx, SYSTEM, first, object, &hash_of("cache"), 1));
    assert_eq!(refusal(late), Refusal::NotFound("cache"));
    write!(store, |tx| caches::finalize(tx, SYSTEM, second, object, &hash_of("cache"), 1)).unwrap();
    write!(store, |tx| tx.execute("UPDATE caches SET created_at = 0", &[])).unwrap();
    assert!(matches!(refusal(reserve().await), Refusal::Conflict(_)), "it is complete");
}
on_both!(a_reservation_that_was_given_up_is_free_again);

/// G8: whoever is not trusted cannot push out what trusted runs wrote, however much they write.
async fn eviction_stays_within_one_trust(store: Store) {
    let acme = world(&store, "acme").await;
    let repo = acme.repo;
    let untrusted = |key: &str| NewCache { trust: "untrusted".to_owned(), ..new_cache(repo, key) };
    let old = add_cache(&store, &acme, new_cache(repo, "old"), 40).await;
    let one = add_cache(&store, &acme, untrusted("one"), 900).await;
    let two = add_cache(&store, &acme, untrusted("two"), 900).await;
    let over = async |budgets: [i64; 2]| {
        write!(store, |tx| caches::over_budget(tx, SYSTEM, "trusted", budgets, 9)).unwrap()
    };
    assert_eq!(over([50, 1_800]).await, []);
    assert_eq!(over([50, 1_799]).await, [(repo, "untrusted".to_owned())]);
    assert_eq!(over([49, 1_800]).await, [(repo, "trusted".to_owned())]);
    let gone = write!(store, |tx| caches::evict(tx, SYSTEM, (repo, "untrusted"), 1_000, 9));
    assert_eq!(gone.unwrap().iter().map(|cache| cache.id).collect::<Vec<_>>(), [one]);
    let gone = write!(store, |tx| caches::evict(tx, SYSTEM, (repo, "trusted"), 1_000, 9));
    assert_eq!(gone.unwrap(), []);
    // Who is not trusted counts what they find, but does not make it younger.
    let before = write!(store, |tx| caches::get(tx, SYSTEM, old)).unwrap();
    write!(store, |tx| caches::hit(tx, SYSTEM, old, false)).unwrap();
    let after = write!(store, |tx| caches::get(tx, SYSTEM, old)).unwrap();
    assert_eq!((after.hits, after.used_at), (before.hits + 1, before.used_at));
    let usage = write!(store, |tx| caches::usage(tx, SYSTEM, repo)).unwrap();
    let short: Vec<_> =
        usage.iter().map(|one| (one.trust.as_str(), one.count, one.bytes)).collect();
    assert_eq!(short, [("trusted", 2, 50), ("untrusted", 1, 900)]);
    write!(store, |tx| caches::delete(tx, SYSTEM, &actor(), two)).unwrap();
}
on_both!(eviction_stays_within_one_trust);

/// H3
async fn what_is_old_goes_with_its_objects_unless_it_is_kept(store: Store) {
    let acme = world(&store, "acme").await;
    let (run, scope, repo) = (acme.run, acme.scope(), acme.repo);
    let count_objects = async || {
        let count = write!(store, |tx| async move {
            tx.one("object", "SELECT count(*) FROM objects", &[]).await?.get::<i64>(0)
        });
        count.unwrap()
    };
    let had = count_objects().await;
    let make = async |name: &'static str, expires_at: Option<Timestamp>| {
        let (org, hash) = (acme.org, hash_of(name));
        store
            .write(async move |tx: &mut Tx<'_>| {
                let new = NewArtifact { expires_at, ..new_artifact(run, name) };
                let id = artifacts::create(tx, scope, &actor(), new).await?;
                let (kind, tags) = ("artifact".to_owned(), Vec::new());
                let blob = None;
                let provider_object_id = None;
                let new = NewObject { org, kind, blob, provider_object_id, expires_at: None, tags };
                let object = objects::create(tx, scope, new).await?;
                artifacts::finalize(tx, scope, id, object, &hash, 7).await?;
                Ok(id)
            })
            .await
            .unwrap()
    };
    let old = make("old", Some(Timestamp(1))).await;
    let kept = make("kept", Some(Timestamp(1))).await;
    let young = make("young", Some(Timestamp(u64::MAX >> 12))).await;
    let ever = make("ever", None).await;
    write!(store, |tx| artifacts::set_keep(tx, scope, &actor(), kept, true)).unwrap();
    assert_eq!(count_objects().await, had + 4);
    let done = write!(store, |tx| artifacts::expire(tx, SYSTEM, 9)).unwrap();
    assert_eq!((done.count, done.bytes, done.more), (1, 7, false));
    assert_eq!(count_objects().await, had + 3);
    let which = artifacts::Which { repo, run: None, name: None, trust: None };
    let all = which.clone();
    let left = write!(store, |tx| artifacts::search(tx, scope, &all, 0, 9)).unwrap();
    assert_eq!(left.iter().map(|one| one.id).collect::<Vec<_>>(), [ever, young, kept]);
    assert_eq!(write!(store, |tx| artifacts::total(tx, scope, &which)).unwrap(), 3);
    assert!(write!(store, |tx| artifacts::get(tx, scope, old)).is_err());
    // A reservation that nobody finished goes after a day.
    write!(store, |tx| tx.execute("UPDATE artifacts SET created_at = 0", &[])).unwrap();
    assert_eq!(write!(store, |tx| artifacts::expire(tx, SYSTEM, 9)).unwrap().count, 1);

    add_cache(&store, &acme, new_cache(repo, "unused"), 5).await;
    let wip = new_cache(repo, "wip");
    write!(store, |tx| caches::reserve(tx, SYSTEM, wip.clone())).unwrap();
    let gone = write!(store, |tx| caches::expire(tx, SYSTEM, Timestamp(1_000_000), 9)).unwrap();
    assert_eq!((gone.count, gone.bytes), (1, 5));
    write!(store, |tx| tx.execute("UPDATE caches SET created_at = 0", &[])).unwrap();
    let gone = write!(store, |tx| caches::expire(tx, SYSTEM, Timestamp(0), 9)).unwrap();
    assert_eq!(gone.count, 1, "the reservation that nobody finished");
}
on_both!(what_is_old_goes_with_its_objects_unless_it_is_kept);

/// R9: a job that begins anew is not stopped by what it left itself.
async fn what_an_earlier_claim_or_attempt_left_gives_way(store: Store) {
    let acme = world(&store, "acme").await;
    let (run, scope) = (acme.run, acme.scope());
    let job = |id| Some(kiln_core::id::JobId(id));
    let make = async |attempt, job, claim| {
        let new = NewArtifact { attempt, job, claim, ..new_artifact(run, "report") };
        write!(store, |tx| artifacts::create(tx, scope, &actor(), new.clone()))
    };
    let first = make(1, job(7), Some(1)).await.unwrap();
    // Whoever did not hear the answer asks again.
    assert_eq!(make(1, job(7), Some(1)).await.unwrap(), first);
    refusal(make(1, job(8), Some(9)).await);
    let second = make(1, job(7), Some(2)).await.unwrap();
    assert_ne!(first, second);
    refusal(make(1, job(7), Some(1)).await);
    let third = make(2, job(8), Some(1)).await.unwrap();
    let found = write!(store, |tx| artifacts::by_name(tx, scope, run, "report")).unwrap();
    assert_eq!((found.id, found.attempt, found.claim), (third, 2, Some(1)));

    let reserve = async |by| {
        let new = NewCache { by, ..new_cache(acme.repo, "wip") };
        write!(store, |tx| caches::reserve(tx, SYSTEM, new.clone()))
    };
    let claimed = |job, claim| Some((kiln_core::id::JobId(job), claim));
    let first = reserve(claimed(7, 1)).await.unwrap();
    assert_eq!(reserve(claimed(7, 1)).await.unwrap(), first);
    refusal(reserve(claimed(8, 2)).await);
    reserve(claimed(7, 2)).await.unwrap();
}
on_both!(what_an_earlier_claim_or_attempt_left_gives_way);
