//! How the machine does, and whether it is fit for another job.

use std::path::{Path, PathBuf};

use kiln_proto::runner::Health;

/// Below these the runner takes no jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Minima {
    pub disk_mb: u64,
    pub memory_mb: u64,
}

impl Default for Minima {
    fn default() -> Self {
        Self { disk_mb: 1024, memory_mb: 128 }
    }
}

/// Looks at the machine.
#[derive(Debug, Clone)]
pub(super) struct Gauge {
    pub(super) work: PathBuf,
    pub(super) minima: Minima,
    pub(super) cores: u32,
}

impl Gauge {
    pub(super) fn look(&self) -> Health {
        let memory = memory_free_mb();
        let disk = disk_free_mb(&self.work);
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load: f64 = load.split(' ').next().and_then(|one| one.parse().ok()).unwrap_or(0.0);
        Health {
            load: load / f64::from(self.cores.max(1)),
            memory_free_mb: memory.unwrap_or(0),
            disk_free_mb: disk.unwrap_or(0),
            trouble: trouble(&self.minima, memory, disk),
        }
    }
}

/// What is wrong, in words. What cannot be measured is not held against the machine.
fn trouble(minima: &Minima, memory: Option<u64>, disk: Option<u64>) -> Option<String> {
    let low = |what: &str, free: Option<u64>, least: u64| {
        let free = free.filter(|free| *free < least)?;
        Some(format!("{what}: {free} MB are free, {least} MB are needed to take a job"))
    };
    low("the disk is nearly full", disk, minima.disk_mb)
        .or_else(|| low("memory is nearly used up", memory, minima.memory_mb))
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

    fn check(memory: Option<u64>, disk: Option<u64>, expect: Option<&str>) {
        let minima = Minima { disk_mb: 100, memory_mb: 50 };
        let found = trouble(&minima, memory, disk);
        assert_eq!(found.as_deref().map(|text| &text[..8]), expect, "{memory:?} {disk:?}");
    }

    /// S15
    #[test]
    fn a_machine_that_is_short_of_something_takes_no_jobs_and_says_why() {
        check(Some(50), Some(100), None);
        check(Some(49), Some(100), Some("memory i"));
        check(Some(0), Some(99), Some("the disk"));
        check(None, None, None);
    }

    #[test]
    fn this_machine_can_be_measured() {
        let gauge = Gauge { work: "/nowhere/at/all".into(), minima: Minima::default(), cores: 2 };
        let health = gauge.look();
        assert!(health.memory_free_mb > 0 && health.disk_free_mb > 0 && health.load >= 0.0);
        assert!(memory_mb() >= memory_free_mb());
        assert!(out_of_memory_kills().is_some());
    }
}
