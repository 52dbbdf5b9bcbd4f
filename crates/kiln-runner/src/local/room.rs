//! Where the jobs of a worker run, one after the other.
//!
//! Making and removing files costs more than anything else in a short job, so what one job left as it
//! found it serves the next: its workspace, its empty temporary folder, its empty command files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::job::Places;
use crate::workspace::{Copy, Pristine};

use super::Options;

pub(super) struct Room {
    pub(super) places: Places,
    workspace: Copy,
    /// When the job began that is or was in the room.
    entered: SystemTime,
}

impl Room {
    /// Makes a room below a folder that does not exist yet.
    pub(super) fn new(base: &Path, options: &Options) -> Result<Self, String> {
        let (tools, actions) = (&options.tool_cache, &options.host.resolver.store);
        let places = Places::below(base, repository_name(options), tools, actions);
        let workspace =
            options.pristine.copy_to(&places.workspace).map_err(|error| error.to_string())?;
        fs::create_dir(&places.temp)
            .map_err(|error| format!("cannot make `{}`: {error}", places.temp.display()))?;
        Ok(Self { places, workspace, entered: now() })
    }

    /// Makes the room as new for the next job. When that fails, another room is needed.
    pub(super) fn tidy(mut self, pristine: &Pristine) -> Option<Self> {
        if !self.is_intact() {
            return None;
        }
        if !self.workspace.is_untouched(pristine, self.entered) {
            fs::remove_dir_all(&self.places.workspace).ok()?;
            self.workspace = pristine.copy_to(&self.places.workspace).ok()?;
        }
        empty(&self.places.temp).ok()?;
        self.entered = now();
        Some(self)
    }
}

impl Room {
    /// Whether its folders are folders, and hold nothing that the job put beside its workspace. A link
    /// in the place of a folder would lead the tidying astray.
    fn is_intact(&self) -> bool {
        let [base, temp, work, inner, _] = self.places.folders();
        let is_folder = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        let holds_only_ours = |folder: &Path| {
            let is_ours = |entry: io::Result<fs::DirEntry>| {
                entry.is_ok_and(|entry| self.places.is_ours(&entry))
            };
            fs::read_dir(folder).is_ok_and(|mut entries| entries.all(is_ours))
        };
        is_folder(temp) && [base, work, inner].iter().all(|it| is_folder(it) && holds_only_ours(it))
    }
}

fn repository_name(options: &Options) -> &str {
    let full = options.github.get("repository").and_then(kiln_core::value::Value::as_str);
    full.unwrap_or("repository")
}

/// Removes all that is in a folder.
fn empty(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The rooms of a run are numbered; one that cannot be tidied is left for the end.
pub(super) fn path_of(directory: &Path, number: usize) -> PathBuf {
    directory.join("jobs").join(number.to_string())
}

#[expect(clippy::disallowed_methods, reason = "compared with the times of files")]
fn now() -> SystemTime {
    SystemTime::now()
}
