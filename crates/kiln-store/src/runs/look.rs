//! Runs that fit a filter, at a bounded cost: however rare they are, one look reads no more rows than it may.

use kiln_core::id::WorkflowId;

use super::list::{RunFilter, RunStatus, RunSummary, may_see, summary, workflows_meant};
use crate::{Scope, StoreError, Tx, Value};

/// Where to look, and how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// From this run on, without it; from the newest one if there is none.
    pub from: Option<i64>,
    /// Towards newer runs, not older ones.
    pub newer: bool,
    /// How many runs are wanted.
    pub limit: u32,
    /// How many runs are looked at, at most.
    pub most: u32,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Looked {
    /// The newest first.
    pub runs: Vec<RunSummary>,
    /// Where to look further, if there may be more that fit.
    pub further: Option<i64>,
}

impl RunFilter {
    /// What an index leads along in the order of ids. What else is asked is found by looking at what that leads to.
    fn led_by(&self) -> Self {
        if self.ended_since.is_some() {
            // It goes by the end, and has an index for that.
            return self.clone();
        }
        let mut led = Self { repo: self.repo, ..Self::default() };
        if self.workflow.is_some() || self.workflow_named.is_some() {
            led.workflow = self.workflow;
            led.workflow_named.clone_from(&self.workflow_named);
        } else if let Some(open) = self.status.filter(|status| *status != RunStatus::Completed) {
            led.status = Some(open);
        } else if self.repo.is_some() {
            if self.head_sha.is_some() {
                led.head_sha.clone_from(&self.head_sha);
            } else if self.branch.is_some() {
                led.branch.clone_from(&self.branch);
            } else if self.actor.is_some() {
                led.actor.clone_from(&self.actor);
            } else {
                led.event.clone_from(&self.event);
            }
        }
        led
    }

    /// The column that an index of a repository's runs goes by, before ids.
    fn column(&self) -> Option<&'static str> {
        let led = self.led_by();
        [("head_branch", led.branch), ("actor", led.actor), ("event", led.event)]
            .into_iter()
            .find_map(|(column, value)| value.is_some().then_some(column))
            .filter(|_| self.ended_since.is_none())
    }
}

/// Conditions and order by which PostgreSQL finds the index of a column, whatever it believes about the values: in this
/// order, no other index has the rows.
fn along(conditions: &str, column: Option<&str>, order: &str) -> (String, String) {
    let Some(column) = column else {
        return (conditions.to_owned(), format!("id {order}"));
    };
    let start = format!("{column} = ");
    let ranged = |condition: &str| match condition.strip_prefix(&start) {
        Some(value) => format!("{column} >= {value} AND {column} <= {value}"),
        None => condition.to_owned(),
    };
    let all: Vec<String> = conditions.split(" AND ").map(ranged).collect();
    (all.join(" AND "), format!("{column} {order}, id {order}"))
}

/// The next runs that fit.
pub async fn look(
    tx: &mut Tx<'_>,
    scope: Scope,
    filter: &RunFilter,
    look: Look,
) -> Result<Looked, StoreError> {
    may_see(tx, scope, filter).await?;
    let Some(workflows) = workflows_meant(tx, scope, filter).await? else {
        return Ok(Looked::default());
    };
    let edge = edge(tx, scope, filter, &workflows, look).await?;
    let (conditions, mut values) = filter.conditions(scope, &workflows);
    let (from, last, limit) = (values.len() + 1, values.len() + 2, values.len() + 3);
    let (towards, back, order) = look.directions();
    let (conditions, order) = along(&conditions, filter.column(), order);
    values.extend([look.start(), edge.unwrap_or_else(|| look.end()).into()]);
    values.push(look.limit.into());
    let text = format!(
        "{}{conditions}id {towards} ${from} AND id {back} ${last} ORDER BY {order} LIMIT ${limit}",
        super::list::SELECT,
    );
    let rows = tx.rows_of(&text, &values).await?;
    let mut runs = rows.iter().map(summary).collect::<Result<Vec<_>, _>>()?;
    let last = runs.last().filter(|_| runs.len() >= look.limit as usize).map(|run| run.id.0);
    // The run at the edge has not been looked at.
    let beyond = |edge: i64| if look.newer { edge - 1 } else { edge + 1 };
    let further = last.or_else(|| edge.map(beyond));
    if look.newer {
        runs.reverse();
    }
    Ok(Looked { runs, further })
}

impl Look {
    /// How ids compare with where it begins and where it ends, and their order.
    fn directions(self) -> (&'static str, &'static str, &'static str) {
        if self.newer { (">", "<", "ASC") } else { ("<", ">", "DESC") }
    }

    fn start(self) -> Value {
        self.from.unwrap_or(if self.newer { 0 } else { i64::MAX }).into()
    }

    fn end(self) -> i64 {
        if self.newer { i64::MAX } else { 0 }
    }
}

/// The first run that is not looked at any more, if what is asked for is not found by an index alone.
async fn edge(
    tx: &mut Tx<'_>,
    scope: Scope,
    filter: &RunFilter,
    workflows: &[WorkflowId],
    look: Look,
) -> Result<Option<i64>, StoreError> {
    let led = filter.led_by();
    if led == *filter {
        return Ok(None);
    }
    let (conditions, mut values) = led.conditions(scope, workflows);
    let (towards, _, order) = look.directions();
    let (conditions, order) = along(&conditions, led.column(), order);
    values.extend([look.start(), look.most.into()]);
    let (from, most) = (values.len() - 1, values.len());
    let text = format!(
        "SELECT id FROM runs WHERE {conditions}id {towards} ${from} ORDER BY {order} \
         LIMIT 1 OFFSET ${most}"
    );
    let rows = tx.rows_of(&text, &values).await?;
    rows.first().map(|row| row.get(0)).transpose()
}
