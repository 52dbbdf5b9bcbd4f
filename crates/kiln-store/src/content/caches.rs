//! Caches: what a job leaves for later ones, by key.

use std::time::Duration;

use kiln_core::id::{CacheId, JobId, ObjectId, OrgId, RepoId};
use kiln_core::time::Timestamp;

use crate::directory::page::Page;
use crate::directory::scope::Scope;
use crate::directory::{names, repositories};
use crate::{Row, Sql, StoreError, Tx, Value};

use super::garbage::Step;
use super::owned::{is_free, owner, removal};
use super::{objects, owned};

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
    pub hash: Option<Vec<u8>>,
    pub size: i64,
    pub created_at: Timestamp,
    /// `None` while it is uploaded.
    pub finalized_at: Option<Timestamp>,
    pub used_at: Timestamp,
    /// How often it was found.
    pub hits: i64,
    /// The job that writes it.
    pub job: Option<JobId>,
    /// Under which claim.
    pub claim: Option<u32>,
}

/// What makes an entry unique.
#[derive(Debug, Clone)]
pub struct NewCache {
    pub repo: RepoId,
    pub git_ref: String,
    pub trust: String,
    pub key: String,
    pub version: String,
    /// The job that writes it, and under which claim: what it began under an earlier one is given up.
    pub by: Option<(JobId, u32)>,
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
    // 512 characters, of up to four bytes each.
    names::line("the key of a cache", &new.key, 4 * 512)?;
    names::line("the version of a cache", &new.version, 255)?;
    let org = repositories::org_of(tx, scope, new.repo).await?;
    let now = tx.now();
    let given_up = u64::try_from(GIVEN_UP_AFTER.as_millis()).unwrap_or(u64::MAX);
    let (job, claim) = (new.by.map(|by| by.0), new.by.map(|by| by.1));
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
         AND version = $5 AND finalized_at IS NULL \
         AND (created_at < $6 OR (job_id = $7 AND claim < $8))",
        &[repo, trust, git_ref, key, version, old, job.into(), claim.into()],
    )
    .await?;
    let [repo, trust, git_ref, key, version] = unique.clone();
    let made = tx
        .row(
            "INSERT INTO caches (repo_id, trust, ref, key, version, org_id, size, created_at, \
             used_at, job_id, claim) VALUES ($1, $2, $3, $4, $5, $6, 0, $7, $7, $8, $9) \
             ON CONFLICT DO NOTHING RETURNING id",
            &[repo, trust, git_ref, key, version, org.into(), now.into(), job.into(), claim.into()],
        )
        .await?;
    if let Some(row) = made {
        return row.get(0);
    }
    // Whoever did not hear the answer asks again.
    let [repo, trust, git_ref, key, version] = unique;
    let sql = "SELECT id FROM caches WHERE repo_id = $1 AND trust = $2 AND ref = $3 AND key = $4 \
               AND version = $5 AND finalized_at IS NULL AND job_id = $6 AND claim = $7";
    match tx.row(sql, &[repo, trust, git_ref, key, version, job.into(), claim.into()]).await? {
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
    hash: &[u8],
    size: i64,
) -> Result<(), StoreError> {
    names::hash("the hash of a cache", hash)?;
    names::within("the size of a cache", size, 0, kiln_core::id::LIMIT)?;
    let org = get(tx, scope, id).await?.org;
    objects::get(tx, Scope::Org(org), object).await?;
    let sql = "UPDATE caches SET object_id = $2, size = $3, finalized_at = $4, used_at = $4, \
               hash = $5 WHERE id = $1 AND finalized_at IS NULL";
    let row = [id.into(), object.into(), size.into(), tx.now().into(), hash.into()];
    if tx.execute(sql, &row).await? == 0 {
        return names::conflict("the cache is complete already".to_owned());
    }
    Ok(())
}

macro_rules! columns {
    () => {
        "id, org_id, repo_id, ref, trust, key, version, object_id, size, created_at, finalized_at, \
         used_at, hash, hits, job_id, claim"
    };
}

// Below the macro, which it uses.
mod seen;

pub use seen::{
    Filter, Looks, Order, Usage, delete, delete_by_key, looked, looks, search, total, usage,
};

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

/// The best complete entry: for each ref, first the exact key, then what begins with it, then each restore
/// key, newest first. What the job may not read is not even looked at.
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
        if let Some(found) = newest(tx, wanted, git_ref, EXACT, &[&wanted.key]).await? {
            return Ok(Some(found));
        }
        let beginnings = std::iter::once(&wanted.key).chain(&wanted.restore_keys);
        for beginning in beginnings.filter(|key| !key.is_empty()) {
            let range = [beginning.as_str(), &end_of(beginning)];
            if let Some(found) = newest(tx, wanted, git_ref, PREFIX, &range).await? {
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
    newest!("IN (SELECT value FROM json_each($2))", "key >= $5 AND key < $6"),
    newest!("= ANY($2)", "key COLLATE \"C\" >= $5 AND key COLLATE \"C\" < $6"),
);

/// The first text, byte by byte, that is after all that begin so. Keys have no character that would be after
/// the last one.
fn end_of(beginning: &str) -> String {
    let mut end = beginning.to_owned();
    while let Some(last) = end.pop() {
        // The range passes over numbers that are no characters.
        if let Some(next) = (last..=char::MAX).nth(1) {
            end.push(next);
            return end;
        }
    }
    char::MAX.to_string()
}

async fn newest(
    tx: &mut Tx<'_>,
    wanted: &Wanted,
    git_ref: &str,
    sql: Sql,
    keys: &[&str],
) -> Result<Option<Cache>, StoreError> {
    let mut parameters = vec![
        wanted.repo.into(),
        wanted.trusts.iter().map(|trust| names::searchable(trust)).collect(),
        names::searchable(git_ref),
        names::searchable(&wanted.version),
    ];
    parameters.extend(keys.iter().map(|key| names::searchable(key)));
    tx.row(sql, &parameters).await?.as_ref().map(cache).transpose()
}

/// An entry was found. Others are evicted before it from now on, if whoever found it has a say in that.
pub async fn hit(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: CacheId,
    renews: bool,
) -> Result<(), StoreError> {
    let sql = "UPDATE caches SET hits = hits + 1, \
               used_at = CASE WHEN CAST($4 AS BIGINT) = 1 AND used_at < $3 THEN $3 ELSE used_at END \
               WHERE id = $1 AND (org_id = $2 OR $2 IS NULL)";
    let row = [id.into(), scope.parameter(), tx.now().into(), i64::from(renews).into()];
    tx.execute(sql, &row).await?;
    Ok(())
}

/// Removes entries of one trust in a repository until the rest fits into `budget` bytes, `limit` at most, and
/// says what is gone. What others wrote is neither counted nor removed, so that nobody can push out what they
/// could not have written; and neither is what a manifest owns.
///
/// Half of the budget is the default branch's, as far as it has entries for it. What is above that and the
/// entries of all other refs share the rest evenly: of each ref the most recently used stay, and those go first
/// before which its ref has the most bytes. So whoever writes too much pushes out their own.
pub async fn evict(
    tx: &mut Tx<'_>,
    scope: Scope,
    (repo, trust): (RepoId, &str),
    budget: i64,
    limit: u32,
) -> Result<Vec<Cache>, StoreError> {
    repositories::org_of(tx, scope, repo).await?;
    let reserve = budget / 2;
    let row = [repo.into(), budget.into(), names::searchable(trust), limit.into(), reserve.into()];
    let over = tx.rows(TOO_MUCH, &row).await?;
    let removal = removal!("caches", "cache", "", [columns!()]);
    let rows = owned::remove_free(tx, removal, &over).await?;
    let gone = rows.iter().map(cache).collect::<Result<Vec<_>, _>>()?;
    release(tx, &gone).await?;
    Ok(gone)
}

/// `depth` is how many bytes a ref has in an entry and in those that it used later.
const TOO_MUCH: &str = concat!(
    "WITH entries AS (SELECT caches.id AS id, caches.size AS size, caches.used_at AS used_at, ",
    "CASE WHEN ref = 'refs/heads/' || repositories.default_branch THEN 1 ELSE 0 END AS is_default, ",
    "CAST(sum(caches.size) OVER (PARTITION BY ref ORDER BY used_at DESC, caches.id DESC) AS BIGINT) ",
    "AS depth FROM caches JOIN repositories ON repositories.id = caches.repo_id ",
    "WHERE caches.repo_id = $1 AND trust = $3 AND finalized_at IS NOT NULL AND ",
    is_free!("caches", "cache"),
    "), ranked AS (SELECT id, size, used_at, ",
    "CASE WHEN is_default = 1 AND depth - size < $5 THEN 0 ELSE 1 END AS is_shared, ",
    "CASE WHEN is_default = 1 THEN depth - $5 ELSE depth END AS depth FROM entries), ",
    "summed AS (SELECT id, CAST(sum(size) OVER ",
    "(ORDER BY is_shared, depth, used_at DESC, id DESC) AS BIGINT) AS kept FROM ranked) ",
    "SELECT id FROM summed WHERE kept > $2 ORDER BY kept DESC, id LIMIT $4"
);

/// The repositories of which one trust has more bytes than it may, `trusted` or any other.
pub async fn over_budget(
    tx: &mut Tx<'_>,
    scope: Scope,
    trusted: &str,
    [budget, others]: [i64; 2],
    limit: u32,
) -> Result<Vec<(RepoId, String)>, StoreError> {
    scope.system("cache")?;
    let sql = concat!(
        "SELECT repo_id, trust FROM caches WHERE finalized_at IS NOT NULL AND ",
        is_free!("caches", "cache"),
        " GROUP BY repo_id, trust HAVING sum(size) > CASE WHEN trust = $1 THEN CAST($2 AS BIGINT) ",
        "ELSE CAST($3 AS BIGINT) END ORDER BY repo_id, trust LIMIT $4"
    );
    let row = [trusted.into(), budget.into(), others.into(), limit.into()];
    let one = |row: &Row| Ok((row.get(0)?, row.get(1)?));
    tx.rows(sql, &row).await?.iter().map(one).collect()
}

/// Removes entries that were not used since and that no manifest owns, and reservations that were given up.
pub async fn expire(
    tx: &mut Tx<'_>,
    scope: Scope,
    before: Timestamp,
    limit: u32,
) -> Result<Step, StoreError> {
    scope.system("cache")?;
    let given_up = u64::try_from(GIVEN_UP_AFTER.as_millis()).unwrap_or(u64::MAX);
    let given_up = Timestamp(tx.now().0.saturating_sub(given_up));
    let unused = concat!(
        "SELECT id FROM caches WHERE used_at < $1 AND ",
        is_free!("caches", "cache"),
        " ORDER BY used_at LIMIT $2"
    );
    let unfinished = concat!(
        "DELETE FROM caches WHERE id IN (SELECT id FROM caches WHERE finalized_at IS NULL ",
        "AND created_at < $1 ORDER BY created_at LIMIT $2) RETURNING ",
        columns!()
    );
    let unused = tx.rows(unused, &[before.into(), limit.into()]).await?;
    let removal = removal!("caches", "cache", "", [columns!()]);
    let mut rows = owned::remove_free(tx, removal, &unused).await?;
    rows.extend(tx.rows(unfinished, &[given_up.into(), limit.into()]).await?);
    let gone = rows.iter().map(cache).collect::<Result<Vec<_>, _>>()?;
    release(tx, &gone).await?;
    let bytes = gone.iter().map(|cache| cache.size).sum();
    Ok(Step { count: gone.len() as u64, bytes, more: gone.len() >= limit as usize })
}

async fn release(tx: &mut Tx<'_>, gone: &[Cache]) -> Result<(), StoreError> {
    objects::release(tx, gone.iter().filter_map(|cache| cache.object).collect()).await
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
        hash: row.get(12)?,
        hits: row.get(13)?,
        job: row.get(14)?,
        claim: row.get(15)?,
    })
}

#[cfg(test)]
mod tests {
    use super::end_of;

    #[test]
    fn what_begins_alike_lies_before_one_end() {
        for (beginning, end) in
            [("a", "b"), ("linux-", "linux."), ("\u{d7ff}", "\u{e000}"), ("x\u{10ffff}", "y")]
        {
            assert_eq!(end_of(beginning), end);
            assert!(format!("{beginning}\u{10ffff}").as_str() < end);
        }
    }
}
