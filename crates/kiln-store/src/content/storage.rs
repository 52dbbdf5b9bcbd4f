//! Who uses how much.

use kiln_core::id::{OrgId, RunId};

use crate::directory::scope::Scope;
use crate::{Row, Sql, StoreError, Tx, Value};

/// The bytes of one kind of things.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use {
    pub org: OrgId,
    pub owner: String,
    /// What belongs to no repository has none.
    pub repository: Option<String>,
    /// `artifact`, `cache`, `log`, or the type of objects that are none of them.
    pub kind: String,
    pub count: i64,
    /// What can be read; of what two share, each has all.
    pub bytes: i64,
}

/// What the bytes of all take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    pub blobs: i64,
    /// What could be read of all blobs that are not packs.
    pub bytes: i64,
    /// What they take where they are kept, each counted once.
    pub stored: i64,
    /// Bytes that still have to be removed from where they are kept.
    pub removals: i64,
}

/// What organizations, their repositories and each kind of things use, the most first.
pub async fn uses(tx: &mut Tx<'_>, scope: Scope, most: u32) -> Result<Vec<Use>, StoreError> {
    let sql = "SELECT o.id, o.name, r.name, u.kind, count(*), \
               CAST(coalesce(sum(u.size), 0) AS BIGINT) AS bytes FROM (\
               SELECT org_id, repo_id, 'artifact' AS kind, size FROM artifacts \
               UNION ALL SELECT org_id, repo_id, 'cache', size FROM caches \
               UNION ALL SELECT x.org_id, NULL, x.type, b.size FROM objects x \
               JOIN blobs b ON b.id = x.blob_id \
               WHERE NOT EXISTS (SELECT 1 FROM artifacts WHERE object_id = x.id) \
               AND NOT EXISTS (SELECT 1 FROM caches WHERE object_id = x.id)) AS u \
               JOIN organizations o ON o.id = u.org_id LEFT JOIN repositories r ON r.id = u.repo_id \
               WHERE (o.id = $1 OR $1 IS NULL) \
               GROUP BY o.id, o.name, r.name, u.kind ORDER BY bytes DESC, o.id, u.kind LIMIT $2";
    let one = |row: &Row| {
        Ok(Use {
            org: row.get(0)?,
            owner: row.get(1)?,
            repository: row.get(2)?,
            kind: row.get(3)?,
            count: row.get(4)?,
            bytes: row.get(5)?,
        })
    };
    tx.rows(sql, &[scope.parameter(), most.into()]).await?.iter().map(one).collect()
}

/// What all of it takes. Only Kiln itself knows that.
pub async fn kept(tx: &mut Tx<'_>, scope: Scope) -> Result<Kept, StoreError> {
    scope.system("blob")?;
    let sql = "SELECT count(*), \
               CAST(coalesce(sum(CASE WHEN place LIKE 'packs/%' THEN 0 ELSE size END), 0) AS BIGINT), \
               CAST(coalesce(sum(coalesce(stored, size)), 0) AS BIGINT), \
               (SELECT CAST(coalesce(sum(stored), 0) AS BIGINT) FROM removals) FROM blobs";
    let row = tx.one("blob", sql, &[]).await?;
    Ok(Kept { blobs: row.get(0)?, bytes: row.get(1)?, stored: row.get(2)?, removals: row.get(3)? })
}

/// Whose these runs are, as uses of `log` that count nothing yet. Only Kiln itself asks for those of all.
pub async fn of_runs(
    tx: &mut Tx<'_>,
    scope: Scope,
    runs: &[RunId],
) -> Result<Vec<(RunId, Use)>, StoreError> {
    scope.system("run")?;
    let sql = Sql::of(
        "SELECT r.id, o.id, o.name, p.name FROM runs r JOIN organizations o ON o.id = r.org_id \
         JOIN repositories p ON p.id = r.repo_id WHERE r.id IN (SELECT value FROM json_each($1))",
        "SELECT r.id, o.id, o.name, p.name FROM runs r JOIN organizations o ON o.id = r.org_id \
         JOIN repositories p ON p.id = r.repo_id WHERE r.id = ANY($1)",
    );
    let ids: Value = runs.iter().map(|run| run.0).collect();
    let one = |row: &Row| {
        let (org, owner, repository) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let kind = "log".to_owned();
        Ok((RunId(row.get(0)?), Use { org, owner, repository, kind, count: 0, bytes: 0 }))
    };
    tx.rows(sql, &[ids]).await?.iter().map(one).collect()
}
