//! One suite for both databases.
#![expect(clippy::unwrap_used, reason = "a panic is the report")]

/// Makes a test of a function over a store for each of the two databases.
macro_rules! on_both {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                let database = kiln_testkit::database::Database::sqlite();
                super::$name(database.open()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                let database = kiln_testkit::database::Database::postgres().await;
                super::$name(database.open()).await;
            }
        }
    };
}

/// The same for a function that opens the database itself, or wants another of its kind.
macro_rules! with_database {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                super::$name(kiln_testkit::database::Database::sqlite()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                super::$name(kiln_testkit::database::Database::postgres().await).await;
            }
        }
    };
}

mod access;
mod assignments;
mod backup;
mod belongings;
mod claims;
mod content;
mod copy;
mod describe;
mod events;
mod explain;
mod filled;
mod footprint;
mod garbage;
mod inspect;
mod isolation;
mod leadership;
mod lifecycle;
mod looks;
mod machines;
mod memory;
mod organizations;
mod outbox;
mod owned;
mod pace;
mod pauses;
mod people;
mod places;
mod property;
mod races;
mod reports;
mod repositories;
mod retention;
mod runs;
mod search;
mod secrets;
mod serving;
mod signals;
mod starting;
mod tls;
mod transactions;
mod triggers;
mod upgrade;
mod world;
