//! What runners must know of jobs that wait, remembered by the server that let them wait.
//!
//! A claim on PostgreSQL then brings it along without asking for it. None of it ever changes: what a job needs has ended
//! before the job waits, and of a run only what was so from its beginning is kept. What people can change, such as names,
//! is read each time. On SQLite the writer remembers whole runs instead: see [`Memory`](super::Memory).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use kiln_core::id::{JobId, RunId, WorkflowId};
use kiln_core::run::{Leg, LegState, Neighbourhood, NodeNo};
use kiln_core::value::Object;

use super::assignments::{Assignment, RunFacts, has_secrets, neighbourhood};
use super::facts::Facts;
use super::open::{Batch, Open};
use crate::cache::Cache;
use crate::claims::Claimed;
use crate::sql::{Row, Sql, Value};
use crate::{StoreError, Tx};

/// How many nodes, and how many runs.
const MOST: usize = 8_192;
/// How many bytes of outputs and inputs a node may see to be remembered. Others have next to none.
const MOST_SEEN: usize = 4 << 10;

/// Clones share what they remember.
#[derive(Clone)]
pub(super) struct Ready {
    nodes: Arc<Cache<(RunId, u32, NodeNo), Arc<Node>>>,
    runs: Arc<Cache<(RunId, u32), Arc<RunFacts>>>,
}

/// What all legs of a node see.
struct Node {
    hood: Neighbourhood,
    facts: Facts,
}

impl Default for Ready {
    fn default() -> Self {
        Self { nodes: Arc::new(Cache::new(MOST)), runs: Arc::new(Cache::new(MOST)) }
    }
}

impl Ready {
    /// Remembers, after the commit, what legs see that wait from now on.
    pub(super) fn note_queued(&self, tx: &mut Tx<'_>, batch: &Batch) {
        if !tx.is_postgres() {
            return;
        }
        let new: Vec<_> = batch.runs.values().flat_map(|open| queued_nodes(open)).collect();
        if new.is_empty() {
            return;
        }
        let nodes = Arc::clone(&self.nodes);
        tx.after_commit(move || new.into_iter().for_each(|(key, node)| nodes.put(key, node)));
    }

    /// Remembers a run that is new, after the commit.
    pub(super) fn note_run(&self, tx: &mut Tx<'_>, run: RunFacts) {
        if tx.is_postgres() {
            let known = self.clone();
            tx.after_commit(move || known.learn(&Arc::new(run)));
        }
    }

    /// Remembers a run whose rows were read.
    pub(super) fn learn(&self, run: &Arc<RunFacts>) {
        self.runs.put((run.id, run.attempt), Arc::clone(run));
    }

    /// What the runners of these must know, as far as it is remembered, in the same order.
    pub(super) async fn assign(
        &self,
        tx: &mut Tx<'_>,
        claimed: &[Claimed],
        legs: &HashMap<JobId, Leg>,
    ) -> Result<Vec<Option<Assignment>>, StoreError> {
        let recalled: Vec<_> = claimed.iter().map(|one| self.recall(one, legs)).collect();
        let found = recalled.iter().flatten().map(|(_, _, run)| run.workflow);
        let places = places(tx, found.collect()).await?;
        let assignment = |recalled: Option<(Arc<Node>, &Leg, Arc<RunFacts>)>| {
            let (node, leg, run) = recalled?;
            let mut hood = node.hood.clone();
            hood.legs.insert(leg.number, leg.clone());
            Some(Assignment {
                hood: Arc::new(hood),
                leg: leg.number,
                plan: node.facts.plan.plan.clone(),
                evaluator: node.facts.evaluator.clone(),
                run: Arc::new(places.get(&run.workflow)?.of(&run)),
            })
        };
        Ok(recalled.into_iter().map(assignment).collect())
    }

    fn recall<'l>(
        &self,
        claimed: &Claimed,
        legs: &'l HashMap<JobId, Leg>,
    ) -> Option<(Arc<Node>, &'l Leg, Arc<RunFacts>)> {
        let leg = legs.get(&claimed.job)?;
        let node = self.nodes.get(&(claimed.run, claimed.attempt, leg.node))?;
        Some((node, leg, self.runs.get(&(claimed.run, claimed.attempt))?))
    }
}

/// The nodes of legs that wait from now on, if all that those see is at hand.
fn queued_nodes(open: &Open) -> Vec<((RunId, u32, NodeNo), Arc<Node>)> {
    let queued = open.changed_legs().filter(|leg| leg.state == LegState::Queued);
    let first: BTreeMap<NodeNo, &Leg> = queued.map(|leg| (leg.node, leg)).collect();
    let seen = |(number, leg): (NodeNo, &Leg)| {
        let mut hood = neighbourhood(&open.hood, &[leg.number].into())?;
        if seen_bytes(&hood) > MOST_SEEN {
            return None;
        }
        hood.legs.remove(&leg.number);
        let node = Node { hood, facts: open.facts.clone() };
        Some(((open.id(), open.hood.run.attempt, number), Arc::new(node)))
    };
    first.into_iter().filter_map(seen).collect()
}

/// How much of what people and jobs have said is in there.
fn seen_bytes(hood: &Neighbourhood) -> usize {
    let outputs = hood.nodes.values().flat_map(|node| &node.outputs);
    let outputs: usize = outputs.map(|(name, value)| name.len() + value.len()).sum();
    let matrices = hood.legs.values().map(|leg| &leg.matrix);
    let objects = hood.scopes.values().map(|scope| &scope.inputs).chain(matrices);
    let written = |object: &Object| serde_json::to_string(object).map_or(0, |text| text.len());
    outputs + objects.filter(|object| !object.is_empty()).map(written).sum::<usize>()
}

/// What people can change of where a run belongs.
pub(super) struct Place {
    org_name: String,
    repo_name: String,
    default_branch: String,
    clone_url: Option<String>,
    workflow_path: String,
    workflow_name: String,
    has_secrets: bool,
}

impl Place {
    /// A run as it is there now.
    pub(super) fn of(&self, run: &RunFacts) -> RunFacts {
        RunFacts {
            org_name: self.org_name.clone(),
            repo_name: self.repo_name.clone(),
            default_branch: self.default_branch.clone(),
            clone_url: self.clone_url.clone(),
            workflow_path: self.workflow_path.clone(),
            workflow_name: self.workflow_name.clone(),
            has_secrets: self.has_secrets,
            ..run.clone()
        }
    }
}

macro_rules! places {
    ($whose:literal) => {
        concat!(
            "SELECT w.id, o.name, p.name, p.default_branch, p.clone_url, w.path, w.name, ",
            has_secrets!(),
            " FROM workflows AS w JOIN repositories AS p ON p.id = w.repo_id
         JOIN organizations AS o ON o.id = w.org_id
     WHERE ",
            $whose
        )
    };
}

const PLACES: Sql = Sql::of(places!("w.id = $1"), places!("w.id = ANY($1)"));

pub(super) async fn places(
    tx: &mut Tx<'_>,
    workflows: BTreeSet<WorkflowId>,
) -> Result<BTreeMap<WorkflowId, Place>, StoreError> {
    let keys: Vec<Vec<Value>> = workflows.into_iter().map(|id| vec![id.0.into()]).collect();
    let place = |row: &Row| {
        let place = Place {
            org_name: row.get(1)?,
            repo_name: row.get(2)?,
            default_branch: row.get(3)?,
            clone_url: row.get(4)?,
            workflow_path: row.get(5)?,
            workflow_name: row.get(6)?,
            has_secrets: row.get(7)?,
        };
        Ok((row.get(0)?, place))
    };
    tx.rows_all(PLACES, &keys).await?.iter().map(place).collect()
}
