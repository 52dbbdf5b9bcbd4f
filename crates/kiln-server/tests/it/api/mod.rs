//! Kiln's own interface and GitHub's, as people and their programs use them.

pub(crate) mod access;
mod admin;
mod around;
mod audited;
mod content;
mod from_step;
mod github;
mod hardening;
pub(crate) mod live;
pub(crate) mod logs;
mod manifests;
mod objects;
pub(crate) mod openapi;
pub(crate) mod people;
mod refused;
mod removal;
mod runs;
mod search;
pub(crate) mod steps;
mod streams;
mod trigger;
