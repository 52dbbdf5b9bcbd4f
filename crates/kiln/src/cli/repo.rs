//! What can be typed after `kiln repo`.

use clap::{Args, Subcommand};
use kiln_proto::api::HeadStarts;

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
  kiln repo show me/app                            workflows, badges, names of secrets
  kiln repo set me/app --branch trunk --source https://git.example.com/me/app.git
  kiln repo set me/app --head-starts urgent=1800,low=-3600
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
    /// Show one repository: workflows and their badges, names of secrets, variables
    Show(OneRepoArgs),
    /// Change what is set of a repository
    Set {
        /// Its name, or the address of one of its pages
        #[arg(value_name = "OWNER/NAME|URL")]
        name: String,

        #[command(flatten)]
        change: RepoChange,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Let a repository start runs again
    Enable(OneRepoArgs),
    /// Let a repository start no runs; what it ran stays
    Disable(OneRepoArgs),
    /// Remove a repository from the server; its files and what it ran stay, and `add` brings it back
    Remove(OneRepoArgs),
}

/// What can be set of a repository.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct RepoChange {
    /// Its default branch
    #[arg(long, value_name = "BRANCH")]
    pub(crate) branch: Option<String>,

    /// Where it comes from: a folder on the server's machine, or an address to fetch from
    #[arg(long, value_name = "PATH|URL")]
    pub(crate) source: Option<String>,

    /// How much it gets of what its organization gets, compared with others; 100 is usual
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
    pub(crate) shares: Option<i64>,

    /// By how many seconds jobs of its classes go first: some of `urgent=900,high=300,normal=0,low=-300`, `usual` for
    /// these, or `off` for first in, first out
    #[arg(long, value_name = "CLASS=SECONDS,…", value_parser = head_starts, allow_hyphen_values = true)]
    pub(crate) head_starts: Option<HeadStarts>,
}

/// The server knows which classes there are.
fn head_starts(text: &str) -> Result<HeadStarts, String> {
    let one = |part: &str| {
        let (class, seconds) = part.split_once('=')?;
        Some((class.trim().to_owned(), seconds.trim().parse().ok()?))
    };
    match text {
        "off" => Ok(HeadStarts::Switch(false)),
        "usual" => Ok(HeadStarts::Switch(true)),
        _ => {
            let all: Option<_> = text.split(',').map(one).collect();
            let wrong =
                || "expected `usual`, `off`, or seconds such as `urgent=900,low=-300`".to_owned();
            all.map(HeadStarts::Seconds).ok_or_else(wrong)
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct OneRepoArgs {
    /// Its name, or the address of one of its pages
    #[arg(value_name = "OWNER/NAME|URL")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// List organizations, or say how much of the runners they get
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_long_help = "\
Examples:
  kiln org list
  kiln org set acme --jobs 20 --shares 300      at most 20 jobs at once, three times the usual share
  kiln org set acme --jobs none                 any number at once

Exit codes:
  0  it is done
  2  wrong usage, or the server could not be asked or refused it"
)]
pub(crate) struct OrgArgs {
    #[command(subcommand)]
    pub(crate) command: OrgCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OrgCommand {
    /// List the organizations
    List {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Change what an organization gets; for administrators of the server
    Set {
        /// Its name
        #[arg(value_name = "OWNER")]
        name: String,

        #[command(flatten)]
        change: OrgChange,

        #[command(flatten)]
        server: ServerArgs,
    },
}

/// What can be set of an organization.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct OrgChange {
    /// How many of its jobs may run at once; `none` for any number
    #[arg(long, value_name = "N|none", value_parser = job_limit)]
    pub(crate) jobs: Option<JobLimit>,

    /// How much of the runners it gets, compared with others; 100 is usual
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=1_000_000))]
    pub(crate) shares: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobLimit {
    None,
    Some(i64),
}

fn job_limit(text: &str) -> Result<JobLimit, String> {
    if text == "none" {
        return Ok(JobLimit::None);
    }
    match text.parse() {
        Ok(limit @ 0..=1_000_000) => Ok(JobLimit::Some(limit)),
        _ => Err("expected a number from 0 to 1000000, or `none`".to_owned()),
    }
}
