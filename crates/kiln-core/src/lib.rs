//! What should happen: the domain of Kiln as pure data and functions.
//!
//! Nothing here waits, reads a clock, draws a random number or touches a file. Programs above this
//! crate bring those in as arguments.

pub mod access;
pub mod cron;
pub mod graph;
pub mod id;
pub mod plan;
pub mod queue;
pub mod run;
pub mod time;
pub mod value;
