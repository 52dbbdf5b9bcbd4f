//! The embedded database: one writer thread, some readers, one file.

mod connection;
mod readers;
mod writer;

use std::path::Path;
use std::sync::Arc;

use crate::StoreError;
use crate::signal::Hub;

pub(crate) use connection::Connection;
use readers::Readers;
use writer::Writer;

/// An open database file.
#[derive(Debug, Clone)]
pub(crate) struct Sqlite {
    pub(crate) writer: Writer,
    pub(crate) readers: Arc<Readers>,
}

impl Sqlite {
    pub(crate) fn open(path: &Path, hub: Arc<Hub>) -> Result<Self, StoreError> {
        let writer = Writer::start(Connection::open(path)?, hub)?;
        let readers = Arc::new(Readers::open(path)?);
        Ok(Self { writer, readers })
    }
}
