//! Where a job of the fleet runs: a folder for each slot, empty when a job enters it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::job::Places;
use crate::random;

/// Where folders go that are being removed. No slot has such a name.
const TRASH: &str = "_trash";

pub(super) struct Room {
    pub(super) places: Places,
    base: PathBuf,
    trash: PathBuf,
}

impl Room {
    /// Makes the folders of a job. What an earlier one left there is put away first.
    pub(super) fn enter(
        work: &Path,
        slot: usize,
        repository: &str,
        tool_cache: &Path,
        actions: &Path,
    ) -> io::Result<Self> {
        let base = work.join((slot + 1).to_string());
        let places = Places::below(&base, repository, tool_cache, actions);
        let room = Self { places, base, trash: work.join(TRASH) };
        if room.base.symlink_metadata().is_ok() {
            remove(&room.put_away()?);
        }
        fs::create_dir_all(&room.places.workspace)?;
        fs::create_dir(&room.places.temp)?;
        Ok(room)
    }

    /// Makes the slot free; returns what is then to be removed.
    pub(super) fn put_away(&self) -> io::Result<PathBuf> {
        fs::create_dir_all(&self.trash)?;
        let away = self.trash.join(random::hex::<8>()?);
        fs::rename(&self.base, &away)?;
        Ok(away)
    }
}

/// Removes what earlier processes left: the folders of their jobs, and what they did not get to remove.
pub(super) fn tidy(work: &Path) {
    for entry in fs::read_dir(work).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_slot = name.to_str().is_some_and(|name| name.parse::<usize>().is_ok());
        if is_slot || name == TRASH {
            remove(&entry.path());
        }
    }
}

/// Removes a folder with everything in it, also what the job made unwritable.
pub(super) fn remove(folder: &Path) {
    if fs::remove_dir_all(folder).is_ok() {
        return;
    }
    unlock(folder);
    if let Err(error) = fs::remove_dir_all(folder)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!("cannot remove `{}`: {error}", folder.display());
    }
}

/// Lets us into every folder. Links are not followed.
fn unlock(folder: &Path) {
    let mut pending = vec![folder.to_owned()];
    while let Some(folder) = pending.pop() {
        // What cannot be changed cannot be removed either, which is told then.
        let _ = fs::set_permissions(&folder, fs::Permissions::from_mode(0o700));
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(work: &Path) -> Room {
        Room::enter(work, 0, "octo/app", Path::new("/t"), Path::new("/a")).unwrap()
    }

    #[test]
    fn a_job_finds_an_empty_workspace_whatever_the_last_one_left() {
        let work = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("keep"), "").unwrap();
        let room = enter(work.path());
        assert_eq!(room.places.workspace, work.path().join("1/work/app/app"));
        fs::create_dir_all(room.places.workspace.join("locked/inner")).unwrap();
        fs::write(room.places.workspace.join("locked/inner/file"), "").unwrap();
        std::os::unix::fs::symlink(outside.path(), room.places.workspace.join("link")).unwrap();
        let locked = fs::Permissions::from_mode(0o000);
        fs::set_permissions(room.places.workspace.join("locked"), locked).unwrap();
        drop(room);
        let room = enter(work.path());
        assert_eq!(fs::read_dir(&room.places.workspace).unwrap().count(), 0);
        remove(&room.put_away().unwrap());
        assert!(!room.base.exists());
        assert_eq!(fs::read_dir(work.path().join(TRASH)).unwrap().count(), 0);
        assert!(outside.path().join("keep").exists(), "links are not followed");
    }

    #[test]
    fn a_start_removes_what_earlier_jobs_left_and_nothing_else() {
        let work = tempfile::tempdir().unwrap();
        enter(work.path());
        fs::create_dir_all(work.path().join("_trash/x")).unwrap();
        fs::create_dir_all(work.path().join("mine")).unwrap();
        tidy(work.path());
        let left: Vec<_> = fs::read_dir(work.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].file_name(), "mine");
    }
}
