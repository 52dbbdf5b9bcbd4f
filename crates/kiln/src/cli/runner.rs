//! What can be typed after `kiln runner`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::limits;

/// Run jobs of a server on this machine
///
/// Registers with the server, asks it for jobs and runs them. What a server that is away has not heard
/// is kept on disk and told when it is back.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Examples:
  kiln runner --server https://ci.example --key krk_…   register and work
  kiln runner                                           again, as the same runner
  kiln runner --once --key krk_…                        one job, then leave
  kiln runner --label gpu --jobs 2
  kiln runner status --json
  kiln runner unregister
  kiln runner --server https://ci.example --print-unit | sudo tee /etc/systemd/system/kiln-runner.service

Signals: the first SIGTERM or SIGINT drains (no new jobs, what runs is finished), the second gives back
what has not begun and cancels the rest, the third ends everything at once.

Exit codes:
  0  it was asked to stop, and all its jobs were finished
  1  it was asked to stop, and jobs were given back
  2  it cannot work: wrong usage, a key or a credential that the server refuses"
)]
pub(crate) struct AgentArgs {
    #[command(flatten)]
    pub(crate) options: AgentOptions,

    #[command(subcommand)]
    pub(crate) command: Option<AgentCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Leave the fleet; jobs that it had go back to the queue
    Unregister {
        #[command(flatten)]
        data: DataArg,

        /// A file with certificates to trust besides those of the system
        #[arg(long, value_name = "FILE")]
        ca: Option<PathBuf>,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show who the runner is, what it has to deliver, and how this machine does
    Status {
        #[command(flatten)]
        data: DataArg,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DataArg {
    /// Where the runner keeps who it is and what is not delivered; `runner` in `KILN_DATA`,
    /// `XDG_DATA_HOME/kiln` or `~/.local/share/kiln` by default
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option that can be given or not")]
pub(crate) struct AgentOptions {
    /// The address of the server; `KILN_SERVER`, or that of the last time, by default
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,

    /// The registration key, or a file that holds it; `KILN_RUNNER_KEY` by default
    ///
    /// Needed once: afterwards the runner is known by what it keeps in its data directory.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,

    /// The name people see; that of this machine by default
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// A label that it answers to besides those of its system; may be given more than once
    #[arg(long, value_name = "LABEL")]
    pub(crate) label: Vec<String>,

    /// Answer only to the labels that are given, and to `self-hosted`
    #[arg(long, requires = "label")]
    pub(crate) only_labels: bool,

    /// How many jobs run at once; one for each core by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) jobs: Option<u32>,

    #[command(flatten)]
    pub(crate) data: DataArg,

    /// Where jobs run; `work` in the data directory by default
    #[arg(long, value_name = "DIR")]
    pub(crate) work: Option<PathBuf>,

    /// Run one job, then leave the fleet and exit
    #[arg(long)]
    pub(crate) once: bool,

    /// Leave the fleet when it stops
    #[arg(long)]
    pub(crate) unregister_on_exit: bool,

    /// How long a runner that was asked to stop waits for its jobs; for ever by default
    #[arg(long, value_name = "MINUTES", value_parser = limits::minutes)]
    pub(crate) grace: Option<Duration>,

    /// A file with certificates to trust besides those of the system
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,

    /// Take no jobs while less disk is free
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = limits::size)]
    pub(crate) min_disk: u64,

    /// Take no jobs while less memory is free
    #[arg(long, value_name = "SIZE", default_value = "128MB", value_parser = limits::size)]
    pub(crate) min_memory: u64,

    /// Take no jobs while more processes than this want each core
    #[arg(long, value_name = "PROCESSES", default_value = "16", value_parser = limits::load)]
    pub(crate) max_load: f64,

    /// How steps run
    #[arg(long, value_enum, value_name = "BACKEND", default_value_t = RunnerBackend::Host)]
    pub(crate) backend: RunnerBackend,

    /// Where actions come from: a directory with `owner/repository`, or an address with `{owner}`
    /// and `{repository}` in it; `KILN_ACTIONS` by default
    #[arg(long, value_name = "MIRROR")]
    pub(crate) actions: Option<String>,

    /// How to write what happens
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,

    /// Print a systemd unit that runs this, and do nothing else
    #[arg(long)]
    pub(crate) print_unit: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunnerBackend {
    /// As processes of this machine
    Host,
    /// Only in name, for benches
    #[value(hide = true)]
    Dummy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object on each line
    Json,
}
