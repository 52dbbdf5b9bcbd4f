//! Caches that are trees: the folder of one has its root, and the names of its packs, which lie beside it and
//! are shared with others.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use kiln_blob::Digest;
use kiln_blob::tree::{LocalShelf, Packed, Saved, Shelf, Spot};
use kiln_proto::content::NewCache;

use super::{ARCHIVE, Caches, list};

/// The folder of packs, beside those of caches.
const PACKS: &str = ".packs";
/// Whoever reads or writes packs holds it together with others; whoever removes some, alone.
const LOCK: &str = ".packs.lock";
/// The file of a cache that says which packs it needs: a line with the name and the size of each.
const NEEDED: &str = "packs";

/// A pack that a cache needs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Pack {
    path: PathBuf,
    pub(super) size: u64,
}

/// The packs of a repository, none of which goes as long as this is there.
#[derive(Debug)]
pub(in crate::gateway::local) struct Held {
    shelf: LocalShelf,
    _lock: File,
}

impl Shelf for Held {
    fn put(&self, pack: Packed) -> io::Result<()> {
        self.shelf.put(pack)
    }

    fn find(&self, chunks: &[Digest]) -> io::Result<Vec<Option<Spot>>> {
        self.shelf.find(chunks)
    }

    fn read(&self, pack: Digest, from: u32, to: u32) -> io::Result<Bytes> {
        self.shelf.read(pack, from, to)
    }
}

impl Caches {
    pub(in crate::gateway::local) fn trees(&self) -> io::Result<Held> {
        fs::create_dir_all(self.own())?;
        // Those who saved last could not while they held them themselves.
        sweep(&self.own());
        let lock = lock_of(&self.own())?;
        lock.lock_shared()?;
        Ok(Held { shelf: LocalShelf::open(self.own().join(PACKS))?, _lock: lock })
    }

    /// Keeps a tree whose packs are on the shelf, and makes room for it.
    pub(in crate::gateway::local) fn save_tree(
        &self,
        new: &NewCache,
        reference: &str,
        tree: &Saved,
    ) -> io::Result<i64> {
        let mut needed = String::new();
        for pack in &tree.packs {
            let name = format!("{pack}.pack");
            let size = fs::metadata(self.own().join(PACKS).join(&name))?.len();
            let _ = writeln!(needed, "{name} {size}");
        }
        let size = tree.root.len() as u64;
        let content = (size, Digest::of(&tree.root).to_string());
        let id = self.put(new, reference, content, |folder| {
            fs::write(folder.join(ARCHIVE), &tree.root)?;
            fs::write(folder.join(NEEDED), needed)
        })?;
        self.make_room(size + tree.new_bytes);
        Ok(id)
    }
}

fn lock_of(repository: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(repository.join(LOCK))
}

/// The packs of a cache, which are none if it is no tree. Nothing if one is missing, or not whole.
pub(super) fn packs_of(folder: &Path) -> Option<Vec<Pack>> {
    let text = match fs::read_to_string(folder.join(NEEDED)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Vec::new()),
        text => text.ok()?,
    };
    let packs = folder.parent()?.join(PACKS);
    let pack = |line: &str| {
        let (name, size) = line.split_once(' ')?;
        let pack = Pack { path: packs.join(name), size: size.parse().ok()? };
        (fs::metadata(&pack.path).ok()?.len() == pack.size).then_some(pack)
    };
    text.lines().map(pack).collect()
}

/// Removes packs that no cache of a repository needs, unless somebody works with them: they may be about to
/// need them.
pub(super) fn sweep(repository: &Path) {
    let packs = repository.join(PACKS);
    let Ok(files) = fs::read_dir(&packs) else { return };
    let Ok(lock) = lock_of(repository) else { return };
    if lock.try_lock().is_err() {
        return;
    }
    let known = list(repository).unwrap_or_default();
    let needed: HashSet<&Path> =
        known.iter().flat_map(|found| &found.packs).map(|pack| pack.path.as_path()).collect();
    for file in files.flatten() {
        if !needed.contains(file.path().as_path()) {
            let _ = fs::remove_file(file.path());
        }
    }
}
