//! What waits for a concurrency group: runs and jobs that are not in any queue, because another one goes first.

use std::collections::{BTreeMap, BTreeSet};

use kiln_core::id::{JobId, RepoId, RunId};
use kiln_core::run::{Group, Member};

use super::list::{RunSummary, SELECT, summary};
use super::load::group_of;
use crate::{Row, Scope, Sql, StoreError, Tx, Value};

/// How many groups are read at once.
const GROUPS: u32 = 500;

/// Which of what waits for groups is asked for; all that are set must be true of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holds {
    pub repo: Option<RepoId>,
    pub run: Option<RunId>,
    /// What comes after this one.
    pub after: Option<HeldPlace>,
}

/// Where something that waits for a group stands among all that do: the run, and which of its legs. It stays the same
/// while others come and go.
pub type HeldPlace = (RunId, Option<u32>);

/// A run, or one job of it, that waits for a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub place: HeldPlace,
    pub run: RunSummary,
    pub group: String,
    /// The job that waits; the whole run if there is none.
    pub job: Option<(JobId, String)>,
    /// Which run has the group now.
    pub holder: Option<RunSummary>,
    /// How many wait before it.
    pub before: usize,
}

macro_rules! groups {
    ($count:literal) => {
        concat!(
            "SELECT g.name, g.members, g.repo_id FROM groups AS g JOIN repositories AS r ON r.id = g.repo_id \
             WHERE (r.org_id = $1 OR $1 IS NULL) AND \
             (g.repo_id = $2 OR $2 IS NULL) AND (g.repo_id, g.name) > ($4, $5) AND ",
            $count,
            " > 1 ORDER BY g.repo_id, g.name LIMIT $3"
        )
    };
}

/// What the scope sees of it, what was made first in front.
pub async fn held(
    tx: &mut Tx<'_>,
    scope: Scope,
    holds: Holds,
    limit: usize,
) -> Result<Vec<Held>, StoreError> {
    let waiting = first_of(tx, scope, holds, limit).await?;
    let members =
        waiting.iter().flat_map(|(member, _, _, holder)| Some(*member).into_iter().chain(*holder));
    let runs: BTreeSet<i64> = members.filter_map(|member| i64::try_from(member.run).ok()).collect();
    let runs = summaries(tx, &runs).await?;
    let legs = legs(tx, waiting.iter().map(|(member, ..)| *member)).await?;
    let of = |member: Member| runs.get(&member.run).cloned();
    let shown = waiting.into_iter().filter_map(|(member, before, group, holder)| {
        let job = legs.get(&member).cloned();
        Some(Held {
            place: place(member),
            run: of(member)?,
            group,
            job,
            holder: holder.and_then(of),
            before,
        })
    });
    Ok(shown.collect())
}

/// One that waits, how many wait before it, the group, and who has that.
type Waiting = (Member, usize, String, Option<Member>);

/// The first that wait, of all groups in which any do. They come in the order of their runs, not of their groups: each group
/// must be looked at, a piece of them at a time, and no more is held than is wanted.
async fn first_of(
    tx: &mut Tx<'_>,
    scope: Scope,
    holds: Holds,
    limit: usize,
) -> Result<Vec<Waiting>, StoreError> {
    let sql = Sql::of(
        groups!("json_array_length(g.members)"),
        groups!("json_array_length(g.members::json)"),
    );
    let wanted = |member: Member| {
        let place = place(member);
        holds.run.is_none_or(|run| run == place.0) && holds.after.is_none_or(|after| place > after)
    };
    let repo = holds.repo.map(|repo| repo.0);
    let (mut waiting, mut last): (Vec<Waiting>, _) = (Vec::new(), (-1_i64, String::new()));
    loop {
        let (at, name) = (last.0.into(), (&last.1).into());
        let rows = tx.rows(sql, &[scope.parameter(), repo.into(), GROUPS.into(), at, name]).await?;
        for row in &rows {
            let (name, group): (String, Group) = (row.get(0)?, group_of(&row.get::<String>(1)?)?);
            let holder = group.holder();
            let own = group.waiting().enumerate().filter(|(_, member)| wanted(*member));
            waiting.extend(own.map(|(before, member)| (member, before, name.clone(), holder)));
            last = (row.get(2)?, name);
        }
        waiting.sort_by_key(|(member, ..)| place(*member));
        waiting.truncate(limit);
        if rows.len() < GROUPS as usize {
            return Ok(waiting);
        }
    }
}

fn place(member: Member) -> HeldPlace {
    (RunId(i64::try_from(member.run).unwrap_or(i64::MAX)), member.leg)
}

async fn summaries(
    tx: &mut Tx<'_>,
    runs: &BTreeSet<i64>,
) -> Result<BTreeMap<u64, RunSummary>, StoreError> {
    let which = if tx.is_postgres() { "= ANY($1)" } else { "IN (SELECT value FROM json_each($1))" };
    let ids: Value = runs.iter().copied().collect();
    let rows = tx.rows_of(&format!("{SELECT}id {which}"), &[ids]).await?;
    let named = |row: &Row| summary(row).map(|run| (run.id.0.unsigned_abs(), run));
    rows.iter().map(named).collect()
}

/// Ids and names of the jobs among these.
async fn legs(
    tx: &mut Tx<'_>,
    members: impl Iterator<Item = Member>,
) -> Result<BTreeMap<Member, (JobId, String)>, StoreError> {
    let sql = Sql::of(
        "SELECT run_id, attempt, number, id, name FROM jobs WHERE run_id = $1 AND attempt = $2 AND number = $3",
        "SELECT j.run_id, j.attempt, j.number, j.id, j.name
         FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (run_id, attempt, number)
         CROSS JOIN LATERAL (
             SELECT * FROM jobs AS j WHERE j.run_id = u.run_id AND j.attempt = u.attempt AND j.number = u.number
             OFFSET 0
         ) AS j",
    );
    let key = |member: Member| {
        let run = i64::try_from(member.run).ok()?;
        Some(vec![run.into(), member.attempt.into(), member.leg?.into()])
    };
    let keys: Vec<Vec<Value>> = members.filter_map(key).collect();
    if keys.is_empty() {
        return Ok(BTreeMap::new());
    }
    let leg = |row: &Row| {
        let run = row.get::<i64>(0)?.unsigned_abs();
        let member = Member { run, attempt: row.get(1)?, leg: Some(row.get(2)?) };
        Ok((member, (row.get(3)?, row.get(4)?)))
    };
    tx.rows_all(sql, &keys).await?.iter().map(leg).collect()
}

/// The group of each of these runs that has one, in its current attempt. Whoever asks may see them.
pub async fn groups_of(
    tx: &mut Tx<'_>,
    runs: &[RunId],
) -> Result<BTreeMap<RunId, String>, StoreError> {
    if runs.is_empty() {
        return Ok(BTreeMap::new());
    }
    let sql = Sql::of(
        "SELECT r.id, a.group_name FROM runs AS r JOIN run_attempts AS a ON a.run_id = r.id AND a.attempt = r.attempt
         WHERE r.id IN (SELECT value FROM json_each($1)) AND a.group_name IS NOT NULL",
        "SELECT r.id, a.group_name FROM runs AS r JOIN run_attempts AS a ON a.run_id = r.id AND a.attempt = r.attempt
         WHERE r.id = ANY($1) AND a.group_name IS NOT NULL",
    );
    let ids: Value = runs.iter().map(|run| run.0).collect();
    let rows = tx.rows(sql, &[ids]).await?;
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect()
}
