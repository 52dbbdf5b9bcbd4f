//! One file for each command.

pub(crate) mod client;
mod compiled;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod db;
pub(crate) mod doctor;
pub(crate) mod eval;
pub(crate) mod graph;
pub(crate) mod lint;
pub(crate) mod man;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod runner;
pub(crate) mod server;
pub(crate) mod sim;
pub(crate) mod up;
