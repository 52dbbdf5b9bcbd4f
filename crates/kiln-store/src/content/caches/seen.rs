//! Caches for people: what there is, how much it is, and away with it.

use kiln_core::id::{CacheId, RepoId};
use serde_json::json;

use super::{Cache, cache, get, release};
use crate::content::owned;
use crate::directory::actor::Actor;
use crate::directory::audit::{self, Deed};
use crate::directory::scope::Scope;
use crate::directory::{names, repositories};
use crate::{Refusal, Row, Sql, StoreError, Tx, Value};

/// Which caches of a repository.
#[derive(Debug, Clone)]
pub struct Filter {
    pub repo: RepoId,
    /// The beginning of their keys.
    pub key: Option<String>,
    pub git_ref: Option<String>,
}

/// Which come first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    Created,
    #[default]
    Used,
    Size,
}

/// What a repository has of one trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    pub trust: String,
    pub count: i64,
    pub bytes: i64,
    /// How often one was found.
    pub hits: i64,
}

macro_rules! fits {
    ($key:literal) => {
        concat!(
            "repo_id = $1 AND finalized_at IS NOT NULL AND (ref = $2 OR $2 IS NULL) AND (",
            $key,
            " OR $3 IS NULL)"
        )
    };
}

macro_rules! fits_on_sqlite {
    () => {
        fits!("substr(key, 1, length($3)) = $3")
    };
}

macro_rules! fits_on_postgres {
    () => {
        fits!("starts_with(key, $3)")
    };
}

/// A statement for each order: `ORDER BY` takes no parameters.
macro_rules! ordered {
    ($order:literal) => {
        Sql::of(
            concat!(
                "SELECT ",
                columns!(),
                " FROM caches WHERE ",
                fits_on_sqlite!(),
                " ORDER BY ",
                $order,
                " LIMIT $4 OFFSET $5"
            ),
            concat!(
                "SELECT ",
                columns!(),
                " FROM caches WHERE ",
                fits_on_postgres!(),
                " ORDER BY ",
                $order,
                " LIMIT $4 OFFSET $5"
            ),
        )
    };
}

impl Filter {
    fn parameters(&self) -> [Value; 3] {
        let text = |text: &Option<String>| text.as_deref().map_or(Value::Null, names::searchable);
        [self.repo.into(), text(&self.git_ref), text(&self.key)]
    }
}

/// Complete caches of a repository.
pub async fn search(
    tx: &mut Tx<'_>,
    scope: Scope,
    filter: &Filter,
    (order, rising): (Order, bool),
    (skip, take): (u32, u32),
) -> Result<Vec<Cache>, StoreError> {
    repositories::org_of(tx, scope, filter.repo).await?;
    let sql = match (order, rising) {
        (Order::Created, true) => ordered!("created_at, id"),
        (Order::Created, false) => ordered!("created_at DESC, id DESC"),
        (Order::Used, true) => ordered!("used_at, id"),
        (Order::Used, false) => ordered!("used_at DESC, id DESC"),
        (Order::Size, true) => ordered!("size, id"),
        (Order::Size, false) => ordered!("size DESC, id DESC"),
    };
    let [repo, git_ref, key] = filter.parameters();
    let rows = tx.rows(sql, &[repo, git_ref, key, take.into(), skip.into()]).await?;
    rows.iter().map(cache).collect()
}

/// How many complete caches of a repository fit.
pub async fn total(tx: &mut Tx<'_>, scope: Scope, filter: &Filter) -> Result<u64, StoreError> {
    repositories::org_of(tx, scope, filter.repo).await?;
    let sql = Sql::of(
        concat!("SELECT count(*) FROM caches WHERE ", fits_on_sqlite!()),
        concat!("SELECT count(*) FROM caches WHERE ", fits_on_postgres!()),
    );
    let count = tx.one("cache", sql, &filter.parameters()).await?.get::<i64>(0)?;
    Ok(u64::try_from(count).unwrap_or_default())
}

/// What a repository has, by trust.
pub async fn usage(tx: &mut Tx<'_>, scope: Scope, repo: RepoId) -> Result<Vec<Usage>, StoreError> {
    repositories::org_of(tx, scope, repo).await?;
    let sql = "SELECT trust, count(*), CAST(sum(size) AS BIGINT), CAST(sum(hits) AS BIGINT) \
               FROM caches WHERE repo_id = $1 AND finalized_at IS NOT NULL GROUP BY trust ORDER BY trust";
    let one = |row: &Row| {
        let (trust, count) = (row.get(0)?, row.get(1)?);
        Ok(Usage { trust, count, bytes: row.get(2)?, hits: row.get(3)? })
    };
    tx.rows(sql, &[repo.into()]).await?.iter().map(one).collect()
}

/// How often jobs of a repository looked for a cache, and what came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Looks {
    pub hits: i64,
    pub misses: i64,
}

/// A job looked for a cache, and found one or none.
pub async fn looked(
    tx: &mut Tx<'_>,
    scope: Scope,
    repo: RepoId,
    found: bool,
) -> Result<(), StoreError> {
    repositories::org_of(tx, scope, repo).await?;
    let sql = "INSERT INTO cache_looks (repo_id, hits, misses) VALUES ($1, $2, $3) \
               ON CONFLICT (repo_id) DO UPDATE SET hits = cache_looks.hits + excluded.hits, \
               misses = cache_looks.misses + excluded.misses";
    tx.execute(sql, &[repo.into(), i64::from(found).into(), i64::from(!found).into()]).await?;
    Ok(())
}

/// How often caches of a repository were looked for.
pub async fn looks(tx: &mut Tx<'_>, scope: Scope, repo: RepoId) -> Result<Looks, StoreError> {
    repositories::org_of(tx, scope, repo).await?;
    let sql = "SELECT hits, misses FROM cache_looks WHERE repo_id = $1";
    let Some(row) = tx.row(sql, &[repo.into()]).await? else { return Ok(Looks::default()) };
    Ok(Looks { hits: row.get(0)?, misses: row.get(1)? })
}

/// Removes a cache that no manifest owns.
pub async fn delete(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    id: CacheId,
) -> Result<Cache, StoreError> {
    let org = get(tx, scope, id).await?.org;
    owned::must_be_free(tx, org, "cache", id.0).await?;
    let sql = concat!("DELETE FROM caches WHERE id = $1 AND org_id = $2 RETURNING ", columns!());
    let Some(row) = tx.row(sql, &[id.into(), org.into()]).await? else {
        return Err(Refusal::NotFound("cache").into());
    };
    let gone = cache(&row)?;
    forget(tx, actor, std::slice::from_ref(&gone)).await?;
    Ok(gone)
}

/// Removes the caches of exactly this key, of all versions and trusts, of one ref or of all.
pub async fn delete_by_key(
    tx: &mut Tx<'_>,
    scope: Scope,
    actor: &Actor,
    (repo, key, git_ref): (RepoId, &str, Option<&str>),
) -> Result<Vec<Cache>, StoreError> {
    repositories::org_of(tx, scope, repo).await?;
    let sql = concat!(
        "DELETE FROM caches WHERE repo_id = $1 AND key = $2 AND (ref = $3 OR $3 IS NULL) RETURNING ",
        columns!()
    );
    let git_ref = git_ref.map_or(Value::Null, names::searchable);
    let rows = tx.rows(sql, &[repo.into(), names::searchable(key), git_ref]).await?;
    let gone = rows.iter().map(cache).collect::<Result<Vec<_>, _>>()?;
    for cache in &gone {
        owned::must_be_free(tx, cache.org, "cache", cache.id.0).await?;
    }
    forget(tx, actor, &gone).await?;
    Ok(gone)
}

async fn forget(tx: &mut Tx<'_>, actor: &Actor, gone: &[Cache]) -> Result<(), StoreError> {
    release(tx, gone).await?;
    for cache in gone {
        let detail = json!({ "key": cache.key, "ref": cache.git_ref, "size": cache.size });
        let deed =
            Deed { org: Some(cache.org), action: "cache.delete", subject: cache.id.0, detail };
        audit::record(tx, actor, deed).await?;
    }
    Ok(())
}
