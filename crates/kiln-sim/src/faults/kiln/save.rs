//! Writes what changed in a run, and everything that follows from it, in the transaction that changed it.

use std::time::Duration;

use kiln_core::id::{JobId, QueueId, RunId};
use kiln_core::queue::{Class, HeadStarts, Requirements, key};
use kiln_core::run::{Effect, Evaluator as _, Leg, LegNo, LegState, Wait};

use super::change::Changed;
use super::{Command, JobRow, Lane, Order, RunRows, Signal, Task, Tx, What};
use crate::faults::bug::Bug;

impl Tx<'_> {
    pub(super) fn save(&mut self, changed: Changed) {
        let Changed { run, before, mut after, groups, effects } = changed;
        let repo = after.repo;
        self.rows.groups.retain(|(owner, _), _| *owner != repo);
        let kept = groups.into_iter().filter(|(_, group)| !group.is_empty());
        self.rows.groups.extend(kept.map(|(name, group)| ((repo, name), group)));
        name_new_jobs(run, &mut after);
        let legs: Vec<LegNo> = after.hood.legs.keys().copied().collect();
        for number in legs {
            let past = before.hood.legs.get(&number).filter(|_| before.jobs.contains_key(&number));
            if past.is_some_and(|past| is_same(past, &after.hood.legs[&number])) {
                continue;
            }
            let past = past.cloned();
            self.move_in_queue(&mut after, number, past.as_ref());
            self.set_timer(run, &after, number, past.as_ref());
            self.end_lease(&mut after, number, past.as_ref());
        }
        self.carry(run, &after, effects);
        self.rows.runs.insert(run, after.into());
    }

    fn move_in_queue(&mut self, rows: &mut RunRows, number: LegNo, past: Option<&Leg>) {
        let leg = rows.hood.legs[&number].clone();
        let stays = past.is_some_and(|past| {
            past.state == LegState::Queued && leg.state == LegState::Queued && is_same(past, &leg)
        });
        if stays {
            return;
        }
        let id = rows.jobs[&number].id;
        if let Some((lane, key)) = rows.jobs.get_mut(&number).and_then(|job| job.place.take()) {
            self.leave_queue(lane, key, id);
        }
        if leg.state == LegState::Queued {
            let lane = self.lane_of(rows, number);
            let queued = i64::try_from(leg.timings.queued.unwrap_or_default().0).unwrap_or(0);
            let key = key(queued, rows.class, &HeadStarts::default());
            self.rows.queue.entry(lane).or_default().insert((key, id), number);
            if let Some(job) = rows.jobs.get_mut(&number) {
                job.place = Some((lane, key));
            }
            self.signal(Signal::Work);
        }
    }

    pub(super) fn leave_queue(&mut self, lane: Lane, key: i64, job: JobId) {
        if let Some(places) = self.rows.queue.get_mut(&lane) {
            places.remove(&(key, job));
            if places.is_empty() {
                self.rows.queue.remove(&lane);
            }
        }
    }

    fn lane_of(&mut self, rows: &RunRows, number: LegNo) -> Lane {
        let node = rows.hood.legs[&number].node;
        let placement = self.model().placement(&rows.hood.context(node, Some(number)));
        let needs = placement.and_then(|placement| placement.requirements());
        let needs: Requirements = needs.expect("the engine asked the same before it was queued");
        let known = self.rows.queues.iter().find(|(_, known)| *known == needs);
        let queue = match known {
            Some((queue, _)) => *queue,
            None => {
                let count = i64::try_from(self.rows.queues.len()).unwrap_or(i64::MAX);
                self.rows.queues.push((QueueId(count + 1), needs));
                QueueId(count + 1)
            }
        };
        let class: Class = rows.class;
        (queue, rows.priority, rows.org, rows.repo, class)
    }

    fn set_timer(&mut self, run: u64, rows: &RunRows, number: LegNo, past: Option<&Leg>) {
        let until = |leg: &Leg| match leg.state {
            LegState::Waiting(Wait::Backoff { until }) => Some(until),
            _ => None,
        };
        let name = (run, rows.hood.run.attempt, number);
        match (past.and_then(until), until(&rows.hood.legs[&number])) {
            (_, Some(at)) => {
                self.rows.timers.insert(name, at);
                self.signal(Signal::Timer);
            }
            (Some(_), None) => {
                self.rows.timers.remove(&name);
            }
            (None, None) => {}
        }
    }

    /// A runner that held the leg does not any more: the lease ends, its organization has room, and the
    /// estimate becomes what it took.
    fn end_lease(&mut self, rows: &mut RunRows, number: LegNo, past: Option<&Leg>) {
        let leg = &rows.hood.legs[&number];
        let Some(past) = past.filter(|past| past.state.is_held()) else { return };
        if leg.state.is_held() && past.attempt == leg.attempt {
            return;
        }
        let id = rows.jobs[&number].id;
        let Some(lease) = self.rows.leases.remove(&id) else { return };
        let worked = !matches!(past.state, LegState::Claimed { .. }) || leg.state.is_done();
        let took = if worked { self.now.since(lease.claimed) } else { Duration::ZERO };
        let now = i64::try_from(self.now.0).unwrap_or(i64::MAX);
        let owed = took.as_secs_f64() - lease.estimate;
        self.rows.org_usage.entry(rows.org).or_default().add(owed, now);
        self.rows.repo_usage.entry(rows.repo).or_default().add(owed, now);
        // A claim that its runner never heard of is none of its jobs.
        let seen = lease.acknowledged || !matches!(past.state, LegState::Claimed { .. });
        if leg.state.is_done() && (seen || self.rules.has(Bug::SpentUnseen)) {
            *self.rows.ended.entry(lease.runner).or_default() += 1;
        }
        let tripped = rows.hood.nodes[&leg.node].tripped;
        if self.rules.has(Bug::FailFastSlot) && tripped && leg.state.is_done() {
            return;
        }
        if let Some(load) = self.rows.loads.get_mut(&rows.org).filter(|_| lease.counted) {
            load.running -= 1;
            self.signal(Signal::Work);
        }
    }

    /// What must be done in the world: commands for runners, and tasks for other runs or for later.
    fn carry(&mut self, run: u64, rows: &RunRows, effects: Vec<Effect>) {
        for effect in effects {
            let (run, attempt, what) = match effect {
                Effect::Stop { leg, attempt, forced } => {
                    let lease = self.rows.leases.get_mut(&rows.jobs[&leg].id);
                    if let Some(lease) = lease.filter(|lease| lease.claim == attempt) {
                        lease.command = Some(if forced { Command::Kill } else { Command::Cancel });
                    }
                    continue;
                }
                Effect::Admit(to) => (to.run, to.attempt, What::Admit { leg: to.leg }),
                Effect::CancelMember { member, reason } => {
                    (member.run, member.attempt, What::Cancel { leg: member.leg, reason })
                }
                Effect::Continue(step) => (run, rows.hood.run.attempt, What::Continue(step)),
                _ => continue,
            };
            self.put(Order { run, attempt, what });
        }
    }

    pub(super) fn put(&mut self, order: Order) {
        self.rows.tasks_made += 1;
        let id = self.rows.tasks_made;
        self.rows.outbox.insert(id, Task { id, order, due: self.now, tries: 0 });
        self.signal(Signal::Outbox);
    }
}

fn name_new_jobs(run: u64, rows: &mut RunRows) {
    let run = RunId(i64::try_from(run).unwrap_or(i64::MAX));
    for number in rows.hood.legs.keys() {
        if !rows.jobs.contains_key(number) {
            let id = JobId::of(run, rows.jobs_made);
            rows.jobs_made += 1;
            rows.jobs.insert(*number, JobRow { id, place: None, runner: None });
        }
    }
}

/// As far as queue, timers and leases are concerned.
fn is_same(past: &Leg, leg: &Leg) -> bool {
    past.state == leg.state && past.attempt == leg.attempt && past.timings == leg.timings
}
