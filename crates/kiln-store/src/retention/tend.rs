//! Everything that has to be done regularly so that a database neither fills up nor runs out of room.

use std::time::Duration;

use kiln_core::time::Timestamp;

use super::{Place, What, drop_partitions, make_room, prune, prune_documents};
use crate::{Store, StoreError, Tx};

/// How many rows go in one transaction.
const PIECE: u32 = 1_000;

const fn days(days: u64) -> Duration {
    Duration::from_hours(24 * days)
}

/// How long things are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    pub runs: Duration,
    pub events: Duration,
    pub audit: Duration,
    pub webhook_deliveries: Duration,
    pub trigger_keys: Duration,
    pub parked_tasks: Duration,
    /// Queues that nobody uses, runners that are unregistered, keys that expired.
    pub unused: Duration,
}

impl Default for Keep {
    fn default() -> Self {
        Self {
            runs: days(400),
            events: days(90),
            audit: days(400),
            webhook_deliveries: days(30),
            trigger_keys: days(30),
            parked_tasks: days(90),
            unused: days(30),
        }
    }
}

/// What a round of tending did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tended {
    pub rows: u64,
    pub partitions: u64,
    /// There is more to be done at once.
    pub more: bool,
}

/// Keeps a database in order. It remembers how far it has come; a new one begins anew, which does no harm.
#[derive(Debug, Default)]
pub struct Caretaker {
    keep: Keep,
    documents: Place,
}

impl Caretaker {
    pub fn new(keep: Keep) -> Self {
        Self { keep, documents: Place::default() }
    }

    /// One round: makes room, drops what can go as a whole, and deletes one piece of everything that is
    /// old. The server that leads should call it every minute, and at once again while there is more.
    /// It is not urgent: there is room for two million runs ahead, so that days without it do no harm.
    /// What fails does not keep the rest from being done; the first error is returned at the end.
    pub async fn tend(&mut self, store: &Store) -> Result<Tended, StoreError> {
        let now = store.read(async |tx: &mut Tx<'_>| Ok(tx.now())).await?;
        let mut tended = Tended::default();
        let mut trouble = make_room(store).await.err();
        match drop_partitions(store, ago(now, self.keep.runs)).await {
            Ok(count) => tended.partitions = count,
            Err(error) => trouble = trouble.or(Some(error)),
        }
        for (what, kept) in self.kept() {
            match prune(store, what, ago(now, kept), PIECE).await {
                Ok(count) => tended.add(count),
                Err(error) => trouble = trouble.or(Some(error)),
            }
        }
        match prune_documents(store, now, self.documents.clone(), PIECE).await {
            Ok((count, next)) => {
                tended.rows += count;
                // A round through all of them takes its time: it does not ask for more at once.
                self.documents = next.unwrap_or_default();
            }
            Err(error) => trouble = trouble.or(Some(error)),
        }
        trouble.map_or(Ok(tended), Err)
    }

    fn kept(&self) -> [(What, Duration); 14] {
        let keep = &self.keep;
        [
            (What::Runs, keep.runs),
            (What::Events, keep.events),
            (What::Audit, keep.audit),
            (What::WebhookDeliveries, keep.webhook_deliveries),
            (What::TriggerKeys, keep.trigger_keys),
            (What::UsageDeltas, days(7)),
            (What::Usage, days(7)),
            (What::ParkedTasks, keep.parked_tasks),
            (What::Queues, keep.unused),
            (What::Runners, keep.unused),
            (What::RegistrationKeys, keep.unused),
            (What::ApiTokens, keep.unused),
            (What::OneTimeKeys, keep.unused),
            (What::RunnerEnds, days(7)),
        ]
    }
}

impl Tended {
    fn add(&mut self, rows: u64) {
        self.rows += rows;
        self.more |= rows >= u64::from(PIECE);
    }
}

fn ago(now: Timestamp, time: Duration) -> Timestamp {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Timestamp(now.0.saturating_sub(millis))
}
