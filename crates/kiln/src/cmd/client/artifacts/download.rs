//! Artifacts onto this machine, compared with their hash, and unpacked without harm.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use kiln_proto::content::ArtifactDetail;
use kiln_server::zip::file as archive;
use kiln_server::zip::read::{self as zip, Entry, Kind};
use sha2::{Digest as _, Sha256};

use super::remote::Remote;
use crate::client::Client;

/// What archives say that they are.
pub(super) const ZIP: &str = "application/zip";

/// How artifacts are kept here.
pub(super) struct How<'a> {
    pub(super) folder: &'a Path,
    pub(super) keep_archives: bool,
    /// How many bytes an archive may become.
    pub(super) most: u64,
}

/// Downloads one. Says where it is.
pub(super) async fn one(client: &Client, one: &ArtifactDetail, how: &How<'_>) -> Result<PathBuf> {
    let name = &one.artifact.name;
    // The server has checked it, but it is the name of a file here.
    ensure!(
        !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0']),
        "`{}` cannot be the name of a file",
        name.escape_default()
    );
    let is_archive = one.artifact.content_type == ZIP;
    let ending =
        if is_archive && !name.to_ascii_lowercase().ends_with(".zip") { ".zip" } else { "" };
    let whole = how.folder.join(format!("{name}{ending}"));
    let unpacked = how.folder.join(name);
    let target = if is_archive && !how.keep_archives { &unpacked } else { &whole };
    if target.exists() {
        bail!("`{}` exists; move it away, or choose another folder with `--dir`", target.display());
    }
    let failed = |path: &Path| format!("cannot write `{}`", path.display());
    fs::create_dir_all(how.folder).with_context(|| failed(how.folder))?;
    let draft = how.folder.join(format!(".{name}.part"));
    let got = fetch(client, one, &draft).await;
    let done = match got {
        Ok(()) if target == &unpacked && is_archive => unpack(&draft, &unpacked, how.most),
        Ok(()) => fs::rename(&draft, &whole).with_context(|| failed(&whole)),
        Err(error) => Err(error),
    };
    let _ = fs::remove_file(&draft);
    done.map(|()| target.clone())
}

/// All of an artifact, compared with its hash.
async fn fetch(client: &Client, one: &ArtifactDetail, draft: &Path) -> Result<()> {
    let failed = || format!("cannot write `{}`", draft.display());
    let mut file = File::create(draft).with_context(failed)?;
    let mut answer = Remote::open(client, one).await?.whole().await?;
    let (mut hash, mut size) = (Sha256::new(), 0);
    while let Some(piece) = answer.chunk().await.context("the download broke off; try again")? {
        size += piece.len() as u64;
        ensure!(size <= one.artifact.size, "the server sent more than the artifact has");
        hash.update(&piece);
        file.write_all(&piece).with_context(failed)?;
    }
    let found = hash.finalize().iter().fold(String::new(), |mut text, byte| {
        use std::fmt::Write as _;
        let _ = write!(text, "{byte:02x}");
        text
    });
    ensure!(
        found == one.artifact.hash,
        "what arrived of `{}` is damaged: its SHA-256 is {found}, not {}; try again",
        one.artifact.name,
        one.artifact.hash
    );
    file.flush().with_context(failed)
}

/// Unpacks an archive into a new folder. What cannot be unpacked leaves no folder behind.
fn unpack(archive: &Path, folder: &Path, most: u64) -> Result<()> {
    let mut file = File::open(archive)?;
    let entries = archive::entries(&mut file)?;
    zip::fits(&entries, most)?;
    fs::create_dir(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    let all = entries.iter().try_for_each(|entry| place(&mut file, entry, folder));
    if all.is_err() {
        let _ = fs::remove_dir_all(folder);
    }
    all
}

/// Puts one entry where it belongs. Nothing is ever written over.
fn place(file: &mut File, entry: &Entry, folder: &Path) -> Result<()> {
    let path = entry.path(folder)?;
    let failed = || format!("cannot write `{}`", path.display());
    match entry.kind {
        Kind::Folder => return fs::create_dir_all(&path).with_context(failed),
        Kind::Other => {
            bail!("`{}` is a link or no file at all; nothing of the archive was kept", entry.name)
        }
        Kind::File => {}
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(failed)?;
    }
    let mode = if entry.is_executable() { 0o777 } else { 0o666 };
    let new = OpenOptions::new().write(true).create_new(true).mode(mode).open(&path);
    let mut new = new.with_context(failed)?;
    Ok(archive::unpack(file, entry, &mut new)?)
}

#[cfg(test)]
mod tests {
    use kiln_testkit::zip::archive as made;

    use super::*;

    fn check(files: &[(&str, &[u8], u32)], most: u64) -> (tempfile::TempDir, Result<()>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        fs::write(&path, made(files)).unwrap();
        let done = unpack(&path, &folder.path().join("in/../out"), most);
        (folder, done)
    }

    #[test]
    fn an_archive_is_unpacked_into_a_new_folder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        let files: [(&str, &[u8], u32); 3] =
            [("a", b"one", 0o100_644), ("b/c", b"two", 0o100_755), ("d/", b"", 0o040_755)];
        fs::write(&path, made(&files)).unwrap();
        let out = folder.path().join("out");
        unpack(&path, &out, 6).unwrap();
        assert_eq!(fs::read(out.join("a")).unwrap(), b"one");
        assert_eq!(fs::read(out.join("b/c")).unwrap(), b"two");
        assert!(out.join("d").is_dir());
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(out.join("b/c")).unwrap().permissions(),
        );
        assert_eq!(mode & 0o100, 0o100);
        assert!(unpack(&path, &out, 6).is_err(), "the folder is there");
    }

    /// PEERS 23
    #[test]
    fn an_archive_that_means_harm_leaves_nothing() {
        let bomb = vec![0; 1 << 20];
        let evil: [&[(&str, &[u8], u32)]; 4] = [
            &[("good", b"x", 0), ("../evil", b"x", 0)],
            &[("good", b"x", 0), ("link", b"/etc", 0o120_777), ("link/passwd", b"x", 0)],
            &[("good", b"x", 0), ("good", b"twice", 0)],
            &[("bomb", &bomb, 0)],
        ];
        for files in evil {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.zip");
            fs::write(&path, made(files)).unwrap();
            let inner = folder.path().join("inner");
            fs::create_dir(&inner).unwrap();
            assert!(unpack(&path, &inner.join("out"), 1_000).is_err());
            assert_eq!(fs::read_dir(&inner).unwrap().count(), 0, "{:?}", files[0].0);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        }
        let (_folder, refused) = check(&[("a", b"x", 0)], 10);
        assert!(refused.is_err(), "a folder that is not there");
    }
}
