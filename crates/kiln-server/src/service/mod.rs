//! Verbs across store, core and language: one module for each use case.

pub mod context;
pub mod jobs;
pub mod names;
pub mod repos;
pub mod runs;
pub mod trigger;
