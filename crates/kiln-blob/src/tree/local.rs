//! Packs in a folder of this machine.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;

use super::pack::read_pack_file;
use super::{Packed, Shelf, Spot, damaged};
use crate::{Digest, Name};

/// A folder of packs. What other processes put there later is found when it is opened again.
#[derive(Debug)]
pub struct LocalShelf {
    folder: PathBuf,
    known: RwLock<HashMap<Digest, Spot>>,
    open: Mutex<HashMap<Digest, Arc<File>>>,
}

impl LocalShelf {
    pub fn open(folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        fs::create_dir_all(&folder)?;
        let mut known = HashMap::new();
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let digest = path.file_stem().and_then(|stem| stem.to_str()?.parse::<Digest>().ok());
            // A pack that is damaged costs a second copy of its chunks, and nothing more.
            if let Some(pack) = digest
                && let Ok(inside) = File::open(&path).and_then(|file| read_pack_file(&file))
            {
                known.extend(inside.iter().map(|line| (line.digest, line.spot(pack))));
            }
        }
        Ok(Self { folder, known: RwLock::new(known), open: Mutex::default() })
    }

    fn path(&self, pack: Digest) -> PathBuf {
        self.folder.join(format!("{pack}.pack"))
    }

    fn file(&self, pack: Digest) -> io::Result<Arc<File>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(&pack) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(File::open(self.path(pack))?);
        open.insert(pack, Arc::clone(&file));
        Ok(file)
    }
}

/// Under its name at once, or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = Name::fresh("draft").to_string().replace('/', "-");
    let draft = path.with_file_name(format!(".{fresh}"));
    fs::write(&draft, bytes).and_then(|()| fs::rename(&draft, path)).inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })
}

impl Shelf for LocalShelf {
    fn put(&self, pack: Packed) -> io::Result<()> {
        let Packed { digest, bytes, inside } = pack;
        write(&self.path(digest), &bytes)?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.extend(inside.iter().map(|line| (line.digest, line.spot(digest))));
        Ok(())
    }

    fn find(&self, chunks: &[Digest]) -> io::Result<Vec<Option<Spot>>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        Ok(chunks.iter().map(|chunk| known.get(chunk).copied()).collect())
    }

    fn read(&self, pack: Digest, from: u32, to: u32) -> io::Result<Bytes> {
        let length =
            to.checked_sub(from).ok_or_else(|| damaged("a chunk ends before it begins"))?;
        let mut bytes = vec![0; length as usize];
        self.file(pack)?.read_exact_at(&mut bytes, from.into())?;
        Ok(bytes.into())
    }
}
