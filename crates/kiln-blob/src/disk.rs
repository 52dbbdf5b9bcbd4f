//! Objects as files below a folder.
//!
//! An object is written beside the others, flushed, and only then given its name, so that a crash at any
//! point leaves either the whole object or a draft that nobody can read. Nothing here blocks async threads.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::task::JoinHandle;

use crate::backend::{Backend, Entry, Found, Span, Work};
use crate::content::gather;
use crate::pieces::pieces_of;
use crate::{BlobError, Content, Name};

/// Where drafts lie. No name begins with a dot.
const DRAFTS: &str = ".drafts";
/// How much is written at a time.
const WRITE: usize = 1 << 20;
/// After so much a flush begins beside the writing, so that the last one has little left to do.
const FLUSH: u64 = 64 << 20;
/// How often a folder may vanish while an object is moved into it.
const TRIES: u32 = 10;

/// A folder of objects. Clones are the same.
#[derive(Debug, Clone)]
pub struct Disk {
    root: Arc<PathBuf>,
}

impl Disk {
    /// Objects below this folder, which is made if it is missing.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, BlobError> {
        let root = root.into();
        let drafts = root.join(DRAFTS);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&drafts);
        made.map_err(|error| failed("make the folder", &drafts.display().to_string(), error))?;
        Ok(Self { root: Arc::new(root) })
    }

    fn path(&self, name: &Name) -> PathBuf {
        self.root.join(name.as_str())
    }

    /// Does something with the file of an object where it may block.
    async fn with<T: Send + 'static>(
        &self,
        what: &'static str,
        name: &Name,
        work: impl FnOnce(&Path, PathBuf) -> io::Result<T> + Send + 'static,
    ) -> Result<T, BlobError> {
        let (root, path) = (Arc::clone(&self.root), self.path(name));
        let done = blocking(move || work(&root, path)).await;
        done.map_err(|error| {
            if is_missing(&error) {
                return BlobError::NotFound(name.clone());
            }
            self.explain(what, name, error)
        })
    }

    fn explain(&self, what: &'static str, name: &Name, error: io::Error) -> BlobError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                BlobError::Full { place: self.root.display().to_string() }
            }
            _ => failed(what, name.as_str(), error),
        }
    }
}

impl Backend for Disk {
    fn put<'a>(&'a self, name: &'a Name, content: Content) -> Work<'a, u64> {
        Box::pin(async move {
            let mut content = content.fuse();
            let explain = |error| self.explain("write", name, error);
            let (root, path) = (Arc::clone(&self.root), self.path(name));
            // While a piece is written, the next one comes.
            let mut written = start(move || Draft::create(&root));
            let mut size = 0;
            loop {
                let pieces = gather(&mut content, WRITE).await?;
                let draft = end(written).await.map_err(explain)?;
                if pieces.is_empty() {
                    let root = Arc::clone(&self.root);
                    blocking(move || draft.finish(&root, &path)).await.map_err(explain)?;
                    return Ok(size);
                }
                size += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
                written = start(move || draft.write(&pieces));
            }
        })
    }

    fn get<'a>(&'a self, name: &'a Name, span: Span) -> Work<'a, Found> {
        Box::pin(async move {
            let open = |_: &Path, path: PathBuf| {
                let file = File::open(path)?;
                let found = file.metadata()?;
                if found.is_dir() {
                    return Err(io::ErrorKind::NotFound.into());
                }
                Ok((file, found.len()))
            };
            let (file, size) = self.with("read", name, open).await?;
            let range = span.of(name, size)?;
            let content = pieces_of(file, name.to_string(), range.clone());
            Ok(Found { size, range, content })
        })
    }

    fn size<'a>(&'a self, name: &'a Name) -> Work<'a, Option<u64>> {
        Box::pin(async move {
            let look = |_: &Path, path: PathBuf| match fs::metadata(path) {
                Ok(found) if found.is_file() => Ok(Some(found.len())),
                Ok(_) => Ok(None),
                Err(error) if is_missing(&error) => Ok(None),
                Err(error) => Err(error),
            };
            self.with("look at", name, look).await
        })
    }

    fn delete<'a>(&'a self, name: &'a Name) -> Work<'a, ()> {
        Box::pin(async move {
            let remove = |root: &Path, path: PathBuf| {
                match fs::remove_file(&path) {
                    // A folder is no object.
                    Err(error) if error.kind() == io::ErrorKind::IsADirectory => return Ok(()),
                    Err(error) if !is_missing(&error) => return Err(error),
                    _ => {}
                }
                // Folders that are empty now go, too; those that are not refuse.
                let folders = path.ancestors().skip(1).take_while(|folder| *folder != root);
                for folder in folders {
                    if fs::remove_dir(folder).is_err() {
                        break;
                    }
                }
                Ok(())
            };
            self.with("remove", name, remove).await
        })
    }

    fn list<'a>(
        &'a self,
        folder: &'a Name,
        after: Option<&'a Name>,
        most: usize,
    ) -> Work<'a, Vec<Entry>> {
        Box::pin(async move {
            let (below, after) = (folder.to_string(), after.map(Name::to_string));
            let walk = move |root: &Path, _: PathBuf| {
                let mut found = Vec::new();
                list(root, &below, after.as_deref().unwrap_or_default(), most, &mut found)?;
                Ok(found)
            };
            self.with("list", folder, walk).await
        })
    }

    fn sweep(&self, before: SystemTime) -> Work<'_, u64> {
        let drafts = self.root.join(DRAFTS);
        Box::pin(async move {
            let shown = drafts.display().to_string();
            let done = blocking(move || sweep(&drafts, before)).await;
            done.map_err(|error| failed("sweep", &shown, error))
        })
    }
}

/// A file that is being written. It goes if it is not finished.
#[derive(Debug)]
struct Draft {
    file: File,
    path: PathBuf,
    finished: bool,
    /// How much was written since a flush was begun, and the last of these.
    unflushed: u64,
    flush: Option<thread::JoinHandle<io::Result<()>>>,
}

impl Draft {
    fn create(root: &Path) -> io::Result<Self> {
        let path = root.join(DRAFTS).join(draft_name());
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path)?;
        Ok(Self { file, path, finished: false, unflushed: 0, flush: None })
    }

    fn write(mut self, pieces: &[Bytes]) -> io::Result<Self> {
        for piece in pieces {
            self.file.write_all(piece)?;
            self.unflushed += piece.len() as u64;
        }
        if self.unflushed >= FLUSH
            && self.flush.as_ref().is_none_or(thread::JoinHandle::is_finished)
        {
            self.flushed()?;
            self.unflushed = 0;
            let file = self.file.try_clone()?;
            self.flush = thread::Builder::new().spawn(move || file.sync_data()).ok();
        }
        Ok(self)
    }

    /// How the flush ended that was begun last. The system says once that bytes could not be written: who does not
    /// listen then takes them for written.
    fn flushed(&mut self) -> io::Result<()> {
        let Some(flush) = self.flush.take() else { return Ok(()) };
        flush.join().unwrap_or_else(|_| Err(io::Error::other("the thread that flushes died")))
    }

    /// On the disk first, then under its name, then the name itself on the disk.
    fn finish(mut self, root: &Path, path: &Path) -> io::Result<()> {
        self.flushed()?;
        self.file.sync_all()?;
        let folder = path.parent().unwrap_or(root);
        let mut tries = 0;
        loop {
            let moved = make_folders(root, folder).and_then(|()| fs::rename(&self.path, path));
            match moved {
                // Somebody who removed the last object of a folder removed the folder as well.
                Err(error) if is_missing(&error) && tries < TRIES => tries += 1,
                other => break other?,
            }
        }
        self.finished = true;
        match sync_folder(folder) {
            // The object was removed at once, and its folder with it.
            Err(error) if is_missing(&error) => Ok(()),
            other => other,
        }
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn draft_name() -> String {
    let fresh = Name::fresh("d");
    fresh.as_str().rsplit('/').next().unwrap_or_default().to_owned()
}

/// Makes the folders of an object, each safe in the one above it.
fn make_folders(root: &Path, folder: &Path) -> io::Result<()> {
    let above: Vec<&Path> = folder.ancestors().take_while(|path| *path != root).collect();
    for path in above.into_iter().rev() {
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => sync_folder(path.parent().unwrap_or(root))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Adds what lies below a folder and after a name, until there is enough. Folders are sorted as if they
/// ended with a slash, which is the order of whole names.
fn list(
    root: &Path,
    below: &str,
    after: &str,
    most: usize,
    found: &mut Vec<Entry>,
) -> io::Result<()> {
    let entries = match fs::read_dir(root.join(below)) {
        Err(error) if is_missing(&error) => return Ok(()),
        other => other?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        let slash = if entry.file_type()?.is_dir() { "/" } else { "" };
        if let Some(name) = entry.file_name().to_str() {
            names.push(format!("{below}/{name}{slash}"));
        }
    }
    names.sort_unstable();
    for name in names {
        if found.len() >= most {
            break;
        }
        let Some(folder) = name.strip_suffix('/') else {
            if name.as_str() > after {
                found.extend(entry(root, name)?);
            }
            continue;
        };
        // All names in a folder begin with its own; those that lie before `after` need not be looked at.
        if name.as_str() > after || after.starts_with(&name) {
            list(root, folder, after, most, found)?;
        }
    }
    Ok(())
}

/// A file may be gone since its folder was read; one with a foreign name is not ours.
fn entry(root: &Path, name: String) -> io::Result<Option<Entry>> {
    let metadata = match fs::metadata(root.join(&name)) {
        Err(error) if is_missing(&error) => return Ok(None),
        other => other?,
    };
    let modified = metadata.modified()?;
    Ok(Name::new(name).ok().map(|name| Entry { name, stored: metadata.len(), modified }))
}

fn sweep(drafts: &Path, before: SystemTime) -> io::Result<u64> {
    let mut swept = 0;
    for entry in fs::read_dir(drafts)? {
        let entry = entry?;
        let is_old = match entry.metadata().and_then(|found| found.modified()) {
            Err(error) if is_missing(&error) => false,
            other => other? < before,
        };
        if is_old && fs::remove_file(entry.path()).is_ok() {
            swept += 1;
        }
    }
    Ok(swept)
}

/// Does what may block where that does no harm.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    end(start(work)).await
}

/// Begins with what may block.
pub(crate) fn start<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> JoinHandle<io::Result<T>> {
    tokio::task::spawn_blocking(work)
}

pub(crate) async fn end<T>(work: JoinHandle<io::Result<T>>) -> io::Result<T> {
    work.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

pub(crate) fn failed(what: &'static str, name: &str, error: io::Error) -> BlobError {
    BlobError::Io { what, name: name.to_owned(), error }
}
