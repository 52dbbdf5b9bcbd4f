//! Tags of objects: given, taken away, and moved from one object to another.

use kiln_core::id::{ObjectId, OrgId};

use super::objects::{self, MOST_TAGS, checked};
use crate::directory::names;
use crate::directory::scope::Scope;
use crate::{Row, Sql, StoreError, Tx, Value};

/// How the tags of an object change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    pub add: Vec<String>,
    pub remove: Vec<String>,
    /// Those that are added belong to this object alone from now on: others of the organization lose them.
    pub alone: bool,
}

/// Changes the tags of an object. Of two who move a tag at the same time, one comes second and has it.
pub async fn change(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: ObjectId,
    change: &Change,
) -> Result<(), StoreError> {
    let (add, remove) = (checked(&change.add)?, checked(&change.remove)?);
    let org = objects::get(tx, scope, id).await?.org;
    lock(tx, org).await?;
    let sql = "DELETE FROM object_tags WHERE object_id = $1 AND tag = $2";
    for tag in remove {
        tx.execute(sql, &[id.into(), tag.into()]).await?;
    }
    for tag in add {
        if change.alone {
            let sql = "DELETE FROM object_tags WHERE org_id = $1 AND tag = $2 AND object_id <> $3";
            tx.execute(sql, &[org.into(), tag.into(), id.into()]).await?;
        }
        let sql = "INSERT INTO object_tags (object_id, org_id, tag) VALUES ($1, $2, $3) \
                   ON CONFLICT DO NOTHING";
        tx.execute(sql, &[id.into(), org.into(), tag.into()]).await?;
    }
    let sql = "SELECT count(*) FROM object_tags WHERE object_id = $1";
    let count = tx.one("object", sql, &[id.into()]).await?.get::<i64>(0)?;
    if usize::try_from(count).unwrap_or(usize::MAX) > MOST_TAGS {
        return names::invalid(format!("{count} tags are too many; expected {MOST_TAGS} at most"));
    }
    Ok(())
}

/// One at a time in an organization. Those who only make objects do not wait.
async fn lock(tx: &mut Tx<'_>, org: OrgId) -> Result<(), StoreError> {
    let sql = Sql::of(
        "SELECT 1 FROM organizations WHERE id = $1",
        "SELECT 1 FROM organizations WHERE id = $1 FOR NO KEY UPDATE",
    );
    tx.one("organization", sql, &[org.into()]).await.map(drop)
}

/// A tag, and how many objects have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    pub tag: String,
    pub objects: i64,
}

/// The tags of an organization that begin like this, in order, after one of them.
pub async fn list(
    tx: &mut Tx<'_>,
    scope: Scope,
    org: OrgId,
    beginning: &str,
    after: &str,
    limit: u32,
) -> Result<Vec<Tag>, StoreError> {
    scope.admits(org)?;
    let sql = "SELECT tag, count(*) FROM object_tags WHERE org_id = $1 \
               AND substr(tag, 1, length(CAST($2 AS TEXT))) = $2 AND tag > $3 GROUP BY tag ORDER BY tag LIMIT $4";
    let parameters: [Value; 4] =
        [org.into(), names::searchable(beginning), names::searchable(after), limit.into()];
    let tag = |row: &Row| Ok(Tag { tag: row.get(0)?, objects: row.get(1)? });
    tx.rows(sql, &parameters).await?.iter().map(tag).collect()
}
