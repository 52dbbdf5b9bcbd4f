//! Verbs across store, core and language: one module for each use case.

pub mod context;
