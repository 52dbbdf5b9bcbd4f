//! Pages as browsers ask for them, over real HTTP.

pub(crate) mod browser;
mod expired;
mod forms;
mod jump;
mod left;
mod log;
mod pages;
mod runner;
mod session;
mod settings;
mod shown;
mod views;
mod waits;
mod workflow;
mod xss;
