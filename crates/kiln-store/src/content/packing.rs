//! Large archives lie as they were sent at first. Later they are cut into chunks, of which those that others
//! have, too, are kept once.

use kiln_core::id::{BlobId, OrgId};

use super::{blobs, garbage};
use crate::directory::scope::Scope;
use crate::{Row, StoreError, Tx};

/// An archive that is not cut yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    pub id: BlobId,
    /// One of those who have it. Its chunks become this one's.
    pub org: OrgId,
    pub hash: Vec<u8>,
    pub size: i64,
    pub place: String,
}

/// What an archive becomes.
#[derive(Debug, Clone)]
pub struct Cut {
    pub recipe: String,
    /// How long that one is.
    pub stored: i64,
    pub packs: Vec<String>,
}

/// The next archives that somebody needs and that are not cut yet, by age.
pub async fn next(
    tx: &mut Tx<'_>,
    scope: Scope,
    after: BlobId,
    limit: u32,
) -> Result<Vec<Whole>, StoreError> {
    scope.system("blob")?;
    let sql = "SELECT b.id, l.org_id, b.hash, b.size, b.place FROM blobs b JOIN blob_links l \
               ON l.blob_id = b.id AND l.org_id = (SELECT min(org_id) FROM blob_links \
               WHERE blob_id = b.id) WHERE substr(b.place, 1, 6) = 'large/' AND b.id > $1 \
               AND b.unused_since IS NULL ORDER BY b.id LIMIT $2";
    let rows = tx.rows(sql, &[after.into(), limit.into()]).await?;
    rows.iter().map(whole).collect()
}

fn whole(row: &Row) -> Result<Whole, StoreError> {
    Ok(Whole {
        id: row.get(0)?,
        org: row.get(1)?,
        hash: row.get(2)?,
        size: row.get(3)?,
        place: row.get(4)?,
    })
}

/// From now on the archive is its chunks, and what was sent goes. If the archive is gone or was cut by
/// somebody else, the recipe goes instead; says whether it stayed.
pub async fn swap(
    tx: &mut Tx<'_>,
    scope: Scope,
    whole: &Whole,
    cut: &Cut,
) -> Result<bool, StoreError> {
    scope.system("blob")?;
    let sql = "UPDATE blobs SET place = $3, stored = $4 WHERE id = $1 AND place = $2";
    let given = [
        whole.id.into(),
        whole.place.as_str().into(),
        cut.recipe.as_str().into(),
        cut.stored.into(),
    ];
    if tx.execute(sql, &given).await? == 0 {
        garbage::remove(tx, vec![(cut.recipe.clone(), cut.stored)]).await?;
        return Ok(false);
    }
    blobs::need(tx, whole.id, &cut.packs).await?;
    garbage::remove(tx, vec![(whole.place.clone(), whole.size)]).await?;
    Ok(true)
}
