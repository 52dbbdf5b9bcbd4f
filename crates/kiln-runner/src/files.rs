//! The files that `hashFiles` and keys of caches see: a directory and what lies below it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use kiln_lang::hash_files::{Contents, Entry, Files, Kind, Places};
use sha2::{Digest as _, Sha256};

/// A directory as `hashFiles` looks at it.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    shown: String,
    home: Option<String>,
}

impl Tree {
    pub fn at(directory: &Path) -> Result<Self, String> {
        let root = fs::canonicalize(directory)
            .map_err(|error| format!("`{}` cannot be read: {error}", directory.display()))?;
        let home = std::env::home_dir().map(|home| home.to_string_lossy().into_owned());
        Ok(Self { shown: root.to_string_lossy().into_owned(), root, home })
    }

    pub fn places(&self) -> Places<'_> {
        Places { workspace: &self.shown, home: self.home.as_deref() }
    }
}

impl Files for Tree {
    fn list(&self, dir: &str) -> Result<Vec<Entry>, String> {
        let path = self.root.join(dir);
        let failed = |error: io::Error| format!("cannot list `{}`: {error}", path.display());
        let mut entries = Vec::new();
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = kind(&entry.path(), entry.file_type().map_err(failed)?);
            entries.push(Entry { name: entry.file_name().to_string_lossy().into_owned(), kind });
        }
        Ok(entries)
    }

    fn sha256(&self, path: &str) -> Result<[u8; 32], String> {
        let mut hasher = Sha256::new();
        self.feed(path, &mut |bytes| hasher.update(bytes))?;
        Ok(hasher.finalize().into())
    }
}

impl Contents for Tree {
    fn feed(&self, path: &str, to: &mut dyn FnMut(&[u8])) -> Result<(), String> {
        let path = self.root.join(path);
        let failed = |error: io::Error| format!("cannot read `{}`: {error}", path.display());
        let mut file = File::open(&path).map_err(failed)?;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match file.read(&mut buffer).map_err(failed)? {
                0 => return Ok(()),
                count => to(&buffer[..count]),
            }
        }
    }
}

fn kind(path: &Path, own: fs::FileType) -> Kind {
    if own.is_dir() {
        return Kind::Dir;
    }
    if own.is_file() {
        return Kind::File;
    }
    if !own.is_symlink() {
        return Kind::Special;
    }
    match (fs::metadata(path), fs::canonicalize(path)) {
        (Ok(target), Ok(real)) if target.is_dir() => {
            Kind::SymlinkToDir(real.to_string_lossy().into_owned())
        }
        (Ok(target), _) if target.is_file() => Kind::SymlinkToFile,
        (Ok(_), _) => Kind::Special,
        (Err(error), _) if error.kind() == io::ErrorKind::NotFound => Kind::BrokenSymlink,
        (Err(_), _) => Kind::EndlessSymlink,
    }
}
