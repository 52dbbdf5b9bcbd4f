//! Every fact durable, once, on SQLite and PostgreSQL.
//!
//! [`Store::write`] is the only way to change anything, [`Store::read`] the way to look. Both take a
//! closure over a [`Tx`], which speaks to either database; functions over rows are written once, and
//! where statements must differ, both variants stand side by side in a [`Sql`].

mod backup;
mod cache;
pub mod claims;
mod clock;
pub mod content;
mod copy;
mod describe;
pub mod directory;
mod error;
pub mod events;
mod gather;
mod ids;
pub mod inspect;
mod leader;
mod migrate;
mod options;
pub mod outbox;
mod partitions;
mod postgres;
pub mod retention;
pub mod runs;
mod serving;
mod signal;
mod sql;
mod sqlite;
mod store;
mod table;
mod traffic;
mod tx;
mod words;

pub use backup::{Backup, backup};
pub use cache::Cache;
pub use clock::{clock_was_set, look_at_clock};
pub use copy::{Column, Copied, Kind, Phase, Progress, Table, Tally, copy, prepare};
pub use describe::{Description, Rows, is_in_use};
pub use directory::actor::{Actor, ActorKind};
pub use directory::page::Page;
pub use directory::scope::{Duty, Scope};
pub use error::{Refusal, StoreError};
pub use gather::{Answers, Gather};
pub use leader::Leadership;
pub use migrate::Status;
pub use options::Options;
pub use serving::Serving;
pub use signal::{Signal, Subscription};
pub use sql::{FromValue, Row, Sql, Value};
pub use store::Store;
pub use traffic::{Offered, Traffic};
pub use tx::Tx;
