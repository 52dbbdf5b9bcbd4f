//! `kiln man`: the manual pages.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::Outcome;
use crate::cli::{ManArgs, command};
use crate::output::Console;

pub(crate) fn run(args: &ManArgs, console: &mut Console) -> Result<Outcome> {
    if let Some(directory) = &args.out {
        write_all(directory)?;
    } else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command()).render(&mut page)?;
        console.print_raw(&String::from_utf8_lossy(&page))?;
    }
    Ok(Outcome::Clean)
}

fn write_all(directory: &Path) -> Result<()> {
    let failed = || format!("cannot write man pages to `{}`", directory.display());
    fs::create_dir_all(directory).with_context(failed)?;
    let tree = command().disable_help_subcommand(true);
    clap_mangen::generate_to(tree, directory).with_context(failed)
}
