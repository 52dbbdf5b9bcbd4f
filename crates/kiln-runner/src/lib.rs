//! Runs jobs: processes and their whole trees, steps, actions, and `kiln run`.

pub mod action;
pub mod agent;
pub mod backend;
pub mod files;
pub mod gateway;
pub mod git;
pub mod job;
pub mod local;
mod loopback;
pub mod origin;
pub mod process;
mod random;
pub mod workspace;
