//! Verbs across store, core and language: one module for each use case.

pub mod blobs;
pub mod change;
pub mod claim;
pub mod content;
pub mod context;
pub mod doctor;
pub mod events;
pub mod garbage;
pub mod heartbeat;
pub mod job;
pub mod jobs;
pub mod keys;
pub mod log;
pub mod manifests;
pub mod names;
pub mod pause;
pub mod queue;
pub mod register;
pub mod report;
pub mod repos;
pub mod runners;
pub mod runs;
pub mod storage;
pub mod tokens;
pub mod trigger;
pub mod worker;
