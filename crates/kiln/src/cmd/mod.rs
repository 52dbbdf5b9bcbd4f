//! One file for each command.

mod compiled;
pub(crate) mod completions;
pub(crate) mod db;
pub(crate) mod eval;
pub(crate) mod graph;
pub(crate) mod lint;
pub(crate) mod man;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod runner;
