//! Earlier runs go when they are too old, or when all of them together are too large.
//!
//! The last runs of each repository stay, since another may go on from them, and so does whatever still runs.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use kiln_runner::gateway::local::Artifacts;

use super::earlier;

/// What begins so is on its way out.
const AWAY: &str = ".gone-";

/// How much of earlier runs stays.
#[derive(Debug, Clone, Copy)]
pub(super) struct Keep {
    pub(super) age: Duration,
    /// The bytes of all runs together.
    pub(super) bytes: u64,
}

/// A run that is over.
struct Over {
    directory: PathBuf,
    age: Duration,
    bytes: u64,
    /// It may go.
    is_free: bool,
}

/// Removes what is too much, and artifacts whose own time is over. Whatever cannot be removed stays for the next
/// run: no run fails because of it.
#[expect(clippy::disallowed_methods, reason = "runs are named by when they started")]
pub(super) fn earlier_runs(state: &Path, keep: Keep) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    prune(state, keep, now);
}

fn prune(state: &Path, keep: Keep, now: Duration) {
    let last: HashSet<PathBuf> = earlier::all_last(state).into_iter().collect();
    let mut runs = Vec::new();
    for entry in fs::read_dir(state.join("runs")).into_iter().flatten().flatten() {
        let directory = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(AWAY) {
            let _ = fs::remove_dir_all(&directory);
            continue;
        }
        let Some((began, process)) = parts(&name) else { continue };
        if Path::new("/proc").join(process).exists() {
            continue;
        }
        let _ = Artifacts::expire(&directory, now);
        let is_free = !last.contains(&directory);
        runs.push(Over {
            bytes: bytes_of(&directory),
            age: now.saturating_sub(began),
            is_free,
            directory,
        });
    }
    // The oldest first.
    runs.sort_by_key(|run| std::cmp::Reverse(run.age));
    let mut total: u64 = runs.iter().map(|run| run.bytes).sum();
    for run in runs.iter().filter(|run| run.is_free) {
        if run.age > keep.age || total > keep.bytes {
            total -= run.bytes;
            remove(&run.directory);
        }
    }
}

/// When a run began and which process it is, by the name of its directory.
fn parts(name: &str) -> Option<(Duration, &str)> {
    let (began, process) = name.split_once('-')?;
    let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
    let began = Duration::from_millis(began.parse().ok()?);
    is_number.then_some((began, process))
}

/// Links are not followed.
fn bytes_of(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_of(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Out of sight first, so that nobody goes on from half of it.
fn remove(directory: &Path) {
    let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let away = directory.with_file_name(format!("{AWAY}{name}"));
    if fs::rename(directory, &away).is_ok() {
        let _ = fs::remove_dir_all(away);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_hours(24);
    const NOW: Duration = Duration::from_hours(500_000);

    struct State(tempfile::TempDir);

    impl State {
        /// A run of so many days ago, of a process that cannot be there.
        fn run(&self, days: u32, bytes: usize) -> PathBuf {
            self.run_of(days, bytes, 4_194_999)
        }

        fn run_of(&self, days: u32, bytes: usize, process: u32) -> PathBuf {
            let began = NOW.checked_sub(DAY * days).unwrap().as_millis();
            let directory = self.0.path().join(format!("runs/{began}-{process}"));
            fs::create_dir_all(directory.join("artifacts")).unwrap();
            fs::write(directory.join("artifacts/a.zip"), vec![0; bytes]).unwrap();
            directory
        }

        fn prune(&self, age: Duration, bytes: u64) {
            prune(self.0.path(), Keep { age, bytes }, NOW);
        }
    }

    /// L1
    #[test]
    fn old_runs_go_and_then_the_oldest_until_the_rest_is_small_enough() {
        let state = State(tempfile::tempdir().unwrap());
        let runs: Vec<PathBuf> = [40, 20, 10, 1].map(|days| state.run(days, 100)).into();
        let there = || runs.iter().map(|run| run.exists()).collect::<Vec<_>>();
        state.prune(DAY * 30, 1_000);
        assert_eq!(there(), [false, true, true, true]);
        state.prune(DAY * 30, 250);
        assert_eq!(there(), [false, false, true, true]);
        state.prune(DAY * 30, 0);
        assert_eq!(there(), [false; 4]);
        let left = fs::read_dir(state.0.path().join("runs")).unwrap().count();
        assert_eq!(left, 0, "nothing is half gone");
    }

    #[test]
    fn what_runs_and_what_came_last_stays() {
        let state = State(tempfile::tempdir().unwrap());
        let (last, old) = (state.run(50, 10), state.run(51, 10));
        let running = state.run_of(52, 10, std::process::id());
        let other = state.0.path().join("runs/something else");
        fs::create_dir(&other).unwrap();
        let half = state.0.path().join("runs/.gone-1-2");
        fs::create_dir(&half).unwrap();
        let root = tempfile::tempdir().unwrap();
        earlier::Batch::default().add(state.0.path(), root.path(), &last).unwrap();
        state.prune(DAY, 0);
        assert!(last.exists() && running.exists() && other.exists());
        assert!(!old.exists() && !half.exists());
    }
}
