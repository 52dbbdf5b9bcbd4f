//! HTTP, services and duties: the control plane.
//!
//! A request becomes a call of a service; a service combines the store, the engine of `kiln-core` and
//! the language; a duty runs without a request. Nothing here starts a process: what git must be asked
//! is behind [`sources::Sources`].

pub mod app;
pub mod auth;
pub mod bus;
pub mod clock;
pub mod config;
mod detach;
mod files;
pub mod first;
pub mod fleet;
pub mod http;
pub mod logs;
pub mod peer;
mod percent;
mod places;
mod rate;
pub mod seal;
mod serve;
pub mod service;
mod shutdown;
pub mod sources;
mod stall;
mod start;
pub mod storage;
pub mod tasks;
pub mod tls;
pub mod token;
mod web;

pub use kiln_blob::zip;
pub use start::{Server, StartError};
