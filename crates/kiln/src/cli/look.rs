//! What can be typed to look at a run once: as it stands, what its steps wrote, its page.

use clap::Args;

use super::ServerArgs;

/// Show how a run or a job stands now
///
/// A line for each job, with why it waits or how it ended, and what steps said about places in the source; of a
/// job, its steps. `kiln watch` stays until the end.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln show                        the latest run of this repository
  kiln show r-9ix --attempt 1
  kiln show r-9ix --attempts       all attempts side by side
  kiln show j-2kq                  a job with its steps
  kiln show r-9ix --json | jq '.jobs[] | {name, conclusion}'

Exit codes:
  0  it is shown, however it stands
  2  wrong usage, or the server could not be asked")]
pub(crate) struct ShowArgs {
    /// A run or a job: its slug, number or address [default: the latest run of this repository]
    #[arg(value_name = "RUN|JOB")]
    pub(crate) what: Option<String>,

    /// An earlier attempt of the run [default: the latest]
    #[arg(long, value_name = "N")]
    pub(crate) attempt: Option<u32>,

    /// All attempts of the run side by side: how each job ended in each
    #[arg(long, conflicts_with = "attempt")]
    pub(crate) attempts: bool,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Show what runs, what waits and why, what broke since yesterday, and how workflows did lately
///
/// What the dashboard shows. For each workflow that ran lately: how many of its last 30 runs were green, and how
/// long they usually take.
#[derive(Debug, Args)]
#[command(
    visible_alias = "dashboard",
    after_long_help = "\
Examples:
  kiln status                          of all repositories
  kiln status --repo me/app
  kiln status --json | jq '.workflows[] | {name, green, median_seconds}'

Exit codes:
  0  it was shown, however things stand
  2  wrong usage, or the server could not be asked"
)]
pub(crate) struct StatusArgs {
    /// Only of this repository
    #[arg(long, value_name = "OWNER/NAME|URL")]
    pub(crate) repo: Option<String>,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Show what the steps of a run wrote for people
///
/// Prints the Markdown that they wrote to `GITHUB_STEP_SUMMARY`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln summary                     of the latest run of this repository
  kiln summary r-9ix > report.md
  kiln summary r-9ix --json        one object for each step

Exit codes:
  0  they are shown, even if there are none
  2  wrong usage, or the server could not be asked")]
pub(crate) struct SummaryArgs {
    /// A run: its slug, number or address [default: the latest of this repository]
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<String>,

    /// Of an earlier attempt of the run [default: the latest]
    #[arg(long, value_name = "N")]
    pub(crate) attempt: Option<u32>,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Open a page in the browser: of a run, a job, an artifact, a runner or a repository
///
/// Where there is no screen, or with `--print`, the address is printed instead.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln open                        the repository around you, else the dashboard
  kiln open r-9ix
  kiln open me/app
  kiln open j-2kq --print

Exit codes:
  0  it is opened, or its address printed
  2  wrong usage, or the server could not be asked")]
pub(crate) struct OpenArgs {
    /// A run, a job, an artifact (`a-…`), a runner (`n-…`), a repository (`OWNER/NAME`) or an address
    #[arg(value_name = "RUN|JOB|ARTIFACT|RUNNER|REPOSITORY|URL")]
    pub(crate) what: Option<String>,

    /// Print the address, and open nothing
    #[arg(long)]
    pub(crate) print: bool,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}
