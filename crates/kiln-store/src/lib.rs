//! Every fact durable, once, on SQLite and PostgreSQL.
//!
//! [`Store::write`] is the only way to change anything, [`Store::read`] the way to look. Both take a
//! closure over a [`Tx`], which speaks to either database; functions over rows are written once, and
//! where statements must differ, both variants stand side by side in a [`Sql`].

mod backup;
mod copy;
mod describe;
mod error;
mod migrate;
mod options;
mod partitions;
mod postgres;
mod sql;
mod sqlite;
mod store;
mod tx;

pub use backup::{Backup, backup};
pub use copy::{Column, Copied, Kind, Phase, Progress, Table, Tally, copy, prepare};
pub use describe::{Description, is_in_use};
pub use error::{Refusal, StoreError};
pub use migrate::Status;
pub use options::Options;
pub use sql::{FromValue, Row, Sql, Value};
pub use store::Store;
pub use tx::Tx;
