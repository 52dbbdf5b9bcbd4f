//! What can be typed about bytes that the server keeps.

use clap::{Args, Subcommand};

use super::ServerArgs;

/// Show who uses how many bytes on the server
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Examples:
  kiln storage                 by organization, repository and kind, and what was freed last
  kiln storage gc --dry-run    what nothing refers to, and what of it would go now
  kiln storage gc              remove it now; the server does that by itself, too

Exit codes:
  0  it is shown, or done
  2  wrong usage, or the server could not be asked or refused it"
)]
pub(crate) struct StorageArgs {
    #[command(subcommand)]
    pub(crate) command: Option<StorageCommand>,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StorageCommand {
    /// Remove bytes that nothing refers to and whose time of grace is over
    Gc {
        /// Only say what could go
        #[arg(long)]
        dry_run: bool,

        #[command(flatten)]
        server: ServerArgs,
    },
}
