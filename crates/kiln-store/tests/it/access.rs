//! Who may speak to a server: tokens, keys for one use, administrators; and what is set for all of it.

use std::time::Duration;

use kiln_core::id::{TokenId, UserId};
use kiln_core::time::Timestamp;
use kiln_store::directory::{audit, one_time_keys, settings, tokens, users};
use kiln_store::{Page, Refusal, Store, StoreError, Tx};
use kiln_testkit::database::Database;

use crate::world::{SYSTEM, World, actor, hash_of, new_token, refusal, world, write};

async fn make(store: &Store, new: tokens::NewToken) -> Result<TokenId, StoreError> {
    write!(store, |tx| tokens::create(tx, SYSTEM, &actor(), new.clone()))
}

async fn find(store: &Store, token: &str) -> Result<tokens::Bearer, StoreError> {
    let hash = hash_of(token);
    write!(store, |tx| tokens::find_by_hash(tx, SYSTEM, &hash))
}

/// Moves a time of a row.
async fn set(store: &Store, sql: &'static str, at: u64) {
    write!(store, |tx| tx.execute(sql, &[Timestamp(at).into()])).unwrap();
}

async fn a_token_leads_to_its_user(store: Store) {
    let acme = world(&store, "acme").await;
    let id = make(&store, new_token(&acme, "one")).await.unwrap();
    let bearer = find(&store, "one").await.unwrap();
    assert_eq!((bearer.token.id, bearer.token.org), (id, Some(acme.org)));
    assert_eq!(bearer.token.scopes, ["runs:read", "runs:write"]);
    assert_eq!(
        (bearer.user.id, bearer.user.admin, bearer.user.disabled_at),
        (acme.user, false, None)
    );
    assert_eq!(refusal(find(&store, "other").await), Refusal::NotFound("token"));

    let user = acme.user;
    write!(store, |tx| users::set_admin(tx, SYSTEM, &actor(), user, true)).unwrap();
    write!(store, |tx| users::set_disabled(tx, SYSTEM, &actor(), user, true)).unwrap();
    let bearer = find(&store, "one").await.unwrap();
    assert!(bearer.user.admin && bearer.user.disabled_at.is_some());
    write!(store, |tx| users::set_admin(tx, SYSTEM, &actor(), user, false)).unwrap();
    assert!(!find(&store, "one").await.unwrap().user.admin);
}
on_both!(a_token_leads_to_its_user);

async fn a_token_that_expired_or_was_revoked_looks_like_none(store: Store) {
    let acme = world(&store, "acme").await;
    let id = make(&store, new_token(&acme, "one")).await.unwrap();
    set(&store, "UPDATE api_tokens SET expires_at = $1", 1).await;
    assert_eq!(refusal(find(&store, "one").await), Refusal::NotFound("token"));
    set(&store, "UPDATE api_tokens SET expires_at = $1", u64::MAX).await;
    find(&store, "one").await.unwrap();

    write!(store, |tx| tokens::revoke(tx, SYSTEM, &actor(), id)).unwrap();
    assert_eq!(refusal(find(&store, "one").await), Refusal::NotFound("token"));
    write!(store, |tx| tokens::revoke(tx, SYSTEM, &actor(), id)).unwrap();
    let user = acme.user;
    let listed = write!(store, |tx| tokens::list(tx, SYSTEM, user, Page::first(9))).unwrap();
    assert_eq!(listed.len(), 2);
    assert!(listed[0].revoked_at.is_none() && listed[1].revoked_at.is_some());
    let org = acme.org;
    let log = write!(store, |tx| audit::list(tx, SYSTEM, org, Page::first(9))).unwrap();
    let actions: Vec<&str> = log.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions[..3], ["token.revoke", "token.revoke", "token.create"]);
    assert!(!format!("{log:?}").contains("hash"), "nothing of the token itself is recorded");
}
on_both!(a_token_that_expired_or_was_revoked_looks_like_none);

async fn a_token_that_cannot_be_is_refused(store: Store) {
    let acme = world(&store, "acme").await;
    make(&store, new_token(&acme, "one")).await.unwrap();
    let new = || new_token(&acme, "two");
    let check = async |new: tokens::NewToken, expected: &str| {
        let text = refusal(make(&store, new).await).to_string();
        assert!(text.contains(expected), "{text}");
    };
    check(new_token(&acme, "one"), "exists already").await;
    check(tokens::NewToken { hash: vec![1], ..new() }, "expected a SHA-256").await;
    check(tokens::NewToken { name: String::new(), ..new() }, "the name of a token").await;
    check(tokens::NewToken { expires_at: Some(Timestamp(1)), ..new() }, "expired already").await;
    check(tokens::NewToken { scopes: vec!["x".to_owned(); 65], ..new() }, "at most 64").await;
    check(tokens::NewToken { scopes: vec!["a\0".to_owned()], ..new() }, "a scope").await;
    check(tokens::NewToken { user: UserId(999), ..new() }, "no such user").await;
}
on_both!(a_token_that_cannot_be_is_refused);

async fn the_use_of_a_token_is_written_once_a_minute(store: Store) {
    let acme = world(&store, "acme").await;
    let id = make(&store, new_token(&acme, "one")).await.unwrap();
    assert!(write!(store, |tx| tokens::used(tx, SYSTEM, id)).unwrap());
    assert!(!write!(store, |tx| tokens::used(tx, SYSTEM, id)).unwrap());
    set(&store, "UPDATE api_tokens SET last_used_at = last_used_at - $1", 60_001).await;
    assert!(write!(store, |tx| tokens::used(tx, SYSTEM, id)).unwrap());
}
on_both!(the_use_of_a_token_is_written_once_a_minute);

fn new_key(of: &World, key: &str, expires_at: Timestamp) -> one_time_keys::NewOneTimeKey {
    one_time_keys::NewOneTimeKey {
        user: of.user,
        purpose: "login".to_owned(),
        hash: hash_of(key),
        expires_at,
    }
}

async fn redeem(store: &Store, key: &str, purpose: &'static str) -> Result<UserId, StoreError> {
    let hash = hash_of(key);
    write!(store, |tx| one_time_keys::redeem(tx, SYSTEM, &hash, purpose))
}

/// Two servers try at once: one lets them in.
async fn a_key_for_one_use_is_good_once(database: Database) {
    let (store, other) = (database.open(), database.open());
    let acme = world(&store, "acme").await;
    let new = new_key(&acme, "key", Timestamp(u64::MAX));
    write!(store, |tx| one_time_keys::create(tx, SYSTEM, &actor(), new.clone())).unwrap();
    assert_eq!(refusal(redeem(&store, "key", "invite").await), Refusal::NotFound("key"));
    assert_eq!(refusal(redeem(&store, "another", "login").await), Refusal::NotFound("key"));
    let (one, two) = tokio::join!(redeem(&store, "key", "login"), redeem(&other, "key", "login"));
    let (good, bad) = if one.is_ok() { (one, two) } else { (two, one) };
    assert_eq!(good.unwrap(), acme.user);
    assert_eq!(refusal(bad), Refusal::NotFound("key"));
    assert_eq!(refusal(redeem(&store, "key", "login").await), Refusal::NotFound("key"));
}
with_database!(a_key_for_one_use_is_good_once);

async fn a_key_for_one_use_expires(store: Store) {
    let acme = world(&store, "acme").await;
    let new = new_key(&acme, "key", Timestamp(1));
    let made = write!(store, |tx| one_time_keys::create(tx, SYSTEM, &actor(), new.clone()));
    assert!(refusal(made).to_string().contains("expired already"));
    let new = new_key(&acme, "key", Timestamp(u64::MAX));
    write!(store, |tx| one_time_keys::create(tx, SYSTEM, &actor(), new.clone())).unwrap();
    set(&store, "UPDATE one_time_keys SET expires_at = $1", 1).await;
    assert_eq!(refusal(redeem(&store, "key", "login").await), Refusal::NotFound("key"));
}
on_both!(a_key_for_one_use_expires);

async fn a_new_server_knows_nobody(store: Store) {
    store.migrate().await.unwrap();
    assert!(!write!(store, |tx| users::any(tx)).unwrap());
    world(&store, "acme").await;
    assert!(write!(store, |tx| users::any(tx)).unwrap());
}
on_both!(a_new_server_knows_nobody);

async fn servers_that_begin_at_once_agree_on_a_setting(database: Database) {
    let store = database.open();
    store.migrate().await.unwrap();
    let servers: Vec<Store> = (0..8).map(|_| database.open()).collect();
    let tries = servers.into_iter().enumerate().map(|(number, server)| {
        tokio::spawn(async move {
            let value = format!("key {number}");
            write!(server, |tx| settings::get_or_put(tx, SYSTEM, "signing key", &value)).unwrap()
        })
    });
    let mut answers = Vec::new();
    for task in tries.collect::<Vec<_>>() {
        answers.push(tokio::time::timeout(Duration::from_mins(1), task).await.unwrap().unwrap());
    }
    let kept = write!(store, |tx| settings::get(tx, SYSTEM, "signing key")).unwrap().unwrap();
    assert!(answers.iter().all(|answer| *answer == kept), "{answers:?}, but kept is {kept}");
}
with_database!(servers_that_begin_at_once_agree_on_a_setting);

async fn a_setting_is_put_and_removed(store: Store) {
    store.migrate().await.unwrap();
    let by = actor();
    let work = async move |tx: &mut Tx<'_>| {
        assert_eq!(settings::get(tx, SYSTEM, "a\0b").await?, None);
        settings::put(tx, SYSTEM, &by, "motd", "hello").await?;
        settings::put(tx, SYSTEM, &by, "motd", "").await?;
        assert_eq!(settings::get(tx, SYSTEM, "motd").await?.as_deref(), Some(""));
        assert_eq!(settings::get_or_put(tx, SYSTEM, "motd", "new").await?, "");
        assert!(settings::remove(tx, SYSTEM, &by, "motd").await?);
        assert!(!settings::remove(tx, SYSTEM, &by, "motd").await?);
        assert_eq!(settings::get(tx, SYSTEM, "motd").await?, None);
        let wrong = settings::put(tx, SYSTEM, &by, "", "x").await;
        assert!(refusal(wrong).to_string().contains("the name of a setting"));
        audit::list_of_installation(tx, SYSTEM, Page::first(9)).await
    };
    let log = store.write(work).await.unwrap();
    let actions: Vec<&str> = log.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["setting.remove", "setting.put", "setting.put"]);
    assert!(!format!("{log:?}").contains("hello"), "values may be secrets");
}
on_both!(a_setting_is_put_and_removed);
