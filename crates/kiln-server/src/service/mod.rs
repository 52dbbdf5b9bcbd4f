//! Verbs across store, core and language: one module for each use case.

pub mod claim;
pub mod context;
pub mod doctor;
pub mod heartbeat;
pub mod job;
pub mod register;
pub mod report;
pub mod worker;
