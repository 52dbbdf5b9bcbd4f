//! What can be typed after `kiln workflows`.

use clap::{Args, Subcommand};

use super::ServerArgs;

/// List the workflows of a repository, look at one, switch it off and on
///
/// Without a command it lists those that the server has seen in the repository around you.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Examples:
  kiln workflows                           of this repository
  kiln workflows --repo me/app --json
  kiln workflows show ci.yml               its inputs, what is wrong with it, how its last runs went
  kiln workflows show https://ci.example.com/me/app/actions/workflows/ci.yml
  kiln workflows disable nightly.yml       starts no runs any more
  kiln workflows enable nightly.yml

Exit codes:
  0  it is done
  1  with show: the file has errors
  2  wrong usage, or the server could not be asked or refused it"
)]
pub(crate) struct WorkflowsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<WorkflowsCommand>,

    /// The repository [default: the one around you]
    #[arg(long, value_name = "OWNER/NAME|URL")]
    pub(crate) repo: Option<String>,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowsCommand {
    /// Show a workflow: its inputs, what is wrong with its file, how its last runs went
    Show {
        #[command(flatten)]
        which: OneWorkflowArgs,

        /// The branch, tag or commit of the file [default: the default branch]
        #[arg(long = "ref", value_name = "REF")]
        reference: Option<String>,
    },
    /// Let a workflow start runs again
    Enable(OneWorkflowArgs),
    /// Let a workflow start no runs; what it ran stays
    Disable(OneWorkflowArgs),
}

#[derive(Debug, Args)]
pub(crate) struct OneWorkflowArgs {
    /// Its file name, path or number, or the address of its page
    #[arg(value_name = "WORKFLOW")]
    pub(crate) workflow: String,

    /// The repository [default: the one around you]
    #[arg(long, value_name = "OWNER/NAME|URL")]
    pub(crate) repo: Option<String>,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}
