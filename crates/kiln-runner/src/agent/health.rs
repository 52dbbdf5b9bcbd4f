//! How the machine does, and whether it is fit for another job.

use std::path::{Path, PathBuf};

use kiln_proto::runner::Health;

/// Beyond these the runner takes no jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    pub least_disk_mb: u64,
    pub least_memory_mb: u64,
    /// How many processes may want a core at once, for each core.
    pub most_load: f64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { least_disk_mb: 1024, least_memory_mb: 128, most_load: 16.0 }
    }
}

/// Looks at the machine.
#[derive(Debug, Clone)]
pub(super) struct Gauge {
    pub(super) work: PathBuf,
    pub(super) bounds: Bounds,
    pub(super) cores: u32,
}

/// What was found of the machine; what cannot be measured is not held against it.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    memory_mb: Option<u64>,
    disk_mb: Option<u64>,
    load: Option<Load>,
}

/// How many processes want a core, for each core.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Load {
    /// Over the last minute.
    lately: f64,
    now: f64,
}

impl Gauge {
    pub(super) fn look(&self) -> Health {
        let table = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let found = Found {
            memory_mb: memory_free_mb(),
            disk_mb: disk_free_mb(&self.work),
            load: load_of(&table, self.cores),
        };
        Health {
            load: found.load.map_or(0.0, |load| load.lately),
            memory_free_mb: found.memory_mb.unwrap_or(0),
            disk_free_mb: found.disk_mb.unwrap_or(0),
            trouble: trouble(&self.bounds, &found),
        }
    }
}

/// What is wrong, in words.
fn trouble(bounds: &Bounds, found: &Found) -> Option<String> {
    let low = |what: &str, free: Option<u64>, least: u64| {
        let free = free.filter(|free| *free < least)?;
        Some(format!("{what}: {free} MB are free, {least} MB are needed to take a job"))
    };
    // What a job left behind in the mean of the last minute keeps nobody from the next one.
    let is_over = |load: &Load| load.lately > bounds.most_load && load.now > bounds.most_load;
    let busy = || {
        let load = found.load.filter(is_over)?;
        let (now, most) = (load.now, bounds.most_load);
        Some(format!(
            "the processors are overloaded: {now:.1} processes want each core, {most:.1} may when a job is taken"
        ))
    };
    low("the disk is nearly full", found.disk_mb, bounds.least_disk_mb)
        .or_else(|| low("memory is nearly used up", found.memory_mb, bounds.least_memory_mb))
        .or_else(busy)
}

/// Reads `0.20 0.18 0.12 1/80 11206`: the means of one, five and fifteen minutes, running and all processes.
fn load_of(table: &str, cores: u32) -> Option<Load> {
    let mut words = table.split(' ');
    let lately: f64 = words.next()?.parse().ok()?;
    let running: u32 = words.nth(2)?.split('/').next()?.parse().ok()?;
    let cores = f64::from(cores.max(1));
    // The one that looks runs, too.
    Some(Load { lately: lately / cores, now: f64::from(running.saturating_sub(1)) / cores })
}

pub(super) fn disk_free_mb(path: &Path) -> Option<u64> {
    // It may not be there yet, but what is above it is.
    let there = path.ancestors().find(|path| path.exists())?;
    let found = rustix::fs::statvfs(there).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize) >> 20)
}

pub(super) fn memory_free_mb() -> Option<u64> {
    memory("MemAvailable:")
}

pub(super) fn memory_mb() -> Option<u64> {
    memory("MemTotal:")
}

fn memory(name: &str) -> Option<u64> {
    let table = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = table.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes >> 10)
}

/// How often the kernel ended a process of this machine because memory ran out.
pub(super) fn out_of_memory_kills() -> Option<u64> {
    let table = std::fs::read_to_string("/proc/vmstat").ok()?;
    table.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(memory_mb: Option<u64>, disk_mb: Option<u64>, loadavg: &str, expect: Option<&str>) {
        let bounds = Bounds { least_disk_mb: 100, least_memory_mb: 50, most_load: 4.0 };
        let found = Found { memory_mb, disk_mb, load: load_of(loadavg, 2) };
        let said = trouble(&bounds, &found);
        assert_eq!(said.as_deref().map(|text| &text[..8]), expect, "{found:?}");
    }

    /// S15
    #[test]
    fn a_machine_that_is_short_of_something_takes_no_jobs_and_says_why() {
        check(Some(50), Some(100), "8.00 3.00 1.00 9/80 1", None);
        check(Some(49), Some(100), "0.10 0.10 0.10 1/80 1", Some("memory i"));
        check(Some(0), Some(99), "0.10 0.10 0.10 1/80 1", Some("the disk"));
        check(None, None, "", None);
        check(None, None, "nonsense", None);
    }

    /// S15
    #[test]
    fn a_machine_takes_no_jobs_while_it_is_overloaded_and_takes_them_as_soon_as_it_is_not() {
        check(None, None, "8.10 3.00 1.00 10/80 1", Some("the proc"));
        // A short crowd is not yet a load, and a load that has just ended is none any more.
        check(None, None, "0.50 3.00 1.00 60/80 1", None);
        check(None, None, "60.00 9.00 1.00 1/80 1", None);
    }

    #[test]
    fn this_machine_can_be_measured() {
        let gauge = Gauge { work: "/nowhere/at/all".into(), bounds: Bounds::default(), cores: 2 };
        let health = gauge.look();
        assert!(health.memory_free_mb > 0 && health.disk_free_mb > 0 && health.load >= 0.0);
        assert!(memory_mb() >= memory_free_mb());
        assert!(out_of_memory_kills().is_some());
    }
}
