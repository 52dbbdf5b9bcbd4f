//! Every byte that crosses a process border, with versions.
//!
//! Types here are shapes and nothing else: what a server, a runner and a client agree on. A field is
//! never renamed or removed while runners that know it may still be about; a new one has a default.

pub mod api;
pub mod blob;
pub mod content;
pub mod github;
pub mod headers;
pub mod held;
pub mod history;
pub mod identity;
pub mod job;
pub mod live;
pub mod log;
pub mod manifest;
pub mod object;
pub mod problem;
pub mod report;
pub mod result;
pub mod runner;
pub mod summary;
pub mod version;
pub mod worker;
pub mod workflow;
