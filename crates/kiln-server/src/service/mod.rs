//! Verbs across store, core and language: one module for each use case.

pub mod change;
pub mod context;
pub mod events;
pub mod jobs;
pub mod keys;
pub mod log;
pub mod names;
pub mod pause;
pub mod repos;
pub mod runners;
pub mod runs;
pub mod tokens;
pub mod trigger;
