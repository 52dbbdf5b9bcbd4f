//! `kiln sim`: policies compared on a load, in virtual time.

mod input;
mod plot;
mod race;
mod record;
mod table;

use std::fs;

use anyhow::{Context as _, Result};
use kiln_sim::load::{Fleet, Load, Report};
use serde::Serialize;

use crate::Outcome;
use crate::cli::{SimArgs, SimCommand};
use crate::output::{Console, json};

pub(crate) fn run(args: &SimArgs, console: &mut Console) -> Result<Outcome> {
    if let Some(SimCommand::Record(args)) = &args.command {
        return record::run(args, console);
    }
    let load = input::load(args)?;
    let fleet = input::fleet(args, &load)?;
    let reports = race::run(&load, &fleet, &input::policies(args), console);
    if let Some(path) = &args.plot {
        let title = input::title(args, &load, &fleet);
        fs::write(path, plot::draw(&title, &reports))
            .with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    if args.json {
        console.print_raw(&json::pretty(&Answer::new(&load, &fleet, &reports)))?;
    } else {
        let title = input::title(args, &load, &fleet);
        console.print(&table::text(&title, &reports))?;
    }
    Ok(Outcome::Clean)
}

/// `--json`. Times are seconds.
#[derive(Serialize)]
struct Answer<'a> {
    runners: u32,
    pools: Vec<PoolAnswer<'a>>,
    jobs: usize,
    organizations: usize,
    /// From the first submission to the last.
    submitted_within: f64,
    /// No policy can be quicker.
    makespan_at_least: f64,
    policies: &'a [Report],
}

#[derive(Serialize)]
struct PoolAnswer<'a> {
    labels: &'a [String],
    runners: u32,
}

impl<'a> Answer<'a> {
    fn new(load: &Load, fleet: &'a Fleet, policies: &'a [Report]) -> Self {
        let pools = fleet.pools().iter();
        Self {
            runners: fleet.runners(),
            pools: pools
                .map(|pool| PoolAnswer { labels: pool.labels(), runners: pool.count() })
                .collect(),
            jobs: load.jobs.len(),
            organizations: load.organizations.len(),
            submitted_within: input::submitted_within(load).as_secs_f64(),
            makespan_at_least: input::millis(load.makespan_at_least(fleet.runners())).as_secs_f64(),
            policies,
        }
    }
}
