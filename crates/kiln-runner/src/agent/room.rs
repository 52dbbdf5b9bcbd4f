//! Where a job of the fleet runs: a folder for each slot, empty when a job enters it.
//!
//! Folders and files that a job left as they were serve the next one. To make them anew is what costs most
//! in a short job: ext4 does not give out inodes that were freed lately, and searches past all of them for
//! every file that is made.

use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::job::{Places, wipe};
use crate::random;

/// Where folders go that are being removed. No slot has such a name.
const TRASH: &str = "_trash";
/// How many empty files of steps are kept for the next job.
const MOST_KEPT: usize = 64;

pub(super) struct Room {
    pub(super) places: Places,
    base: PathBuf,
    trash: PathBuf,
}

impl Room {
    /// Makes the folders of a job, unless they are there from an earlier one and clean.
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
        fs::create_dir_all(&room.trash)?;
        if room.is_clean() {
            return Ok(room);
        }
        if room.base.symlink_metadata().is_ok() {
            remove(&room.put_away(&room.base)?);
        }
        fs::create_dir_all(&room.places.workspace)?;
        fs::create_dir(&room.places.temp)?;
        Ok(room)
    }

    /// Where the payload of the event is written.
    pub(super) fn event(&self) -> PathBuf {
        self.base.join("event.json")
    }

    /// Makes the slot free for the next job; returns what is then to be removed.
    pub(super) fn leave(&self) -> io::Result<Vec<PathBuf>> {
        wipe(&self.event());
        let mut away = Vec::new();
        if self.tidy(&mut away).is_err() {
            away.push(self.put_away(&self.base)?);
        }
        Ok(away)
    }

    /// Puts away all that the job made. Fails if the room is not worth keeping.
    fn tidy(&self, away: &mut Vec<PathBuf>) -> io::Result<()> {
        let [base, temp, work, inner, workspace] = self.places.folders();
        if ![base, temp, work, inner, workspace].iter().all(|folder| self.is_as_made(folder)) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        for folder in [base, work, inner] {
            let mut files = 0;
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                let is_file = entry.file_type()?.is_file();
                files += usize::from(is_file);
                if is_file && files > MOST_KEPT || !self.places.is_ours(&entry) {
                    away.push(self.put_away(&entry.path())?);
                }
            }
        }
        for folder in [workspace, temp] {
            if !is_empty(folder) {
                away.push(self.put_away(folder)?);
                fs::create_dir(folder)?;
            }
        }
        Ok(())
    }

    /// Whether a job could begin here.
    fn is_clean(&self) -> bool {
        let [base, temp, work, inner, workspace] = self.places.folders();
        let holds_only_ours = |folder: &Path| {
            let is_ours =
                |entry: io::Result<DirEntry>| entry.is_ok_and(|it| self.places.is_ours(&it));
            fs::read_dir(folder).is_ok_and(|mut entries| entries.all(is_ours))
        };
        [base, temp, work, inner, workspace].iter().all(|folder| self.is_as_made(folder))
            && [base, work, inner].iter().all(|folder| holds_only_ours(folder))
            && is_empty(workspace)
            && is_empty(temp)
    }

    /// Whether a folder is one, with the owner and the permissions that folders get here.
    fn is_as_made(&self, folder: &Path) -> bool {
        let found = folder.symlink_metadata().ok().zip(self.trash.symlink_metadata().ok());
        found.is_some_and(|(found, model)| {
            found.is_dir() && (found.mode(), found.uid()) == (model.mode(), model.uid())
        })
    }

    fn put_away(&self, path: &Path) -> io::Result<PathBuf> {
        let away = self.trash.join(random::hex::<8>()?);
        fs::rename(path, &away)?;
        Ok(away)
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
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

/// Removes a file, or a folder with everything in it, also what the job made unwritable.
pub(super) fn remove(folder: &Path) {
    let is_folder = folder.symlink_metadata().is_ok_and(|found| found.is_dir());
    let removed = if is_folder { fs::remove_dir_all(folder) } else { fs::remove_file(folder) };
    if removed.is_ok() {
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

    /// Leaves the room, and says how many things were put away.
    fn leave(room: &Room) -> usize {
        let away = room.leave().unwrap();
        for path in &away {
            remove(path);
        }
        assert!(is_empty(&room.trash));
        away.len()
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
        assert!(is_empty(&room.places.workspace), "also if nobody left it");
        leave(&room);
        assert!(outside.path().join("keep").exists(), "links are not followed");
    }

    #[test]
    fn what_a_job_left_as_it_was_serves_the_next() {
        let work = tempfile::tempdir().unwrap();
        let check = |what: &str, spoil: &dyn Fn(&Room), stays: bool, expect: usize| {
            let room = enter(work.path());
            fs::write(room.event(), "{}").unwrap();
            fs::write(room.base.join("set_env_1"), "").unwrap();
            spoil(&room);
            assert_eq!(leave(&room), expect, "{what}");
            assert_eq!(room.base.exists(), stays, "{what}");
            let next = enter(work.path());
            assert_eq!(next.event().exists(), stays, "{what}");
            assert!(is_empty(&next.places.workspace) && is_empty(&next.places.temp), "{what}");
            assert_eq!(fs::read(next.event()).unwrap_or_default(), b"", "{what}");
        };
        let file = |path: PathBuf| fs::write(path, "x").unwrap();
        check("nothing", &|_| (), true, 0);
        check("files", &|room| file(room.places.workspace.join("a")), true, 1);
        check("temporary files", &|room| file(room.places.temp.join("a")), true, 1);
        check("words", &|room| file(room.base.join("set_env_1")), true, 1);
        check("beside", &|room| file(room.places.workspace.with_file_name("b")), true, 1);
        let mode = |path: &Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o1711)).unwrap();
        };
        check("another mode", &|room| mode(&room.places.temp), false, 1);
        check("the mode of the workspace", &|room| mode(&room.places.workspace), false, 1);
        let link = |room: &Room| {
            fs::remove_dir(&room.places.temp).unwrap();
            std::os::unix::fs::symlink(work.path(), &room.places.temp).unwrap();
        };
        check("a link", &link, false, 1);
        let flood = |room: &Room| {
            (0..100).for_each(|number| fs::write(room.base.join(number.to_string()), "").unwrap());
        };
        check("a flood of files", &flood, true, 102 - MOST_KEPT);
    }

    #[test]
    fn a_room_serves_another_repository_only_with_another_workspace() {
        let work = tempfile::tempdir().unwrap();
        leave(&enter(work.path()));
        let room =
            Room::enter(work.path(), 0, "o/other", Path::new("/t"), Path::new("/a")).unwrap();
        assert!(is_empty(&room.places.workspace) && !work.path().join("1/work/app").exists());
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
