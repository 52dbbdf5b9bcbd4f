//! Organizations, their limits, and the audit of what is done to them.

use kiln_core::id::OrgId;
use kiln_store::directory::organizations::{self, NewOrganization};
use kiln_store::directory::{audit, repositories};
use kiln_store::{ActorKind, Page, Refusal, Store, StoreError, Tx};

use crate::world::{SYSTEM, actor, add_lease, refusal, world, write};

async fn a_name_is_taken_once(store: Store) {
    store.migrate().await.unwrap();
    let create = |name: &'static str| {
        let store = store.clone();
        async move {
            write!(store, |tx| organizations::create(tx, &actor(), NewOrganization::named(name)))
        }
    };
    let (one, two) = tokio::join!(create("acme"), create("acme"));
    assert_eq!(u8::from(one.is_ok()) + u8::from(two.is_ok()), 1);
    let refused = refusal(if one.is_ok() { two } else { one });
    assert_eq!(refused, Refusal::Conflict("the organization `acme` exists already".to_owned()));
    let invalid = refusal(create("a/b").await).to_string();
    assert!(invalid.starts_with("`a/b` cannot be the name of an organization; expected"));
    let mut new = NewOrganization::named("other");
    new.shares = 0;
    let invalid =
        refusal(write!(store, |tx| organizations::create(tx, &actor(), new.clone()))).to_string();
    assert_eq!(invalid, "shares cannot be 0; expected 1 to 1000000");
}
on_both!(a_name_is_taken_once);

async fn a_rename_keeps_the_id_and_refuses_a_taken_name(store: Store) {
    let acme = world(&store, "acme").await;
    world(&store, "other").await;
    let org = acme.org;
    let taken = write!(store, |tx| organizations::rename(tx, SYSTEM, &actor(), org, "other"));
    let expected = Refusal::Conflict("the organization `other` exists already".to_owned());
    assert_eq!(refusal(taken), expected);
    write!(store, |tx| organizations::rename(tx, SYSTEM, &actor(), org, "acme-2")).unwrap();
    let found = write!(store, |tx| organizations::by_name(tx, SYSTEM, "acme-2")).unwrap();
    assert_eq!(found.id, acme.org);
    write!(store, |tx| repositories::by_name(tx, SYSTEM, "acme-2/app")).unwrap();
    let gone = write!(store, |tx| organizations::by_name(tx, SYSTEM, "acme"));
    assert_eq!(refusal(gone), Refusal::NotFound("organization"));
}
on_both!(a_rename_keeps_the_id_and_refuses_a_taken_name);

async fn plan_shares_and_limit_are_kept(store: Store) {
    let org = world(&store, "acme").await.org;
    let before = write!(store, |tx| organizations::get(tx, SYSTEM, org)).unwrap();
    assert_eq!((before.plan.as_str(), before.shares, before.job_limit), ("free", 100, None));
    write!(store, |tx| async {
        organizations::set_plan(tx, SYSTEM, &actor(), org, "team").await?;
        organizations::set_shares(tx, SYSTEM, &actor(), org, 250).await?;
        organizations::set_job_limit(tx, SYSTEM, &actor(), org, Some(20)).await
    })
    .unwrap();
    let after = write!(store, |tx| organizations::get(tx, SYSTEM, org)).unwrap();
    assert_eq!((after.plan.as_str(), after.shares, after.job_limit), ("team", 250, Some(20)));
    write!(store, |tx| organizations::set_job_limit(tx, SYSTEM, &actor(), org, None)).unwrap();
    let without = write!(store, |tx| organizations::get(tx, SYSTEM, org)).unwrap();
    assert_eq!(without.job_limit, None);
}
on_both!(plan_shares_and_limit_are_kept);

async fn running(tx: &mut Tx<'_>, org: OrgId) -> Result<i64, StoreError> {
    let sql = "SELECT running FROM org_loads WHERE org_id = $1";
    tx.one("load", sql, &[org.into()]).await?.get(0)
}

/// S8: leases that were not counted when they began are not taken off when they end.
async fn a_limit_counts_only_leases_that_will_be_taken_off_again(store: Store) {
    let acme = world(&store, "acme").await;
    let org = acme.org;
    write!(store, |tx| async {
        add_lease(tx, &acme, 1, false).await?;
        add_lease(tx, &acme, 2, true).await?;
        organizations::set_job_limit(tx, SYSTEM, &actor(), org, Some(3)).await
    })
    .unwrap();
    assert_eq!(write!(store, |tx| running(tx, org)).unwrap(), 1);
    // Later limits leave the count to those who claim and finish.
    write!(store, |tx| async {
        tx.execute("UPDATE org_loads SET running = 7 WHERE org_id = $1", &[org.into()]).await?;
        organizations::set_job_limit(tx, SYSTEM, &actor(), org, None).await?;
        organizations::set_job_limit(tx, SYSTEM, &actor(), org, Some(2)).await
    })
    .unwrap();
    assert_eq!(write!(store, |tx| running(tx, org)).unwrap(), 7);
}
on_both!(a_limit_counts_only_leases_that_will_be_taken_off_again);

async fn a_list_comes_in_pages(store: Store) {
    for name in ["a", "b", "c"] {
        world(&store, name).await;
    }
    let first = write!(store, |tx| organizations::list(tx, SYSTEM, Page::first(2))).unwrap();
    let names: Vec<_> = first.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    let last = first[1].id.0;
    let rest = write!(store, |tx| organizations::list(tx, SYSTEM, Page::after(last, 2))).unwrap();
    assert_eq!(rest.len(), 1);
    assert_eq!(rest[0].name, "c");
}
on_both!(a_list_comes_in_pages);

/// The audit row commits with the deed or not at all.
async fn every_deed_leaves_an_entry_and_no_other(store: Store) {
    let acme = world(&store, "acme").await;
    let (org, repo) = (acme.org, acme.repo);
    let list = |page| {
        let store = store.clone();
        async move { write!(store, |tx| audit::list(tx, SYSTEM, org, page)).unwrap() }
    };
    let before = list(Page::first(1_000)).await.len();
    write!(store, |tx| repositories::pause(tx, SYSTEM, &actor(), repo, "broken disk")).unwrap();
    let undone = write!(store, |tx| async {
        repositories::resume(tx, SYSTEM, &actor(), repo).await?;
        repositories::set_shares(tx, SYSTEM, &actor(), repo, -1).await
    });
    refusal(undone);
    let entries = list(Page::first(1_000)).await;
    assert_eq!(entries.len(), before + 1);
    let entry = &entries[0];
    assert_eq!(entry.action, "repository.pause");
    assert_eq!((entry.subject_kind.as_str(), entry.subject), ("repository", Some(repo.0)));
    assert_eq!(entry.actor.kind, ActorKind::Person);
    assert_eq!(entry.actor.name, "ada");
    assert_eq!(entry.actor.address.as_deref(), Some("127.0.0.1"));
    assert_eq!(entry.detail.as_deref(), Some(r#"{"reason":"broken disk"}"#));
    let rest = list(Page::after(entry.id, 1)).await;
    assert_eq!(rest, entries[1..2]);
}
on_both!(every_deed_leaves_an_entry_and_no_other);
