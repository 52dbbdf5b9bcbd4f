//! Everything that leaves the program: one console, and one file for each format.

mod console;
mod finding;
pub(crate) mod frame;
pub(crate) mod github;
pub(crate) mod human;
pub(crate) mod json;
mod manner;
pub(crate) mod paint;
pub(crate) mod plan_human;
pub(crate) mod plan_json;
pub(crate) mod sarif;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod time;
pub(crate) mod value;

pub(crate) use console::Console;
pub(crate) use finding::{Checked, Finding, findings};
pub(crate) use manner::Manner;

/// Text on one line without control characters, so that no workflow can steer a terminal.
pub(crate) fn one_line(text: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    text.trim().chars().map(visible).collect()
}
