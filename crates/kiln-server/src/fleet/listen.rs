//! What a server does when something changes for its runners.

use std::collections::{HashMap, HashSet};
use std::sync::Weak;

use kiln_core::id::{QueueId, RunnerId};
use kiln_core::queue::Requirements;
use kiln_store::directory::runners::{self, Mark};
use kiln_store::{Signal, StoreError, Tx, claims};

use super::{Inner, MOST_WANTED, PIECE, State, locked};
use crate::bus::Bus;

impl Inner {
    pub(super) fn forget(&self, id: RunnerId) {
        let mut state = locked(&self.state);
        state.taken_away += 1;
        state.members.remove(&id);
        if let Some(nudge) = state.nudges.get(&id) {
            nudge.send_modify(|count| *count += 1);
            if nudge.receiver_count() == 0 {
                state.nudges.remove(&id);
            }
        }
    }

    /// Reads all queues, and lets the runners know of new ones.
    pub(super) async fn refresh_queues(&self) -> Result<(), StoreError> {
        // One after the other: what was read earlier must not replace what was read later.
        let _turn = self.refreshing.lock().await;
        let found = self.store.read(async |tx| claims::queues(tx).await).await?;
        let mut state = locked(&self.state);
        let state = &mut *state;
        let new = found.iter().filter(|(queue, _)| !state.queues.contains_key(queue));
        let new: Vec<&(QueueId, Requirements)> = new.collect();
        for member in state.members.values() {
            for (queue, needs) in &new {
                member.learn(*queue, needs);
            }
        }
        let any_new = !new.is_empty();
        state.queues = found.into_iter().collect();
        state.has_queues = true;
        if any_new {
            // What they may take has changed: they sit down elsewhere.
            self.waiting.wake_all();
        }
        Ok(())
    }

    /// Whether all that is known of runners is still so: for when signals got lost.
    async fn compare(&self) -> Result<(), StoreError> {
        let ids: Vec<RunnerId> = {
            let mut state = locked(&self.state);
            state.nudges.retain(|_, nudge| nudge.receiver_count() > 0);
            let State { members, told, .. } = &mut *state;
            told.retain(|id, _| members.contains_key(id));
            state.members.keys().copied().collect()
        };
        for piece in ids.chunks(PIECE) {
            let asked = piece.to_vec();
            let read = async move |tx: &mut Tx<'_>| runners::marks(tx, &asked).await;
            let marks: HashMap<RunnerId, Mark> =
                self.store.read(read).await?.into_iter().map(|mark| (mark.id, mark)).collect();
            let changed: Vec<RunnerId> = {
                let state = locked(&self.state);
                let differs = |id: &&RunnerId| match (state.members.get(id), marks.get(id)) {
                    (Some(member), Some(mark)) => !member.is_as(mark),
                    (member, _) => member.is_some(),
                };
                piece.iter().filter(differs).copied().collect()
            };
            for id in changed {
                self.forget(id);
            }
        }
        Ok(())
    }

    async fn hear(&self, signal: Signal) -> Result<(), StoreError> {
        match signal {
            Signal::Everything => {
                self.compare().await?;
                self.refresh_queues().await?;
                let waiting: HashSet<RunnerId> =
                    locked(&self.state).nudges.keys().copied().collect();
                for id in waiting {
                    self.nudge(id);
                }
                self.waiting.work(None, &[]);
            }
            Signal::Work(queue) => {
                if !locked(&self.state).queues.contains_key(&queue) {
                    self.refresh_queues().await?;
                }
                let wanted =
                    if self.waiting.cares(queue) { self.wanted(queue).await? } else { Vec::new() };
                self.waiting.work(Some(queue), &wanted);
            }
            Signal::Runner(id) => self.forget(id),
            Signal::Run(_) | Signal::Outbox | Signal::Timer | Signal::Log(_) | Signal::Watch(_) => {
            }
        }
        Ok(())
    }

    /// There may be word for a runner: signals may have got lost.
    fn nudge(&self, id: RunnerId) {
        if let Some(nudge) = locked(&self.state).nudges.get(&id) {
            nudge.send_modify(|count| *count += 1);
        }
    }

    async fn wanted(&self, queue: QueueId) -> Result<Vec<String>, StoreError> {
        let read =
            async move |tx: &mut Tx<'_>| claims::waiting_repositories(tx, queue, MOST_WANTED).await;
        self.store.read(read).await
    }
}

/// Follows the bus until the fleet is gone.
pub(super) async fn listen(fleet: Weak<Inner>, bus: Bus) {
    let mut listener = bus.listen();
    drop(bus);
    loop {
        let signal = listener.next().await;
        let Some(fleet) = fleet.upgrade() else { return };
        if let Err(error) = fleet.hear(signal).await {
            // The next look at everything makes good for it; until then it is better to wake one more.
            tracing::warn!(%error, "a signal of the database could not be followed");
            fleet.waiting.work(None, &[]);
        }
    }
}
