//! What can be typed about what jobs leave behind: artifacts and caches.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::{CacheKeyArgs, ServerArgs};
use crate::limits;

/// List, download and look into the artifacts of runs
///
/// An artifact is named by its slug (`a-…`, as the list shows it), by an address, or by its run and its name.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_long_help = "\
Examples:
  kiln artifacts list                            of the latest run here
  kiln artifacts download r-9ix                  all of a run, unpacked, each into a folder of its own
  kiln artifacts download r-9ix --name dist --dir out
  kiln artifacts download a-4 --zip              the archive itself
  kiln artifacts browse a-4                      which files are in it
  kiln artifacts browse a-4 bin/app -o app       one of them, without fetching the others
  kiln artifacts keep r-9ix --name dist          beyond its time
  kiln artifacts delete a-4

Exit codes:
  0  it is shown, or done
  2  wrong usage, or the server could not be asked or refused it"
)]
pub(crate) struct ArtifactsArgs {
    #[command(subcommand)]
    pub(crate) command: ArtifactsCommand,
}

/// Which artifacts.
#[derive(Debug, Args)]
pub(crate) struct Artifact {
    /// A run, an artifact (`a-…`), or the address of one of them [default: the latest run here]
    #[arg(value_name = "RUN|ARTIFACT")]
    pub(crate) what: Option<String>,

    /// Of a run, the one with this name; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ArtifactsCommand {
    /// List the artifacts of a run
    List {
        #[command(flatten)]
        artifact: Artifact,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Download artifacts, and unpack them
    Download {
        #[command(flatten)]
        artifact: Artifact,

        /// The folder to put them into, each below its name
        #[arg(long, value_name = "FOLDER", default_value = ".")]
        dir: PathBuf,

        /// Keep archives as they are
        #[arg(long)]
        zip: bool,

        /// How many bytes an archive may become
        #[arg(long, value_name = "SIZE", default_value = "10GiB", value_parser = limits::size)]
        max_size: u64,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// List the files in an artifact, or have one of them
    Browse {
        /// A run, an artifact (`a-…`), or the address of one of them
        #[arg(value_name = "RUN|ARTIFACT")]
        what: String,

        /// The file to print [default: the list of all]
        #[arg(value_name = "FILE")]
        file: Option<String>,

        /// Of a run, the one with this name
        #[arg(long, value_name = "NAME")]
        name: Option<String>,

        /// Write the file here instead of to standard output
        #[arg(long, short, value_name = "PATH", requires = "file")]
        output: Option<PathBuf>,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Keep an artifact beyond its time
    Keep {
        #[command(flatten)]
        artifact: Artifact,

        /// Let it go again when its time is over
        #[arg(long)]
        off: bool,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Remove artifacts
    Delete {
        #[command(flatten)]
        artifact: Artifact,

        #[command(flatten)]
        server: ServerArgs,
    },
}

/// List, count and remove the caches of a repository
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    after_long_help = "\
Examples:
  kiln cache ls                                  of the repository around you
  kiln cache ls --key linux- --sort size
  kiln cache stats --repo me/app                 how much there is, and how often it was found
  kiln cache rm linux-deps-4f2a                  all of this key
  kiln cache rm c-9 --repo me/app
  kiln cache ls --local                          those of `kiln run` on this machine
  kiln cache key --prefix npm --files package-lock.json

Exit codes:
  0  it is shown, or done
  2  wrong usage, or the server could not be asked or refused it"
)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    pub(crate) command: CacheCommand,
}

/// Which come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CacheOrder {
    Used,
    Created,
    Size,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// List caches
    Ls {
        /// Those that `kiln run` keeps on this machine
        #[arg(long, conflicts_with_all = ["repo", "server", "context", "token"])]
        local: bool,

        /// The repository, or a pasted address of one of its pages [default: the one around you]
        #[arg(long, value_name = "OWNER/NAME")]
        repo: Option<String>,

        /// Only those whose key begins like this
        #[arg(long, value_name = "KEY")]
        key: Option<String>,

        /// Only those of this branch, tag or full ref
        #[arg(long = "ref", value_name = "REF")]
        reference: Option<String>,

        /// Which come first
        #[arg(long, value_name = "ORDER", default_value = "used")]
        sort: CacheOrder,

        /// How many, at most
        #[arg(long, value_name = "NUMBER", default_value_t = 100)]
        limit: usize,

        #[command(flatten)]
        server: ServerArgs,
    },
    /// Remove caches by key, or one by its slug (`c-…`)
    Rm {
        /// The whole key, or a slug
        #[arg(value_name = "KEY|CACHE")]
        what: String,

        /// Those that `kiln run` keeps on this machine
        #[arg(long, conflicts_with_all = ["repo", "server", "context", "token"])]
        local: bool,

        /// The repository, or a pasted address of one of its pages [default: the one around you]
        #[arg(long, value_name = "OWNER/NAME")]
        repo: Option<String>,

        /// Only that of this branch, tag or full ref
        #[arg(long = "ref", value_name = "REF")]
        reference: Option<String>,

        #[command(flatten)]
        server: ServerArgs,
    },
    Key(CacheKeyArgs),
    /// Say how much there is, and how often it was found
    Stats {
        /// Those that `kiln run` keeps on this machine
        #[arg(long, conflicts_with_all = ["repo", "server", "context", "token"])]
        local: bool,

        /// The repository, or a pasted address of one of its pages [default: the one around you]
        #[arg(long, value_name = "OWNER/NAME")]
        repo: Option<String>,

        #[command(flatten)]
        server: ServerArgs,
    },
}
