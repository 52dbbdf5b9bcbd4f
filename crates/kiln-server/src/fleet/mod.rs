//! The runners of this server: what is known of them, and who waits for work.
//!
//! Rows of runners are read once and kept; a signal of the store, or the slow look at everything, takes
//! them away when they change. Which queues a runner can serve is computed once, and again when a new
//! queue appears. So a poll that finds nothing reads little and writes nothing.

mod listen;
mod member;
mod rates;
mod spoken;
mod waiting;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kiln_core::id::{JobId, OrgId, QueueId, RepoId, RunnerId};
use kiln_core::queue::{Requirements, Serving};
use kiln_core::run::Conclusion;
use kiln_proto::runner::Command;
use kiln_store::directory::{repositories, runners};
use kiln_store::{Duty, Gather, Refusal, Scope, Store, StoreError, Tx, claims};
use tokio::sync::watch;
use tokio::time::Instant;

pub use member::Member;
pub use rates::{Rates, Use};
pub use waiting::Seat;

use crate::bus::Bus;
use rates::Buckets;
use spoken::Spoken;
use waiting::{Kind, Waiting};

const DUTY: Scope = Scope::System(Duty::Claims);
/// How many runners are looked at in one statement.
const PIECE: usize = 1_000;
/// How long a count of waiting jobs is good enough.
const COUNT_FOR: Duration = Duration::from_secs(2);
/// How many repositories with work are looked up to find a runner that has their files.
const MOST_WANTED: u32 = 64;

/// The runners of this server. Clones are the same.
#[derive(Debug, Clone)]
pub struct Fleet(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    rates: Rates,
    buckets: Buckets,
    state: Mutex<State>,
    /// Held by whoever reads all queues.
    refreshing: tokio::sync::Mutex<()>,
    /// Held by whoever counts what waits.
    counting: tokio::sync::Mutex<()>,
    waiting: Waiting,
    spoken: Spoken,
    /// Signs of life on their way to the database.
    signs: Gather<RunnerId, bool>,
}

#[derive(Debug, Default)]
struct State {
    members: HashMap<RunnerId, Arc<Member>>,
    /// Counts what was taken away, so that nothing is kept that was read before.
    taken_away: u64,
    queues: HashMap<QueueId, Requirements>,
    has_queues: bool,
    /// For those who wait for word of a runner.
    nudges: HashMap<RunnerId, watch::Sender<u64>>,
    /// When a runner was last written down as alive.
    marked: HashMap<RunnerId, Instant>,
    /// What runners were told already.
    told: HashMap<RunnerId, Vec<Command>>,
    counts: HashMap<Kind, (Instant, u64)>,
    /// Repositories by whose runner asked and by name.
    repositories: HashMap<(Option<OrgId>, String), RepoId>,
}

impl Fleet {
    /// Listens to the bus as long as anybody has it. Must be called where tokio runs.
    pub fn start(store: &Store, bus: &Bus, rates: Rates) -> Self {
        let of_signs = store.clone();
        let signs = Gather::new(PIECE, 1, move |seen: Vec<RunnerId>| {
            let store = of_signs.clone();
            Box::pin(async move { store.write(async move |tx| mark_all(tx, &seen).await).await })
        });
        let inner = Arc::new(Inner {
            store: store.clone(),
            rates,
            buckets: Buckets::default(),
            state: Mutex::default(),
            refreshing: tokio::sync::Mutex::default(),
            counting: tokio::sync::Mutex::default(),
            waiting: Waiting::default(),
            spoken: Spoken::default(),
            signs,
        });
        tokio::spawn(listen::listen(Arc::downgrade(&inner), bus.clone()));
        Self(inner)
    }

    /// Lets a runner do something, or says in how many seconds it may.
    pub fn admit(&self, runner: RunnerId, using: Use) -> Result<(), u64> {
        self.0.buckets.take(runner, using, self.0.rates, Instant::now())
    }

    /// A runner; one that has gone is not found.
    pub async fn member(&self, id: RunnerId) -> Result<Arc<Member>, StoreError> {
        let (before, known) = {
            let state = locked(&self.0.state);
            (state.taken_away, state.members.get(&id).cloned())
        };
        match known {
            Some(member) => Ok(member),
            // Boxed, as it is rare: all who wait would keep room for it.
            None => Box::pin(self.load(id, before)).await,
        }
    }

    /// Reads a runner from the database. It is kept unless something was taken away since `before`.
    async fn load(&self, id: RunnerId, before: u64) -> Result<Arc<Member>, StoreError> {
        let (runner, has) = self.0.store.read(async move |tx| member::read(tx, id).await).await?;
        if !locked(&self.0.state).has_queues {
            self.0.refresh_queues().await?;
        }
        let mut state = locked(&self.0.state);
        let member = Member { runner, has, queues: Mutex::default() };
        for (queue, needs) in &state.queues {
            member.learn(*queue, needs);
        }
        let member = Arc::new(member);
        if state.taken_away == before {
            state.members.insert(id, Arc::clone(&member));
        }
        Ok(member)
    }

    /// A runner has changed, or has gone.
    pub fn forget(&self, id: RunnerId) {
        self.0.forget(id);
    }

    /// Changes when there is word for a runner.
    pub fn nudges(&self, id: RunnerId) -> watch::Receiver<u64> {
        let mut state = locked(&self.0.state);
        state.nudges.entry(id).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    /// A place to wait at, to be taken before the question is asked. `queues` are what it asks for.
    pub fn sit_down(&self, member: &Member, queues: Arc<[Serving]>, warm: Arc<[String]>) -> Seat {
        let kind = Kind { org: member.runner.org, queues };
        self.0.waiting.sit_down(member, kind, warm)
    }

    /// Those of a runner's queues whose requirements are such.
    pub fn queues_of(
        &self,
        member: &Member,
        such: impl Fn(&Requirements) -> bool,
    ) -> Arc<[Serving]> {
        let state = locked(&self.0.state);
        let fits = |one: &&Serving| state.queues.get(&one.queue).is_some_and(&such);
        member.queues().iter().filter(fits).copied().collect()
    }

    /// How many runners wait here for work.
    pub fn sleeping(&self) -> usize {
        self.0.waiting.sleeping()
    }

    /// Notes that a runner is alive: in the database every 30 s at most, and never in its way.
    pub fn seen(&self, id: RunnerId) {
        if !self.is_due(id) {
            return;
        }
        let signs = self.0.signs.clone();
        tokio::spawn(async move {
            if let Err(error) = signs.ask(id).await {
                tracing::debug!(%error, runner = %id, "a sign of life was not written");
            }
        });
    }

    /// Whether something about a runner should be written again. Whoever asks does it.
    pub fn is_due(&self, id: RunnerId) -> bool {
        let now = Instant::now();
        let marked = &mut locked(&self.0.state).marked;
        let is_fresh = |last: &Instant| now.duration_since(*last) < runners::DEBOUNCE;
        if marked.get(&id).is_some_and(is_fresh) {
            return false;
        }
        if marked.len() > 10 * PIECE {
            marked.retain(|_, last| is_fresh(last));
        }
        marked.insert(id, now);
        true
    }

    /// How many jobs wait that a runner could have, as of a moment ago.
    pub async fn queue_size(
        &self,
        member: &Member,
        queues: Arc<[Serving]>,
    ) -> Result<u64, StoreError> {
        let kind = Kind { org: member.runner.org, queues };
        match self.0.known_count(&kind) {
            Known::Fresh(count) => return Ok(count),
            Known::Due => return Box::pin(self.count(kind)).await,
            Known::Nothing => {}
        }
        // When all come at once, as after a start, one counts and the others wait for it.
        let _counting = self.0.counting.lock().await;
        match self.0.known_count(&kind) {
            Known::Fresh(count) => Ok(count),
            Known::Due | Known::Nothing => Box::pin(self.count(kind)).await,
        }
    }

    async fn count(&self, kind: Kind) -> Result<u64, StoreError> {
        let now = Instant::now();
        let (org, asked) = (kind.org, kind.queues.iter().map(|one| one.queue));
        let asked: Vec<QueueId> = asked.collect();
        let count = async move |tx: &mut Tx<'_>| claims::waiting_count(tx, &asked, org).await;
        let count = self.0.store.read(count).await?;
        let mut state = locked(&self.0.state);
        if state.counts.len() > PIECE {
            state.counts.clear();
        }
        state.counts.insert(kind, (now, count));
        Ok(count)
    }

    /// The ids of repositories (`owner/name`) that a runner may know of; others are left out.
    pub async fn repositories(
        &self,
        member: &Member,
        names: &[String],
    ) -> Result<Vec<RepoId>, StoreError> {
        let (mut known, unknown) = {
            let state = locked(&self.0.state);
            let known = |name: &String| state.repositories.get(&(member.runner.org, name.clone()));
            let unknown = names.iter().filter(|name| known(name).is_none()).cloned();
            (
                names.iter().filter_map(known).copied().collect::<Vec<_>>(),
                unknown.collect::<Vec<_>>(),
            )
        };
        if unknown.is_empty() {
            return Ok(known);
        }
        let org = member.runner.org;
        let read = async move |tx: &mut Tx<'_>| find_all(tx, org, &unknown).await;
        let found = self.0.store.read(read).await?;
        let state = &mut locked(&self.0.state).repositories;
        if state.len() > 10 * PIECE {
            state.clear();
        }
        known.extend(found.iter().map(|(_, id)| *id));
        state.extend(found.into_iter().map(|(name, id)| ((org, name), id)));
        Ok(known)
    }

    /// Keeps what a runner is told now, and says whether any of it is new to it. What it was told before
    /// can wait: otherwise it would be told without end until it has done it.
    pub fn tell(&self, id: RunnerId, commands: &[Command]) -> bool {
        let mut state = locked(&self.0.state);
        let before = state.told.get(&id);
        let is_new = |command| before.is_none_or(|before| !before.contains(command));
        let any_new = commands.iter().any(is_new);
        if commands.is_empty() {
            state.told.remove(&id);
        } else if any_new {
            state.told.insert(id, commands.to_vec());
        }
        any_new
    }

    /// The number up to which a runner was heard under a claim; none if this server does not know.
    pub fn heard(&self, job: JobId, claim: u32, runner: RunnerId) -> Option<u64> {
        self.0.spoken.heard(job, claim, runner)
    }

    /// Remembers up to which number a runner was heard under a claim.
    pub fn remember_heard(&self, job: JobId, claim: u32, runner: RunnerId, number: u64) {
        self.0.spoken.hear(job, claim, runner, number);
    }

    /// Remembers how a claim ended, so that repeating it is answered as before.
    pub fn remember_end(&self, job: JobId, claim: u32, conclusion: Conclusion) {
        self.0.spoken.ended(job, claim, conclusion);
    }

    /// A word under this claim was refused.
    pub fn forget_claim(&self, job: JobId, claim: u32) {
        self.0.spoken.forget(job, claim);
    }

    /// How a claim ended, if it was on this server and not long ago.
    pub fn end_of(&self, job: JobId, claim: u32) -> Option<Conclusion> {
        self.0.spoken.end(job, claim)
    }
}

impl Inner {
    /// How many jobs waited for runners of this kind.
    fn known_count(&self, kind: &Kind) -> Known {
        let now = Instant::now();
        let mut state = locked(&self.state);
        let Some((at, count)) = state.counts.get_mut(kind) else { return Known::Nothing };
        let age = now.duration_since(*at);
        if age < COUNT_FOR {
            return Known::Fresh(*count);
        }
        if age < 5 * COUNT_FOR {
            *at = now;
            return Known::Due;
        }
        Known::Nothing
    }
}

/// What is known of how many jobs wait.
#[derive(Debug, PartialEq, Eq)]
enum Known {
    Fresh(u64),
    /// Whoever hears this counts, and is the only one: the others hear meanwhile what was.
    Due,
    Nothing,
}

/// The ids of those that there are.
async fn find_all(
    tx: &mut Tx<'_>,
    org: Option<OrgId>,
    names: &[String],
) -> Result<Vec<(String, RepoId)>, StoreError> {
    let scope = org.map_or(DUTY, Scope::Org);
    let mut found = Vec::new();
    for name in names {
        match repositories::by_name(tx, scope, name).await {
            Ok(repository) => found.push((name.clone(), repository.id)),
            Err(StoreError::Refused(Refusal::NotFound(_))) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

async fn mark_all(tx: &mut Tx<'_>, seen: &[RunnerId]) -> Result<Vec<bool>, StoreError> {
    let mut written = Vec::with_capacity(seen.len());
    for id in seen {
        written.push(runners::seen(tx, DUTY, *id).await?);
    }
    Ok(written)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use kiln_core::id::PoolId;
    use kiln_core::queue::Capabilities;
    use kiln_core::time::Timestamp;
    use kiln_store::directory::runners::{About, Runner, RunnerState};

    use super::*;

    pub(super) fn member(id: i64, speed: f64) -> Member {
        let about = About {
            capabilities: "{}".to_owned(),
            max_parallel: 1,
            single_use: false,
            os: "linux".to_owned(),
            architecture: "x64".to_owned(),
            version: "1".to_owned(),
            protocol: 1,
            public_key: None,
        };
        let runner = Runner {
            id: RunnerId(id),
            org: None,
            pool: PoolId(1),
            name: format!("runner-{id}"),
            about,
            epoch: 0,
            draining: false,
            leaving: false,
            health: None,
            speed,
            completed: 0,
            failed: 0,
            registered_at: Timestamp(0),
            last_seen_at: Timestamp(0),
            leases: 0,
            state: RunnerState::Online,
        };
        Member { runner, has: Capabilities::default(), queues: Mutex::default() }
    }
}
