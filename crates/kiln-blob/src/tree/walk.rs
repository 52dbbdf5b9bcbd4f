//! What lies below the places that are to be saved.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Something that is to be saved.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) place: u16,
    /// Below the place, with slashes.
    pub(super) path: String,
    pub(super) at: PathBuf,
    pub(super) mode: u32,
    pub(super) modified: i64,
    pub(super) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    Folder,
    Link(String),
    File { size: u64 },
}

/// All files, folders and links, in an order that depends on their names alone. Sockets and devices are left
/// out, and so are what `leaves_out` names and what vanishes meanwhile.
pub(super) fn walk<'p>(
    places: impl IntoIterator<Item = &'p Path>,
    leaves_out: &dyn Fn(&Path) -> bool,
) -> io::Result<Vec<Found>> {
    let mut walk = Walk { leaves_out, found: Vec::new() };
    for (number, place) in places.into_iter().enumerate() {
        let number = u16::try_from(number).map_err(|_| too_many())?;
        walk.look(number, "", place)?;
    }
    Ok(walk.found)
}

struct Walk<'w> {
    leaves_out: &'w dyn Fn(&Path) -> bool,
    found: Vec<Found>,
}

fn too_many() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "there are more places than a tree can have")
}

impl Walk<'_> {
    fn look(&mut self, place: u16, path: &str, at: &Path) -> io::Result<()> {
        if (self.leaves_out)(at) {
            return Ok(());
        }
        let metadata = match fs::symlink_metadata(at) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(|error| named(at, &error))?,
        };
        let what = if metadata.is_dir() {
            What::Folder
        } else if metadata.is_file() {
            What::File { size: metadata.len() }
        } else if metadata.is_symlink() {
            let target = fs::read_link(at).map_err(|error| named(at, &error))?;
            What::Link(text(at, target.to_str())?)
        } else {
            return Ok(());
        };
        let is_folder = what == What::Folder;
        let modified =
            metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
        let (path, at, mode) = (path.to_owned(), at.to_owned(), metadata.mode() & 0o777);
        self.found.push(Found { place, path: path.clone(), at: at.clone(), mode, modified, what });
        if is_folder { self.inside(place, &path, &at) } else { Ok(()) }
    }

    fn inside(&mut self, place: u16, path: &str, at: &Path) -> io::Result<()> {
        let mut names = Vec::new();
        for entry in fs::read_dir(at).map_err(|error| named(at, &error))? {
            let name = entry.map_err(|error| named(at, &error))?.file_name();
            names.push(text(&at.join(&name), name.to_str())?);
        }
        names.sort_unstable();
        for name in names {
            let below = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            self.look(place, &below, &at.join(&name))?;
        }
        Ok(())
    }
}

fn text(at: &Path, text: Option<&str>) -> io::Result<String> {
    let wrong = || {
        let why = format!("the name of `{}` is no text in UTF-8", at.display());
        io::Error::new(io::ErrorKind::InvalidInput, why)
    };
    text.map(str::to_owned).ok_or_else(wrong)
}

/// The same error, with the file that it is about.
pub(super) fn named(at: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("`{}`: {error}", at.display()))
}
