//! `kiln completions`: what a shell needs to complete commands and options.

use anyhow::Result;

use crate::Outcome;
use crate::cli::{CompletionsArgs, command};
use crate::output::Console;

pub(crate) fn run(args: &CompletionsArgs, console: &mut Console) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "kiln", &mut script);
    console.print_raw(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Clean)
}
