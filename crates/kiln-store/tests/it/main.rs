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
mod events;
mod inspect;
mod runs;
mod transactions;
