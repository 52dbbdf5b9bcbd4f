//! Caches: what a job leaves for later ones, by key.

use std::time::Duration;

use kiln_core::id::{CacheId, ObjectId, OrgId, RepoId};
use kiln_core::time::Timestamp;

use crate::directory::page::Page;
use crate::directory::scope::Scope;
use crate::directory::{names, repositories};
use crate::{Row, Sql, StoreError, Tx, Value};

use super::objects;

/// A reservation that was not finished in this time was given up.
const GIVEN_UP_AFTER: Duration = Duration::from_hours(6);
/// How many keys, refs and trusts a look-up may name.
const MOST: usize = 32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    pub id: CacheId,
    pub org: OrgId,
    pub repo: RepoId,
    /// The ref of the run that wrote it.
    pub git_ref: String,
    /// The trust of the run that wrote it.
    pub trust: String,
    pub key: String,
    pub version: String,
    pub object: Option<ObjectId>,
    pub size: i64,
    pub created_at: Timestamp,
    /// `None` while it is uploaded.
    pub finalized_at: Option<Timestamp>,
    pub used_at: Timestamp,
}

/// What makes an entry unique.
#[derive(Debug, Clone)]
pub struct NewCache {
    pub repo: RepoId,
    pub git_ref: String,
    pub trust: String,
    pub key: String,
    pub version: String,
}

/// What a job looks for.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub repo: RepoId,
    /// Whose entries it may read.
    pub trusts: Vec<String>,
    /// Its own ref, then those it inherits from, nearest first.
    pub refs: Vec<String>,
    pub key: String,
    /// Beginnings of keys that will do, best first.
    pub restore_keys: Vec<String>,
    pub version: String,
}

/// Reserves a key. Entries never change, so one that exists is refused.
pub async fn reserve(tx: &mut Tx<'_>, scope: Scope, new: NewCache) -> Result<CacheId, StoreError> {
    names::line("a ref", &new.git_ref, 255)?;
    names::line("a trust", &new.trust, 50)?;
    names::line("the key of a cache", &new.key, 512)?;
    names::line("the version of a cache", &new.version, 255)?;
    let org = repositories::org_of(tx, scope, new.repo).await?;
    let now = tx.now();
    let given_up = u64::try_from(GIVEN_UP_AFTER.as_millis()).unwrap_or(u64::MAX);
    let unique: [Value; 5] = [
        new.repo.into(),
        new.trust.into(),
        new.git_ref.into(),
        new.key.as_str().into(),
        new.version.into(),
    ];
    let [repo, trust, git_ref, key, version] = unique.clone();
    let old = Timestamp(now.0.saturating_sub(given_up)).into();
    tx.execute(
        "DELETE FROM caches WHERE repo_id = $1 AND trust = $2 AND ref = $3 AND key = $4 \
         AND version = $5 AND finalized_at IS NULL AND created_at < $6",
        &[repo, trust, git_ref, key, version, old],
    )
    .await?;
    let [repo, trust, git_ref, key, version] = unique;
    let made = tx
        .row(
            "INSERT INTO caches (repo_id, trust, ref, key, version, org_id, size, created_at, \
             used_at) VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $7) ON CONFLICT DO NOTHING RETURNING id",
            &[repo, trust, git_ref, key, version, org.into(), now.into()],
        )
        .await?;
    match made {
        Some(row) => row.get(0),
        None => names::conflict(format!("the cache `{}` exists already", new.key)),
    }
}

/// The upload is complete. Done once.
pub async fn finalize(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: CacheId,
    object: ObjectId,
    size: i64,
) -> Result<(), StoreError> {
    names::within("the size of a cache", size, 0, kiln_core::id::LIMIT)?;
    let org = get(tx, scope, id).await?.org;
    objects::get(tx, Scope::Org(org), object).await?;
    let sql = "UPDATE caches SET object_id = $2, size = $3, finalized_at = $4 \
               WHERE id = $1 AND finalized_at IS NULL";
    let row = [id.into(), object.into(), size.into(), tx.now().into()];
    if tx.execute(sql, &row).await? == 0 {
        return names::conflict("the cache is complete already".to_owned());
    }
    Ok(())
}

macro_rules! columns {
    () => {
        "id, org_id, repo_id, ref, trust, key, version, object_id, size, created_at, finalized_at, \
         used_at"
    };
}

pub async fn get(tx: &mut Tx<'_>, scope: Scope, id: CacheId) -> Result<Cache, StoreError> {
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM caches WHERE id = $1 AND (org_id = $2 OR $2 IS NULL)"
    );
    cache(&tx.one("cache", sql, &[id.into(), scope.parameter()]).await?)
}

/// The caches of a repository, the newest first.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    repo: RepoId,
    page: Page,
) -> Result<Vec<Cache>, StoreError> {
    repositories::org_of(tx, scope, repo).await?;
    let sql = concat!(
        "SELECT ",
        columns!(),
        " FROM caches WHERE repo_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3"
    );
    let rows = tx.rows(sql, &[repo.into(), page.falling(), page.limit()]).await?;
    rows.iter().map(cache).collect()
}

/// The best complete entry: for each ref, first the exact key, then each restore key, newest first. What
/// the job may not read is not even looked at.
pub async fn look_up(
    tx: &mut Tx<'_>,
    scope: Scope,
    wanted: &Wanted,
) -> Result<Option<Cache>, StoreError> {
    let most = wanted.restore_keys.len().max(wanted.refs.len()).max(wanted.trusts.len());
    if most > MOST {
        return names::invalid(format!("{most} keys or refs are too many; expected up to {MOST}"));
    }
    repositories::org_of(tx, scope, wanted.repo).await?;
    for git_ref in &wanted.refs {
        if let Some(found) = newest(tx, wanted, git_ref, EXACT, &wanted.key).await? {
            return Ok(Some(found));
        }
        for beginning in wanted.restore_keys.iter().filter(|key| !key.is_empty()) {
            if let Some(found) = newest(tx, wanted, git_ref, PREFIX, beginning).await? {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}

macro_rules! newest {
    ($trusts:literal, $key:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM caches WHERE repo_id = $1 AND trust ",
            $trusts,
            " AND ref = $3 AND version = $4 AND finalized_at IS NOT NULL AND ",
            $key,
            " ORDER BY finalized_at DESC, id DESC LIMIT 1"
        )
    };
}

const EXACT: Sql = Sql::of(
    newest!("IN (SELECT value FROM json_each($2))", "key = $5"),
    newest!("= ANY($2)", "key = $5"),
);
const PREFIX: Sql = Sql::of(
    newest!("IN (SELECT value FROM json_each($2))", "substr(key, 1, length($5)) = $5"),
    newest!("= ANY($2)", "starts_with(key, $5)"),
);

async fn newest(
    tx: &mut Tx<'_>,
    wanted: &Wanted,
    git_ref: &str,
    sql: Sql,
    key: &str,
) -> Result<Option<Cache>, StoreError> {
    let parameters = [
        wanted.repo.into(),
        wanted.trusts.iter().map(|trust| names::searchable(trust)).collect(),
        names::searchable(git_ref),
        names::searchable(&wanted.version),
        names::searchable(key),
    ];
    tx.row(sql, &parameters).await?.as_ref().map(cache).transpose()
}

/// An entry was used, so others are evicted before it.
pub async fn touch(tx: &mut Tx<'_>, scope: Scope, id: CacheId) -> Result<(), StoreError> {
    let sql = "UPDATE caches SET used_at = $3 WHERE id = $1 AND (org_id = $2 OR $2 IS NULL) \
               AND used_at < $3";
    tx.execute(sql, &[id.into(), scope.parameter(), tx.now().into()]).await?;
    Ok(())
}

/// Removes the least recently used entries of a repository until the rest fits into `budget` bytes, and
/// says what is gone.
pub async fn evict(
    tx: &mut Tx<'_>,
    scope: Scope,
    repo: RepoId,
    budget: i64,
) -> Result<Vec<Cache>, StoreError> {
    repositories::org_of(tx, scope, repo).await?;
    let sql = concat!(
        "DELETE FROM caches WHERE id IN (SELECT id FROM (SELECT id, ",
        "CAST(sum(size) OVER (ORDER BY used_at DESC, id DESC) AS BIGINT) AS kept ",
        "FROM caches WHERE repo_id = $1 AND finalized_at IS NOT NULL) AS by_use WHERE kept > $2) ",
        "RETURNING ",
        columns!()
    );
    tx.rows(sql, &[repo.into(), budget.into()]).await?.iter().map(cache).collect()
}

fn cache(row: &Row) -> Result<Cache, StoreError> {
    Ok(Cache {
        id: row.get(0)?,
        org: row.get(1)?,
        repo: row.get(2)?,
        git_ref: row.get(3)?,
        trust: row.get(4)?,
        key: row.get(5)?,
        version: row.get(6)?,
        object: row.get(7)?,
        size: row.get(8)?,
        created_at: row.get(9)?,
        finalized_at: row.get(10)?,
        used_at: row.get(11)?,
    })
}
