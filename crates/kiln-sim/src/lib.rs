//! The real policies and the real state machine of `kiln-core` in virtual time.
//!
//! Nothing here reads a clock, touches a file or draws a number that a seed does not decide: the same
//! seed gives the same history, step for step.

pub mod faults;
pub mod load;
pub mod random;
