//! Users, members and teams.

use kiln_store::directory::members::{self, Role};
use kiln_store::directory::teams::{self, Permission, TeamRole};
use kiln_store::directory::users::{self, NewUser};
use kiln_store::{Page, Refusal, Store};

use crate::world::{SYSTEM, actor, refusal, world, write};

fn user(name: &str) -> NewUser {
    NewUser {
        name: name.to_owned(),
        email: Some(format!("{name}@example.com")),
        display_name: None,
    }
}

async fn a_user_can_be_disabled_and_enabled(store: Store) {
    let user_id = world(&store, "acme").await.user;
    let taken = write!(store, |tx| users::create(tx, &actor(), user("user-of-acme")));
    let expected = Refusal::Conflict("the user `user-of-acme` exists already".to_owned());
    assert_eq!(refusal(taken), expected);
    for disabled in [true, false] {
        write!(store, |tx| users::set_disabled(tx, SYSTEM, &actor(), user_id, disabled)).unwrap();
        let found = write!(store, |tx| users::by_name(tx, SYSTEM, "user-of-acme")).unwrap();
        assert_eq!(found.disabled_at.is_some(), disabled);
    }
}
on_both!(a_user_can_be_disabled_and_enabled);

/// G1
async fn a_member_has_one_role_and_leaves_with_all_teams(store: Store) {
    let acme = world(&store, "acme").await;
    let (org, user, team, scope) = (acme.org, acme.user, acme.team, acme.scope());
    write!(store, |tx| members::put(tx, scope, &actor(), org, user, Role::Admin)).unwrap();
    let found = write!(store, |tx| members::list(tx, scope, org, Page::first(9))).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].role, found[0].user_name.as_str()), (Role::Admin, "user-of-acme"));
    write!(store, |tx| members::remove(tx, scope, &actor(), org, user)).unwrap();
    let left = write!(store, |tx| teams::members_of(tx, scope, team, Page::first(9))).unwrap();
    assert_eq!(left, []);
    let again = write!(store, |tx| members::remove(tx, scope, &actor(), org, user));
    assert_eq!(refusal(again), Refusal::NotFound("member"));
    let hidden = write!(store, |tx| users::get(tx, scope, user));
    assert_eq!(refusal(hidden), Refusal::NotFound("user"));
}
on_both!(a_member_has_one_role_and_leaves_with_all_teams);

async fn somebody_can_belong_to_several_organizations(store: Store) {
    let acme = world(&store, "acme").await;
    let other = world(&store, "other").await;
    let (org, user, scope) = (other.org, acme.user, other.scope());
    write!(store, |tx| members::put(tx, scope, &actor(), org, user, Role::Viewer)).unwrap();
    let all = write!(store, |tx| members::of_user(tx, SYSTEM, user, Page::first(9))).unwrap();
    let roles: Vec<_> = all.iter().map(|member| (member.org, member.role)).collect();
    assert_eq!(roles, [(acme.org, Role::Developer), (org, Role::Viewer)]);
    let own = write!(store, |tx| members::of_user(tx, scope, user, Page::first(9))).unwrap();
    assert_eq!(own.len(), 1);
}
on_both!(somebody_can_belong_to_several_organizations);

async fn a_team_holds_members_and_rights(store: Store) {
    let acme = world(&store, "acme").await;
    let other = world(&store, "other").await;
    let (org, user, team, repo, scope) = (acme.org, acme.user, acme.team, acme.repo, acme.scope());
    let taken = write!(store, |tx| teams::create(tx, scope, &actor(), org, "core"));
    let expected = Refusal::Conflict("the organization has a team `core` already".to_owned());
    assert_eq!(refusal(taken), expected);
    write!(store, |tx| async {
        teams::put_member(tx, scope, &actor(), team, user, TeamRole::Maintainer).await?;
        teams::grant(tx, scope, &actor(), team, repo, Permission::Write).await
    })
    .unwrap();
    let found = write!(store, |tx| async {
        let members = teams::members_of(tx, scope, team, Page::first(9)).await?;
        Ok((members, teams::repositories_of(tx, scope, team, Page::first(9)).await?))
    })
    .unwrap();
    assert_eq!(found, (vec![(user, TeamRole::Maintainer)], vec![(repo, Permission::Write)]));
    // Not even the system can mix organizations.
    let read = Permission::Read;
    let foreign = other.repo;
    let mixed = write!(store, |tx| teams::grant(tx, SYSTEM, &actor(), team, foreign, read));
    assert_eq!(refusal(mixed), Refusal::NotFound("repository"));
    let foreign = other.user;
    let role = TeamRole::Member;
    let mixed = write!(store, |tx| teams::put_member(tx, SYSTEM, &actor(), team, foreign, role));
    assert_eq!(refusal(mixed), Refusal::NotFound("member"));
}
on_both!(a_team_holds_members_and_rights);

async fn what_a_team_loses_is_gone(store: Store) {
    let acme = world(&store, "acme").await;
    let (user, team, repo, scope) = (acme.user, acme.team, acme.repo, acme.scope());
    write!(store, |tx| async {
        teams::revoke(tx, scope, &actor(), team, repo).await?;
        teams::remove_member(tx, scope, &actor(), team, user).await
    })
    .unwrap();
    let again = write!(store, |tx| teams::revoke(tx, scope, &actor(), team, repo));
    assert_eq!(refusal(again), Refusal::NotFound("right of the team"));
    write!(store, |tx| teams::delete(tx, scope, &actor(), team)).unwrap();
    let gone = write!(store, |tx| teams::get(tx, scope, team));
    assert_eq!(refusal(gone), Refusal::NotFound("team"));
}
on_both!(what_a_team_loses_is_gone);
