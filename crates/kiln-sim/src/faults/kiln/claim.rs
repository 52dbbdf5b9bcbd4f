//! A runner asks for work, and says that it still has it.

use std::collections::HashMap;
use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;

use kiln_core::id::{JobId, LaneId, OrgId};
use kiln_core::queue::{
    self, Asker, Batch, Capabilities, Head, Next, OrgShare, Pick, Picker, RepoShare, serving,
};
use kiln_core::run::{self, LegNo};
use kiln_core::time::Timestamp;

use super::{Command, LEASE, Lane, Lease, Tx};
use crate::faults::bug::Bug;

/// A question of a runner. Asking it again has the same answer.
#[derive(Debug, Clone)]
pub(in crate::faults) struct Asking {
    pub(in crate::faults) runner: u64,
    pub(in crate::faults) nonce: u64,
    pub(in crate::faults) capabilities: Rc<Capabilities>,
    pub(in crate::faults) org: Option<OrgId>,
    pub(in crate::faults) single_use: bool,
    /// How many jobs it may have.
    pub(in crate::faults) want: u32,
}

impl Asking {
    /// Whether this is the same question, asked again.
    pub(in crate::faults) fn repeats(&self, other: &Self) -> bool {
        (self.runner, self.nonce) == (other.runner, other.nonce)
    }

    /// Whether both may take the same jobs: if one gets nothing, neither would the other.
    pub(in crate::faults) fn is_alike(&self, other: &Self) -> bool {
        (&self.capabilities, self.org) == (&other.capabilities, other.org)
    }

    /// Whether there can be jobs that both may take.
    pub(in crate::faults) fn meets(&self, other: &Self) -> bool {
        let labels = &other.capabilities.offer().labels;
        let apart = self.org.zip(other.org).is_some_and(|(org, other)| org != other);
        !apart && self.capabilities.offer().labels.iter().any(|label| labels.contains(label))
    }
}

/// A job for a runner, with all that decides how it will go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::faults) struct Given {
    pub(in crate::faults) job: JobId,
    pub(in crate::faults) claim: u32,
    pub(in crate::faults) run: u64,
    pub(in crate::faults) attempt: u32,
    pub(in crate::faults) leg: LegNo,
    /// Which job of which workflow of the plan it is, which leg of it, and which try.
    pub(in crate::faults) workflow: usize,
    pub(in crate::faults) position: usize,
    pub(in crate::faults) index: u32,
    pub(in crate::faults) retries: u32,
}

/// What a runner gets.
#[derive(Debug, Clone, Default)]
pub(in crate::faults) struct Offered {
    pub(in crate::faults) jobs: Vec<Given>,
    /// Whether it could have had any: not if it is drained, or had its single job.
    pub(in crate::faults) may_have: bool,
}

type Chosen = Pick<LegNo>;

impl Tx<'_> {
    pub(super) fn claim(&mut self, asking: &[Asking]) -> Vec<Offered> {
        let may_have: Vec<bool> = asking.iter().map(|question| self.may_have(question)).collect();
        let mut answers: Vec<Vec<Given>> =
            asking.iter().map(|question| self.answered_before(question)).collect();
        let first = first_of_their_kind(asking);
        let wants = self.share_out(asking);
        let left = |(at, want): (usize, u32)| {
            if may_have[at] && first[at] == at { self.still_wanted(want, &answers[at]) } else { 0 }
        };
        let wants: Vec<u32> = (0..).zip(wants).map(left).collect();
        let is_open =
            |lane: &&Lane| self.rules.has(Bug::PauseBypass) || !self.rows.paused.contains(&lane.3);
        let lanes: Vec<Lane> = self.rows.queue.keys().filter(is_open).copied().collect();
        let picks = self.choose(asking, &wants, &lanes);
        let picks = self.within_limits(picks, &lanes);
        for pick in picks {
            let question = &asking[pick.asker];
            if let Some(given) = self.take(question, &pick, lane(&lanes, pick.lane)) {
                answers[pick.asker].push(given);
            }
        }
        for (at, first) in first.into_iter().enumerate().filter(|(at, first)| at != first) {
            let (earlier, later) = answers.split_at_mut(at);
            later[0].clone_from(&earlier[first]);
        }
        if self.rules.has(Bug::DoubleClaim) {
            share(asking, &mut answers);
        }
        let offers = answers.into_iter().zip(may_have);
        offers.map(|(jobs, may_have)| Offered { jobs, may_have }).collect()
    }

    fn answered_before(&self, question: &Asking) -> Vec<Given> {
        let same =
            |lease: &&Lease| lease.runner == question.runner && lease.nonce == question.nonce;
        let most = if self.rules.has(Bug::FreshOnRepeat) { 1 } else { usize::MAX };
        self.rows.leases.values().filter(same).map(|lease| lease.given).take(most).collect()
    }

    /// What was answered before is all there is, whatever is wanted now.
    fn still_wanted(&self, want: u32, had: &[Given]) -> u32 {
        if had.is_empty() {
            want
        } else if self.rules.has(Bug::FreshOnRepeat) {
            want.saturating_sub(u32::try_from(had.len()).unwrap_or(u32::MAX))
        } else {
            0
        }
    }

    /// One job for each where runners of several kinds ask: those with the fewest choices are served first, and would
    /// leave nothing to the others if each of them took several.
    fn share_out(&self, asking: &[Asking]) -> Vec<u32> {
        let alike = asking.windows(2).all(|pair| pair[0].is_alike(&pair[1]));
        let most = if alike || self.rules.has(Bug::GreedyAnswer) { u32::MAX } else { 1 };
        asking.iter().map(|question| question.want.min(most)).collect()
    }

    fn may_have(&self, question: &Asking) -> bool {
        let is_drained = self.rows.drained.contains(&question.runner);
        !self.is_spent(question) && (!is_drained || self.rules.has(Bug::DrainBypass))
    }

    /// A runner for a single job that has had it.
    fn is_spent(&self, question: &Asking) -> bool {
        let holds = || self.rows.leases.values().any(|lease| lease.runner == question.runner);
        let ended = self.rows.ended.get(&question.runner).is_some_and(|ended| *ended > 0);
        question.single_use && (ended || holds())
    }

    /// Asks the picker until it is done, and brings the heads of lanes that it wants.
    fn choose(&self, asking: &[Asking], wants: &[u32], lanes: &[Lane]) -> Vec<Chosen> {
        let mut picker = Picker::new(self.batch(asking, wants, lanes));
        let mut picks = Vec::new();
        loop {
            let wanted = match picker.next() {
                Next::Pick(pick) => {
                    picks.push(pick);
                    continue;
                }
                Next::Done => return picks,
                Next::Fetch(wanted) => wanted,
            };
            let piece = picker.piece(wanted.len());
            for id in wanted {
                let behind = picker.last(id).map_or(Bound::Unbounded, Bound::Excluded);
                let places = &self.rows.queue[&lane(lanes, id)];
                let places = places.range((behind, Bound::Unbounded)).take(piece);
                let head = |((key, job), leg): (&(i64, JobId), &LegNo)| Head {
                    key: *key,
                    job: *job,
                    payload: *leg,
                };
                let heads: Vec<Head<LegNo>> = places.map(head).collect();
                let exhausted = heads.len() < piece;
                picker.heads(id, heads, exhausted);
            }
        }
    }

    fn batch(&self, asking: &[Asking], wants: &[u32], lanes: &[Lane]) -> Batch {
        let now = i64::try_from(self.now.0).unwrap_or(i64::MAX);
        let (mut orgs, mut repos) = (HashMap::new(), HashMap::new());
        for (_, _, org, repo, _) in lanes {
            let load = self.rows.loads.get(org).copied().unwrap_or_default();
            let consumed = self.rows.org_usage.get(org).map_or(0.0, |usage| usage.at(now));
            // With the planted mistake the count is believed to be lower than it is.
            let running = if self.rules.has(Bug::LimitRace) { 0 } else { load.running };
            let share = OrgShare { consumed, running, limit: load.limit, ..OrgShare::default() };
            orgs.insert(*org, share);
            let consumed = self.rows.repo_usage.get(repo).map_or(0.0, |usage| usage.at(now));
            repos.insert(*repo, RepoShare { consumed, ..RepoShare::default() });
        }
        let as_lane = |(id, lane): (i64, &Lane)| {
            let (queue, priority, org, repo, class) = *lane;
            queue::Lane { id: LaneId(id), queue, priority, org, repo, class }
        };
        let asker = |(question, want): (&Asking, &u32)| Asker {
            queues: serving(&self.rows.queues, &question.capabilities),
            org: question.org,
            want: *want,
            warm: Vec::new(),
        };
        Batch {
            now,
            policy: self.rules.policy,
            lanes: (0..).zip(lanes).map(as_lane).collect(),
            orgs,
            repos,
            askers: asking.iter().zip(wants).map(asker).collect(),
        }
    }

    /// Counts the picks of organizations that have a limit; what is too much stays in the queue.
    fn within_limits(&mut self, picks: Vec<Chosen>, lanes: &[Lane]) -> Vec<Chosen> {
        let trusting = self.rules.has(Bug::LimitRace);
        let mut kept = Vec::with_capacity(picks.len());
        for pick in picks {
            let org = lane(lanes, pick.lane).2;
            match self.rows.loads.get_mut(&org) {
                Some(load) if load.limit.is_some_and(|most| load.running >= most && !trusting) => {}
                Some(load) => {
                    load.running += u32::from(load.limit.is_some());
                    kept.push(pick);
                }
                None => kept.push(pick),
            }
        }
        kept
    }

    /// Keeps what was chosen: the place goes, the leg is claimed, the lease is made.
    fn take(&mut self, question: &Asking, pick: &Chosen, lane: Lane) -> Option<Given> {
        let (job, number) = (pick.head.job, pick.head.payload);
        self.leave_queue(lane, pick.head.key, job);
        let run = job.run().0.unsigned_abs();
        let mut rows = (*self.rows.runs[&run]).clone();
        let limited = self.rows.loads.get(&lane.2).is_some_and(|load| load.limit.is_some());
        let leg = rows.hood.legs.get_mut(&number)?;
        if run::claim(leg, question.runner, self.now).is_err() {
            if let Some(load) = self.rows.loads.get_mut(&lane.2).filter(|_| limited) {
                load.running -= 1;
            }
            return None;
        }
        let (node, claim, index, retries) = (leg.node, leg.attempt, leg.index, leg.retries);
        let node = &rows.hood.nodes[&node];
        let workflow = rows.hood.scopes[&node.scope].workflow;
        let (attempt, position) = (rows.hood.run.attempt, node.job);
        let given =
            Given { job, claim, run, attempt, leg: number, workflow, position, index, retries };
        let row = rows.jobs.get_mut(&number)?;
        row.runner = Some(question.runner);
        row.place = None;
        let lease = Lease {
            claim,
            runner: question.runner,
            nonce: question.nonce,
            claimed: self.now,
            expires: self.now + Duration::from_millis(LEASE),
            acknowledged: false,
            counted: limited,
            estimate: pick.estimate,
            command: None,
            given,
        };
        self.rows.leases.insert(job, lease);
        let now = i64::try_from(self.now.0).unwrap_or(i64::MAX);
        self.rows.org_usage.entry(rows.org).or_default().add(pick.estimate, now);
        self.rows.repo_usage.entry(rows.repo).or_default().add(pick.estimate, now);
        self.rows.runs.insert(run, rows.into());
        Some(given)
    }

    /// Renews leases, and says what is to be done about the jobs.
    pub(super) fn beat(
        &mut self,
        runner: u64,
        held: &[(JobId, u32)],
    ) -> Vec<Option<(Timestamp, Option<Command>)>> {
        let until = self.now + Duration::from_millis(LEASE);
        let renew = |(job, claim): &(JobId, u32)| {
            let lease = self.rows.leases.get_mut(job)?;
            if lease.claim != *claim || lease.runner != runner {
                return None;
            }
            lease.expires = until;
            lease.acknowledged = true;
            Some((until, lease.command))
        };
        held.iter().map(renew).collect()
    }
}

/// For each question where it stands first: a runner that did not wait for its answer asks again.
fn first_of_their_kind(asking: &[Asking]) -> Vec<usize> {
    let first = |question: &Asking| asking.iter().position(|other| other.repeats(question));
    (0..).zip(asking).map(|(at, question)| first(question).unwrap_or(at)).collect()
}

/// The planted mistake: whoever gets nothing has what another one like it has.
fn share(asking: &[Asking], answers: &mut [Vec<Given>]) {
    for at in 0..asking.len() {
        let mut others = asking.iter().zip(&*answers);
        let given = others.find(|(other, jobs)| !jobs.is_empty() && other.is_alike(&asking[at]));
        let given = given.map(|(_, jobs)| jobs.clone());
        if answers[at].is_empty() && !asking[at].single_use {
            answers[at] = given.unwrap_or_default();
        }
    }
}

fn lane(lanes: &[Lane], id: LaneId) -> Lane {
    lanes[usize::try_from(id.0).unwrap_or(usize::MAX)]
}
