//! One job: its steps, what they say and what they leave behind.

mod actions;
pub mod annotations;
mod background;
pub mod commands;
mod contexts;
mod deployment;
mod driver;
pub mod environment;
mod execute;
pub mod file_commands;
mod files;
mod frame;
pub mod mask;
pub mod matcher;
mod output;
mod post;
mod pre;
mod retry;
mod script;
pub mod shell;
mod task;
mod variables;

pub use annotations::Annotation;
pub use deployment::Deployment;
pub use driver::{Host, run};
pub(crate) use task::write_event;
pub use task::{Contexts, Places, Report, Reporter, StepEnd, Task};
