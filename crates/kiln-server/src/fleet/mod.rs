//! The runners of this server: what is known of them, and who waits for work.
//!
//! Rows of runners are read once and kept; a signal of the store, or the slow look at everything, takes
//! them away when they change. Which queues a runner can serve is computed once, and again when a new
//! queue appears. So a poll that finds nothing reads little and writes nothing.

mod rates;
mod waiting;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kiln_core::id::{JobId, QueueId, RepoId, RunnerId};
use kiln_core::queue::{Capabilities, Offer, Requirements, Serving, serves};
use kiln_core::run::Conclusion;
use kiln_proto::runner::Command;
use kiln_store::directory::pools;
use kiln_store::directory::runners::{self, Mark, Runner};
use kiln_store::{Duty, Gather, Scope, Signal, Store, StoreError, Tx, claims};
use tokio::sync::watch;
use tokio::time::Instant;

pub use rates::{Rates, Use};
pub use waiting::Seat;

use crate::bus::Bus;
use rates::Buckets;
use waiting::{Kind, Waiting};

const DUTY: Scope = Scope::System(Duty::Claims);
/// How many runners are looked at in one statement.
const PIECE: usize = 1_000;
/// How long a count of waiting jobs is good enough.
const COUNT_FOR: Duration = Duration::from_secs(2);
/// How many ends of jobs are remembered, so that repeating one is answered as before.
const ENDS: usize = 10_000;
/// How many repositories with work are looked up to find a runner that has their files.
const MOST_WANTED: u32 = 64;

/// A runner as this server knows it.
#[derive(Debug)]
pub struct Member {
    pub runner: Runner,
    pub has: Capabilities,
    /// In order, so that those who may take the same are of one kind.
    queues: Mutex<Arc<[Serving]>>,
}

impl Member {
    /// What it may take, and after how long.
    pub fn queues(&self) -> Arc<[Serving]> {
        Arc::clone(&locked(&self.queues))
    }

    /// Nothing new is given to it.
    pub fn is_leaving(&self) -> bool {
        self.runner.draining || self.runner.leaving
    }

    fn is_as(&self, mark: &Mark) -> bool {
        let Runner { epoch, draining, leaving, .. } = self.runner;
        (epoch, draining, leaving) == (mark.epoch, mark.draining, mark.leaving)
    }

    fn learn(&self, queue: QueueId, needs: &Requirements) {
        let Some(delay) = serves(needs, &self.has) else { return };
        let mut queues = locked(&self.queues);
        if let Err(at) = queues.binary_search_by_key(&queue, |serving| serving.queue) {
            let (before, after) = queues.split_at(at);
            *queues = [before, &[Serving { queue, delay }], after].concat().into();
        }
    }
}

/// The runners of this server. Clones are the same.
#[derive(Debug, Clone)]
pub struct Fleet(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    rates: Rates,
    buckets: Buckets,
    state: Mutex<State>,
    waiting: Waiting,
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
    ends: HashMap<(JobId, u32), (Instant, Conclusion)>,
    /// Repositories that had jobs here, by their names.
    repositories: HashMap<String, RepoId>,
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
            waiting: Waiting::default(),
            signs,
        });
        tokio::spawn(listen(Arc::downgrade(&inner), bus.clone()));
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
        if let Some(member) = known {
            return Ok(member);
        }
        let (runner, has) = self.0.store.read(async move |tx| read(tx, id).await).await?;
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
        let fits = |serving: &&Serving| state.queues.get(&serving.queue).is_some_and(&such);
        member.queues().iter().filter(fits).copied().collect()
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
        let now = Instant::now();
        if let Some((at, count)) = locked(&self.0.state).counts.get(&kind)
            && now.duration_since(*at) < COUNT_FOR
        {
            return Ok(*count);
        }
        let (asked, org) =
            (kind.queues.iter().map(|serving| serving.queue).collect::<Vec<_>>(), kind.org);
        let count = async move |tx: &mut Tx<'_>| claims::waiting_count(tx, &asked, org).await;
        let count = self.0.store.read(count).await?;
        let mut state = locked(&self.0.state);
        if state.counts.len() > PIECE {
            state.counts.clear();
        }
        state.counts.insert(kind, (now, count));
        Ok(count)
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

    /// Remembers what a repository is called, so that runners can name it.
    pub fn remember_repository(&self, name: &str, id: RepoId) {
        let known = &mut locked(&self.0.state).repositories;
        if known.len() >= ENDS {
            known.clear();
        }
        if known.get(name) != Some(&id) {
            known.insert(name.to_owned(), id);
        }
    }

    /// Those of these repositories that are known here.
    pub fn repositories(&self, names: &[String]) -> Vec<RepoId> {
        let known = &locked(&self.0.state).repositories;
        names.iter().filter_map(|name| known.get(name)).copied().collect()
    }

    /// Remembers how a claim ended.
    pub fn remember_end(&self, job: JobId, claim: u32, conclusion: Conclusion) {
        let now = Instant::now();
        let mut state = locked(&self.0.state);
        if state.ends.len() >= ENDS {
            let mut times: Vec<Instant> = state.ends.values().map(|(at, _)| *at).collect();
            times.sort_unstable();
            let middle = times[times.len() / 2];
            state.ends.retain(|_, (at, _)| *at > middle);
        }
        state.ends.insert((job, claim), (now, conclusion));
    }

    /// How a claim ended, if it was on this server and not long ago.
    pub fn end_of(&self, job: JobId, claim: u32) -> Option<Conclusion> {
        locked(&self.0.state).ends.get(&(job, claim)).map(|(_, conclusion)| *conclusion)
    }
}

impl Inner {
    fn forget(&self, id: RunnerId) {
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
    async fn refresh_queues(&self) -> Result<(), StoreError> {
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
            changed.into_iter().for_each(|id| self.forget(id));
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
            Signal::Run(_) | Signal::Outbox | Signal::Timer => {}
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
async fn listen(fleet: Weak<Inner>, bus: Bus) {
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

async fn read(tx: &mut Tx<'_>, id: RunnerId) -> Result<(Runner, Capabilities), StoreError> {
    let runner = runners::get(tx, DUTY, id).await?;
    let pool = pools::get(tx, DUTY, runner.pool).await?;
    // What a runner says of itself was checked when it came.
    let has = Capabilities::parse(&runner.about.capabilities).unwrap_or_default();
    let offer = Offer { pool: Some(pool.name), ..has.offer().clone() };
    Ok((runner, Capabilities::new(offer).unwrap_or_default()))
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
    use kiln_core::time::Timestamp;
    use kiln_store::directory::runners::{About, RunnerState};

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
