//! A runner as a server knows it.

use std::sync::{Arc, Mutex};

use kiln_core::id::{QueueId, RunnerId};
use kiln_core::queue::{Capabilities, Offer, Requirements, Serving, serves};
use kiln_store::directory::pools;
use kiln_store::directory::runners::{self, Mark, Runner};
use kiln_store::{StoreError, Tx};

use super::{DUTY, locked};

/// A runner as this server knows it.
#[derive(Debug)]
pub struct Member {
    pub runner: Runner,
    pub has: Capabilities,
    /// In order, so that those who may take the same are of one kind.
    pub(super) queues: Mutex<Arc<[Serving]>>,
}

impl Member {
    /// What it may take.
    pub fn queues(&self) -> Arc<[Serving]> {
        Arc::clone(&locked(&self.queues))
    }

    /// Nothing new is given to it.
    pub fn is_leaving(&self) -> bool {
        self.runner.draining || self.runner.leaving
    }

    pub(super) fn is_as(&self, mark: &Mark) -> bool {
        let Runner { epoch, draining, leaving, .. } = self.runner;
        (epoch, draining, leaving) == (mark.epoch, mark.draining, mark.leaving)
    }

    pub(super) fn learn(&self, queue: QueueId, needs: &Requirements) {
        let Some(delay) = serves(needs, &self.has) else { return };
        let mut queues = locked(&self.queues);
        if let Err(at) = queues.binary_search_by_key(&queue, |one| one.queue) {
            let (before, after) = queues.split_at(at);
            *queues = [before, &[Serving { queue, delay }], after].concat().into();
        }
    }
}

/// A runner with all that it has, its pool among that.
pub(super) async fn read(
    tx: &mut Tx<'_>,
    id: RunnerId,
) -> Result<(Runner, Capabilities), StoreError> {
    let runner = runners::get(tx, DUTY, id).await?;
    let pool = pools::get(tx, DUTY, runner.pool).await?;
    // What a runner says of itself was checked when it came.
    let has = Capabilities::parse(&runner.about.capabilities).unwrap_or_default();
    let offer = Offer { pool: Some(pool.name), ..has.offer().clone() };
    Ok((runner, Capabilities::new(offer).unwrap_or_default()))
}
