//! Pools, registration keys and runners.

use kiln_core::time::Timestamp;
use kiln_store::directory::pools::{self, NewPool};
use kiln_store::directory::registration_keys::{self, NewRegistrationKey};
use kiln_store::directory::runners::{self, RunnerState};
use kiln_store::{Page, Refusal, Store, StoreError, Tx};

use crate::world::{SYSTEM, World, actor, add_lease, hash_of, new_runner, refusal, world, write};

fn new_pool(org: Option<kiln_core::id::OrgId>, name: &str) -> NewPool {
    NewPool { org, name: name.to_owned(), settings: "{}".to_owned() }
}

async fn a_shared_pool_is_seen_by_all_and_changed_by_the_system(store: Store) {
    let acme = world(&store, "acme").await;
    let (org, scope) = (acme.org, acme.scope());
    let pool = new_pool(None, "builders");
    let shared = write!(store, |tx| pools::create(tx, SYSTEM, &actor(), pool.clone())).unwrap();
    let listed = write!(store, |tx| pools::list(tx, scope, org, Page::first(9))).unwrap();
    assert_eq!(listed.iter().map(|pool| pool.id).collect::<Vec<_>>(), [acme.pool, shared]);
    let found = write!(store, |tx| pools::by_name(tx, scope, None, "builders")).unwrap();
    assert_eq!(found.id, shared);
    let denied = "shared pools belong to the whole installation; ask its administrator";
    let pool = new_pool(None, "mine");
    let made = write!(store, |tx| pools::create(tx, scope, &actor(), pool.clone()));
    assert_eq!(refusal(made), Refusal::Denied(denied.to_owned()));
    let changed = write!(store, |tx| pools::configure(tx, scope, &actor(), shared, "[]"));
    assert_eq!(refusal(changed), Refusal::Denied(denied.to_owned()));
    write!(store, |tx| pools::configure(tx, SYSTEM, &actor(), shared, "[]")).unwrap();
    for org in [None, Some(org)] {
        let pool = new_pool(org, "builders");
        let twice = write!(store, |tx| pools::create(tx, SYSTEM, &actor(), pool.clone()));
        let expected = Refusal::Conflict("there is a pool `builders` already".to_owned());
        assert_eq!(refusal(twice), expected);
    }
}
on_both!(a_shared_pool_is_seen_by_all_and_changed_by_the_system);

async fn add_key(store: &Store, world: &World, text: &str, uses: Option<i64>) -> Vec<u8> {
    let (pool, hash) = (world.pool, hash_of(text));
    let given = hash.clone();
    let made = store
        .write(async move |tx: &mut Tx<'_>| {
            let expires_at = Timestamp(tx.now().0 + 60_000);
            let new = NewRegistrationKey { pool, hash: given.clone(), expires_at, uses };
            registration_keys::create(tx, SYSTEM, &actor(), new).await
        })
        .await;
    made.unwrap();
    hash
}

async fn spend(store: &Store, hash: &[u8]) -> Result<Option<i64>, StoreError> {
    let hash = hash.to_vec();
    let spent = write!(store, |tx| registration_keys::spend(tx, SYSTEM, &actor(), &hash));
    spent.map(|key| key.uses_left)
}

/// S1
async fn the_last_use_of_a_key_works_once(store: Store) {
    let acme = world(&store, "acme").await;
    let hash = add_key(&store, &acme, "key", Some(1)).await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (store, hash) = (store.clone(), hash.clone());
            tokio::spawn(async move { spend(&store, &hash).await })
        })
        .collect();
    let mut worked = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(left) => {
                assert_eq!(left, Some(0));
                worked += 1;
            }
            refused => assert_eq!(
                refusal(refused).to_string(),
                "the registration key has been used up; make a new one with `kiln runners key`"
            ),
        }
    }
    assert_eq!(worked, 1);
}
on_both!(the_last_use_of_a_key_works_once);

/// S1
async fn a_key_that_is_not_good_says_why(store: Store) {
    let acme = world(&store, "acme").await;
    assert_eq!(spend(&store, &acme.key_hash).await.unwrap(), None);
    let listed =
        write!(store, |tx| registration_keys::list(tx, SYSTEM, acme.pool, Page::first(9))).unwrap();
    assert_eq!((listed[0].created_by.as_str(), listed[0].uses_left), ("ada", None));
    let key = acme.key;
    write!(store, |tx| registration_keys::revoke(tx, SYSTEM, &actor(), key)).unwrap();
    let revoked = refusal(spend(&store, &acme.key_hash).await);
    let expected = "the registration key was revoked; make a new one with `kiln runners key`";
    assert_eq!(revoked, Refusal::Denied(expected.to_owned()));
    let old = add_key(&store, &acme, "old", None).await;
    write!(store, |tx| tx.execute("UPDATE registration_keys SET expires_at = 1", &[])).unwrap();
    let expired = refusal(spend(&store, &old).await).to_string();
    assert_eq!(expired, "the registration key has expired; make a new one with `kiln runners key`");
    let unknown = refusal(spend(&store, &hash_of("guessed")).await);
    assert_eq!(unknown, Refusal::NotFound("registration key"));
    let pool = acme.pool;
    let late = write!(store, |tx| async {
        let hash = hash_of("late");
        let new = NewRegistrationKey { pool, hash, expires_at: tx.now(), uses: None };
        registration_keys::create(tx, SYSTEM, &actor(), new).await
    });
    assert_eq!(refusal(late).to_string(), "the registration key would be expired already");
}
on_both!(a_key_that_is_not_good_says_why);

/// S1
async fn a_runner_that_comes_back_keeps_its_id(store: Store) {
    let acme = world(&store, "acme").await;
    let (id, pool) = (acme.runner, acme.pool);
    let twice =
        write!(store, |tx| runners::register(tx, SYSTEM, &actor(), new_runner(pool, "one")));
    assert!(refusal(twice).to_string().contains("has a runner `one` already"));
    let mut about = new_runner(pool, "one").about;
    about.version = "2.0".into();
    let wrong = about.clone();
    let wrong = write!(store, |tx| runners::register_again(
        tx,
        SYSTEM,
        &actor(),
        id,
        b"guess",
        wrong.clone()
    ));
    assert_eq!(refusal(wrong), Refusal::NotFound("runner"));
    let credential = hash_of("one");
    write!(store, |tx| runners::register_again(
        tx,
        SYSTEM,
        &actor(),
        id,
        &credential,
        about.clone()
    ))
    .unwrap();
    let found = write!(store, |tx| runners::get(tx, SYSTEM, id)).unwrap();
    assert_eq!((found.name.as_str(), found.about.version.as_str()), ("one", "2.0"));
}
on_both!(a_runner_that_comes_back_keeps_its_id);

/// S5
async fn a_runner_is_drained_revoked_and_unregistered(store: Store) {
    let acme = world(&store, "acme").await;
    let (id, pool) = (acme.runner, acme.pool);
    assert_eq!(write!(store, |tx| runners::revoke_tokens(tx, SYSTEM, &actor(), id)).unwrap(), 1);
    write!(store, |tx| runners::set_draining(tx, SYSTEM, &actor(), id, true)).unwrap();
    let found = write!(store, |tx| runners::get(tx, SYSTEM, id)).unwrap();
    assert_eq!((found.epoch, found.draining), (1, true));
    write!(store, |tx| runners::unregister(tx, SYSTEM, &actor(), id)).unwrap();
    let answers = write!(store, |tx| async {
        Ok([
            runners::get(tx, SYSTEM, id).await.map(drop),
            runners::unregister(tx, SYSTEM, &actor(), id).await,
            runners::revoke_tokens(tx, SYSTEM, &actor(), id).await.map(drop),
            runners::set_draining(tx, SYSTEM, &actor(), id, false).await,
        ])
    });
    for answer in answers.unwrap() {
        assert_eq!(refusal(answer), Refusal::NotFound("runner"));
    }
    // The name is free again.
    let again =
        write!(store, |tx| runners::register(tx, SYSTEM, &actor(), new_runner(pool, "one")));
    assert_ne!(again.unwrap(), id);
}
on_both!(a_runner_is_drained_revoked_and_unregistered);

async fn the_state_of_a_runner_follows_its_signs_of_life(store: Store) {
    let acme = world(&store, "acme").await;
    let (id, org) = (acme.runner, acme.org);
    let state = |silent_seconds: u64| {
        let store = store.clone();
        async move {
            write!(store, |tx| async {
                let at = Timestamp(tx.now().0 - silent_seconds * 1_000);
                let sql = "UPDATE runners SET last_seen_at = $1";
                tx.execute(sql, &[at.into()]).await?;
                let listed = runners::list(tx, SYSTEM, Some(org), Page::first(9)).await?;
                Ok(listed[0].state)
            })
            .unwrap()
        }
    };
    assert_eq!(state(0).await, RunnerState::Online);
    assert_eq!(state(91).await, RunnerState::Offline);
    assert_eq!(state(301).await, RunnerState::Forgotten);
    let lease = acme.clone();
    write!(store, |tx| add_lease(tx, &lease, 1, true)).unwrap();
    assert_eq!(state(0).await, RunnerState::Busy);
    assert_eq!(state(29).await, RunnerState::Busy);
    assert!(!write!(store, |tx| runners::seen(tx, SYSTEM, id)).unwrap(), "it is too early");
    assert_eq!(state(100).await, RunnerState::Offline);
    assert!(write!(store, |tx| runners::seen(tx, SYSTEM, id)).unwrap());
    let found = write!(store, |tx| runners::get(tx, SYSTEM, id)).unwrap();
    assert_eq!((found.state, found.leases), (RunnerState::Busy, 1));
}
on_both!(the_state_of_a_runner_follows_its_signs_of_life);

async fn a_runner_that_is_wrong_is_refused(store: Store) {
    let pool = world(&store, "acme").await.pool;
    let check = |change: fn(&mut runners::NewRunner), expected: &'static str| {
        let store = store.clone();
        async move {
            let mut new = new_runner(pool, "two");
            change(&mut new);
            let made = write!(store, |tx| runners::register(tx, SYSTEM, &actor(), new.clone()));
            let error = refusal(made).to_string();
            assert!(error.contains(expected), "{error}");
        }
    };
    check(|new| new.name = "a b".into(), "cannot be the name of a runner").await;
    check(|new| new.credential = vec![1], "expected a SHA-256").await;
    check(|new| new.about.capabilities = "{".into(), "expected JSON").await;
    check(|new| new.about.max_parallel = 0, "expected 1 to 10000").await;
    check(|new| new.about.os = "a\0".into(), "cannot be an operating system").await;
    check(|new| new.about.public_key = Some(vec![0; 2_000]), "the public key is too long").await;
}
on_both!(a_runner_that_is_wrong_is_refused);
