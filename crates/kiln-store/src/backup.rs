//! Backups: always one SQLite file with the schema of its source, whichever database that is, so that
//! to restore one is to copy it.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rusqlite::OpenFlags;

use crate::{Copied, Options, Progress, Refusal, Status, Store, StoreError, copy, prepare};

/// Writes a backup of one moment of the source; others may write to it meanwhile. The file appears
/// when it is whole. An existing one is replaced only if `force` says so.
pub async fn backup(
    source: &Store,
    file: &Path,
    force: bool,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(), StoreError> {
    let version = source.status().await?.version;
    if version == 0 {
        return Err(Refusal::Conflict(
            "the database is empty: there is nothing to back up".to_owned(),
        )
        .into());
    }
    may_be_written(file, force)?;
    let scratch = Scratch::beside(file)?;
    let finished = scratch.file("backup.db");
    if let Some(path) = source.file() {
        compact(path.to_owned(), finished.clone()).await?;
    } else {
        let path = scratch.file("copy.db");
        let fresh = Store::open(&Options::Sqlite { path: path.clone() })?;
        fresh.migrate_to(version).await?;
        copy(source, &fresh, progress).await?;
        fresh.close().await;
        compact(path, finished.clone()).await?;
    }
    may_be_written(file, force)?;
    publish(&finished, file).map_err(|error| failed("write", file, &error))
}

/// A backup that can be restored.
#[derive(Debug)]
pub struct Backup {
    file: PathBuf,
    store: Store,
    status: Status,
}

impl Backup {
    /// Opens a backup, and refuses what is none, what is damaged and what a newer Kiln wrote. The file
    /// is not changed.
    pub async fn open(file: &Path) -> Result<Self, StoreError> {
        File::open(file).map_err(|error| failed("read", file, &error))?;
        let no_kiln = |why: &str| {
            let file = file.display();
            let message = format!(
                "`{file}` is not a Kiln database{why}; expected a file of `kiln db backup`"
            );
            StoreError::from(Refusal::Invalid(message))
        };
        let because = |error: StoreError| no_kiln(&format!(" ({error})"));
        let store = Store::open_read_only(file).map_err(because)?;
        if store.describe().await.map_err(because)?.version == 0 {
            return Err(no_kiln(""));
        }
        let status = store.status().await?;
        is_sound(file.to_owned()).await?;
        Ok(Self { file: file.to_owned(), store, status })
    }

    /// Copies it into an empty database of either kind, which gets the newest schema.
    pub async fn restore(
        &self,
        target: &Store,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Copied, StoreError> {
        prepare(target).await?;
        if self.status.version == self.status.newest {
            return copy(&self.store, target, progress).await;
        }
        let scratch = Scratch::beside(&std::env::temp_dir().join("kiln-restore"))?;
        let path = scratch.file("migrated.db");
        compact(self.file.clone(), path.clone()).await?;
        let migrated = Store::open(&Options::Sqlite { path })?;
        migrated.migrate().await?;
        copy(&migrated, target, progress).await
    }
}

fn may_be_written(file: &Path, force: bool) -> Result<(), StoreError> {
    let (folder, shown) = (folder_of(file), file.display());
    if !folder.is_dir() {
        let message = format!(
            "cannot write `{shown}`: there is no folder `{}`; make it first",
            folder.display()
        );
        return Err(Refusal::Invalid(message).into());
    }
    if file.is_dir() {
        let message = format!("cannot write `{shown}`: it is a folder; name a file in it");
        return Err(Refusal::Invalid(message).into());
    }
    if force || !file.exists() {
        return Ok(());
    }
    let message = format!("`{shown}` exists already; `--force` replaces it");
    Err(Refusal::Conflict(message).into())
}

/// Writes one moment of a file into a new one without its gaps, and looks whether the new one is sound.
async fn compact(from: PathBuf, to: PathBuf) -> Result<(), StoreError> {
    let checked = to.clone();
    let work = move || {
        let connection =
            rusqlite::Connection::open_with_flags(&from, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        connection.busy_timeout(std::time::Duration::from_secs(30))?;
        let to =
            to.to_str().ok_or_else(|| StoreError::Database("its path is no text".to_owned()))?;
        connection.execute("VACUUM INTO ?1", [to])?;
        Ok(())
    };
    blocking(work).await?;
    is_sound(checked).await
}

/// Lets SQLite read all of a file and compare it with itself.
async fn is_sound(file: PathBuf) -> Result<(), StoreError> {
    let work = move || {
        let connection =
            rusqlite::Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let found: String =
            connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        let orphans = connection.prepare("PRAGMA foreign_key_check")?.exists([])?;
        let trouble = match (found.as_str(), orphans) {
            ("ok", false) => return Ok(()),
            ("ok", true) => "a row refers to one that is missing",
            (found, _) => found,
        };
        Err(StoreError::Database(format!("`{}` is damaged: {trouble}", file.display())))
    };
    blocking(work).await
}

async fn blocking(
    work: impl FnOnce() -> Result<(), StoreError> + Send + 'static,
) -> Result<(), StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| StoreError::Panicked(error.to_string()))?
}

/// Gives a finished file its name, and waits until disk has both.
fn publish(finished: &Path, file: &Path) -> std::io::Result<()> {
    // There are sealed secrets in it and credentials of runners.
    fs::set_permissions(finished, fs::Permissions::from_mode(0o600))?;
    File::open(finished)?.sync_all()?;
    fs::rename(finished, file)?;
    File::open(folder_of(file))?.sync_all()
}

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// It is the file that was named which failed, and not the database.
fn failed(what: &str, file: &Path, error: &std::io::Error) -> StoreError {
    Refusal::Invalid(format!("cannot {what} `{}`: {error}", file.display())).into()
}

/// How many folders of earlier, killed processes with the same id may lie around.
const MOST_SCRATCHES: u32 = 100;

/// A folder for what is not finished. It goes away with this value; after a power failure it stays and
/// may be removed.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn beside(file: &Path) -> Result<Self, StoreError> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let process = std::process::id();
        let folder = |number| folder_of(file).join(format!("{name}.unfinished-{process}-{number}"));
        for number in 0..MOST_SCRATCHES {
            let made = fs::DirBuilder::new().mode(0o700).create(folder(number));
            match made {
                Ok(()) => return Ok(Self(folder(number))),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed("make", &folder(number), &error)),
            }
        }
        Err(failed("make", &folder(0), &ErrorKind::AlreadyExists.into()))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is in nobody's way.
        let _ = fs::remove_dir_all(&self.0);
    }
}
