//! What organizations and repositories may have, and what they have had.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use kiln_core::id::{OrgId, RepoId};
use kiln_core::queue::{HeadStarts, OrgShare, RepoShare, Usage, estimate};

use crate::sql::{Row, Sql};
use crate::tx::millis;
use crate::{StoreError, Tx};

/// What was charged before this is in `usage` by now, or will be as soon as somebody adds it up again. On SQLite charges
/// count as old as the first of them.
const UNFOLDED: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
pub(super) struct Shares {
    pub(super) orgs: HashMap<OrgId, OrgShare>,
    pub(super) repos: HashMap<RepoId, RepoShare>,
    /// How many charges had to be added up to know it.
    pub(super) charges: u32,
}

/// The shares of these repositories and their organizations.
pub(super) async fn shares(
    tx: &mut Tx<'_>,
    repos: &BTreeSet<(OrgId, RepoId)>,
) -> Result<Shares, StoreError> {
    let orgs: BTreeSet<OrgId> = repos.iter().map(|(org, _)| *org).collect();
    let now = millis(tx.now());
    let since = now.saturating_sub(i64::try_from(UNFOLDED.as_millis()).unwrap_or(0));
    let org_keys = orgs.iter().map(|org| vec![org.0.into()]).collect();
    let repo_keys = repos.iter().map(|(_, repo)| vec![repo.0.into()]).collect();
    let questions = [(ORGS, org_keys), (REPOS, repo_keys), (DELTAS, vec![vec![since.into()]])];
    let [orgs, repos, deltas] = tx.rows_together(questions).await?;
    let mut shares = Shares::default();
    for row in orgs {
        let share = OrgShare {
            shares: row.get(1)?,
            consumed: consumed(&row, 4, now)?,
            running: row.get(2)?,
            limit: row.get(3)?,
        };
        shares.orgs.insert(OrgId(row.get(0)?), share);
    }
    for row in repos {
        let own: Option<String> = row.get(2)?;
        let share = RepoShare {
            shares: row.get(1)?,
            consumed: consumed(&row, 4, now)?,
            estimate: estimate(row.get(3)?),
            head_starts: own.and_then(|own| HeadStarts::parse(&own).ok()).unwrap_or_default(),
        };
        shares.repos.insert(RepoId(row.get(0)?), share);
    }
    add_deltas(deltas, &mut shares)?;
    Ok(shares)
}

const ORGS: Sql = Sql::of(
    "SELECT o.id, o.shares, coalesce(l.running, 0), l.job_limit, u.consumed, u.hour
         FROM organizations AS o LEFT JOIN org_loads AS l ON l.org_id = o.id
         LEFT JOIN usage AS u ON u.org_id = o.id AND u.repo_id = 0 WHERE o.id = $1",
    "SELECT o.id, o.shares, coalesce(l.running, 0), l.job_limit, u.consumed, u.hour
         FROM organizations AS o LEFT JOIN org_loads AS l ON l.org_id = o.id
         LEFT JOIN usage AS u ON u.org_id = o.id AND u.repo_id = 0 WHERE o.id = ANY($1)",
);

const REPOS: Sql = Sql::of(
    "SELECT r.id, r.shares, r.priorities, u.typical, u.consumed, u.hour FROM repositories AS r
         LEFT JOIN usage AS u ON u.org_id = r.org_id AND u.repo_id = r.id WHERE r.id = $1",
    "SELECT r.id, r.shares, r.priorities, u.typical, u.consumed, u.hour FROM repositories AS r
         LEFT JOIN usage AS u ON u.org_id = r.org_id AND u.repo_id = r.id WHERE r.id = ANY($1)",
);

const DELTAS: Sql = Sql::of(
    "SELECT org_id, repo_id, sum(seconds), count(*) FROM usage_deltas WHERE at > $1
     GROUP BY org_id, repo_id",
    "SELECT org_id, repo_id, sum(seconds), count(*) FROM usage_deltas WHERE at > ($1::bigint[])[1]
     GROUP BY org_id, repo_id",
);

fn consumed(row: &Row, at: usize, now: i64) -> Result<f64, StoreError> {
    let (consumed, hour): (Option<f64>, Option<i64>) = (row.get(at)?, row.get(at + 1)?);
    Ok(consumed.zip(hour).map_or(0.0, |(consumed, hour)| Usage { consumed, hour }.at(now)))
}

/// What was charged since `usage` was written.
fn add_deltas(deltas: Vec<Row>, shares: &mut Shares) -> Result<(), StoreError> {
    for row in deltas {
        let seconds: f64 = row.get(2)?;
        shares.charges = shares.charges.saturating_add(row.get(3)?);
        if let Some(org) = shares.orgs.get_mut(&OrgId(row.get(0)?)) {
            org.consumed += seconds;
        }
        if let Some(repo) = shares.repos.get_mut(&RepoId(row.get(1)?)) {
            repo.consumed += seconds;
        }
    }
    // What was charged in advance and is given back can come before the charge itself is added up.
    shares.orgs.values_mut().for_each(|org| org.consumed = org.consumed.max(0.0));
    shares.repos.values_mut().for_each(|repo| repo.consumed = repo.consumed.max(0.0));
    Ok(())
}
