//! Where a job finds and leaves its files.

use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

/// Where the job finds and leaves its files.
#[derive(Debug, Clone)]
pub struct Places {
    pub workspace: PathBuf,
    /// Emptied with the job.
    pub temp: PathBuf,
    /// The scripts of `run` steps and the files through which steps talk back.
    pub scripts: PathBuf,
    /// Tools that setup actions keep between jobs.
    pub tool_cache: PathBuf,
    /// Actions that were fetched, by commit.
    pub actions: PathBuf,
}

impl Places {
    /// The places of one job below a folder of its own. Nothing is made.
    pub fn below(base: &Path, repository: &str, tool_cache: &Path, actions: &Path) -> Self {
        // The folder of the repository is named like it, as on GitHub.
        let name = repository.rsplit('/').next().unwrap_or(repository);
        Self {
            workspace: base.join("work").join(name).join(name),
            temp: base.join("temp"),
            scripts: base.to_owned(),
            tool_cache: tool_cache.to_owned(),
            actions: actions.to_owned(),
        }
    }

    /// The folders that are there before the job: all but the first lie in the one before, or in the first.
    pub(crate) fn folders(&self) -> [&Path; 5] {
        let inner = self.workspace.parent().unwrap_or(&self.workspace);
        let work = inner.parent().unwrap_or(inner);
        [&self.scripts, &self.temp, work, inner, &self.workspace]
    }

    /// Whether an entry of one of these folders is what Kiln put there: a folder further in, or an empty
    /// file, which waits for the next step.
    pub(crate) fn is_ours(&self, entry: &DirEntry) -> bool {
        let path = entry.path();
        let is_empty = |found: fs::Metadata| found.is_file() && found.len() == 0;
        self.folders().contains(&&*path)
            || path.parent() == Some(&self.scripts) && path.symlink_metadata().is_ok_and(is_empty)
    }
}
