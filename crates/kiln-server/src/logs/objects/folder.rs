//! Objects as files of a folder.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use kiln_core::time::Timestamp;

use super::{Listed, Objects};
use crate::logs::Future;

/// For tests: it blocks, as nothing in a server may.
#[derive(Debug)]
pub(super) struct FolderObjects {
    path: PathBuf,
    count: AtomicU64,
}

impl FolderObjects {
    pub(super) fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), count: AtomicU64::new(0) }
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path.join(name);
        let folder = path.parent().unwrap_or(&path);
        fs::create_dir_all(folder)?;
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        // Beside its place, under a name that no list shows.
        let next = folder.join(format!(".{}.{number}.new", std::process::id()));
        let mut file = File::create(&next)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&next, &path)?;
        File::open(folder)?.sync_all()
    }
}

fn missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn read(path: &Path, from: u64, to: u64) -> io::Result<Option<Bytes>> {
    let Some(file) = missing(File::open(path))? else { return Ok(None) };
    let to = to.min(file.metadata()?.len());
    let mut bytes = vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut bytes, from)?;
    Ok(Some(bytes.into()))
}

/// All files below a folder, with their names from the root on.
fn walk(root: &Path, folder: &str, found: &mut Vec<Listed>) -> io::Result<()> {
    let Some(entries) = missing(fs::read_dir(root.join(folder)))? else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') {
            continue;
        }
        let name = format!("{folder}/{name}");
        // What went in between is not there.
        let Some(about) = missing(entry.metadata())? else { continue };
        if about.is_dir() {
            walk(root, &name, found)?;
        } else {
            let age = about.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let modified = Timestamp(u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
            found.push(Listed { name, modified });
        }
    }
    Ok(())
}

impl Objects for FolderObjects {
    fn put<'a>(&'a self, name: &'a str, bytes: Bytes) -> Future<'a, ()> {
        Box::pin(async move { Ok(self.write(name, &bytes)?) })
    }

    fn get<'a>(&'a self, name: &'a str, from: u64, to: u64) -> Future<'a, Option<Bytes>> {
        Box::pin(async move { Ok(read(&self.path.join(name), from, to)?) })
    }

    fn size<'a>(&'a self, name: &'a str) -> Future<'a, Option<u64>> {
        Box::pin(async move {
            Ok(missing(fs::metadata(self.path.join(name)))?.map(|about| about.len()))
        })
    }

    fn delete<'a>(&'a self, name: &'a str) -> Future<'a, ()> {
        Box::pin(async move { Ok(missing(fs::remove_file(self.path.join(name))).map(|_| ())?) })
    }

    fn list<'a>(
        &'a self,
        folder: &'a str,
        after: Option<&'a str>,
        most: usize,
    ) -> Future<'a, Vec<Listed>> {
        Box::pin(async move {
            let mut found = Vec::new();
            walk(&self.path, folder, &mut found)?;
            found.retain(|listed| after.is_none_or(|after| listed.name.as_str() > after));
            found.sort_by(|one, other| one.name.cmp(&other.name));
            found.truncate(most);
            Ok(found)
        })
    }
}
