//! An empty database for one test, on either of the two.

use std::sync::atomic::{AtomicU32, Ordering};

use kiln_store::{Options, Store};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

/// A database that goes away with the test.
#[derive(Debug)]
pub struct Database {
    pub options: Options,
    /// Holds the file of the embedded one.
    _directory: Option<TempDir>,
}

impl Database {
    pub fn sqlite() -> Self {
        let directory = tempfile::tempdir().expect("the system has a folder for such files");
        let path = directory.path().join("kiln.db");
        Self { options: Options::Sqlite { path }, _directory: Some(directory) }
    }

    /// A database in the cluster that `KILN_TEST_POSTGRES` names. Without one the test fails: half of
    /// what it is about would not be tested.
    pub async fn postgres() -> Self {
        let address = address();
        let name = unused_name();
        let client = connect(&address).await;
        // The id of a process comes again; what an earlier one left under it is nobody's.
        for statement in ["DROP DATABASE IF EXISTS", "CREATE DATABASE"] {
            let done = client.batch_execute(&format!("{statement} {name}")).await;
            done.expect("the cluster is ours");
        }
        let base = address.rsplit_once('/').map_or(address.as_str(), |(base, _)| base);
        let options = Options::Postgres { url: format!("{base}/{name}"), connections: 8 };
        Self { options, _directory: None }
    }

    /// Another empty one of the same kind.
    pub async fn like(other: &Self) -> Self {
        match other.options {
            Options::Sqlite { .. } => Self::sqlite(),
            Options::Postgres { .. } => Self::postgres().await,
        }
    }

    /// The same one, for another server. The embedded one goes with the first.
    pub fn same(other: &Self) -> Self {
        Self { options: other.options.clone(), _directory: None }
    }

    pub fn open(&self) -> Store {
        Store::open(&self.options).expect("the database is new")
    }
}

#[expect(clippy::disallowed_methods, reason = "the environment says where the cluster is")]
fn address() -> String {
    std::env::var("KILN_TEST_POSTGRES").expect(
        "KILN_TEST_POSTGRES is not set: run scripts/test, or `export KILN_TEST_POSTGRES=$(scripts/postgres start)`",
    )
}

/// Tests run in processes of their own, so the process id tells them apart.
fn unused_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let process = rustix::process::getpid().as_raw_nonzero();
    format!("kiln_{process}_{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

async fn connect(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls)
        .await
        .expect("the cluster of KILN_TEST_POSTGRES runs");
    tokio::spawn(connection);
    client
}
