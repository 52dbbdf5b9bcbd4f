//! Chores of the repository: the tidy checks and the generated references.
//!
//! It is a library so that `tests/tidy.rs` can run every check wherever the tests run.

pub mod generate;
pub mod repository;
pub mod tidy;

mod rust_text;
