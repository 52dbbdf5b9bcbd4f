//! Caches on this machine: a folder for each, which is renamed into its place when it is complete.
//!
//! They are kept for each repository, and those that were not used for the longest time go when all
//! together become too large. Every ref of a repository sees them: whoever runs them is one person.

mod trees;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use kiln_core::time::Timestamp;
use kiln_proto::content::{Cache, FindCache, NewCache};

use crate::local::{digest, now};
use crate::random;

use super::super::services::{Refusal, Spooled};
use super::take;

/// The files of a cache. When the second was changed is when the cache was used.
const ARCHIVE: &str = "archive";
const ENTRY: &str = "entry.json";
/// What begins so is not ready, or on its way out.
const UNREADY: &str = ".new-";
/// What was not ready for so long never will be: its process is gone.
const ABANDONED: Duration = Duration::from_hours(24);
/// More is not read.
const LONGEST_ENTRY: u64 = 64 << 10;

#[derive(Debug)]
pub struct Caches {
    /// All caches of this machine.
    all: PathBuf,
    /// The folder of this repository in it.
    repository: String,
    /// The bytes of all caches together.
    limit: u64,
    /// How many bytes may be saved before all are counted again.
    uncounted: Mutex<u64>,
}

/// A cache that is there.
struct Found {
    folder: PathBuf,
    cache: Cache,
    used: SystemTime,
    /// What else it needs, if it is a tree.
    packs: Vec<trees::Pack>,
}

impl Found {
    /// With the size of all that it needs. What several trees share counts for each of them.
    fn whole(self) -> Cache {
        let packs: u64 = self.packs.iter().map(|pack| pack.size).sum();
        Cache { size: self.cache.size + packs, ..self.cache }
    }
}

impl Caches {
    pub fn new(all: PathBuf, repository: String, limit: u64) -> Self {
        Self { all, repository, limit, uncounted: Mutex::new(0) }
    }

    fn own(&self) -> PathBuf {
        self.all.join(&self.repository)
    }

    /// The exact key, else the newest that begins like it, else like the next key that will do.
    pub(super) fn find(&self, wanted: &FindCache) -> io::Result<Option<Cache>> {
        let exact = self.own().join(name_of(&wanted.key, &wanted.version));
        let found = match read(&exact) {
            Some(found) => Some(found),
            None => self.find_beginning(wanted)?,
        };
        let Some(mut found) = found else { return Ok(None) };
        found.cache.hits += 1;
        found.cache.used_at = now().rfc3339();
        note_use(&found)?;
        Ok(Some(found.cache))
    }

    /// Those of the repository, the ones that were used last first.
    pub fn list(&self) -> io::Result<Vec<Cache>> {
        let mut all = list(&self.own())?;
        all.sort_by_key(|cache| std::cmp::Reverse(cache.used));
        Ok(all.into_iter().map(Found::whole).collect())
    }

    /// Removes those for which this holds, and says which they were.
    pub fn remove(&self, is_meant: impl Fn(&Cache) -> bool) -> io::Result<Vec<Cache>> {
        let mut gone = Vec::new();
        for found in list(&self.own())?.into_iter().filter(|found| is_meant(&found.cache)) {
            remove(&found.folder);
            gone.push(found.whole());
        }
        if !gone.is_empty() {
            trees::sweep(&self.own());
        }
        Ok(gone)
    }

    fn find_beginning(&self, wanted: &FindCache) -> io::Result<Option<Found>> {
        let mut known = list(&self.own())?;
        known.retain(|found| found.cache.version == wanted.version);
        known.sort_by(|one, other| other.cache.created_at.cmp(&one.cache.created_at));
        let beginnings = [&wanted.key].into_iter().chain(&wanted.restore_keys);
        for beginning in beginnings {
            let at = known.iter().position(|found| found.cache.key.starts_with(beginning.as_str()));
            if let Some(at) = at {
                return Ok(Some(known.swap_remove(at)));
            }
        }
        Ok(None)
    }

    /// A cache never changes: its key must be free.
    pub(super) fn reserve(&self, new: &NewCache) -> Result<i64, Refusal> {
        let name = name_of(&new.key, &new.version);
        if read(&self.own().join(&name)).is_some() {
            return Err(Refusal::exists(format!("there is a cache with the key `{}`", new.key)));
        }
        Ok(number_of(&name))
    }

    /// Keeps a cache, and makes room for it. The first of two that were saved at once stays.
    pub(super) fn save(&self, new: &NewCache, reference: &str, bytes: &Spooled) -> io::Result<i64> {
        let content = (bytes.size, bytes.hash.clone());
        let id = self.put(new, reference, content, |folder| take(bytes, &folder.join(ARCHIVE)))?;
        self.make_room(bytes.size);
        Ok(id)
    }

    /// Makes a folder of a cache, which somebody else fills, and gives it its name.
    fn put(
        &self,
        new: &NewCache,
        reference: &str,
        (size, hash): (u64, String),
        fill: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<i64> {
        let name = name_of(&new.key, &new.version);
        let id = number_of(&name);
        let created_at = now().rfc3339();
        let cache = Cache {
            id,
            key: new.key.clone(),
            version: new.version.clone(),
            git_ref: reference.to_owned(),
            size,
            hash,
            used_at: created_at.clone(),
            created_at,
            hits: 0,
        };
        let folder = self.own().join(format!("{UNREADY}{}", random::hex::<8>()?));
        fs::create_dir_all(&folder)?;
        let place = self.own().join(&name);
        let kept = fill(&folder)
            .and_then(|()| fs::write(folder.join(ENTRY), serde_json::to_vec(&cache)?))
            .and_then(|()| {
                // What is there and cannot be read is in nobody's way.
                if place.exists() && read(&place).is_none() {
                    remove(&place);
                }
                fs::rename(&folder, &place)
            });
        if let Err(error) = kept {
            let _ = fs::remove_dir_all(&folder);
            if read(&place).is_none() {
                return Err(error);
            }
        }
        Ok(id)
    }

    /// Where the bytes of a cache are.
    pub(super) fn path(&self, id: i64) -> Option<PathBuf> {
        let known = fs::read_dir(self.own()).ok()?.flatten();
        let mut names = known.filter_map(|entry| entry.file_name().into_string().ok());
        let name = names.find(|name| !name.starts_with('.') && number_of(name) == id)?;
        Some(self.own().join(name).join(ARCHIVE))
    }

    /// Removes what was not used for the longest time until the rest is small enough. Those who save very
    /// many small caches do not count all of them each time.
    fn make_room(&self, saved: u64) {
        let mut uncounted = self.uncounted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = uncounted.checked_sub(saved.max(1)) {
            *uncounted = left;
            return;
        }
        *uncounted = self.limit / 16;
        let folders = fs::read_dir(&self.all).into_iter().flatten().flatten();
        let folders: Vec<PathBuf> = folders.map(|folder| folder.path()).collect();
        let listed = |folder: &PathBuf| {
            sweep(folder);
            list(folder).unwrap_or_default()
        };
        let mut all: Vec<Found> = folders.iter().flat_map(listed).collect();
        all.sort_by_key(|found| found.used);
        // What several trees share is counted once.
        let mut needed: HashMap<&trees::Pack, usize> = HashMap::new();
        for pack in all.iter().flat_map(|found| &found.packs) {
            *needed.entry(pack).or_default() += 1;
        }
        let archives: u64 = all.iter().map(|found| found.cache.size).sum();
        let mut total = archives + needed.keys().map(|pack| pack.size).sum::<u64>();
        for found in &all {
            if total <= self.limit {
                break;
            }
            total -= found.cache.size;
            for pack in &found.packs {
                let uses = needed.get_mut(pack).expect("all packs were counted");
                *uses -= 1;
                total -= if *uses == 0 { pack.size } else { 0 };
            }
            remove(&found.folder);
        }
        for folder in &folders {
            trees::sweep(folder);
        }
    }
}

/// All caches of a folder.
fn list(folder: &Path) -> io::Result<Vec<Found>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let is_ready = |entry: &fs::DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
    let ready = entries.flatten().filter(is_ready);
    Ok(ready.filter_map(|entry| read(&entry.path())).collect())
}

/// A cache, if all of it is there.
fn read(folder: &Path) -> Option<Found> {
    let path = folder.join(ENTRY);
    let entry = fs::metadata(&path).ok().filter(|entry| entry.len() <= LONGEST_ENTRY)?;
    let mut cache: Cache = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
    let used = entry.modified().ok()?;
    let since = used.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    cache.used_at = Timestamp(u64::try_from(since.as_millis()).unwrap_or_default()).rfc3339();
    // A machine that lost its power may have kept less than was written.
    let is_whole = fs::metadata(folder.join(ARCHIVE)).ok()?.len() == cache.size;
    let packs = trees::packs_of(folder)?;
    is_whole.then(|| Found { folder: folder.to_owned(), cache, used, packs })
}

/// Removes what processes left that are gone.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_unready = entry.file_name().to_string_lossy().starts_with(UNREADY);
        let changed = entry.metadata().and_then(|entry| entry.modified());
        let is_old = |changed: SystemTime| changed.elapsed().is_ok_and(|age| age > ABANDONED);
        if is_unready && changed.is_ok_and(is_old) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Out of sight first: nobody finds half of it.
fn remove(folder: &Path) {
    let Ok(word) = random::hex::<8>() else { return };
    let away = folder.with_file_name(format!("{UNREADY}{word}"));
    if fs::rename(folder, &away).is_ok() {
        let _ = fs::remove_dir_all(away);
    }
}

/// When a cache was used is when its entry was written. Of two that count at once, one may not be counted.
fn note_use(found: &Found) -> io::Result<()> {
    let path = found.folder.join(ENTRY);
    let new = path.with_extension(random::hex::<8>()?);
    fs::write(&new, serde_json::to_vec(&found.cache)?)?;
    fs::rename(&new, &path).inspect_err(|_| drop(fs::remove_file(&new)))
}

/// The folder of a cache: one for each key and version.
fn name_of(key: &str, version: &str) -> String {
    digest(format!("{version}\0{key}").as_bytes())
}

/// A number that clients can read as well: JavaScript has 53 bits.
fn number_of(name: &str) -> i64 {
    i64::from_str_radix(name.get(..13).unwrap_or_default(), 16).unwrap_or_default().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn caches(&self, repository: &str, limit: u64) -> Caches {
            Caches::new(self.0.path().join("caches"), repository.to_owned(), limit)
        }

        fn save(&self, caches: &Caches, key: &str, size: usize) -> i64 {
            let path = self.0.path().join("spooled");
            fs::write(&path, vec![7; size]).unwrap();
            let bytes = Spooled { path, size: size as u64, hash: String::new() };
            let new = NewCache { key: key.to_owned(), version: "v".to_owned() };
            caches.save(&new, "refs/heads/main", &bytes).unwrap()
        }
    }

    #[track_caller]
    fn check(caches: &Caches, key: &str, others: &[&str], expect: Option<&str>) {
        let restore_keys = others.iter().map(|key| (*key).to_owned()).collect();
        let wanted = FindCache { key: key.to_owned(), restore_keys, version: "v".to_owned() };
        let found = caches.find(&wanted).unwrap();
        assert_eq!(found.map(|cache| cache.key).as_deref(), expect, "{key} {others:?}");
    }

    /// R8
    #[test]
    fn the_exact_key_wins_then_the_newest_that_begins_like_it_then_the_others_in_their_order() {
        let place = Place::new();
        let caches = place.caches("r", 1 << 20);
        for key in ["linux-1", "linux-2", "mac-1", "linux-"] {
            place.save(&caches, key, 1);
            std::thread::sleep(Duration::from_millis(2));
        }
        check(&caches, "linux-1", &[], Some("linux-1"));
        check(&caches, "linux-", &[], Some("linux-"));
        check(&caches, "linux", &[], Some("linux-"));
        check(&caches, "linux-3", &["mac-", "linux-"], Some("mac-1"));
        check(&caches, "linux-3", &["sun-", "linux-2"], Some("linux-2"));
        check(&caches, "linux-3", &["sun-"], None);
        check(&place.caches("other", 1), "linux-1", &["l"], None);
        let wanted =
            FindCache { key: "linux-1".into(), version: "w".into(), ..FindCache::default() };
        assert_eq!(caches.find(&wanted).unwrap(), None, "the version must be the same");
    }

    /// R8
    #[test]
    fn what_was_not_used_for_the_longest_time_goes_first() {
        let place = Place::new();
        let (one, other) = (place.caches("one", 100), place.caches("other", 100));
        place.save(&one, "a", 40);
        std::thread::sleep(Duration::from_millis(5));
        place.save(&other, "b", 40);
        std::thread::sleep(Duration::from_millis(5));
        check(&one, "a", &[], Some("a"));
        place.save(&one, "c", 40);
        check(&other, "b", &[], None);
        check(&one, "a", &[], Some("a"));
        check(&one, "c", &[], Some("c"));
    }

    /// R8
    #[test]
    fn caches_are_counted_listed_and_removed() {
        let place = Place::new();
        let caches = place.caches("r", 1 << 20);
        let other = place.caches("other", 1 << 20);
        assert_eq!(caches.list().unwrap(), [], "nothing was saved");
        place.save(&other, "a", 1);
        for key in ["a", "b"] {
            place.save(&caches, key, 10);
            std::thread::sleep(Duration::from_millis(5));
        }
        check(&caches, "a", &[], Some("a"));
        check(&caches, "x", &["a"], Some("a"));
        let listed = |caches: &Caches| -> Vec<(String, u64, u64)> {
            let all = caches.list().unwrap().into_iter();
            all.map(|cache| (cache.key, cache.size, cache.hits)).collect()
        };
        let (a, b) = (("a".to_owned(), 10, 2), ("b".to_owned(), 10, 0));
        assert_eq!(listed(&caches), [a.clone(), b], "what was used last comes first");
        let gone = caches.remove(|cache| cache.key == "b").unwrap();
        assert_eq!(gone.len(), 1);
        check(&caches, "b", &[], None);
        assert_eq!(listed(&caches), [a]);
        assert_eq!(caches.remove(|cache| cache.key == "b").unwrap(), []);
        assert_eq!(listed(&other).len(), 1, "those of others are not touched");
    }

    #[test]
    fn a_cache_never_changes_and_half_of_one_is_none() {
        let place = Place::new();
        let caches = place.caches("r", 1 << 20);
        let id = place.save(&caches, "a", 10);
        assert_eq!(place.save(&caches, "a", 20), id);
        let archive = caches.path(id).unwrap();
        assert_eq!(fs::metadata(&archive).unwrap().len(), 10, "the first stays");
        let new = NewCache { key: "a".to_owned(), version: "v".to_owned() };
        assert!(caches.reserve(&new).is_err());
        fs::write(&archive, "x").unwrap();
        check(&caches, "a", &[], None);
    }
}
