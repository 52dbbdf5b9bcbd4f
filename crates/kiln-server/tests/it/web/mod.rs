//! Pages as browsers ask for them, over real HTTP.

mod browser;
mod forms;
mod left;
mod pages;
mod session;
mod xss;
