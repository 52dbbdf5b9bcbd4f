//! Pipeline text to plan: readers that keep spans, the expression language, checks and the compiler.
//!
//! Pure: sources come in as strings, diagnostics and plans go out.

pub mod compile;
pub mod diag;
pub mod dispatch;
pub mod engine;
pub mod expr;
pub mod filter;
pub mod foresee;
pub mod github;
pub mod hash_files;
pub mod lint;
pub mod reuse;
pub mod schema;
pub mod source;
pub mod suggest;
pub mod trigger;
pub mod workflow;
pub mod yaml;
