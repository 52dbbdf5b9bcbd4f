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
pub mod fleet;
pub mod http;
pub mod logs;
pub mod seal;
pub mod service;
pub mod sources;
pub mod tasks;
pub mod token;
