//! Kiln's own interface and GitHub's, as people and their programs use them.

mod access;
mod admin;
mod content;
mod github;
mod hardening;
mod live;
mod logs;
mod manifests;
mod openapi;
pub(crate) mod people;
mod runs;
mod search;
mod streams;
mod trigger;
