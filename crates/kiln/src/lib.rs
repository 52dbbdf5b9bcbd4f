//! The Kiln command line as a library, so that tests and the documentation can use it too.
//!
//! Every command computes a text and hands it to the one [`output::Console`]. Exit codes are the
//! same everywhere: 0 all is well, 1 the workflow or expression has errors, 2 kiln could not do
//! what was asked (usage, missing files).

mod cli;
mod client;
mod cmd;
mod events;
mod find;
mod graph;
mod inputs;
mod lang;
mod limits;
mod output;
mod read;
mod reference;
mod sources;
#[cfg(test)]
mod testing;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};
use crate::output::Console;

pub use crate::cli::command;
pub use crate::reference::cli_reference;
pub use kiln_server::config::reference as settings_reference;

/// How a command that did its work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Clean,
    Errors,
    /// What was asked for cannot be done, and why has been said.
    Trouble,
    Cancelled,
}

/// The exit code when kiln could not do what was asked.
const TROUBLE: u8 = 2;

/// The exit code of a run that was cancelled, as shells have it for an interrupt.
const CANCELLED: u8 = 130;

/// Runs one invocation; `args` starts with the name of the program.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody reads the other end when this fails, so there is nobody to tell.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(TROUBLE).into();
        }
    };
    let mut console = Console::new(cli.color);
    match dispatch(&cli.command, &mut console) {
        Ok(Outcome::Clean) => ExitCode::SUCCESS,
        Ok(Outcome::Errors) => ExitCode::FAILURE,
        Ok(Outcome::Trouble) => TROUBLE.into(),
        Ok(Outcome::Cancelled) => CANCELLED.into(),
        Err(error) => {
            console.error(&error);
            TROUBLE.into()
        }
    }
}

fn dispatch(command: &Command, console: &mut Console) -> anyhow::Result<Outcome> {
    match command {
        Command::Run(args) => cmd::run::run(args, console),
        Command::Guard { token } => {
            kiln_runner::process::guard_main(token)?;
            Ok(Outcome::Clean)
        }
        Command::Lint(args) => cmd::lint::run(args, console),
        Command::Eval(args) => cmd::eval::run(args, console),
        Command::Plan(args) => cmd::plan::run(args, console),
        Command::Graph(args) => cmd::graph::run(args, console),
        Command::Client(command) => cmd::client::run(command, console),
        Command::Up(args) => cmd::up::run(args, console),
        Command::Serve(args) => cmd::server::run(args, console),
        Command::Config(args) => cmd::config::run(args, console),
        Command::Doctor(args) => cmd::doctor::run(args, console),
        Command::Runner(args) => cmd::runner::run(args, console),
        Command::Sim(args) => cmd::sim::run(args, console),
        Command::Db(args) => cmd::db::run(args, console),
        Command::Completions(args) => cmd::completions::run(args, console),
        Command::Man(args) => cmd::man::run(args, console),
    }
}
