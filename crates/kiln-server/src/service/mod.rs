//! Verbs across store, core and language: one module for each use case.

pub mod claim;
pub mod context;
pub mod heartbeat;
pub mod job;
pub mod register;
pub mod report;
pub mod worker;
pub mod jobs;
pub mod names;
pub mod repos;
pub mod runs;
pub mod trigger;
