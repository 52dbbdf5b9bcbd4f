//! How much of the disk a job uses.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Folders with more entries are not looked at to their end: what is known then is a part.
const MOST_ENTRIES: usize = 200_000;

/// The bytes that these folders take on the disk. Links are not followed.
pub(crate) fn used(folders: &[&Path]) -> u64 {
    let mut pending: Vec<PathBuf> = folders.iter().map(|folder| folder.to_path_buf()).collect();
    let (mut bytes, mut entries) = (0_u64, 0);
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            entries += 1;
            if entries > MOST_ENTRIES {
                return bytes;
            }
            let Ok(about) = entry.metadata() else { continue };
            // Blocks are of 512 bytes, whatever the disk calls a block.
            bytes = bytes.saturating_add(about.blocks().saturating_mul(512));
            if about.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S23
    #[test]
    fn files_count_with_what_they_take_and_links_do_not_lead_away() {
        let place = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("large"), vec![1; 4 << 20]).unwrap();
        fs::create_dir_all(place.path().join("a/b")).unwrap();
        fs::write(place.path().join("a/b/file"), vec![1; 1 << 20]).unwrap();
        std::os::unix::fs::symlink(outside.path(), place.path().join("link")).unwrap();
        let found = used(&[place.path()]);
        assert!((1 << 20..2 << 20).contains(&found), "{found}");
        assert_eq!(used(&[Path::new("/nowhere/at/all")]), 0);
    }
}
