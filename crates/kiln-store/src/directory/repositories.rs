//! Repositories: where workflows come from.

use kiln_core::id::{OrgId, RepoId};
use kiln_core::queue::HeadStarts;
use kiln_core::time::Timestamp;
use serde_json::json;

use super::actor::Actor;
use super::audit::{self, Deed};
use super::page::Page;
use super::scope::Scope;
use super::{names, organizations};
use crate::words::words;
use crate::{Refusal, Row, Signal, Sql, StoreError, Tx, Value};

words! {
    /// Who may see a repository.
    Visibility: "a visibility" {
        Private = "private",
        Internal = "internal",
        Public = "public",
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    pub id: RepoId,
    pub org: OrgId,
    pub name: String,
    pub default_branch: String,
    pub enabled: bool,
    pub visibility: Visibility,
    /// How much it gets of what its organization gets.
    pub shares: i64,
    /// JSON; `None` for the default priority classes.
    pub priorities: Option<String>,
    pub forge: Option<String>,
    pub forge_id: Option<String>,
    pub clone_url: Option<String>,
    /// Who paused it and why.
    pub paused: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

#[derive(Debug, Clone)]
pub struct NewRepository {
    pub org: OrgId,
    pub name: String,
    pub default_branch: String,
    pub visibility: Visibility,
    pub forge: Option<String>,
    pub forge_id: Option<String>,
    pub clone_url: Option<String>,
}

impl NewRepository {
    pub fn named(org: OrgId, name: impl Into<String>) -> Self {
        Self {
            org,
            name: name.into(),
            default_branch: "main".to_owned(),
            visibility: Visibility::Private,
            forge: None,
            forge_id: None,
            clone_url: None,
        }
    }
}

/// What is `None` stays as it is.
#[derive(Debug, Clone, Default)]
pub struct RepositoryChange {
    pub name: Option<String>,
    pub default_branch: Option<String>,
    pub visibility: Option<Visibility>,
    pub clone_url: Option<String>,
}

pub async fn create(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    new: NewRepository,
) -> Result<RepoId, StoreError> {
    names::name("a repository", &new.name)?;
    names::line("a branch", &new.default_branch, 255)?;
    names::line_if_any("a forge", new.forge.as_ref(), 100)?;
    names::line_if_any("an id of a forge", new.forge_id.as_ref(), 100)?;
    names::line_if_any("an address to clone from", new.clone_url.as_ref(), 2_000)?;
    organizations::require(tx, scope, new.org).await?;
    let row = [
        new.org.into(),
        new.name.as_str().into(),
        new.default_branch.into(),
        new.visibility.into(),
        new.forge.into(),
        new.forge_id.into(),
        new.clone_url.into(),
        tx.now().into(),
    ];
    let made = tx
        .row(
            "INSERT INTO repositories (org_id, name, default_branch, visibility, forge, forge_id, \
             clone_url, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8) \
             ON CONFLICT DO NOTHING RETURNING id",
            &row,
        )
        .await?;
    let Some(row) = made else { return names::conflict(taken(&new.name)) };
    let id = row.get::<RepoId>(0)?;
    record(tx, actor, new.org, id, "repository.create", json!({ "name": new.name })).await?;
    Ok(id)
}

pub async fn update(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: RepoId,
    change: RepositoryChange,
) -> Result<(), StoreError> {
    if let Some(name) = &change.name {
        names::name("a repository", name)?;
    }
    names::line_if_any("a branch", change.default_branch.as_ref(), 255)?;
    names::line_if_any("an address to clone from", change.clone_url.as_ref(), 2_000)?;
    let org = org_of(tx, scope, id).await?;
    let detail = json!({
        "name": change.name,
        "default_branch": change.default_branch,
        "visibility": change.visibility.map(Visibility::word),
        "clone_url": change.clone_url.as_deref().map(without_credentials),
    });
    let name = change.name.clone().unwrap_or_default();
    let row = [
        id.into(),
        change.name.into(),
        change.default_branch.into(),
        change.visibility.into(),
        change.clone_url.into(),
        tx.now().into(),
    ];
    let changed = tx
        .execute(
            "UPDATE repositories SET name = coalesce($2, name), \
             default_branch = coalesce($3, default_branch), visibility = coalesce($4, visibility), \
             clone_url = coalesce($5, clone_url), updated_at = $6 WHERE id = $1",
            &row,
        )
        .await;
    names::taken(changed, || taken(&name))?;
    record(tx, actor, org, id, "repository.update", detail).await
}

/// User name and password of an address are nobody's business.
pub fn without_credentials(source: &str) -> String {
    let Some((scheme, rest)) = source.split_once("://") else { return source.to_owned() };
    let (host, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    match path {
        Some(path) => format!("{scheme}://{host}/{path}"),
        None => format!("{scheme}://{host}"),
    }
}

/// A disabled repository starts no runs.
pub async fn set_enabled(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: RepoId,
    enabled: bool,
) -> Result<(), StoreError> {
    let sql = "UPDATE repositories SET enabled = $2, updated_at = $3 WHERE id = $1";
    let action = if enabled { "repository.enable" } else { "repository.disable" };
    set(tx, (scope, actor, id), (sql, enabled.into()), action, json!(null)).await
}

/// Its jobs wait, with this reason, until it is resumed.
pub async fn pause(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: RepoId,
    reason: &str,
) -> Result<(), StoreError> {
    names::line("a reason", reason, 500)?;
    let sql = "UPDATE repositories SET paused = $2, updated_at = $3 WHERE id = $1";
    let words = format!("{}: {reason}", actor.shown());
    let detail = json!({ "reason": reason });
    set(tx, (scope, actor, id), (sql, words.into()), "repository.pause", detail).await
}

pub async fn resume(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: RepoId,
) -> Result<(), StoreError> {
    let sql = "UPDATE repositories SET paused = $2, updated_at = $3 WHERE id = $1";
    set(tx, (scope, actor, id), (sql, Value::Null), "repository.resume", json!(null)).await?;
    let sql = "SELECT DISTINCT queue_id FROM lanes WHERE repo_id = $1 AND active = 1";
    for row in tx.rows(sql, &[id.into()]).await? {
        tx.signal(Signal::Work(row.get(0)?));
    }
    Ok(())
}

pub async fn set_shares(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: RepoId,
    shares: i64,
) -> Result<(), StoreError> {
    names::within("shares", shares, 1, organizations::MOST_SHARES)?;
    let sql = "UPDATE repositories SET shares = $2, updated_at = $3 WHERE id = $1";
    let detail = json!({ "shares": shares });
    set(tx, (scope, actor, id), (sql, shares.into()), "repository.set_shares", detail).await
}

/// The head starts of its priority classes, as [`HeadStarts::parse`] reads them; `None` for the usual ones.
pub async fn set_priorities(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: RepoId,
    priorities: Option<&str>,
) -> Result<(), StoreError> {
    if let Some(priorities) = priorities {
        HeadStarts::parse(priorities).map_err(|error| Refusal::Invalid(error.to_string()))?;
    }
    let sql = "UPDATE repositories SET priorities = $2, updated_at = $3 WHERE id = $1";
    let detail = json!({ "priorities": priorities });
    set(tx, (scope, actor, id), (sql, priorities.into()), "repository.set_priorities", detail).await
}

macro_rules! own {
    ($table:literal) => {
        concat!(
            "DELETE FROM ",
            $table,
            " WHERE (scope_kind = 'repo' AND scope_id = $1) OR (scope_kind = 'environment' \
             AND scope_id IN (SELECT id FROM environments WHERE repo_id = $1))"
        )
    };
}

const OWN_SECRETS: &str = own!("secrets");
const OWN_VARIABLES: &str = own!("variables");

/// Removes a repository that nothing was run of, or whose runs are all gone by now. Its workflows, secrets and
/// variables go with it.
pub async fn remove(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: RepoId,
) -> Result<(), StoreError> {
    let found = get(tx, scope, id).await?;
    let sql = "SELECT CASE WHEN EXISTS (SELECT 1 FROM runs WHERE repo_id = $1) THEN 1 \
               WHEN EXISTS (SELECT 1 FROM caches WHERE repo_id = $1) THEN 2 \
               WHEN EXISTS (SELECT 1 FROM artifacts WHERE repo_id = $1) THEN 3 ELSE 0 END";
    let left = match tx.one("repository", sql, &[id.into()]).await?.get::<i64>(0)? {
        0 => None,
        1 => Some("runs"),
        2 => Some("caches"),
        _ => Some("artifacts"),
    };
    if let Some(left) = left {
        let message = format!("the repository has {left}; it can be removed once they are gone");
        return names::conflict(message);
    }
    // They belong to what has the id, which the database does not know.
    for sql in [OWN_SECRETS, OWN_VARIABLES] {
        tx.execute(sql, &[id.into()]).await?;
    }
    tx.execute("DELETE FROM repositories WHERE id = $1", &[id.into()]).await?;
    record(tx, actor, found.org, id, "repository.remove", json!({ "name": found.name })).await
}

/// Changes one column and records it.
async fn set(
    tx: &mut Tx<'_>,
    (scope, actor, id): (Scope, &Actor, RepoId),
    (sql, value): (&'static str, Value),
    action: &'static str,
    detail: serde_json::Value,
) -> Result<(), StoreError> {
    let org = org_of(tx, scope, id).await?;
    tx.execute(sql, &[id.into(), value, tx.now().into()]).await?;
    record(tx, actor, org, id, action, detail).await
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT r.id, r.org_id, r.name, r.default_branch, r.enabled, r.visibility, r.shares, \
             r.priorities, r.forge, r.forge_id, r.clone_url, r.paused, r.created_at, r.updated_at \
             FROM repositories r ",
            $rest
        )
    };
}

pub async fn get(tx: &mut Tx<'_>, scope: Scope, id: RepoId) -> Result<Repository, StoreError> {
    let sql = select!("WHERE r.id = $1 AND (r.org_id = $2 OR $2 IS NULL)");
    repository(&tx.one("repository", sql, &[id.into(), scope.parameter()]).await?)
}

/// What these repositories are called: the owner's name and their own.
pub async fn names_of(
    tx: &mut Tx<'_>,
    ids: &[RepoId],
) -> Result<Vec<(RepoId, String, String)>, StoreError> {
    let sql = Sql::of(
        "SELECT r.id, o.name, r.name FROM repositories AS r JOIN organizations AS o ON o.id = r.org_id
         WHERE r.id IN (SELECT value FROM json_each($1))",
        "SELECT r.id, o.name, r.name FROM repositories AS r JOIN organizations AS o ON o.id = r.org_id
         WHERE r.id = ANY($1)",
    );
    let ids: Value = ids.iter().map(|id| id.0).collect();
    let rows = tx.rows(sql, &[ids]).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).collect()
}

/// By `organization/name`.
pub async fn by_name(
    tx: &mut Tx<'_>,
    scope: Scope,
    full_name: &str,
) -> Result<Repository, StoreError> {
    let Some((org, name)) = full_name.split_once('/') else {
        return Err(Refusal::NotFound("repository").into());
    };
    let sql = select!(
        "JOIN organizations o ON o.id = r.org_id \
         WHERE o.name = $1 AND r.name = $2 AND (o.id = $3 OR $3 IS NULL)"
    );
    let parameters = [names::searchable(org), names::searchable(name), scope.parameter()];
    repository(&tx.one("repository", sql, &parameters).await?)
}

/// By age.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    page: Page,
) -> Result<Vec<Repository>, StoreError> {
    scope.admits(org)?;
    let sql = select!("WHERE r.org_id = $1 AND r.id > $2 ORDER BY r.id LIMIT $3");
    let rows = tx.rows(sql, &[org.into(), page.rising(), page.limit()]).await?;
    rows.iter().map(repository).collect()
}

/// Those that are paused, by `organization/name`, with who paused them and why; by age.
pub async fn paused(
    tx: &mut Tx<'_>,
    scope: Scope,
    page: Page,
) -> Result<Vec<(String, String)>, StoreError> {
    let sql = "SELECT o.name, r.name, r.paused FROM repositories r \
               JOIN organizations o ON o.id = r.org_id \
               WHERE r.paused IS NOT NULL AND (r.org_id = $1 OR $1 IS NULL) AND r.id > $2 \
               ORDER BY r.id LIMIT $3";
    let named = |row: &Row| {
        let (org, name): (String, String) = (row.get(0)?, row.get(1)?);
        Ok((format!("{org}/{name}"), row.get(2)?))
    };
    let rows = tx.rows(sql, &[scope.parameter(), page.rising(), page.limit()]).await?;
    rows.iter().map(named).collect()
}

/// The organization of a repository that the scope can see.
pub(crate) async fn org_of(tx: &mut Tx<'_>, scope: Scope, id: RepoId) -> Result<OrgId, StoreError> {
    let sql = "SELECT org_id FROM repositories WHERE id = $1 AND (org_id = $2 OR $2 IS NULL)";
    tx.one("repository", sql, &[id.into(), scope.parameter()]).await?.get(0)
}

fn taken(name: &str) -> String {
    format!("the organization has a repository `{name}` already")
}

fn repository(row: &Row) -> Result<Repository, StoreError> {
    Ok(Repository {
        id: row.get(0)?,
        org: row.get(1)?,
        name: row.get(2)?,
        default_branch: row.get(3)?,
        enabled: row.get(4)?,
        visibility: row.get(5)?,
        shares: row.get(6)?,
        priorities: row.get(7)?,
        forge: row.get(8)?,
        forge_id: row.get(9)?,
        clone_url: row.get(10)?,
        paused: row.get(11)?,
        created_at: row.get(12)?,
        updated_at: row.get(13)?,
    })
}

async fn record(
    tx: &mut Tx<'_>,
    actor: &Actor,
    org: OrgId,
    id: RepoId,
    action: &'static str,
    detail: serde_json::Value,
) -> Result<(), StoreError> {
    audit::record(tx, actor, Deed { org: Some(org), action, subject: id.0, detail }).await
}

#[cfg(test)]
mod tests {
    use super::without_credentials;

    #[test]
    fn credentials_are_not_shown() {
        let shown = without_credentials("https://me:secret@example.com/a@b");
        assert_eq!(shown, "https://example.com/a@b");
        assert_eq!(without_credentials("/srv/a@b"), "/srv/a@b");
    }
}
