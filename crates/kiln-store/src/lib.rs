//! Every fact durable, once, on SQLite and PostgreSQL.
//!
//! [`Store::write`] is the only way to change anything, [`Store::read`] the way to look. Both take a
//! closure over a [`Tx`], which speaks to either database; functions over rows are written once, and
//! where statements must differ, both variants stand side by side in a [`Sql`].

pub mod claims;
mod error;
pub mod events;
pub mod inspect;
mod migrate;
pub mod outbox;
mod partitions;
mod postgres;
pub mod runs;
mod signal;
mod sql;
mod sqlite;
mod store;
mod table;
mod tx;

pub use error::{Refusal, StoreError};
pub use migrate::Status;
pub use signal::{Signal, Subscription};
pub use sql::{FromValue, Row, Sql, Value};
pub use store::{Options, Store};
pub use tx::Tx;
