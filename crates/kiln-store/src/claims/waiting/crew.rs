//! The runners that could take the jobs of a queue and an organization, found out once for all of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kiln_core::id::{OrgId, QueueId};
use kiln_core::queue::{Candidate, Capabilities, Lane, Requirements, serves, why_nobody};

use super::scene::Scene;
use crate::claims::Machine;

#[derive(Debug, Default)]
pub(super) struct Crew {
    /// Those that are there, as places in the scene. Jobs with the same ones wait in one line.
    pub(super) live: Vec<usize>,
    /// The same ones, as far as the reason of a job is concerned.
    pub(super) candidates: Vec<Candidate>,
    /// How many could take them, and are not there.
    pub(super) away: usize,
    /// Why no runner could, if none could.
    pub(super) nobody: Option<String>,
}

#[derive(Debug)]
pub(super) struct Crews(HashMap<(QueueId, OrgId), Crew>);

impl Crews {
    pub(super) fn gather<'l>(scene: &Scene, lanes: impl Iterator<Item = &'l Lane>) -> Self {
        let of: BTreeSet<(QueueId, OrgId)> = lanes.map(|lane| (lane.queue, lane.org)).collect();
        let mut served = HashMap::new();
        let crew = |of: (QueueId, OrgId)| (of, Crew::of(scene, of, &mut served));
        Self(of.into_iter().map(crew).collect())
    }

    pub(super) fn get(&self, lane: &Lane) -> &Crew {
        &self.0[&(lane.queue, lane.org)]
    }

    /// One queue and organization of each line.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&Crew, QueueId, OrgId)> {
        self.0.iter().map(|((queue, org), crew)| (crew, *queue, *org))
    }
}

/// Whether, and after how long, runners with these capabilities serve a queue.
type Served = HashMap<(QueueId, *const Capabilities), Option<Duration>>;

impl Crew {
    fn of(scene: &Scene, (queue, org): (QueueId, OrgId), served: &mut Served) -> Self {
        let mut crew = Self::default();
        let Some(needs) = scene.queues.get(&queue) else { return crew };
        for (number, machine) in scene.machines.iter().enumerate() {
            if !machine.admits(org) {
                continue;
            }
            let serves = served.entry((queue, Arc::as_ptr(&machine.has)));
            match *serves.or_insert_with(|| serves_queue(needs, machine)) {
                Some(delay) if machine.is_live => {
                    let busy = u32::try_from(scene.busy(machine).len()).unwrap_or(u32::MAX);
                    crew.candidates.push(Candidate { delay, slots: machine.slots, busy });
                    crew.live.push(number);
                }
                Some(_) => crew.away += 1,
                None => {}
            }
        }
        if crew.live.is_empty() && crew.away == 0 {
            let own = scene.machines.iter().filter(|machine| machine.admits(org));
            crew.nobody = why_nobody(needs, &different(own));
        }
        crew
    }
}

fn serves_queue(needs: &Requirements, machine: &Machine) -> Option<Duration> {
    serves(needs, &machine.has)
}

/// What these runners have, each once.
pub(super) fn different<'m>(machines: impl Iterator<Item = &'m Machine>) -> Vec<&'m Capabilities> {
    let mut seen = BTreeSet::new();
    let new = machines.filter(|machine| seen.insert(Arc::as_ptr(&machine.has)));
    new.map(|machine| &*machine.has).collect()
}
