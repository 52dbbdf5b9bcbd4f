//! What can go wrong between a question and its answer.

/// Why a database did not do what it was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// The closure itself said no; everything it did was rolled back.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The same work may succeed when it is run again: a deadlock, a lost connection before the
    /// commit, a database that is starting.
    #[error("the database could not do it now: {0}")]
    Transient(String),
    /// It is not known whether the commit happened.
    #[error("the commit may or may not have happened: {0}")]
    InDoubt(String),
    /// Nothing can be written until somebody makes room; what is there can be read.
    #[error("the disk of the database is full: {0}")]
    Full(String),
    /// Nothing can be written until somebody allows it; what is there can be read.
    #[error("the database is read-only: {0}")]
    ReadOnly(String),
    /// A rule of the schema forbids it.
    #[error("a rule of the database forbids it: {0}")]
    Constraint(String),
    #[error("the database failed: {0}")]
    Database(String),
    /// A row does not hold what the code expects.
    #[error("column {column} of a row holds {found}, expected {expected}")]
    Shape { column: usize, found: String, expected: &'static str },
    #[error("the work panicked and was rolled back: {0}")]
    Panicked(String),
    /// Work on SQLite must not wait for anything but the database.
    #[error("the work waited for something else than the database and was rolled back")]
    Waited,
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// The database is away, or nobody knows what it did: trying parts of the work alone would not help.
    pub fn concerns_all(&self) -> bool {
        matches!(
            self,
            Self::Transient(_)
                | Self::InDoubt(_)
                | Self::Full(_)
                | Self::ReadOnly(_)
                | Self::Closed
        )
    }

    /// What a panic said.
    pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        Self::Panicked(text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_default())
    }

    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Transient(_))
    }
}

/// A no that callers are expected to handle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Also what exists but belongs to somebody else: nobody can tell the two apart.
    #[error("there is no such {0}")]
    NotFound(&'static str),
    #[error("{0}")]
    Conflict(String),
    #[error("{0}")]
    Invalid(String),
    /// Whoever asks is known, but may not do this.
    #[error("{0}")]
    Denied(String),
}

/// An error with its causes, for messages in which nobody will ask for them.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::{ErrorCode, ffi};
        // It may have written what it could not flush.
        if error.sqlite_error().is_some_and(|it| it.extended_code == ffi::SQLITE_IOERR_FSYNC) {
            return Self::InDoubt(error.to_string());
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Transient(error.to_string())
            }
            Some(ErrorCode::DiskFull) => Self::Full(error.to_string()),
            Some(ErrorCode::ReadOnly) => Self::ReadOnly(error.to_string()),
            Some(ErrorCode::ConstraintViolation) => Self::Constraint(error.to_string()),
            _ => Self::Database(error.to_string()),
        }
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        use tokio_postgres::error::SqlState;
        let text = || match error.as_db_error() {
            Some(db) => {
                let detail = db.detail().map(|detail| format!(" ({detail})")).unwrap_or_default();
                format!("{}{detail}", db.message())
            }
            None => chain(&error),
        };
        if let Some(why) = crate::postgres::explained(&error) {
            return Self::Database(why);
        }
        let Some(code) = error.code() else {
            // Without an answer of the server the connection is gone, and with it the transaction.
            return Self::Transient(text());
        };
        let transient = [
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::TOO_MANY_CONNECTIONS,
        ];
        if *code == SqlState::DISK_FULL {
            Self::Full(text())
        } else if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
            Self::ReadOnly(text())
        } else if transient.contains(code) {
            Self::Transient(text())
        } else if code.code().starts_with("23") {
            Self::Constraint(text())
        } else {
            Self::Database(text())
        }
    }
}

impl From<deadpool_postgres::PoolError> for StoreError {
    fn from(error: deadpool_postgres::PoolError) -> Self {
        match error {
            deadpool_postgres::PoolError::Closed => Self::Closed,
            deadpool_postgres::PoolError::Backend(error) => Self::from(error),
            other => Self::Transient(other.to_string()),
        }
    }
}
