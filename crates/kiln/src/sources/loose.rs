//! Branches that git keeps in files of their own, read without starting git: most triggers name one that
//! was just written to, and a process costs more than all else that a trigger asks.

use std::fs;
use std::path::{Path, PathBuf};

use kiln_server::sources::Resolved;

use super::names::is_commit;

/// More than any commit id and its end of line.
const MOST: u64 = 128;

/// The branch of this name, if a file says so. Everything out of the ordinary is left to git: refs that
/// are packed, symbolic or in tables, tags (which may be annotated), and linked work trees.
pub(super) fn branch(place: &Path, name: &str) -> Option<Resolved> {
    let short = match name.strip_prefix("refs/") {
        Some(rest) => rest.strip_prefix("heads/")?,
        None => name,
    };
    if short == "HEAD" || is_commit(short) {
        return None;
    }
    let reference = format!("refs/heads/{short}");
    let file = git_folder(place)?.join(&reference);
    let about = fs::symlink_metadata(&file).ok()?;
    if !about.is_file() || about.len() > MOST {
        return None;
    }
    let text = fs::read_to_string(&file).ok()?;
    let commit = text.trim_end();
    is_commit(commit).then(|| Resolved { commit: commit.to_owned(), reference: Some(reference) })
}

/// The folder with git's own files. Both a bare repository and one with a work tree have `HEAD` there.
fn git_folder(place: &Path) -> Option<PathBuf> {
    let candidates = [place.join(".git"), place.to_owned()];
    candidates.into_iter().find(|folder| folder.join("HEAD").is_file())
}
