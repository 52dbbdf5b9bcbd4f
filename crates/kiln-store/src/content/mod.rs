//! Bytes and what refers to them, as rows.
//!
//! Only what the schema means is here; what is done with it (storage, retention, collection) is the affair
//! of those who use it. Jobs and duties of Kiln write these rows, which say themselves whose they are; what
//! replaces or removes something that a person may miss takes an actor and leaves an audit row.

pub mod artifacts;
pub mod belongings;
pub mod blobs;
pub mod caches;
pub mod chunks;
pub mod garbage;
pub mod handed;
pub mod manifests;
pub mod objects;
mod owned;
pub mod packing;
pub mod storage;
pub mod tags;
pub mod trees;
pub mod uploads;
