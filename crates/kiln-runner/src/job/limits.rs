//! How much of the machine a job may use.

use kiln_core::plan;

use crate::process::{Bounds, Cage, Tree};

use super::disk;
use super::driver::JobRun;

/// More processes and threads at once are none that a job means to have.
const MOST_PIDS: u64 = 16_384;

/// Puts the processes of a job under its limits. Says what cannot be seen to here.
pub(super) fn confine(tree: &Tree, limits: &plan::Limits) -> Vec<String> {
    if limits.memory_mb.is_none() && limits.cpu_millis.is_none() {
        return Vec::new();
    }
    let wanted = Bounds {
        memory_mb: limits.memory_mb,
        cpu_millis: limits.cpu_millis,
        pids: Some(MOST_PIDS),
    };
    let (cage, mut lacking) = Cage::build(wanted, tree.token());
    if let Some(cage) = cage {
        tree.confine(cage);
    }
    // Nobody asked for this one.
    lacking.retain(|what| !what.starts_with("the limit on processes"));
    lacking
}

impl JobRun<'_, '_> {
    /// In words, the limit that the job has gone over since this was asked last.
    pub(super) fn over_limit(&self) -> Option<String> {
        if let Some(news) = self.shared.tree.cage().and_then(Cage::news) {
            return Some(news);
        }
        let most = self.shared.task.steps()?.limits.disk_mb?;
        let places = &self.shared.task.places;
        let used = disk::used(&[&places.workspace, &places.temp]).div_ceil(1_000_000);
        (used > most).then(|| format!("the job has {used} MB on the disk; its limit is {most} MB"))
    }
}
