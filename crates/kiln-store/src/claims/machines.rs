//! The runners that are registered, as far as matching is concerned.

use std::collections::HashMap;
use std::sync::Arc;

use kiln_core::id::{OrgId, RunnerId};
use kiln_core::queue::{Capabilities, Offer};

use crate::directory::runners::OFFLINE_AFTER;
use crate::tx::millis;
use crate::{Row, StoreError, Tx};

/// How many runners are looked at: those that were heard of last.
const MOST: u32 = 10_000;

#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) id: RunnerId,
    /// `None` when it is shared.
    pub(crate) org: Option<OrgId>,
    pub(crate) name: String,
    pub(crate) pool: String,
    /// Runners that have the same share it.
    pub(crate) has: Arc<Capabilities>,
    pub(crate) slots: u32,
    /// It is there, and takes jobs.
    pub(crate) is_live: bool,
}

impl Machine {
    /// Whether it takes jobs of this organization.
    pub(crate) fn admits(&self, org: OrgId) -> bool {
        self.org.is_none_or(|own| own == org)
    }
}

pub(crate) async fn machines(tx: &mut Tx<'_>) -> Result<Vec<Machine>, StoreError> {
    let since = millis(tx.now()) - i64::try_from(OFFLINE_AFTER.as_millis()).unwrap_or(0);
    let sql = "SELECT r.id, r.org_id, r.name, p.name, r.capabilities, r.max_parallel, r.draining,
                   r.last_seen_at
               FROM runners AS r JOIN pools AS p ON p.id = r.pool_id
               WHERE r.unregistered_at IS NULL ORDER BY r.last_seen_at DESC, r.id LIMIT $1";
    let mut known: HashMap<(String, String), Arc<Capabilities>> = HashMap::new();
    let mut machine = |row: &Row| {
        let (pool, text): (String, String) = (row.get(3)?, row.get(4)?);
        let has = known.entry((pool.clone(), text));
        let has = has.or_insert_with_key(|(pool, text)| Arc::new(read(pool, text)));
        Ok(Machine {
            id: row.get(0)?,
            org: row.get(1)?,
            name: row.get(2)?,
            has: Arc::clone(has),
            pool,
            slots: row.get(5)?,
            is_live: !row.get::<bool>(6)? && row.get::<i64>(7)? > since,
        })
    };
    tx.rows(sql, &[MOST.into()]).await?.iter().map(&mut machine).collect()
}

/// What a runner says of itself was checked when it came; one that cannot be read has nothing.
fn read(pool: &str, text: &str) -> Capabilities {
    let offer = Capabilities::parse(text).unwrap_or_default().offer().clone();
    let offer = Offer { pool: Some(pool.to_owned()), ..offer };
    Capabilities::new(offer).unwrap_or_default()
}
