//! What can be typed after `kiln repo`.

use clap::{Args, Subcommand};

use super::ServerArgs;

/// Add, list and remove the repositories of the server
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_long_help = "\
Examples:
  kiln repo add                                    the repository around you
  kiln repo add https://git.example.com/me/app.git
  kiln repo add ~/src/app --name me/app --branch main
  kiln repo list
  kiln repo remove me/app

Exit codes:
  0  it is done
  2  wrong usage, or the server could not be asked or refused it"
)]
pub(crate) struct RepoArgs {
    #[command(subcommand)]
    pub(crate) command: RepoCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RepoCommand {
    /// Add a repository: a folder on the server's machine, or an address to fetch from
    Add {
        /// A folder or an address [default: the repository around you]
        #[arg(value_name = "PATH|URL")]
        source: Option<String>,

        /// What to call it [default: from where it was cloned, else `local/` and its folder]
        #[arg(long, value_name = "OWNER/NAME")]
        name: Option<String>,

        /// Its default branch [default: what the repository says]
        #[arg(long, value_name = "BRANCH")]
        branch: Option<String>,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// List the repositories
    List {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Remove a repository from the server; its files stay
    Remove {
        /// Its name
        #[arg(value_name = "OWNER/NAME")]
        name: String,

        #[command(flatten)]
        server: ServerArgs,
    },
}
