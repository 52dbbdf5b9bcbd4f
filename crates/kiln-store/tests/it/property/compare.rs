//! What a store has of runs, against the rows in memory, and against itself.

use std::collections::{BTreeMap, BTreeSet};

use kiln_core::id::{JobId, RunId};
use kiln_core::run::{Leg, LegState, Neighbourhood, Node, NodeState, RunState, Wait};
use kiln_store::runs::{self, JobView, RunView};
use kiln_store::{Row, StoreError, Tx};

use super::Both;

/// The tables that must agree with the rows of runs; numbers of three columns each.
type Places = BTreeSet<(i64, i64, i64)>;

#[derive(Debug, Default)]
struct Tables {
    views: Vec<RunView>,
    /// Job, attempt, number.
    queue: Places,
    /// Job, claim, runner.
    leases: Places,
    /// Run, attempt, number.
    timers: Places,
    groups: BTreeMap<String, String>,
    /// By run: number, needs that remain, open legs.
    nodes: Vec<Places>,
    /// By run: number, open jobs, whether it was stopped.
    scopes: Vec<Places>,
    outbox: i64,
    /// Status and conclusion of each run in lists.
    lists: Vec<(String, Option<String>)>,
}

impl Both {
    pub(super) async fn compare(&mut self, deed: &str) {
        let tables = self.tables().await;
        for (view, hood) in tables.views.iter().zip(self.fleet.runs.values()) {
            for job in &view.jobs {
                self.jobs.insert((hood.run.id, view.attempt, job.number), job.id);
            }
            compare_run(view, hood, deed);
        }
        let hoods = || self.fleet.runs.values();
        let nodes: Vec<Places> =
            hoods().map(|hood| hood.nodes.values().map(counts).collect()).collect();
        assert_eq!(tables.nodes, nodes, "{deed}");
        let scopes = |hood: &Neighbourhood| {
            let scope = |scope: &kiln_core::run::Scope| {
                (i64::from(scope.number), i64::from(scope.open), i64::from(scope.cancelled))
            };
            hood.scopes.values().map(scope).collect()
        };
        assert_eq!(tables.scopes, hoods().map(scopes).collect::<Vec<_>>(), "{deed}");
        let groups = |(name, group): (&String, &kiln_core::run::Group)| {
            let member = |member: kiln_core::run::Member| {
                let leg = member.leg.map_or_else(|| "null".to_owned(), |leg| leg.to_string());
                format!("[{},{},{leg}]", member.run, member.attempt)
            };
            let members: Vec<String> = group.members().map(member).collect();
            (name.clone(), format!("[{}]", members.join(",")))
        };
        let groups: BTreeMap<_, _> = self.fleet.groups.iter().map(groups).collect();
        assert_eq!(tables.groups, groups, "{deed}");
        assert_eq!(usize::try_from(tables.outbox).unwrap(), self.fleet.outbox.len(), "{deed}");
        tables.agree_with_themselves(deed);
    }

    async fn tables(&self) -> Tables {
        let runs: Vec<i64> =
            self.fleet.runs.keys().map(|run| i64::try_from(*run).unwrap()).collect();
        let repo = self.site.repo.0;
        let read = async move |tx: &mut Tx<'_>| read_tables(tx, &runs, repo).await;
        self.site.store().read(read).await.unwrap()
    }
}

async fn read_tables(tx: &mut Tx<'_>, runs: &[i64], repo: i64) -> Result<Tables, StoreError> {
    let mut tables = Tables::default();
    let mine = |row: &(i64, i64, i64)| runs.contains(&JobId(row.0).run().0);
    let queue = triples(&tx.rows("SELECT job_id, attempt, number FROM queue", &[]).await?)?;
    tables.queue = queue.into_iter().filter(mine).collect();
    let leases = triples(&tx.rows("SELECT job_id, claim, runner_id FROM leases", &[]).await?)?;
    tables.leases = leases.into_iter().filter(mine).collect();
    let timers = triples(&tx.rows("SELECT run_id, attempt, number FROM timers", &[]).await?)?;
    tables.timers = timers.into_iter().filter(|row| runs.contains(&row.0)).collect();
    let sql = "SELECT name, members FROM groups WHERE repo_id = $1";
    for row in tx.rows(sql, &[repo.into()]).await? {
        tables.groups.insert(row.get(0)?, row.get(1)?);
    }
    for run in runs {
        let view = runs::view(tx, kiln_testkit::runs::SYSTEM, RunId(*run), None).await?;
        let key = [(*run).into(), view.attempt.into()];
        let sql = "SELECT number, needs_remaining, open_legs FROM run_nodes WHERE run_id = $1 AND attempt = $2";
        tables.nodes.push(triples(&tx.rows(sql, &key).await?)?);
        let sql = "SELECT number, open, stopped FROM run_scopes WHERE run_id = $1 AND attempt = $2";
        tables.scopes.push(triples(&tx.rows(sql, &key).await?)?);
        let sql = "SELECT count(*) FROM outbox WHERE run_id = $1";
        tables.outbox += tx.one("count", sql, &key[..1]).await?.get::<i64>(0)?;
        let sql = "SELECT status, conclusion FROM runs WHERE id = $1";
        let row = tx.one("run", sql, &key[..1]).await?;
        tables.lists.push((row.get(0)?, row.get(1)?));
        tables.views.push(view);
    }
    Ok(tables)
}

fn triples(rows: &[Row]) -> Result<Places, StoreError> {
    rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).collect()
}

/// As the row of a node has them.
fn counts(node: &Node) -> (i64, i64, i64) {
    let (needs, legs) = match node.state {
        NodeState::Pending { needs_remaining } => (needs_remaining, 0),
        NodeState::Active { open_legs, .. } => (0, open_legs),
        NodeState::Done(_) => (0, 0),
    };
    (i64::from(node.number), i64::from(needs), i64::from(legs))
}

fn compare_run(view: &RunView, hood: &Neighbourhood, deed: &str) {
    let run = &hood.run;
    assert_eq!(view.state, run.state, "{deed}");
    assert_eq!((view.attempt, &view.group), (run.attempt, &run.group), "{deed}");
    let cancel = run.cancel.as_ref();
    assert_eq!(view.cancelled_by, cancel.map(|cancel| cancel.by.clone()), "{deed}");
    assert_eq!(view.cancel_reason, cancel.map(|cancel| cancel.reason.clone()), "{deed}");
    assert_eq!(view.nodes.len(), hood.nodes.len(), "{deed}");
    for (there, here) in view.nodes.iter().zip(hood.nodes.values()) {
        let end = match here.state {
            NodeState::Done(conclusion) => Some(conclusion),
            _ => None,
        };
        assert_eq!((there.number, there.scope), (here.number, here.scope), "{deed}");
        assert_eq!(there.conclusion, end, "{deed}: {here:?}");
        assert_eq!((&there.outputs, &there.note), (&here.outputs, &here.note), "{deed}");
    }
    assert_eq!(view.jobs.len(), hood.legs.len(), "{deed}");
    for (there, here) in view.jobs.iter().zip(hood.legs.values()) {
        compare_job(there, here, deed);
    }
}

/// All but the times, which are the store's own.
fn compare_job(there: &JobView, here: &Leg, deed: &str) {
    let timeless = |state: &LegState| match state {
        LegState::Waiting(Wait::Backoff { .. }) => {
            LegState::Waiting(Wait::Backoff { until: kiln_core::time::Timestamp(0) })
        }
        other => other.clone(),
    };
    assert_eq!((there.number, there.node), (here.number, here.node), "{deed}");
    assert_eq!(timeless(&there.state), timeless(&here.state), "{deed}: {here:?}");
    let counts = (here.attempt, here.retries, here.losses, here.cancelling);
    assert_eq!((there.claim, there.retries, there.losses, there.cancelling), counts, "{deed}");
    assert_eq!((&there.outputs, &there.note), (&here.outputs, &here.note), "{deed}");
    let (now, then) = (there.timings, here.timings);
    let known = [now.queued, now.claimed, now.started, now.ended].map(|time| time.is_some());
    let expect = [then.queued, then.claimed, then.started, then.ended].map(|time| time.is_some());
    assert_eq!(known, expect, "{deed}: {here:?}");
}

impl Tables {
    /// A place in the queue for each queued job and for no other; a lease for each that is held; a timer
    /// for each that waits before it tries again.
    fn agree_with_themselves(&self, deed: &str) {
        let (mut queue, mut leases, mut timers) = (Places::new(), Places::new(), Places::new());
        for view in &self.views {
            for job in &view.jobs {
                let (attempt, number) = (i64::from(view.attempt), i64::from(job.number));
                match &job.state {
                    LegState::Queued => {
                        queue.insert((job.id.0, attempt, number));
                    }
                    LegState::Waiting(Wait::Backoff { .. }) => {
                        timers.insert((view.id.0, attempt, number));
                    }
                    state if state.is_held() => {
                        let runner = job.runner.expect("somebody has it");
                        leases.insert((job.id.0, i64::from(job.claim), runner));
                    }
                    _ => {}
                }
            }
        }
        assert_eq!(self.queue, queue, "{deed}");
        assert_eq!(self.leases, leases, "{deed}");
        assert_eq!(self.timers, timers, "{deed}");
        for (view, (status, conclusion)) in self.views.iter().zip(&self.lists) {
            let end = match view.state {
                RunState::Done(end) => Some(end.github().to_owned()),
                _ => None,
            };
            assert_eq!((status == "completed", conclusion), (end.is_some(), &end), "{deed}");
        }
    }
}
