//! Archives: reading those that somebody else made, writing one while it is sent.

pub mod file;
pub mod read;
pub mod write;
