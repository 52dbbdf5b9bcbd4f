//! The artifacts of a run on this machine: files in a folder beside its logs, and a list of them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kiln_core::time::Timestamp;
use kiln_proto::content::{Artifact, NewArtifact};
use serde::{Deserialize, Serialize};

use crate::local::now;

use super::super::services::{Reason, Refusal, Spooled};
use super::take;

/// The folder in the directory of a run, and the list beside it.
const FOLDER: &str = "artifacts";
const LIST: &str = "artifacts.json";
/// What is not ready yet: a file, and a list.
const NEW_FILE: &str = "artifact.new";
const NEW_LIST: &str = "artifacts.new";
/// More is not read.
const LONGEST_LIST: u64 = 16 << 20;
/// Artifacts of one run, at most.
const MOST: usize = 10_000;

#[derive(Debug)]
pub struct Artifacts {
    run: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kept: Vec<Kept>,
    last: i64,
}

/// What is written down of an artifact.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Kept {
    artifact: Artifact,
    file: String,
    /// It is of a run that this one goes on from: a job that runs again may write it anew.
    #[serde(default)]
    earlier: bool,
}

impl Kept {
    fn is_over(&self, now: Timestamp) -> bool {
        let ends = self.artifact.expires_at.as_deref().and_then(Timestamp::parse_rfc3339);
        ends.is_some_and(|ends| ends <= now)
    }
}

/// An artifact that a run left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    pub name: String,
    pub size: u64,
    pub path: PathBuf,
}

impl Artifacts {
    /// Those of a new run, which has none. Nothing is made before there is one.
    pub fn new(run: &Path) -> Self {
        Self { run: run.to_owned(), state: Mutex::default() }
    }

    /// Takes over what a run left that this one goes on from.
    pub fn take_over(&self, earlier: &Path) -> io::Result<()> {
        let kept = match read_list(&earlier.join(LIST)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let mut state = self.state();
        fs::create_dir_all(self.run.join(FOLDER))?;
        for old in kept.into_iter().filter(|old| !old.is_over(now())) {
            let (from, to) = (earlier.join(FOLDER).join(&old.file), self.file(&old.file));
            // One file for both runs; it never changes.
            fs::hard_link(&from, &to).or_else(|_| fs::copy(&from, &to).map(drop))?;
            state.last = state.last.max(old.artifact.id);
            state.kept.push(Kept { earlier: true, ..old });
        }
        self.write_list(&state.kept)
    }

    /// Removes what a run left whose time is over, counted from 1970. The list goes first, so that it never names
    /// what is not there.
    pub fn expire(run: &Path, now: Duration) -> io::Result<()> {
        let kept = match read_list(&run.join(LIST)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        let now = Timestamp(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
        let (gone, stay): (Vec<Kept>, Vec<Kept>) =
            kept.into_iter().partition(|kept| kept.is_over(now));
        if gone.is_empty() {
            return Ok(());
        }
        let artifacts = Self::new(run);
        artifacts.write_list(&stay)?;
        gone.iter().try_for_each(|old| fs::remove_file(artifacts.file(&old.file)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.run.join(FOLDER).join(name)
    }

    pub(super) fn list(&self) -> Vec<Artifact> {
        self.state().kept.iter().map(|kept| kept.artifact.clone()).collect()
    }

    pub(super) fn path(&self, id: i64) -> Option<PathBuf> {
        let state = self.state();
        let kept = state.kept.iter().find(|kept| kept.artifact.id == id)?;
        Some(self.file(&kept.file))
    }

    /// What the run left, by age.
    pub fn left(&self) -> Vec<Left> {
        let state = self.state();
        let left = state.kept.iter().map(|kept| Left {
            name: kept.artifact.name.clone(),
            size: kept.artifact.size,
            path: self.file(&kept.file),
        });
        left.collect()
    }

    /// A number for an artifact of a new name.
    pub(super) fn reserve(&self, new: &NewArtifact) -> Result<i64, Refusal> {
        let mut state = self.state();
        check_new(&state.kept, new)?;
        if state.kept.len() >= MOST {
            let message = format!("a run may have {MOST} artifacts");
            return Err(Refusal::new(Reason::TooLarge, message));
        }
        state.last += 1;
        Ok(state.last)
    }

    /// Keeps an artifact, in the place of one of the same name if it may have that.
    pub(super) fn save(&self, id: i64, new: &NewArtifact, bytes: &Spooled) -> Result<(), Refusal> {
        let mut state = self.state();
        check_new(&state.kept, new)?;
        let content_type = new.content_type.clone();
        let artifact = Artifact {
            id,
            run_id: 1,
            attempt: 1,
            job_id: None,
            name: new.name.clone(),
            size: bytes.size,
            hash: bytes.hash.clone(),
            content_type: content_type.unwrap_or_else(|| "application/zip".to_owned()),
            trust: "trusted".to_owned(),
            keep: false,
            created_at: now().rfc3339(),
            expires_at: new.expires_at.clone(),
        };
        let mut kept = state.kept.clone();
        let replaced = kept.iter().position(|old| old.artifact.name == new.name);
        let replaced = replaced.map(|at| kept.remove(at));
        let file = file_name(&artifact, &kept);
        kept.push(Kept { artifact, file: file.clone(), earlier: false });
        self.put(bytes, &file, &kept)?;
        if let Some(old) = replaced.filter(|old| old.file != file) {
            // The list does not name it any more; the earlier run has it still.
            let _ = fs::remove_file(self.file(&old.file));
        }
        state.kept = kept;
        Ok(())
    }

    /// Puts a file and the list that names it in their places. Both are complete before anything changes: on a disk
    /// without room all stays as it was.
    fn put(&self, bytes: &Spooled, file: &str, kept: &[Kept]) -> io::Result<()> {
        fs::create_dir_all(self.run.join(FOLDER))?;
        self.prepare_list(kept)?;
        let ready = self.run.join(NEW_FILE);
        take(bytes, &ready)?;
        fs::rename(ready, self.file(file))?;
        self.show_list()
    }

    pub(super) fn delete(&self, id: i64) -> Result<(), Refusal> {
        let mut state = self.state();
        let mut kept = state.kept.clone();
        let at = kept.iter().position(|kept| kept.artifact.id == id);
        let at = at.ok_or_else(|| Refusal::not_found(format!("there is no artifact {id}")))?;
        let gone = kept.remove(at);
        self.write_list(&kept)?;
        state.kept = kept;
        fs::remove_file(self.file(&gone.file))?;
        Ok(())
    }

    fn write_list(&self, kept: &[Kept]) -> io::Result<()> {
        self.prepare_list(kept)?;
        self.show_list()
    }

    fn prepare_list(&self, kept: &[Kept]) -> io::Result<()> {
        let path = self.run.join(NEW_LIST);
        fs::write(&path, serde_json::to_string(kept)?).inspect_err(|_| {
            // Half of it would take room for nothing.
            let _ = fs::remove_file(&path);
        })
    }

    fn show_list(&self) -> io::Result<()> {
        fs::rename(self.run.join(NEW_LIST), self.run.join(LIST))
    }
}

/// An artifact never changes: its name must be free, unless another one is to stand in its place.
fn check_new(kept: &[Kept], new: &NewArtifact) -> Result<(), Refusal> {
    let name = &new.name;
    let is_taken = |kept: &Kept| !kept.earlier && !new.overwrite && kept.artifact.name == *name;
    if kept.iter().any(is_taken) {
        return Err(Refusal::exists(format!("the run has an artifact `{name}` already")));
    }
    Ok(())
}

/// A name that a person recognizes and no other file has.
fn file_name(artifact: &Artifact, others: &[Kept]) -> String {
    let is_zip = artifact.content_type == "application/zip";
    let (name, ending) = (&artifact.name, if is_zip { ".zip" } else { "" });
    let usual = format!("{name}{ending}");
    if others.iter().any(|other| other.file == usual) {
        return format!("{}-{name}{ending}", artifact.id);
    }
    usual
}

fn read_list(path: &Path) -> io::Result<Vec<Kept>> {
    if fs::metadata(path)?.len() > LONGEST_LIST {
        return Err(io::Error::other("the list of its artifacts is too long"));
    }
    let kept: Vec<Kept> = serde_json::from_str(&fs::read_to_string(path)?)?;
    let is_plain = |kept: &Kept| !kept.file.contains('/') && kept.file != "..";
    Ok(kept.into_iter().filter(is_plain).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(tempfile::TempDir);

    fn named(name: &str) -> NewArtifact {
        NewArtifact { name: name.to_owned(), ..NewArtifact::default() }
    }

    impl Place {
        fn spooled(&self, text: &str) -> Spooled {
            let path = self.0.path().join("spooled");
            fs::write(&path, text).unwrap();
            Spooled { path, size: text.len() as u64, hash: "0".repeat(64) }
        }

        fn save(&self, artifacts: &Artifacts, name: &str, kind: Option<&str>) -> i64 {
            let content_type = kind.map(str::to_owned);
            let new = NewArtifact { name: name.into(), content_type, ..NewArtifact::default() };
            let id = artifacts.reserve(&new).unwrap();
            artifacts.save(id, &new, &self.spooled(name)).unwrap();
            id
        }
    }

    #[test]
    fn artifacts_have_names_that_people_recognize_and_never_share_a_file() {
        let place = Place(tempfile::tempdir().unwrap());
        let artifacts = Artifacts::new(place.0.path());
        place.save(&artifacts, "a", None);
        place.save(&artifacts, "a.zip", Some("text/plain"));
        place.save(&artifacts, "b.txt", Some("text/plain"));
        let files: Vec<String> = artifacts
            .left()
            .iter()
            .map(|left| left.path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(files, ["a.zip", "2-a.zip", "b.txt"]);
        for left in artifacts.left() {
            assert_eq!(fs::read_to_string(left.path).unwrap(), left.name);
        }
    }

    #[test]
    fn a_name_is_taken_once_unless_it_was_deleted() {
        let place = Place(tempfile::tempdir().unwrap());
        let artifacts = Artifacts::new(place.0.path());
        let id = place.save(&artifacts, "a", None);
        assert_eq!(artifacts.reserve(&named("a")).unwrap_err().reason, Reason::Exists);
        artifacts.delete(id).unwrap();
        assert_eq!(artifacts.delete(id).unwrap_err().reason, Reason::NotFound);
        assert!(place.save(&artifacts, "a", None) > id, "a number is used once");
        let over = NewArtifact {
            overwrite: true,
            expires_at: Some("2030-01-01T00:00:00Z".to_owned()),
            ..named("a")
        };
        let id = artifacts.reserve(&over).unwrap();
        assert_eq!(artifacts.left().len(), 1, "it stays until the other one is there");
        artifacts.save(id, &over, &place.spooled("another")).unwrap();
        assert_eq!(fs::read_to_string(&artifacts.left()[0].path).unwrap(), "another");
        let listed = artifacts.list();
        assert_eq!((listed.len(), listed[0].id), (1, id));
        assert_eq!(listed[0].expires_at, over.expires_at);
    }

    /// Whatever goes wrong on the way: the one that was there is, and so are the bytes of the new one.
    #[test]
    fn one_that_cannot_be_written_takes_nobodys_place() {
        let place = Place(tempfile::tempdir().unwrap());
        let artifacts = Artifacts::new(place.0.path());
        let id = place.save(&artifacts, "a", None);
        let before = artifacts.left();
        let over = NewArtifact { overwrite: true, ..named("a") };
        let is_as_it_was = || {
            assert_eq!((artifacts.left(), artifacts.list()[0].id), (before.clone(), id));
            assert_eq!(fs::read_to_string(&before[0].path).unwrap(), "a");
            assert_eq!(read_list(&place.0.path().join(LIST)).unwrap()[0].artifact.id, id);
        };
        let new = artifacts.reserve(&over).unwrap();
        let gone = Spooled { path: place.0.path().join("nowhere"), ..place.spooled("new") };
        artifacts.save(new, &over, &gone).unwrap_err();
        is_as_it_was();
        // Nothing can be written where a folder is.
        fs::remove_file(place.0.path().join(NEW_LIST)).unwrap();
        fs::create_dir(place.0.path().join(NEW_LIST)).unwrap();
        let spooled = place.spooled("new");
        artifacts.save(new, &over, &spooled).unwrap_err();
        is_as_it_was();
        fs::remove_dir(place.0.path().join(NEW_LIST)).unwrap();
        artifacts.save(new, &over, &spooled).unwrap();
        assert_eq!(fs::read_to_string(&before[0].path).unwrap(), "new");
        assert_eq!(artifacts.left().len(), 1);
    }

    #[test]
    fn what_has_a_time_goes_when_it_is_over() {
        let place = Place(tempfile::tempdir().unwrap());
        let artifacts = Artifacts::new(place.0.path());
        for (name, until) in [
            ("a", Some("2026-01-02T00:00:00.000Z")),
            ("b", Some("2026-01-04T00:00:00Z")),
            ("c", None),
        ] {
            let new = NewArtifact { expires_at: until.map(str::to_owned), ..named(name) };
            let id = artifacts.reserve(&new).unwrap();
            artifacts.save(id, &new, &place.spooled(name)).unwrap();
        }
        // 2026-01-03
        Artifacts::expire(place.0.path(), Duration::from_hours(490_944)).unwrap();
        let left = read_list(&place.0.path().join(LIST)).unwrap();
        let names: Vec<&str> = left.iter().map(|kept| kept.artifact.name.as_str()).collect();
        assert_eq!(names, ["b", "c"]);
        assert!(!place.0.path().join("artifacts/a.zip").exists());
        Artifacts::expire(&place.0.path().join("nowhere"), Duration::ZERO).unwrap();
    }

    #[test]
    fn a_run_that_goes_on_from_another_has_its_artifacts_and_may_write_them_anew() {
        let (old, new) = (Place(tempfile::tempdir().unwrap()), Place(tempfile::tempdir().unwrap()));
        let earlier = Artifacts::new(old.0.path());
        old.save(&earlier, "a", None);
        old.save(&earlier, "b", None);
        let artifacts = Artifacts::new(new.0.path());
        artifacts.take_over(old.0.path()).unwrap();
        artifacts.take_over(&old.0.path().join("nowhere")).unwrap();
        let id = artifacts.reserve(&named("a")).unwrap();
        let again = named("a");
        artifacts.save(id, &again, &new.spooled("anew")).unwrap();
        let texts = |artifacts: &Artifacts| {
            let left = artifacts.left().into_iter();
            left.map(|it| fs::read_to_string(it.path).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(texts(&artifacts), ["b", "anew"]);
        assert_eq!(texts(&earlier), ["a", "b"], "the earlier run is as it was");
        assert_eq!(artifacts.reserve(&named("a")).unwrap_err().reason, Reason::Exists);
    }
}
