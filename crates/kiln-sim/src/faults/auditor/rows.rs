//! What must hold between the rows after every transaction.

use std::collections::BTreeMap;

use kiln_core::id::OrgId;
use kiln_core::run::{LegNo, LegState, Member, Node, NodeState, RunState, Step, Wait};

use super::Auditor;
use super::reference::Graph;
use crate::faults::kiln::{Rows, RunRows, What};

impl Auditor {
    /// The tables that all runs share.
    pub(super) fn tables(&mut self, rows: &Rows) {
        self.queue(rows);
        self.leases(rows);
        self.groups(rows);
        for (run, attempt, leg) in rows.timers.keys() {
            let run = rows.runs.get(run).filter(|run| run.hood.run.attempt == *attempt);
            let leg = run.and_then(|run| run.hood.legs.get(leg));
            if !leg.is_some_and(|leg| matches!(leg.state, LegState::Waiting(Wait::Backoff { .. })))
            {
                self.find("a timer is of a job that waits for it", format!("{leg:?}"));
            }
        }
    }

    fn queue(&mut self, rows: &Rows) {
        for ((_, job), leg) in rows.queue.values().flatten() {
            let run = rows.runs.get(&job.run().0.unsigned_abs());
            let found = run.filter(|run| run.leg_of(*job) == Some(*leg));
            let state = found.map(|run| &run.hood.legs[leg].state);
            if state != Some(&LegState::Queued) {
                let text = format!("job {job} has a place, and is {state:?}");
                self.find("a place in the queue is of a queued job", text);
            }
        }
    }

    fn leases(&mut self, rows: &Rows) {
        let mut running: BTreeMap<OrgId, u32> = BTreeMap::new();
        for (job, lease) in &rows.leases {
            let run = rows.runs.get(&job.run().0.unsigned_abs());
            let leg = run.and_then(|run| run.hood.legs.get(&run.leg_of(*job)?));
            if !leg.is_some_and(|leg| leg.state.is_held() && leg.attempt == lease.claim) {
                let text = format!("claim {} of job {job}: {leg:?}", lease.claim);
                self.find("a lease is of a job that is held", text);
            }
            if let Some(run) = run {
                *running.entry(run.org).or_default() += 1;
            }
        }
        for (org, load) in &rows.loads {
            let Some(limit) = load.limit else { continue };
            let held = running.get(org).copied().unwrap_or(0);
            if held > limit {
                let text = format!("{held} jobs of organization {org} run, {limit} may");
                self.find("limits are never exceeded", text);
            }
            if load.running != held {
                let text = format!("organization {org} counts {}, and has {held}", load.running);
                self.find("slots are released with their holder", text);
            }
        }
    }

    /// Members of groups are open, and the holder goes on.
    fn groups(&mut self, rows: &Rows) {
        for ((repo, name), group) in &rows.groups {
            for (at, member) in group.members().enumerate() {
                let standing = standing(rows, member, name);
                let is_told = at > 0
                    || standing != Standing::Waits
                    || has_task(rows, member, |what| {
                        matches!(what, What::Admit { leg } if *leg == member.leg)
                            || matches!(what, What::Cancel { leg, .. } if *leg == member.leg)
                            || matches!(what, What::Continue(step) if is_about(*step, member.leg))
                    });
                if standing == Standing::Gone {
                    let text = format!("{member:?} is in `{name}` of repository {repo}");
                    self.find("slots are released with their holder", text);
                } else if !is_told {
                    let text = format!("{member:?} holds `{name}`, and waits for it");
                    self.find("nothing is stuck", text);
                } else if at > 0 && standing == Standing::GoesOn {
                    let text = format!("{member:?} goes on without holding `{name}`");
                    self.find("one holds a group at a time", text);
                }
            }
        }
    }

    /// The rows of one run.
    pub(super) fn shape(&mut self, rows: &Rows, number: u64, run: &RunRows) {
        self.memberships(rows, number, run);
        for (leg, row) in &run.hood.legs {
            let job = &run.jobs[leg];
            let queued = row.state == LegState::Queued;
            let placed = job.place.is_some_and(|(lane, key)| {
                rows.queue.get(&lane).is_some_and(|places| places.contains_key(&(key, job.id)))
            });
            if queued && !placed {
                let text = format!("leg {leg} of run {number}");
                self.find("a queued job has its place", text);
            }
            let leased = rows.leases.get(&job.id).is_some_and(|lease| lease.claim == row.attempt);
            if row.state.is_held() && !leased {
                self.find("a job that is held has a lease", format!("job {}", job.id));
            }
            let told = rows.leases.get(&job.id).is_some_and(|lease| lease.command.is_some());
            if row.state.is_held() && row.cancelling && !told {
                self.find("a runner is told to stop", format!("job {}", job.id));
            }
            let timer = rows.timers.contains_key(&(number, run.hood.run.attempt, *leg));
            if matches!(row.state, LegState::Waiting(Wait::Backoff { .. })) && !timer {
                self.find("a job that waits for a time has a timer", format!("job {}", job.id));
            }
        }
        let continues = |what: &What| matches!(what, What::Continue(_));
        let member = run.hood.run.member(None);
        if matches!(run.hood.run.state, RunState::Active) && !has_task(rows, member, continues) {
            for node in run.hood.nodes.values() {
                self.node(number, node, run);
            }
            for scope in run.hood.scopes.values() {
                let open = |node: &&u32| !matches!(run.hood.nodes[*node].state, NodeState::Done(_));
                let open = scope.nodes.iter().filter(open).count();
                let caller = scope.caller.map(|caller| &run.hood.legs[&caller].state);
                let runs = caller.is_none_or(|state| matches!(state, LegState::Called(_)));
                if usize::try_from(scope.open) != Ok(open) || (open == 0 && runs) {
                    let text = format!("scope {} of run {number}: {open} open", scope.number);
                    self.find("nothing is stuck", text);
                }
            }
        }
    }

    /// Counters of a node, and whether something moves it.
    fn node(&mut self, run: u64, node: &Node, rows: &RunRows) {
        let name = || format!("node {} of run {run}: {:?}", node.number, node.state);
        let open_need = |need: &&u32| !matches!(rows.hood.nodes[*need].state, NodeState::Done(_));
        let left = node.needs.iter().filter(open_need).count();
        let scope = &rows.hood.scopes[&node.scope];
        let caller = scope.caller.map(|caller| &rows.hood.legs[&caller].state);
        let opened = caller.is_none_or(|state| matches!(state, LegState::Called(_)));
        match node.state {
            NodeState::Pending { needs_remaining } => {
                if usize::try_from(needs_remaining) != Ok(left) || (left == 0 && opened) {
                    self.find("nothing is stuck", format!("{}, {left} needs are open", name()));
                }
            }
            NodeState::Active { open_legs, .. } => {
                let legs = node.legs.iter().map(|leg| &rows.hood.legs[leg].state);
                let open = legs.filter(|state| !state.is_done()).count();
                if usize::try_from(open_legs) != Ok(open) || open == 0 {
                    self.find("nothing is stuck", format!("{}, {open} legs are open", name()));
                }
                self.parallel(run, node, rows, opened);
                self.stops(run, node, rows);
            }
            NodeState::Done(end) => {
                if !node.legs.is_empty() && Graph(rows).of_legs(node.number) != Some(end) {
                    self.find("a job ends as its legs do", name());
                }
            }
        }
    }

    /// What is cancelled and has no reason to go on does not.
    fn stops(&mut self, run: u64, node: &Node, rows: &RunRows) {
        let forced = rows.hood.run.cancel.as_ref().is_some_and(|cancel| cancel.forced);
        let graph = Graph(rows);
        if !graph.is_cancelled(node.number) || (graph.runs(node.number, true) && !forced) {
            return;
        }
        for leg in node.legs.iter().map(|leg| &rows.hood.legs[leg]) {
            let stops = match leg.state {
                LegState::Done(_) | LegState::Called(_) => true,
                _ => leg.state.is_held() && !forced,
            };
            if !stops {
                let text = format!("leg {} of run {run} is {:?}", leg.number, leg.state);
                self.find("what is cancelled does not go on", text);
            }
        }
    }

    fn parallel(&mut self, run: u64, node: &Node, rows: &RunRows, opened: bool) {
        let held_back =
            |leg: &&LegNo| rows.hood.legs[*leg].state == LegState::Waiting(Wait::MaxParallel);
        let waiting = node.legs.iter().filter(held_back).count();
        let done = node.legs.iter().filter(|leg| rows.hood.legs[*leg].state.is_done()).count();
        let under_way = node.legs.len() - waiting - done;
        let most = node.max_parallel.map_or(usize::MAX, |most| most as usize);
        if under_way > most {
            let text = format!("{under_way} legs of node {} of run {run}", node.number);
            self.find("max-parallel is never exceeded", text);
        }
        let stopped = node.tripped || Graph(rows).is_cancelled(node.number);
        if waiting > 0 && under_way < most && opened && !stopped {
            let text = format!("a leg of node {} of run {run} is held back", node.number);
            self.find("nothing is stuck", text);
        }
    }

    /// Whoever says that it is in a group is, and goes on only if it holds it.
    fn memberships(&mut self, rows: &Rows, number: u64, run: &RunRows) {
        let run_group = run.hood.run.group.clone().map(|group| (group, None));
        let legs = run.hood.legs.iter().filter(|(_, leg)| !leg.state.is_done());
        let legs = legs.filter_map(|(leg, row)| Some((row.group.clone()?, Some(*leg))));
        for (name, leg) in run_group.into_iter().chain(legs) {
            let member = run.hood.run.member(leg);
            let group = rows.groups.get(&(run.repo, name.clone()));
            let known = group.is_some_and(|group| group.members().any(|other| other == member));
            let leaves = has_task(
                rows,
                member,
                |what| matches!(what, What::Cancel { leg, .. } if *leg == member.leg),
            );
            if !known && !leaves {
                let text = format!("{member:?} of run {number} is not in `{name}`");
                self.find("a group knows its members", text);
            }
            let holds = group.is_some_and(|group| group.holder() == Some(member));
            if standing(rows, member, &name) == Standing::GoesOn && !holds {
                let text = format!("{member:?} goes on without holding `{name}`");
                self.find("one holds a group at a time", text);
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It has ended, or never was in the group.
    Gone,
    Waits,
    GoesOn,
}

fn standing(rows: &Rows, member: Member, group: &str) -> Standing {
    let run = rows.runs.get(&member.run).filter(|run| run.hood.run.attempt == member.attempt);
    let Some(run) = run else { return Standing::Gone };
    let (own, waits) = match member.leg {
        None => match &run.hood.run.state {
            RunState::Done(_) => return Standing::Gone,
            state => (&run.hood.run.group, matches!(state, RunState::Gated(_))),
        },
        Some(leg) => match run.hood.legs.get(&leg) {
            Some(leg) if !leg.state.is_done() => {
                (&leg.group, leg.state == LegState::Waiting(Wait::Group))
            }
            _ => return Standing::Gone,
        },
    };
    match own {
        Some(own) if own == group && waits => Standing::Waits,
        Some(own) if own == group => Standing::GoesOn,
        _ => Standing::Gone,
    }
}

/// Whether a step that is still to be taken moves this job.
fn is_about(step: Step, leg: Option<LegNo>) -> bool {
    matches!(step, Step::Admit(about) | Step::Sweep(about) if Some(about) == leg)
}

fn has_task(rows: &Rows, member: Member, is_it: impl Fn(&What) -> bool) -> bool {
    rows.outbox.values().any(|task| {
        let order = &task.order;
        (order.run, order.attempt) == (member.run, member.attempt) && is_it(&order.what)
    })
}
