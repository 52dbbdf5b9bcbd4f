//! One server for one file: two processes that hand out jobs from the same SQLite database would not hear
//! each other's signals, and each would believe that it is the only one.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use crate::{Refusal, Store, StoreError};

/// Proof that no other process serves this database. It ends when it is dropped, or with the process,
/// however that ends.
#[derive(Debug)]
pub struct Serving {
    /// The lock belongs to the open file. The file itself stays: whoever removed it could take away one
    /// that another process has just locked.
    _lock: Option<File>,
}

impl Store {
    /// To be called by whoever serves, and kept. PostgreSQL can have as many servers as one likes.
    pub fn lock_for_serving(&self) -> Result<Serving, StoreError> {
        let Some(path) = self.file() else { return Ok(Serving { _lock: None }) };
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let name = PathBuf::from(name);
        let failed = |error: std::io::Error| {
            StoreError::Database(format!("cannot lock `{}`: {error}", name.display()))
        };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&name).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Serving { _lock: Some(file) }),
            Err(TryLockError::WouldBlock) => Err(Refusal::Conflict(format!(
                "another Kiln serves `{}` already; stop it first, or use PostgreSQL for several servers",
                path.display()
            ))
            .into()),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}
