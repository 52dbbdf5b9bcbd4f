//! `kiln runner status`: what can be told without asking the server.

use std::fs;

use anyhow::Result;
use kiln_runner::agent::{Identity, Options};
use serde_json::json;

use crate::Outcome;
use crate::cli::DataArg;
use crate::output::Console;

use super::settings;

pub(super) fn show(data: &DataArg, as_json: bool, console: &mut Console) -> Result<Outcome> {
    let data = settings::data_directory(data)?;
    let identity = Identity::load(&data).map_err(anyhow::Error::msg)?;
    let path = settings::set("PATH").unwrap_or_default();
    let inherited = [("PATH".into(), path.into())].into_iter().collect();
    let machine = Options::detect("", data.clone(), inherited).capabilities;
    let jobs = fs::read_dir(data.join("jobs")).into_iter().flatten().flatten();
    let mut jobs: Vec<String> =
        jobs.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    jobs.sort_unstable();
    let running = is_running(&data);
    let outcome = if identity.is_some() { Outcome::Clean } else { Outcome::Errors };
    if as_json {
        let shown = json!({
            "registered": identity.is_some(),
            "id": identity.as_ref().map(|known| known.id),
            "name": identity.as_ref().map(|known| &known.name),
            "server": identity.as_ref().map(|known| &known.server),
            "running": running,
            "jobs": jobs,
            "data": data,
            "machine": machine,
        });
        console.print_raw(&format!("{shown}\n"))?;
        return Ok(outcome);
    }
    let who = match &identity {
        Some(known) => format!("runner {} ({}) of {}", known.id, known.name, known.server),
        None => "not registered; `kiln runner --server URL --key KEY` does".to_owned(),
    };
    let state = if running { "running" } else { "not running" };
    let jobs = if jobs.is_empty() { "none".to_owned() } else { jobs.join(", ") };
    console.print(&format!(
        "{who}\nstate:   {state}\njobs:    {jobs}\nlabels:  {}\ntools:   {}\nmachine: {} cores, {} MB memory, {} MB disk free\n",
        machine.labels.join(", "),
        machine.tools.join(", "),
        machine.cores,
        machine.memory_mb,
        machine.disk_mb,
    ))?;
    Ok(outcome)
}

/// A runner holds the lock of its data directory as long as it lives.
fn is_running(data: &std::path::Path) -> bool {
    let file = fs::File::open(data.join("runner.lock"));
    file.is_ok_and(|file| matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)))
}
