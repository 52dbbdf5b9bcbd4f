//! What can be typed to run a server, and to look whether it is well.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::client::ServerArgs;

/// Settings that every command of a server takes.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SettingArgs {
    /// A TOML file with settings; `KILN_CONFIG` by default, else `/etc/kiln/kiln.toml` if it exists
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Where to listen [default: 127.0.0.1:8420]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,

    /// The folder for everything that is kept; `KILN_DATA` by default, else `kiln` in `XDG_DATA_HOME`
    /// or `~/.local/share`, else `/var/lib/kiln`
    #[arg(long, value_name = "FOLDER")]
    pub(crate) data: Option<PathBuf>,

    /// `postgres://…`, `sqlite:PATH` or a path [default: `kiln.db` in the folder]
    #[arg(long, value_name = "DATABASE")]
    pub(crate) database: Option<String>,

    /// Where people and runners reach the server, if that is not where it listens
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,

    /// The certificate for HTTPS in PEM, with those that lead to its authority; read again when it changes
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The key of the certificate in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Any setting of docs/configuration.md; may be given more than once
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
}

/// Run a server
///
/// Keeps repositories, runs and their logs, and hands jobs to runners. Several servers can share a
/// PostgreSQL database. Ends in order when it is interrupted or gets SIGTERM; a second time, at once.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln server                                      everything below ~/.local/share/kiln
  kiln server --listen 0.0.0.0:8420 --public-url https://ci.example.org
  kiln server --listen 0.0.0.0:443 --public-url https://ci.example.org --tls-cert ci.pem --tls-key ci.key
  kiln server --config /etc/kiln/kiln.toml
  kiln server --set limits.job=2h --set keep.runs=90d
  kiln server --print-unit > /etc/systemd/system/kiln.service

The first start makes the administrator `admin`, prints a link that works once, and writes `client.toml`
into the folder, from which the other commands on this machine know the server.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) settings: SettingArgs,

    /// Print one JSON object on each line
    #[arg(long)]
    pub(crate) json: bool,

    /// Print a unit file for systemd, and end
    #[arg(long)]
    pub(crate) print_unit: bool,
}

/// Run a server and a runner on this machine
///
/// All that is needed, in one process, with an embedded database. The first start makes a sample
/// repository and runs it.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln up                         serves http://127.0.0.1:8420
  kiln up --jobs 4                runs four jobs at once
  kiln up --data ./kiln           keeps everything in this folder
  kiln up --no-runner             as `kiln server`, with the sample repository

Jobs run on this machine as you, without a container: only run workflows that you trust.")]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) settings: SettingArgs,

    /// How many jobs run at once; one for each core by default
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) jobs: Option<u32>,

    /// Start no runner
    #[arg(long)]
    pub(crate) no_runner: bool,

    /// Make no sample repository
    #[arg(long)]
    pub(crate) no_sample: bool,

    /// Print one JSON object on each line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Check and show the settings of a server
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_long_help = "\
Examples:
  kiln config check --config kiln.toml     all that is wrong, with line and column
  kiln config show                         each setting, and where it came from"
)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say all that is wrong with the settings
    ///
    /// Exit codes: 0 a server would start with them, 1 something is wrong, 2 the file cannot be read.
    Check {
        #[command(flatten)]
        settings: SettingArgs,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show each setting and where it came from; passwords are left out
    Show {
        #[command(flatten)]
        settings: SettingArgs,

        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Look whether everything is well, and what to do if not
///
/// Looks at this machine and asks the server about its database, disk, clock, runners, jobs that are
/// stuck, tasks that failed, and what is paused. Without a server it looks at the folder and the
/// database on this machine. Of a job, a run or a runner it says why it does not go on.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln doctor
  kiln doctor --server https://ci.example.org --json
  kiln doctor j-2kq                  why this job does not start, or does not end
  kiln doctor builder-3              why this runner takes no jobs

Exit codes:
  0  all is well
  1  something deserves attention
  2  it could not be found out")]
pub(crate) struct DoctorArgs {
    /// A job, a run or a runner: its slug or address, or the name of a runner [default: everything]
    #[arg(value_name = "JOB|RUN|RUNNER")]
    pub(crate) what: Option<String>,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}
