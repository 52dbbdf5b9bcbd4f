//! Puts a tree where it was, or elsewhere: folders first, files on several threads, links last, so that no file
//! is ever written through a link.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use super::entry::{Entry, Kind, Root, read_page};
use super::walk::named;
use super::{Shelf, Spot, damaged, threads};
use crate::Digest;
use crate::chunks::unpack;

/// How much a thread restores at a time.
const BATCH: u64 = 4 << 20;
/// What lies between two chunks of a pack and is read with them rather than skipped.
const GAP: u32 = 64 << 10;
/// How much of a pack is read at a time.
const RUN: u32 = 4 << 20;

/// A tree that is restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    pub files: u64,
    pub bytes: u64,
}

/// Restores the tree of a root: what was at the first place goes to the first of these, and so on. Files that
/// are there are replaced, others stay.
pub fn restore(root: &Root, places: &[PathBuf], shelf: &dyn Shelf) -> io::Result<Restored> {
    let mut entries = Vec::new();
    for pages in root.pages.chunks(1024) {
        let spots = spots(shelf, pages)?;
        let found = fetch(shelf, &spots, pages)?;
        for (digest, _) in pages {
            entries.extend(read_page(&found[digest])?);
        }
    }
    let targets = entries.iter().map(|entry| target(entry, places));
    let targets: Vec<PathBuf> = targets.collect::<io::Result<_>>()?;
    let all: Vec<(&Entry, &Path)> =
        entries.iter().zip(targets.iter().map(PathBuf::as_path)).collect();
    nested_in_folders(&entries)?;
    folders(&all)?;
    files(&all, shelf)?;
    links(&all)?;
    // Deepest first, since whatever is made in a folder changes its time.
    for (entry, at) in all.iter().rev().filter(|(entry, _)| entry.kind == Kind::Folder) {
        fs::set_permissions(at, Permissions::from_mode(entry.mode & 0o777))?;
        File::open(at)?.set_times(times(entry.modified))?;
    }
    Ok(Restored { files: root.files, bytes: root.bytes })
}

fn target(entry: &Entry, places: &[PathBuf]) -> io::Result<PathBuf> {
    let outside = || damaged(format!("`{}` has no place in this tree", entry.path));
    let place = places.get(usize::from(entry.place)).ok_or_else(outside)?;
    let below = entry.below().ok_or_else(outside)?;
    Ok(if below.as_os_str().is_empty() { place.clone() } else { place.join(below) })
}

/// Everything lies in a folder of the tree: what lay below a link would be written to where that leads.
fn nested_in_folders(entries: &[Entry]) -> io::Result<()> {
    let mut seen = HashSet::new();
    let mut folders = HashSet::new();
    for entry in entries {
        let own = (entry.place, entry.path.as_str());
        if !seen.insert(own) {
            return Err(damaged(format!("`{}` is in the tree twice", entry.path)));
        }
        if entry.kind == Kind::Folder {
            folders.insert(own);
        }
    }
    let above = |entry: &Entry| {
        let parent = entry.path.rsplit_once('/').map_or("", |(parent, _)| parent);
        entry.path.is_empty() || folders.contains(&(entry.place, parent))
    };
    match entries.iter().find(|entry| !above(entry)) {
        Some(entry) => Err(damaged(format!("`{}` does not lie in a folder", entry.path))),
        None => Ok(()),
    }
}

fn folders(all: &[(&Entry, &Path)]) -> io::Result<()> {
    for (entry, at) in all {
        let folder = if entry.kind == Kind::Folder { Some(*at) } else { at.parent() };
        // The folder of a file comes before it, unless the place is a file itself.
        if let Some(folder) = folder.filter(|_| entry.kind == Kind::Folder || entry.path.is_empty())
        {
            fs::create_dir_all(folder).map_err(|error| named(folder, &error))?;
        }
    }
    Ok(())
}

fn links(all: &[(&Entry, &Path)]) -> io::Result<()> {
    for (entry, at) in all {
        if let Kind::Link(to) = &entry.kind {
            remove(at).and_then(|()| symlink(to, at)).map_err(|error| named(at, &error))?;
        }
    }
    Ok(())
}

fn remove(at: &Path) -> io::Result<()> {
    match fs::remove_file(at) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

type Chunks = [(Digest, u32)];

/// All files, batch by batch.
fn files(all: &[(&Entry, &Path)], shelf: &dyn Shelf) -> io::Result<()> {
    let files: Vec<(&Entry, &Path, &Chunks)> = all
        .iter()
        .filter_map(|(entry, at)| match &entry.kind {
            Kind::File(chunks) => Some((*entry, *at, chunks.as_slice())),
            _ => None,
        })
        .collect();
    let batches = batches(&files);
    let next = AtomicUsize::new(0);
    let work = || -> io::Result<()> {
        while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
            restore_batch(shelf, &files[batch.clone()])?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads()).map(|_| scope.spawn(work)).collect();
        let mut done = vec![work()];
        for helper in helpers {
            done.push(helper.join().unwrap_or_else(|_| Err(io::Error::other("a thread died"))));
        }
        done.into_iter().collect()
    })
}

/// Files that follow each other and are not too large together; a large one is alone.
fn batches(files: &[(&Entry, &Path, &Chunks)]) -> Vec<std::ops::Range<usize>> {
    let (mut batches, mut from, mut size) = (Vec::new(), 0, 0);
    for (at, (_, _, chunks)) in files.iter().enumerate() {
        let more: u64 = chunks.iter().map(|(_, size)| u64::from(*size)).sum();
        if size + more > BATCH && at > from {
            batches.push(from..at);
            (from, size) = (at, 0);
        }
        size += more;
    }
    if from < files.len() {
        batches.push(from..files.len());
    }
    batches
}

fn restore_batch(shelf: &dyn Shelf, files: &[(&Entry, &Path, &Chunks)]) -> io::Result<()> {
    if let [(entry, at, chunks)] = files {
        let mut file = create(entry, at)?;
        // Piece by piece, however large it is.
        for some in chunks.chunks(16) {
            let found = fetch(shelf, &spots(shelf, some)?, some)?;
            for (digest, _) in some {
                file.write_all(&found[digest]).map_err(|error| named(at, &error))?;
            }
        }
        return finish(&file, entry, at);
    }
    let wanted: Vec<(Digest, u32)> =
        files.iter().flat_map(|(_, _, chunks)| chunks.iter().copied()).collect();
    let found = fetch(shelf, &spots(shelf, &wanted)?, &wanted)?;
    for (entry, at, chunks) in files {
        let mut file = create(entry, at)?;
        for (digest, _) in *chunks {
            file.write_all(&found[digest]).map_err(|error| named(at, &error))?;
        }
        finish(&file, entry, at)?;
    }
    Ok(())
}

fn create(entry: &Entry, at: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(entry.mode & 0o777);
    let created = match options.open(at) {
        // What is there goes first: it may be a link to somewhere else.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(at).and_then(|()| options.open(at))
        }
        other => other,
    };
    created.map_err(|error| named(at, &error))
}

fn finish(file: &File, entry: &Entry, at: &Path) -> io::Result<()> {
    let done = file
        .set_permissions(Permissions::from_mode(entry.mode & 0o777))
        .and_then(|()| file.set_times(times(entry.modified)));
    done.map_err(|error| named(at, &error))
}

fn times(modified: i64) -> FileTimes {
    let span = Duration::from_nanos(modified.unsigned_abs());
    let at: SystemTime =
        if modified < 0 { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) }
            .unwrap_or(UNIX_EPOCH);
    FileTimes::new().set_modified(at).set_accessed(at)
}

fn spots(shelf: &dyn Shelf, chunks: &Chunks) -> io::Result<Vec<(Digest, Spot)>> {
    let mut digests: Vec<Digest> = chunks.iter().map(|(digest, _)| *digest).collect();
    digests.sort_unstable();
    digests.dedup();
    let found = shelf.find(&digests)?;
    let missing = |digest: Digest| {
        io::Error::new(io::ErrorKind::NotFound, format!("the chunk {digest} is gone"))
    };
    let spot = |(digest, spot): (Digest, Option<Spot>)| {
        spot.map(|spot| (digest, spot)).ok_or_else(|| missing(digest))
    };
    digests.into_iter().zip(found).map(spot).collect()
}

/// The bytes of chunks, each checked. What lies side by side in a pack is read together.
fn fetch(
    shelf: &dyn Shelf,
    spots: &[(Digest, Spot)],
    wanted: &Chunks,
) -> io::Result<HashMap<Digest, Bytes>> {
    let mut order: Vec<&(Digest, Spot)> = spots.iter().collect();
    order.sort_unstable_by_key(|(_, spot)| (spot.pack, spot.offset));
    let mut found = HashMap::with_capacity(order.len());
    let mut rest = order.as_slice();
    while let Some((_, first)) = rest.first() {
        let (mut end, mut count) = (first.offset, 0);
        for (_, spot) in rest {
            let follows = spot.pack == first.pack
                && spot.offset.saturating_sub(end) <= GAP
                && spot.offset.saturating_add(spot.stored) - first.offset <= RUN;
            if count > 0 && !follows {
                break;
            }
            end = end.max(spot.offset.saturating_add(spot.stored));
            count += 1;
        }
        let bytes = shelf.read(first.pack, first.offset, end)?;
        for (digest, spot) in &rest[..count] {
            let from = (spot.offset - first.offset) as usize;
            let to = from + spot.stored as usize;
            if to > bytes.len() {
                return Err(damaged("a pack is shorter than its chunks"));
            }
            let chunk = unpack(bytes.slice(from..to), spot.size as usize, *digest);
            found.insert(*digest, chunk.map_err(damaged)?);
        }
        rest = &rest[count..];
    }
    let fits = |(digest, size): &(Digest, u32)| {
        found.get(digest).is_some_and(|bytes: &Bytes| bytes.len() == *size as usize)
    };
    if wanted.iter().all(fits) {
        Ok(found)
    } else {
        Err(damaged("a chunk has another length than its tree says"))
    }
}
