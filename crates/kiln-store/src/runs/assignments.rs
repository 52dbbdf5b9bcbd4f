//! All that is needed to give claimed jobs to their runners, without loading whole runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kiln_core::id::{OrgId, RepoId, RunId, WorkflowId};
use kiln_core::plan::Plan;
use kiln_core::queue::Policy;
use kiln_core::run::{Evaluator, LegNo, Neighbourhood, NodeNo, Wanted};
use kiln_core::time::Timestamp;

use super::facts::{Facts, Known};
use super::open::{Batch, Open};
use super::ready::places;
use super::rows::{self, ATTEMPTS, FromStep};
use super::{Runs, load};
use crate::claims::{self, Asking, Claimed, Given};
use crate::sql::{Row, Sql, Value};
use crate::{StoreError, Tx};

/// A claimed job, with what its expressions see.
#[derive(Clone)]
pub struct Assignment {
    /// The leg with its job, what that needs, its workflow, and the same of all who call it. Jobs of one
    /// run share it.
    pub hood: Arc<Neighbourhood>,
    pub leg: LegNo,
    pub plan: Arc<Plan>,
    /// What the program made of the text that was given when the run was created.
    pub evaluator: Arc<dyn Evaluator + Send + Sync>,
    pub run: Arc<RunFacts>,
}

impl std::fmt::Debug for Assignment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assignment")
            .field("run", &self.run)
            .field("leg", &self.leg)
            .finish_non_exhaustive()
    }
}

/// What is known of a run beside its plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFacts {
    pub id: RunId,
    /// Within its workflow.
    pub number: i64,
    pub attempt: u32,
    /// The run that this one was made from.
    pub root: Option<RunId>,
    pub event: String,
    /// Who triggered it first.
    pub actor: String,
    /// Who triggered this attempt.
    pub triggering_actor: String,
    pub trust: String,
    pub reference: String,
    pub head_sha: String,
    pub head_branch: Option<String>,
    pub title: String,
    pub created: Timestamp,
    pub org: OrgId,
    pub org_name: String,
    pub repo: RepoId,
    pub repo_name: String,
    pub default_branch: String,
    pub clone_url: Option<String>,
    pub workflow: WorkflowId,
    pub workflow_path: String,
    pub workflow_name: String,
    /// Its repository or organization keeps secrets. Those of an environment are not looked for.
    pub has_secrets: bool,
    /// The job that begins late in this attempt.
    pub from: Option<FromStep>,
}

impl Runs {
    /// Claims jobs. The answers have at once what their runners must know, as far as it is remembered here.
    pub(crate) async fn claim(
        &self,
        policy: Policy,
        asking: Vec<Asking>,
    ) -> Result<(Given, Vec<Vec<Option<Assignment>>>), StoreError> {
        let known = self.known.clone();
        let work = async move |tx: &mut Tx<'_>| {
            let given = claims::claim(tx, policy, &asking).await?;
            let all: Vec<Claimed> = given.jobs.iter().flatten().cloned().collect();
            let assigned = if tx.memory().is_some() {
                assign(tx, &known, &all).await?
            } else {
                known.recent.note_claims(tx, &given);
                known.ready.assign(tx, &all, &given.legs).await?
            };
            let mut assigned = assigned.into_iter();
            let of = |jobs: &Vec<Claimed>| assigned.by_ref().take(jobs.len()).collect();
            let assigned = given.jobs.iter().map(of).collect();
            Ok((given, assigned))
        };
        self.store.write(work).await
    }

    /// What the runners that claimed these must know, in the same order. A claim that is over by now has
    /// none.
    pub async fn assignments(
        &self,
        claimed: &[Claimed],
    ) -> Result<Vec<Option<Assignment>>, StoreError> {
        let (known, claimed) = (self.known.clone(), claimed.to_vec());
        let work = async move |tx: &mut Tx<'_>| assign(tx, &known, &claimed).await;
        self.store.read(work).await
    }
}

/// A run as the expressions of some of its legs see it.
#[derive(Clone)]
struct Seen {
    hood: Arc<Neighbourhood>,
    facts: Facts,
}

/// What is to be known of these claims, in the same order.
pub(crate) async fn assign(
    tx: &mut Tx<'_>,
    known: &Known,
    claimed: &[Claimed],
) -> Result<Vec<Option<Assignment>>, StoreError> {
    let mut asked: BTreeMap<(RunId, u32), BTreeSet<LegNo>> = BTreeMap::new();
    for one in claimed {
        asked.entry((one.run, one.attempt)).or_default().insert(one.number);
    }
    let facts = run_facts(tx, known, &asked.keys().copied().collect::<Vec<_>>()).await?;
    let mut seen = recalled(tx, known, &asked).await?;
    asked.retain(|(run, _), _| !seen.contains_key(run));
    seen.extend(read(tx, known, asked).await?);
    let assignment = |one: &Claimed| {
        let Seen { hood, facts: given } = seen.get(&one.run)?;
        let leg = hood.legs.get(&one.number)?;
        if leg.attempt != one.claim || !leg.state.is_held() || hood.run.attempt != one.attempt {
            return None;
        }
        Some(Assignment {
            hood: hood.clone(),
            leg: one.number,
            plan: given.plan.plan.clone(),
            evaluator: given.evaluator.clone(),
            run: facts.get(&one.run)?.clone(),
        })
    };
    Ok(claimed.iter().map(assignment).collect())
}

/// Those of which the one writer of an embedded database remembers all that is asked for.
async fn recalled(
    tx: &mut Tx<'_>,
    known: &Known,
    asked: &BTreeMap<(RunId, u32), BTreeSet<LegNo>>,
) -> Result<BTreeMap<RunId, Seen>, StoreError> {
    let mut seen = BTreeMap::new();
    let Some(memory) = tx.memory() else { return Ok(seen) };
    let mut found = Vec::new();
    for ((run, attempt), legs) in asked {
        if let Some(open) = memory.recall(*run, *attempt)
            && let Some(hood) = neighbourhood(&open.hood, legs)
        {
            found.push((*run, open.attempt.clone(), hood));
        }
    }
    for (run, attempt, hood) in found {
        let facts = known.facts(tx, run, hood.run.attempt, &attempt).await?;
        seen.insert(run, Seen { hood: Arc::new(hood), facts });
    }
    Ok(seen)
}

/// What the expressions of these legs can see of a run: see [`gather`]. None unless all of it is there.
pub(super) fn neighbourhood(
    known: &Neighbourhood,
    legs: &BTreeSet<LegNo>,
) -> Option<Neighbourhood> {
    let mut hood = Neighbourhood::new(known.run.clone());
    let mut left: Vec<LegNo> = legs.iter().copied().collect();
    while let Some(number) = left.pop() {
        let leg = known.legs.get(&number)?;
        let node = known.nodes.get(&leg.node)?;
        let scope = known.scopes.get(&node.scope)?;
        for need in &node.needs {
            hood.nodes.insert(*need, known.nodes.get(need)?.clone());
        }
        left.extend(scope.caller.filter(|caller| !hood.legs.contains_key(caller)));
        hood.legs.insert(number, leg.clone());
        hood.nodes.insert(leg.node, node.clone());
        hood.scopes.insert(node.scope, scope.clone());
    }
    Some(hood)
}

/// The others, from their rows.
async fn read(
    tx: &mut Tx<'_>,
    known: &Known,
    asked: BTreeMap<(RunId, u32), BTreeSet<LegNo>>,
) -> Result<BTreeMap<RunId, Seen>, StoreError> {
    if asked.is_empty() {
        return Ok(BTreeMap::new());
    }
    let key = |(run, attempt): &(RunId, u32)| vec![(*run).into(), (*attempt).into()];
    let mut batch = look_at(tx, known, &asked.keys().map(key).collect::<Vec<_>>()).await?;
    let legs = asked.into_iter().map(|((run, _), legs)| (run, legs));
    let legs = legs.filter(|(run, _)| batch.runs.contains_key(run)).collect();
    gather(tx, &mut batch, &legs).await?;
    let seen = |(run, open): (RunId, Box<Open>)| {
        let Open { hood, facts, .. } = *open;
        (run, Seen { hood: Arc::new(hood), facts })
    };
    Ok(batch.runs.into_iter().map(seen).collect())
}

/// The attempts of these runs, without locking them and without any of their other rows.
pub(super) async fn look_at(
    tx: &mut Tx<'_>,
    known: &Known,
    keys: &[Vec<Value>],
) -> Result<Batch, StoreError> {
    let mut batch = Batch::default();
    for row in tx.rows_all(ATTEMPTS.select(), keys).await? {
        let (id, number, attempt) = rows::attempt_facts(&row)?;
        let facts = known.facts(tx, id, number, &attempt).await?;
        let run = rows::attempt_of(&row, facts.plan.plan.clone())?;
        batch.runs.insert(id, Box::new(Open::new(run, attempt, facts)));
    }
    Ok(batch)
}

/// Brings what the expressions of these legs can see, step by step: their nodes, the scopes of those and
/// what they need, and then the same of the legs that call their scopes. Calls are not nested deeply.
async fn gather(
    tx: &mut Tx<'_>,
    batch: &mut Batch,
    asked: &BTreeMap<RunId, BTreeSet<LegNo>>,
) -> Result<(), StoreError> {
    let mut legs = asked.clone();
    while !legs.is_empty() {
        let wanted: Vec<(RunId, Wanted)> = legs
            .iter()
            .map(|(run, legs)| (*run, Wanted { glances: legs.clone(), ..Wanted::default() }))
            .collect();
        load::bring(tx, batch, &wanted).await?;
        // Their nodes bring their scopes with them.
        let nodes = for_each(batch, &legs, |open, leg| {
            open.hood.legs.get(&leg).map(|leg| leg.node).into_iter().collect()
        });
        bring_nodes(tx, batch, nodes).await?;
        let needs = for_each(batch, &legs, |open, leg| {
            let node = open.hood.legs.get(&leg).and_then(|leg| open.hood.nodes.get(&leg.node));
            node.map(|node| node.needs.clone()).unwrap_or_default()
        });
        bring_nodes(tx, batch, needs).await?;
        legs = for_each(batch, &legs, |open, leg| {
            let node = open.hood.legs.get(&leg).and_then(|leg| open.hood.nodes.get(&leg.node));
            let scope = node.and_then(|node| open.hood.scopes.get(&node.scope));
            let caller = scope.and_then(|scope| scope.caller);
            caller.filter(|caller| !open.hood.legs.contains_key(caller)).into_iter().collect()
        });
    }
    Ok(())
}

/// The rows that these legs lead to, by run; runs without any are left out.
fn for_each(
    batch: &Batch,
    legs: &BTreeMap<RunId, BTreeSet<LegNo>>,
    lead: impl Fn(&Open, LegNo) -> Vec<u32>,
) -> BTreeMap<RunId, BTreeSet<u32>> {
    let of_run = |(run, legs): (&RunId, &BTreeSet<LegNo>)| {
        let open = &batch.runs[run];
        (*run, legs.iter().flat_map(|leg| lead(open, *leg)).collect::<BTreeSet<u32>>())
    };
    legs.iter().map(of_run).filter(|(_, found)| !found.is_empty()).collect()
}

async fn bring_nodes(
    tx: &mut Tx<'_>,
    batch: &mut Batch,
    nodes: BTreeMap<RunId, BTreeSet<NodeNo>>,
) -> Result<(), StoreError> {
    let wanted: Vec<(RunId, Wanted)> = nodes
        .into_iter()
        .map(|(run, nodes)| (run, Wanted { nodes, ..Wanted::default() }))
        .collect();
    load::bring(tx, batch, &wanted).await
}

/// Whether the repository `p` or its organization `o` keeps secrets.
macro_rules! has_secrets {
    () => {
        "CASE WHEN EXISTS (
             SELECT 1 FROM secrets AS s WHERE s.scope_kind = 'org' AND s.scope_id = o.id
         ) OR EXISTS (
             SELECT 1 FROM secrets AS s WHERE s.scope_kind = 'repo' AND s.scope_id = p.id
         ) THEN 1 ELSE 0 END"
    };
}
pub(super) use has_secrets;

macro_rules! facts {
    ($rest:literal) => {
        concat!(
            "SELECT r.id, r.run_number, a.attempt, r.root_run_id, r.event, r.actor, a.actor, a.trust, r.ref,
                 r.head_sha, r.head_branch, r.title, r.created_at, o.id, o.name, p.id, p.name,
                 p.default_branch, p.clone_url, w.id, w.path, w.name, ",
            has_secrets!(),
            ", a.from_node, a.from_step ",
            $rest
        )
    };
}

const FACTS: Sql = Sql::of(
    facts!(
        "FROM runs AS r JOIN run_attempts AS a ON a.run_id = r.id AND a.attempt = $2
         JOIN organizations AS o ON o.id = r.org_id JOIN repositories AS p ON p.id = r.repo_id
         JOIN workflows AS w ON w.id = r.workflow_id WHERE r.id = $1"
    ),
    facts!(
        "FROM unnest($1::bigint[], $2::bigint[]) AS u (run_id, attempt)
         CROSS JOIN LATERAL (SELECT * FROM runs AS r WHERE r.id = u.run_id OFFSET 0) AS r
         CROSS JOIN LATERAL (
             SELECT * FROM run_attempts AS a WHERE a.run_id = u.run_id AND a.attempt = u.attempt OFFSET 0
         ) AS a
         JOIN organizations AS o ON o.id = r.org_id JOIN repositories AS p ON p.id = r.repo_id
         JOIN workflows AS w ON w.id = r.workflow_id"
    ),
);

/// What is to be known of these attempts of runs. Of those that the writer of an embedded database remembers, only what people
/// can change is read again.
async fn run_facts(
    tx: &mut Tx<'_>,
    known: &Known,
    asked: &[(RunId, u32)],
) -> Result<BTreeMap<RunId, Arc<RunFacts>>, StoreError> {
    let (mut before, mut keys) = (Vec::new(), Vec::new());
    for (run, attempt) in asked {
        match tx.memory().and_then(|memory| memory.about(*run, *attempt)) {
            Some(about) => before.push(about),
            None => keys.push(vec![(*run).into(), (*attempt).into()]),
        }
    }
    let mut facts = BTreeMap::new();
    for row in tx.rows_all(FACTS, &keys).await? {
        let read = Arc::new(facts_of(&row)?);
        if tx.is_postgres() {
            known.ready.learn(&read);
        } else if let Some(memory) = tx.memory() {
            memory.learn(&read);
        }
        facts.insert(read.id, read);
    }
    let places = places(tx, before.iter().map(|run| run.workflow).collect()).await?;
    for run in before {
        if let Some(place) = places.get(&run.workflow) {
            facts.insert(run.id, Arc::new(place.of(&run)));
        }
    }
    Ok(facts)
}

fn facts_of(row: &Row) -> Result<RunFacts, StoreError> {
    Ok(RunFacts {
        id: row.get(0)?,
        number: row.get(1)?,
        attempt: row.get(2)?,
        root: row.get(3)?,
        event: row.get(4)?,
        actor: row.get(5)?,
        triggering_actor: row.get(6)?,
        trust: row.get(7)?,
        reference: row.get(8)?,
        head_sha: row.get(9)?,
        head_branch: row.get(10)?,
        title: row.get(11)?,
        created: row.get(12)?,
        org: row.get(13)?,
        org_name: row.get(14)?,
        repo: row.get(15)?,
        repo_name: row.get(16)?,
        default_branch: row.get(17)?,
        clone_url: row.get(18)?,
        workflow: row.get(19)?,
        workflow_path: row.get(20)?,
        workflow_name: row.get(21)?,
        has_secrets: row.get(22)?,
        from: FromStep::of(row.get(23)?, row.get(24)?),
    })
}
