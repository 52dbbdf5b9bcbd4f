//! What can be typed about runners, the queue and pauses.

use clap::{Args, Subcommand};

use super::ServerArgs;
use crate::output::time::span;

/// List runners, or let them in and out
///
/// Without a command it lists them: what they do, when they were last seen, and why they take no
/// jobs.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Examples:
  kiln runners
  kiln runners show builder-3                what it is, runs and did
  kiln runners key                           lets one runner of the only organization in
  kiln runners key --owner acme              lets one runner of this organization in
  kiln runners key --uses 5 --expires 2h     lets five runners in
  kiln runners drain builder-3               ends its jobs, takes no more
  kiln runners undrain builder-3             takes jobs again
  kiln runners remove builder-3              forgets it
  kiln runners revoke builder-3              locks it out at once

Exit codes:
  0  it is done
  2  wrong usage, or the server could not be asked or refused it"
)]
pub(crate) struct RunnersArgs {
    #[command(subcommand)]
    pub(crate) command: Option<RunnersCommand>,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunnersCommand {
    /// Show one runner: labels, load, what it runs now, and what it did
    Show(RunnerShowArgs),
    /// Make a registration key, and show the command that starts a runner with it
    Key {
        /// The pool of its runners; made if it does not exist [default: default]
        #[arg(long, value_name = "POOL")]
        pool: Option<String>,

        /// The organization of its runners; an administrator makes it by naming it [default: the only one; shared
        /// where the server has `allow_shared_host`]
        #[arg(long, value_name = "OWNER")]
        owner: Option<String>,

        /// All organizations share its runners; without `allow_shared_host` they must be started with `--once`
        #[arg(long, conflicts_with = "owner")]
        shared: bool,

        /// How many runners it lets in; 0 for any number [default: 1]
        #[arg(long, value_name = "N")]
        uses: Option<u32>,

        /// When it expires, such as 30m, 12h or 7d [default: 1h]
        #[arg(long, value_name = "TIME", value_parser = span)]
        expires: Option<u64>,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Let a runner end its jobs and take no more
    Drain(RunnerArgs),
    /// Let a runner that was drained take jobs again
    Undrain(RunnerArgs),
    /// Forget a runner; what it still runs goes to others
    Remove(RunnerArgs),
    /// Lock a runner out: its credential is worth nothing any more
    Revoke(RunnerArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunnerShowArgs {
    /// The runner: its name, slug or number, or the address of its page
    #[arg(value_name = "RUNNER|URL")]
    pub(crate) runner: String,

    /// How many of its jobs, the newest first
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RunnerArgs {
    /// The runner: its name, slug, number, or the pasted address of its page
    #[arg(value_name = "RUNNER")]
    pub(crate) runner: String,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Show what waits for runners and concurrency groups, and why
///
/// For each its position, since when it waits, the reason in words, when it is likely to start, and
/// who could take it.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Examples:
  kiln queue
  kiln queue --repo me/app
  kiln queue --queues               how many wait for which kind of runner
  kiln queue move r-7 --first       before all others
  kiln queue move r-7 --priority 0  back in line

Exit codes:
  0  the queue was shown, even if it is empty, or the run was moved
  2  wrong usage, or the server could not be asked or refused it"
)]
pub(crate) struct QueueArgs {
    #[command(subcommand)]
    pub(crate) command: Option<QueueCommand>,

    /// Only jobs of this repository
    #[arg(long, value_name = "OWNER/NAME|URL", conflicts_with = "queues")]
    pub(crate) repo: Option<String>,

    /// Show the queues instead: sets of requirements, and how much waits for them
    #[arg(long)]
    pub(crate) queues: bool,

    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum QueueCommand {
    /// Give a run another priority: what of it waits moves in the queue, what comes later follows
    ///
    /// Administrators of the organization may put a run before others; whoever may cancel it may put it back to 0.
    Move(MoveArgs),
}

#[derive(Debug, Args)]
pub(crate) struct MoveArgs {
    /// The run, or a job of it: a slug, a number or an address
    #[arg(value_name = "RUN")]
    pub(crate) run: String,

    /// Before all others: priority 100
    #[arg(long, conflicts_with = "priority", required_unless_present = "priority")]
    pub(crate) first: bool,

    /// From 0, the usual one, to 100, which goes before all others
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..=100))]
    pub(crate) priority: Option<i64>,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Show what the server does by itself, and how that went
///
/// For each duty when it was done last, how often it failed, and what it did; where the last pass found nothing to
/// do, also what the last one did that found something.
///
/// Tasks that failed too often are put aside: `tasks` lists them, and `retry` gives them a new start once their reason
/// was mended.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Examples:
  kiln duties
  kiln duties --json | jq 'select(.last_error)'
  kiln duties tasks          what was put aside, and why
  kiln duties retry 7 9      tries these again
  kiln duties retry --all

Exit codes:
  0  they were shown, or are tried again
  2  wrong usage, or the server could not be asked or refused it"
)]
pub(crate) struct DutiesArgs {
    #[command(subcommand)]
    pub(crate) command: Option<DutiesCommand>,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DutiesCommand {
    /// List tasks that failed too often and were put aside
    Tasks {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Try tasks again that were put aside
    Retry {
        /// Which ones, by their numbers
        #[arg(value_name = "TASK", required_unless_present = "all")]
        tasks: Vec<i64>,

        /// All that were put aside, up to a thousand
        #[arg(long, conflicts_with = "tasks")]
        all: bool,

        #[command(flatten)]
        server: ServerArgs,
    },
}

/// Hand out no more jobs: of the server, a repository or a queue
///
/// What runs goes on; what is triggered waits, and says why. `kiln resume` ends a pause.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln pause --reason 'moving the database'
  kiln pause --repo me/app --reason 'the tests eat the disk'
  kiln pause --queue q-7 --reason 'new GPUs come today'
  kiln pause --list

Exit codes:
  0  it is done
  2  wrong usage, or the server could not be asked or refused it")]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    pub(crate) scope: PauseScope,

    /// Why; shown to everybody who waits
    #[arg(long, value_name = "TEXT", required_unless_present = "list")]
    pub(crate) reason: Option<String>,

    /// Show what is paused
    #[arg(long, conflicts_with_all = ["reason", "repo", "queue"])]
    pub(crate) list: bool,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// What is paused.
#[derive(Debug, Args)]
pub(crate) struct PauseScope {
    /// Only jobs of this repository
    #[arg(long, value_name = "OWNER/NAME|URL", conflicts_with = "queue")]
    pub(crate) repo: Option<String>,

    /// Only this queue: its slug or number (`kiln queue --queues`)
    #[arg(long, value_name = "QUEUE")]
    pub(crate) queue: Option<String>,
}

/// End a pause: of the server, a repository or a queue
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln resume
  kiln resume --repo me/app
  kiln resume --queue q-7

Exit codes:
  0  it is done
  2  wrong usage, or the server could not be asked or refused it")]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) scope: PauseScope,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}
