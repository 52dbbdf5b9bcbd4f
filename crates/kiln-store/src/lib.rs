//! Every fact durable, once, on SQLite and PostgreSQL.
//!
//! [`Store::write`] is the only way to change anything, [`Store::read`] the way to look. Both take a
//! closure over a [`Tx`], which speaks to either database; functions over rows are written once, and
//! where statements must differ, both variants stand side by side in a [`Sql`].

pub mod content;
pub mod directory;
mod error;
mod ids;
mod migrate;
mod partitions;
mod postgres;
mod sql;
mod sqlite;
mod store;
mod tx;
mod words;

pub use directory::actor::{Actor, ActorKind};
pub use directory::page::Page;
pub use directory::scope::{Duty, Scope};
pub use error::{Refusal, StoreError};
pub use migrate::Status;
pub use sql::{FromValue, Row, Sql, Value};
pub use store::{Options, Store};
pub use tx::Tx;
