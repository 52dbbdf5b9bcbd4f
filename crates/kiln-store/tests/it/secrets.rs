//! Secrets and variables.

use kiln_core::id::{EnvironmentId, OrgId, RepoId};
use kiln_store::directory::holder::Holder;
use kiln_store::directory::secrets::{self, Sealed};
use kiln_store::directory::{audit, environments, repositories, variables};
use kiln_store::{Page, Refusal, Scope, Store, StoreError, Tx};

use crate::world::{SYSTEM, actor, refusal, world, write};

fn sealed(text: &str) -> Sealed {
    Sealed { key_id: "k1".to_owned(), bytes: text.as_bytes().to_vec() }
}

/// Three holders; each name says where it is set.
async fn set_everywhere(
    tx: &mut Tx<'_>,
    (org, repo, environment): (OrgId, RepoId, EnvironmentId),
) -> Result<(), StoreError> {
    let [org, repo, environment] =
        [Holder::Org(org), Holder::Repo(repo), Holder::Environment(environment)];
    for (holder, name) in [
        (org, "ORG"),
        (org, "ORG_REPO"),
        (org, "ALL"),
        (repo, "ORG_REPO"),
        (repo, "ALL"),
        (repo, "REPO"),
        (environment, "ALL"),
        (environment, "ENVIRONMENT"),
    ] {
        let value = format!("{name} of {holder:?}");
        variables::put(tx, SYSTEM, &actor(), holder, name, &value).await?;
        secrets::put(tx, SYSTEM, &actor(), holder, name, sealed(&value)).await?;
    }
    Ok(())
}

/// G3
async fn the_nearest_of_equal_names_is_what_a_job_gets(store: Store) {
    let acme = world(&store, "acme").await;
    let (org, repo, environment) = (acme.org, acme.repo, acme.environment);
    let scope = acme.scope();
    write!(store, |tx| set_everywhere(tx, (org, repo, environment))).unwrap();
    let expected = |environment: bool| {
        let of = |holder: Holder, name: &str| format!("{name} of {holder:?}");
        let (o, r, e) =
            (Holder::Org(org), Holder::Repo(repo), Holder::Environment(acme.environment));
        let mut all = vec![of(if environment { e } else { r }, "ALL")];
        all.extend(environment.then(|| of(e, "ENVIRONMENT")));
        all.extend([of(o, "ORG"), of(r, "ORG_REPO"), "acme".to_owned(), of(r, "REPO")]);
        all
    };
    for with in [None, Some(environment)] {
        let found = write!(store, |tx| variables::for_job(tx, scope, repo, with)).unwrap();
        let values: Vec<_> = found.into_iter().map(|one| one.value).collect();
        assert_eq!(values, expected(with.is_some()));
        let found = write!(store, |tx| secrets::for_job(tx, scope, &actor(), repo, with)).unwrap();
        let mut values: Vec<_> =
            found.into_iter().map(|one| String::from_utf8(one.sealed.bytes).unwrap()).collect();
        // The world's own secret has another name than its variable, and so another place.
        let own = values.pop().unwrap();
        values.insert(values.len() - 1, own);
        assert_eq!(values, expected(with.is_some()));
    }
}
on_both!(the_nearest_of_equal_names_is_what_a_job_gets);

/// G3
async fn reading_secrets_is_recorded_without_their_values(store: Store) {
    let acme = world(&store, "acme").await;
    let (org, repo, scope) = (acme.org, acme.repo, acme.scope());
    write!(store, |tx| secrets::for_job(tx, scope, &actor(), repo, None)).unwrap();
    let entries = write!(store, |tx| audit::list(tx, scope, org, Page::first(1))).unwrap();
    assert_eq!(entries[0].action, "secret.read");
    assert_eq!(entries[0].detail.as_deref(), Some(r#"{"names":["TOKEN"],"of":"repo"}"#));
    let found = write!(store, |tx| secrets::list(tx, scope, Holder::Repo(repo), Page::first(9)));
    assert_eq!(found.unwrap()[0].name, "TOKEN");
    assert!(!format!("{:?}", sealed("hush")).contains("bytes"));
}
on_both!(reading_secrets_is_recorded_without_their_values);

async fn the_environment_of_another_repository_gives_nothing(store: Store) {
    let acme = world(&store, "acme").await;
    let (org, repo, scope) = (acme.org, acme.repo, acme.scope());
    let foreign = write!(store, |tx| async {
        let new = repositories::NewRepository::named(org, "second");
        let second = repositories::create(tx, scope, &actor(), new).await?;
        environments::put(tx, scope, &actor(), second, "prod", "{}").await
    })
    .unwrap();
    let refused = write!(store, |tx| secrets::for_job(tx, scope, &actor(), repo, Some(foreign)));
    assert_eq!(refusal(refused), Refusal::NotFound("environment"));
}
on_both!(the_environment_of_another_repository_gives_nothing);

async fn a_name_is_the_same_in_upper_and_lower_case(store: Store) {
    let acme = world(&store, "acme").await;
    let (holder, scope) = (Holder::Repo(acme.repo), acme.scope());
    let is_new =
        write!(store, |tx| secrets::put(tx, scope, &actor(), holder, "token", sealed("2")))
            .unwrap();
    assert!(!is_new);
    write!(store, |tx| secrets::delete(tx, scope, &actor(), holder, "Token")).unwrap();
    let again = write!(store, |tx| secrets::delete(tx, scope, &actor(), holder, "TOKEN"));
    assert_eq!(refusal(again), Refusal::NotFound("secret"));
    write!(store, |tx| variables::put(tx, scope, &actor(), holder, "region", "b")).unwrap();
    let found = write!(store, |tx| variables::list(tx, scope, holder, Page::first(9))).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].name.as_str(), found[0].value.as_str()), ("REGION", "b"));
    write!(store, |tx| variables::delete(tx, scope, &actor(), holder, "REGION")).unwrap();
    let again = write!(store, |tx| variables::delete(tx, scope, &actor(), holder, "REGION"));
    assert_eq!(refusal(again), Refusal::NotFound("variable"));
    for (name, part) in [("GITHUB_X", "are taken"), ("a-b", "expected up to 255")] {
        let refused = write!(store, |tx| variables::put(tx, scope, &actor(), holder, name, ""));
        assert!(refusal(refused).to_string().contains(part));
    }
    let long = "x".repeat(50_000);
    let refused = write!(store, |tx| variables::put(tx, scope, &actor(), holder, "A", &long));
    assert!(matches!(refusal(refused), Refusal::Invalid(_)));
}
on_both!(a_name_is_the_same_in_upper_and_lower_case);

/// G3: what was changed in the meantime is not overwritten with what it was.
async fn a_new_key_replaces_only_what_was_read(store: Store) {
    let acme = world(&store, "acme").await;
    let other = world(&store, "other").await;
    let rotation = Scope::System(kiln_store::Duty::Rotation);
    let page = Page::first(100);
    let old = write!(store, |tx| secrets::sealed_with(tx, rotation, "k1", page)).unwrap();
    assert_eq!(old.iter().map(|one| one.org).collect::<Vec<_>>(), [acme.org, other.org]);
    let holder = Holder::Repo(other.repo);
    write!(store, |tx| secrets::put(tx, rotation, &actor(), holder, "TOKEN", sealed("new")))
        .unwrap();
    for (secret, expected) in old.into_iter().zip([true, false]) {
        let anew = Sealed { key_id: "k2".to_owned(), bytes: vec![9] };
        let done =
            write!(store, |tx| secrets::reseal(tx, rotation, &actor(), &secret, anew.clone()));
        assert_eq!(done.unwrap(), expected);
    }
    let left = write!(store, |tx| secrets::sealed_with(tx, rotation, "k1", page)).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].org, left[0].sealed.bytes.as_slice()), (other.org, b"new".as_slice()));
}
on_both!(a_new_key_replaces_only_what_was_read);
