//! Concurrency groups from their own side: their members exist, hold them and wait for them.

use std::collections::{BTreeMap, BTreeSet};

use kiln_core::run::Step;

use super::rows::{Member, members_of};
use super::{Report, Rule};
use crate::runs::{Order, What};
use crate::sql::{Sql, Value};
use crate::{StoreError, Tx};

/// How many groups are read at once.
const GROUPS: i64 = 1_000;

/// How a member stands: the repository and group that it names, and its state.
type Standing = (i64, Option<String>, String);

/// Checks the groups behind `after`. Returns the last one if there may be more.
pub(super) async fn check(
    tx: &mut Tx<'_>,
    after: (i64, String),
    report: &mut Report,
) -> Result<Option<(i64, String)>, StoreError> {
    let sql = "SELECT repo_id, name, members FROM groups WHERE (repo_id, name) > ($1, $2)
               ORDER BY repo_id, name LIMIT $3";
    let rows = tx.rows(sql, &[after.0.into(), after.1.into(), GROUPS.into()]).await?;
    let mut groups: Vec<(i64, String, Vec<Member>)> = Vec::new();
    for row in &rows {
        // One that cannot be read was found with the runs that are in it.
        let members = members_of(&row.get::<String>(2)?).unwrap_or_default();
        groups.push((row.get(0)?, row.get(1)?, members));
    }
    let all: BTreeSet<Member> =
        groups.iter().flat_map(|(_, _, members)| members.iter().copied()).collect();
    let standing = standing(tx, &all).await?;
    let admitted = admitted(tx).await?;
    for (repo, name, members) in &groups {
        let subject = format!("group `{name}` of repository {repo}");
        let mut find = |text: String| report.find(Rule::Group, subject.clone(), text);
        if members.is_empty() {
            find("it has no members".to_owned());
        }
        if members.iter().collect::<BTreeSet<_>>().len() < members.len() {
            find(format!("a member is in it twice: {members:?}"));
        }
        for (at, member) in members.iter().enumerate() {
            let Some((of, group, state)) = standing.get(member) else {
                find(format!("its member {member:?} does not exist"));
                continue;
            };
            if of != repo || group.as_ref() != Some(name) {
                find(format!("its member {member:?} says that it is in {group:?} of {of}"));
            }
            let waits = matches!(state.as_str(), "gated" | "group");
            let right = if at == 0 { !waits || admitted.contains(member) } else { waits };
            if state == "done" || !right {
                find(format!("its member {member:?}, number {at}, is {state}"));
            }
        }
    }
    report.groups += groups.len() as u64;
    let full = i64::try_from(groups.len()) == Ok(GROUPS);
    Ok(groups.pop().filter(|_| full).map(|(repo, name, _)| (repo, name)))
}

async fn standing(
    tx: &mut Tx<'_>,
    members: &BTreeSet<Member>,
) -> Result<BTreeMap<Member, Standing>, StoreError> {
    let mut found = BTreeMap::new();
    let runs = Sql::of(
        "SELECT r.id, t.repo_id, t.group_name, t.state FROM runs AS r
         JOIN run_attempts AS t ON t.run_id = r.id AND t.attempt = r.attempt WHERE r.id = $1",
        "SELECT r.id, t.repo_id, t.group_name, t.state FROM unnest($1::bigint[]) AS u (id)
         JOIN runs AS r ON r.id = u.id
         JOIN run_attempts AS t ON t.run_id = r.id AND t.attempt = r.attempt",
    );
    let keys: Vec<Vec<Value>> = members
        .iter()
        .filter(|(_, leg)| leg.is_none())
        .map(|(run, _)| vec![(*run).into()])
        .collect();
    for row in tx.rows_all(runs, &keys).await? {
        found.insert((row.get(0)?, None), (row.get(1)?, row.get(2)?, row.get(3)?));
    }
    let jobs = Sql::of(
        "SELECT r.id, j.number, r.repo_id, j.group_name, j.state FROM runs AS r
         JOIN jobs AS j ON j.run_id = r.id AND j.attempt = r.attempt
         WHERE r.id = $1 AND j.number = $2",
        "SELECT r.id, j.number, r.repo_id, j.group_name, j.state
         FROM unnest($1::bigint[], $2::bigint[]) AS u (id, number)
         JOIN runs AS r ON r.id = u.id
         JOIN jobs AS j ON j.run_id = r.id AND j.attempt = r.attempt AND j.number = u.number",
    );
    let legs = members.iter().filter_map(|(run, leg)| Some((*run, (*leg)?)));
    let keys: Vec<Vec<Value>> = legs.map(|(run, leg)| vec![run.into(), leg.into()]).collect();
    for row in tx.rows_all(jobs, &keys).await? {
        let member = (row.get(0)?, Some(row.get(1)?));
        found.insert(member, (row.get(2)?, row.get(3)?, row.get(4)?));
    }
    Ok(found)
}

/// Members that hold a group, and will hear of it from the outbox.
async fn admitted(tx: &mut Tx<'_>) -> Result<BTreeSet<Member>, StoreError> {
    let sql = "SELECT run_id, payload FROM outbox
               WHERE kind IN ('admit', 'continue') AND run_id IS NOT NULL";
    let mut admitted = BTreeSet::new();
    for row in tx.rows(sql, &[]).await? {
        let Ok(order) = serde_json::from_str::<Order>(&row.get::<String>(1)?) else { continue };
        let leg = match order.what {
            What::Admit { leg } => leg,
            What::Continue { step: Step::Admit(leg) } => Some(leg),
            _ => continue,
        };
        admitted.insert((row.get(0)?, leg.map(i64::from)));
    }
    Ok(admitted)
}
