//! The store: one way to look, one way to change.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use kiln_core::time::Timestamp;

use crate::leader::Leadership;
use crate::postgres::{Connections, Postgres, Way};
use crate::signal::{Hub, Signal, Subscription};
use crate::sqlite::Sqlite;
use crate::{Options, StoreError, Tx};

/// An open store; its clones are the same store.
#[derive(Debug, Clone)]
pub struct Store {
    arm: Arm,
    hub: Arc<Hub>,
}

#[derive(Debug, Clone)]
enum Arm {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

impl Store {
    pub fn open(options: &Options) -> Result<Self, StoreError> {
        match options {
            Options::Sqlite { path } => {
                let hub = Arc::new(Hub::default());
                let arm = Arm::Sqlite(Sqlite::open(path, Arc::clone(&hub))?);
                Ok(Self { arm, hub })
            }
            Options::Postgres { url, connections } => {
                let hub = Arc::new(Hub::with_others());
                let arm = Arm::Postgres(Postgres::open(url, *connections, Arc::clone(&hub))?);
                Ok(Self { arm, hub })
            }
        }
    }

    /// Opens a file in which nothing must change, such as a backup.
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        let hub = Arc::new(Hub::default());
        Ok(Self { arm: Arm::Sqlite(Sqlite::open_read_only(path, Arc::clone(&hub))?), hub })
    }

    /// Waits until the last clone of this store is gone and everything is closed. A SQLite database is
    /// one file afterwards, without another beside it.
    pub async fn close(self) {
        match self.arm {
            Arm::Sqlite(sqlite) => sqlite.close().await,
            Arm::Postgres(postgres) => postgres.close(),
        }
    }

    /// The file of the embedded database.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.arm {
            Arm::Sqlite(sqlite) => Some(&sqlite.path),
            Arm::Postgres(_) => None,
        }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self.arm, Arm::Postgres(_))
    }

    /// The connections that were made to PostgreSQL. On SQLite there are none.
    pub(crate) fn connections(&self) -> Connections {
        match &self.arm {
            Arm::Sqlite(_) => Connections::default(),
            Arm::Postgres(postgres) => postgres.connections.clone(),
        }
    }

    /// Whether changes are kept. After the disk of an embedded database failed once, none are before a new start.
    pub fn check(&self) -> Result<(), StoreError> {
        match &self.arm {
            Arm::Sqlite(sqlite) => sqlite.writer.check(),
            Arm::Postgres(_) => Ok(()),
        }
    }

    /// Changes something, durably, or nothing at all. The work may be run more than once; only the
    /// last time counts.
    pub async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: AsyncFn(&mut Tx<'_>) -> Result<T, StoreError> + Send + Sync + 'static,
        T: Send + 'static,
    {
        match &self.arm {
            Arm::Sqlite(sqlite) => sqlite.writer.write(work).await,
            Arm::Postgres(postgres) => Box::pin(postgres.write(work)).await,
        }
    }

    /// Gives other servers of the database a hint that belongs to no change of it. On SQLite there are none.
    pub fn hint_others(&self, signal: Signal) {
        self.hub.tell_others(signal);
    }

    /// Hears what changes from now on, here and on other servers. Must be called on a runtime.
    pub fn subscribe(&self) -> Subscription {
        if let Arm::Postgres(postgres) = &self.arm {
            postgres.listener.start();
        }
        self.hub.subscribe()
    }

    /// Stands for a duty that only one server may have at a time. Must be called on a runtime.
    pub fn leadership(&self, duty: &'static str) -> Leadership {
        match &self.arm {
            Arm::Sqlite(_) => Leadership::alone(),
            Arm::Postgres(postgres) => Leadership::run_for(Way::clone(&postgres.way), duty),
        }
    }

    /// Looks at one consistent state. Never waits for those who write.
    pub async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: AsyncFn(&mut Tx<'_>) -> Result<T, StoreError> + Send + Sync + 'static,
        T: Send + 'static,
    {
        match &self.arm {
            Arm::Sqlite(sqlite) => sqlite.readers.read(work).await,
            // Its future has room for all that is asked of the database. Without the box all who wait for an embedded
            // one would have that room, too.
            Arm::Postgres(postgres) => Box::pin(postgres.read(work)).await,
        }
    }
}

/// The time of this machine, which is the database's when it is embedded.
#[expect(clippy::disallowed_methods, reason = "the embedded database has no other clock")]
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(kiln_fault::clock(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
}
