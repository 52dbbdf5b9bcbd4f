//! The server over real HTTP, on both databases.
#![expect(clippy::unwrap_used, reason = "a panic is the report")]
#![recursion_limit = "256"] // Futures of the store and of HTTP are nested deeply.

/// Makes a test of a function over a server for each of the two databases.
macro_rules! on_both {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                let database = kiln_testkit::database::Database::sqlite();
                super::$name(crate::support::Server::start(database).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                let database = kiln_testkit::database::Database::postgres().await;
                super::$name(crate::support::Server::start(database).await).await;
            }
        }
    };
}

mod api;
mod blobs;
mod bucket;
mod companion;
mod content;
mod duties;
mod ends;
mod faults;
mod fleet;
mod garbage;
mod git;
mod identity;
mod kinds;
mod machines;
mod packing;
mod registration;
mod reports;
mod results;
mod runner;
mod several;
mod signed;
mod support;
mod trees;
mod web;
mod workers;
