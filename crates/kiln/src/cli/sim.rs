//! What can be typed about simulations.

use std::path::PathBuf;
use std::str::FromStr as _;

use clap::{Args, Subcommand, ValueEnum};
use kiln_sim::load::{Policy, Shape};

use super::ServerArgs;

/// Compare scheduling policies on a load, in virtual time
///
/// Jobs are generated from a few figures, or read from a recorded trace. Each policy hands them out to
/// simulated runners with the code that a server uses, in seconds instead of days. Shows waiting times by
/// organization, fairness (Jain's index), makespan and utilization.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Examples:
  kiln sim                                      a greedy organization and seven others
  kiln sim --shape day --load 1.1 --runners 200 more work than runners, by day
  kiln sim --policy fair,fifo --plot waits.svg  a picture
  kiln sim --limit 10                           no organization has more than ten jobs at a time
  kiln sim --runners 100000 --jobs 1000000      takes a few seconds
  kiln sim record > trace.jsonl                 what a server did lately
  kiln sim --trace trace.jsonl --runners 12     what if it had 12 runners?
  kiln sim --trace trace.jsonl --pool 8:linux,x64 --pool 2:linux,x64,gpu

A line of a trace is a JSON object, with times in seconds:
  {\"submitted\": 0, \"seconds\": 90.5, \"organization\": \"acme\", \"repository\": \"web\",
   \"labels\": [\"linux\"], \"class\": \"high\", \"priority\": 0}

Exit codes:
  0  it is done
  2  wrong usage, or a trace that cannot be read"
)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    pub(crate) command: Option<SimCommand>,

    /// The policies to compare: `fair`, `score`, `fifo`
    #[arg(
        long,
        value_name = "POLICY",
        value_delimiter = ',',
        default_value = "fair,score,fifo",
        value_parser = Policy::from_str
    )]
    pub(crate) policy: Vec<Policy>,

    /// How many runners there are, divided among the labels of the jobs as their work is
    #[arg(long, value_name = "N", default_value_t = 40, conflicts_with = "pool",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) runners: u32,

    /// Runners with these labels; may be given more than once
    #[arg(long, value_name = "N:LABEL,…", value_parser = pool)]
    pub(crate) pool: Vec<PoolArg>,

    /// How many jobs of an organization may run at a time [default: any number]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,

    /// The shares of an organization, 100 unless said; may be given more than once
    #[arg(long, value_name = "NAME=N", value_parser = shares)]
    pub(crate) shares: Vec<(String, u32)>,

    /// Jobs that were recorded, one JSON object on each line; `-` for standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["jobs", "organizations", "shape", "load", "seed"])]
    pub(crate) trace: Option<PathBuf>,

    /// How many jobs are generated
    #[arg(long, value_name = "N", default_value_t = 4_000,
        value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) jobs: u32,

    /// How many organizations they belong to
    #[arg(long, value_name = "N", default_value_t = 8,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) organizations: u32,

    /// When the jobs come, and whose they are
    #[arg(long, value_enum, value_name = "SHAPE", default_value_t = SimShape::Greedy)]
    pub(crate) shape: SimShape,

    /// How much of the runners' time the jobs would take if they came evenly; 1 is all of it
    #[arg(long, value_name = "PART", default_value_t = 0.9, value_parser = part)]
    pub(crate) load: f64,

    /// Another seed makes another load of the same kind
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Print one JSON object, with all organizations
    #[arg(long)]
    pub(crate) json: bool,

    /// Write a picture of the waiting times to this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SimCommand {
    Record(RecordArgs),
}

/// Print a trace of the jobs that a server has finished
///
/// Prints a line for each job of the latest runs: when it was queued, how long it ran, whose it was and
/// which labels it needed.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  kiln sim record > trace.jsonl
  kiln sim record --last 200 --repo me/app | kiln sim --trace - --runners 4")]
pub(crate) struct RecordArgs {
    /// Only the runs of this repository [default: all that you may see]
    #[arg(long, value_name = "OWNER/NAME")]
    pub(crate) repo: Option<String>,

    /// How many of the latest runs
    #[arg(long, value_name = "N", default_value_t = 1_000,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) last: u32,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SimShape {
    /// At any time; some organizations have more jobs than others
    Steady,
    /// Each organization submits its jobs in a few heaps
    Burst,
    /// More by day than by night
    Day,
    /// One organization has half of all jobs and submits them in four heaps; the others are steady
    Greedy,
}

impl SimShape {
    pub(crate) fn shape(self) -> Shape {
        match self {
            Self::Steady => Shape::Steady,
            Self::Burst => Shape::Burst,
            Self::Day => Shape::Day,
            Self::Greedy => Shape::Greedy,
        }
    }
}

/// Runners that have the same labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolArg {
    pub(crate) count: u32,
    pub(crate) labels: Vec<String>,
}

fn pool(text: &str) -> Result<PoolArg, String> {
    let (count, labels) = text.split_once(':').unwrap_or((text, ""));
    let count = count.trim().parse().ok().filter(|count| (1..=1_000_000).contains(count));
    let count =
        count.ok_or("expected a number of runners and their labels, such as 8:linux,x64")?;
    let labels = labels.split(',').map(str::trim).filter(|label| !label.is_empty());
    Ok(PoolArg { count, labels: labels.map(str::to_owned).collect() })
}

fn shares(text: &str) -> Result<(String, u32), String> {
    let wrong = || "expected an organization and its shares, such as acme=200".to_owned();
    let (name, shares) = text.rsplit_once('=').ok_or_else(wrong)?;
    let shares = shares.parse().ok().filter(|&shares| shares > 0).ok_or_else(wrong)?;
    Ok((name.to_owned(), shares))
}

fn part(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|part| (0.01..=100.0).contains(part));
    part.ok_or_else(|| "expected a number from 0.01 to 100".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_a_number_and_labels() {
        let check = |text, count, labels: &[&str]| {
            let labels = labels.iter().map(|&label| label.to_owned()).collect();
            assert_eq!(pool(text), Ok(PoolArg { count, labels }), "{text}");
        };
        check("8", 8, &[]);
        check("8:", 8, &[]);
        check("8:linux, x64", 8, &["linux", "x64"]);
        for wrong in ["", "linux", "0:linux", "-1", "1.5:a", "9999999:a"] {
            assert!(pool(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares_and_loads_are_numbers_above_zero() {
        assert_eq!(shares("a=b=200"), Ok(("a=b".to_owned(), 200)));
        for wrong in ["", "a", "a=", "a=0", "a=-1", "a=x"] {
            assert!(shares(wrong).is_err(), "{wrong}");
        }
        assert_eq!(part("1.5"), Ok(1.5));
        for wrong in ["", "0", "NaN", "inf", "-1", "101"] {
            assert!(part(wrong).is_err(), "{wrong}");
        }
    }
}
