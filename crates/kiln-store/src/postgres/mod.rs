//! PostgreSQL: a pool of connections, each transaction on one of them.

mod address;
mod listener;
mod pipe;
mod session;
mod tls;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::{Hook, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use futures_util::FutureExt as _;
use kiln_fault::Point;

use crate::signal::{Hub, Origin, Signals};
use crate::{StoreError, Tx};

pub(crate) use address::{Address, Link, Way};
use listener::Listener;
pub(crate) use pipe::{Later, Pipe};
pub(crate) use session::Session;
pub(crate) use tls::explained;

/// How often work is run again after a deadlock, a serialization failure or a lost connection.
const TRIES: u32 = 8;
/// What our connections call themselves, so that others can tell that a Kiln is there.
pub(crate) const APPLICATION: &str = "kiln";
/// What the connection for hints calls itself: each server has one.
pub(crate) const HINTS: &str = "kiln hints";
/// How long a caller waits for a free connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Every statement is planned once for each connection, and goes by indexes whatever the statistics of
/// the moment say: a plan made while a table was small must still do when it is not. The address may
/// say otherwise.
const PLANS: &str = "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off \
    -c enable_hashjoin=off -c enable_mergejoin=off -c jit=off";

/// This Kiln gives attempts another version by itself when it changes their rows. For whoever does not say so, triggers do.
const VERSIONS: &str = "-c kiln.versions=renewed";

/// A server that stands still in the middle of a transaction must not hold the others up for long.
const BOUNDS: &str = "-c idle_in_transaction_session_timeout=30s -c lock_timeout=15s";

#[derive(Debug, Clone)]
pub(crate) struct Postgres {
    pool: Pool,
    pub(crate) way: Arc<Way>,
    hub: Arc<Hub>,
    pub(crate) listener: Arc<Listener>,
    pub(crate) connections: Connections,
}

/// How many connections were made so far. What was heard over those before the last may be of a database whose place another
/// one has taken since, without the last that the first was told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Connections(Arc<AtomicU64>);

impl Connections {
    pub(crate) fn made(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn count(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// What a transaction is for.
#[derive(Debug, Clone, Copy)]
enum Mode {
    Write,
    Read,
}

impl Mode {
    /// The level is named: whatever the server's default is, this is what the code was written for.
    fn begin(self) -> &'static str {
        match self {
            Self::Write => "BEGIN ISOLATION LEVEL READ COMMITTED",
            Self::Read => "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
        }
    }

    /// Who only looks has nothing to lose.
    fn passes(self, point: Point) {
        if matches!(self, Self::Write) {
            point.pass();
        }
    }
}

impl Postgres {
    pub(crate) fn open(url: &str, connections: usize, hub: Arc<Hub>) -> Result<Self, StoreError> {
        let mut way = Address::parse(url)?.way()?;
        let config = &mut way.config;
        if config.get_application_name().is_none() {
            config.application_name(APPLICATION);
        }
        let own = config.get_options().unwrap_or_default();
        let options = format!("{PLANS} {VERSIONS} {BOUNDS} {own}");
        config.options(options);
        let listener = Arc::new(Listener::new(way.clone(), Arc::clone(&hub)));
        let manager = Manager::from_connect(
            way.config.clone(),
            way.clone(),
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let made = Connections::default();
        let count = made.clone();
        let pool = Pool::builder(manager)
            .max_size(connections)
            .post_create(Hook::sync_fn(move |_, _| {
                count.count();
                Ok(())
            }))
            .wait_timeout(Some(PATIENCE))
            .create_timeout(Some(PATIENCE))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| StoreError::Database(error.to_string()))?;
        Ok(Self { pool, way: Arc::new(way), hub, listener, connections: made })
    }

    pub(crate) fn close(&self) {
        self.pool.close();
    }

    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: AsyncFn(&mut Tx<'_>) -> Result<T, StoreError> + Send + Sync + 'static,
    {
        self.transaction(Mode::Write, &work).await
    }

    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: AsyncFn(&mut Tx<'_>) -> Result<T, StoreError> + Send + Sync + 'static,
    {
        self.transaction(Mode::Read, &work).await
    }

    /// Runs the work until it succeeds or fails for a reason that another try would not change.
    async fn transaction<T, F>(&self, mode: Mode, work: &F) -> Result<T, StoreError>
    where
        F: AsyncFn(&mut Tx<'_>) -> Result<T, StoreError> + Send + Sync,
    {
        let mut wait = Duration::from_millis(2);
        for _ in 1..TRIES {
            match self.attempt(mode, work).await {
                Err(error) if error.is_transient() => tokio::time::sleep(wait).await,
                answer => return answer,
            }
            wait *= 2;
        }
        self.attempt(mode, work).await
    }

    async fn attempt<T, F>(&self, mode: Mode, work: &F) -> Result<T, StoreError>
    where
        F: AsyncFn(&mut Tx<'_>) -> Result<T, StoreError> + Send + Sync,
    {
        let mut session = Session::new(self.pool.get().await?);
        let now = session.begin(mode.begin()).await?;
        let mut tx = Tx::postgres(Pipe::new(&session), now);
        let answer = AssertUnwindSafe(work(&mut tx)).catch_unwind().await;
        let answer = answer.unwrap_or_else(|panic| Err(StoreError::panicked(panic.as_ref())));
        let (signals, then, later) = tx.into_parts();
        match answer {
            Ok(answer) => {
                mode.passes(Point::BeforeCommit);
                let committed = session.commit_after(later).await;
                mode.passes(Point::AfterCommit);
                // Where nobody knows whether it happened, a needless hint does no harm.
                if matches!(committed, Ok(()) | Err(StoreError::InDoubt(_))) {
                    self.publish(&signals);
                }
                committed.map(|()| {
                    then.happen();
                    answer
                })
            }
            Err(error) => {
                session.rollback().await;
                Err(error)
            }
        }
    }

    fn publish(&self, signals: &Signals) {
        if !signals.is_empty() {
            self.listener.start();
            self.hub.publish(signals, Origin::Here);
        }
    }
}
