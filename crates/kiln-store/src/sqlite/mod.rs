//! The embedded database: one writer thread, some readers, one file.

mod connection;
mod flush;
mod frames;
mod readers;
mod writer;

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::StoreError;
use crate::signal::Hub;

pub(crate) use connection::Connection;
use readers::Readers;
use writer::Writer;

/// An open database file.
#[derive(Debug, Clone)]
pub(crate) struct Sqlite {
    pub(crate) readers: Arc<Readers>,
    /// After the readers, so that it goes last: then SQLite puts everything into the one file.
    pub(crate) writer: Writer,
    pub(crate) path: PathBuf,
}

impl Sqlite {
    pub(crate) fn open(path: &Path, hub: Arc<Hub>) -> Result<Self, StoreError> {
        make_private(path)?;
        Self::with_writer(Connection::open(path)?, path, hub)
    }

    /// A file in which nothing is changed, not even how it keeps its journal.
    pub(crate) fn open_read_only(path: &Path, hub: Arc<Hub>) -> Result<Self, StoreError> {
        Self::with_writer(Connection::open_reader(path)?, path, hub)
    }

    fn with_writer(writer: Connection, path: &Path, hub: Arc<Hub>) -> Result<Self, StoreError> {
        let writer = Writer::start(writer, hub)?;
        let readers = Arc::new(Readers::open(path)?);
        Ok(Self { readers, writer, path: path.to_owned() })
    }

    /// Waits until the file is closed.
    pub(crate) async fn close(self) {
        let Self { readers, writer, .. } = self;
        drop(readers);
        writer.close().await;
    }
}

/// A new file is for its owner alone: there are sealed secrets in it and credentials of runners.
fn make_private(path: &Path) -> Result<(), StoreError> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(StoreError::Database(format!("cannot make `{}`: {error}", path.display())))
        }
        _ => Ok(()),
    }
}
