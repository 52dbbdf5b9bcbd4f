//! Connections that only look. They see the last commit and never wait for the writer.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use super::Connection;
use super::writer::now_or_never;
use crate::{StoreError, Tx};

/// How many questions are answered at once.
const READERS: usize = 4;

#[derive(Debug)]
pub(crate) struct Readers {
    idle: Mutex<Vec<Connection>>,
    free: Arc<Semaphore>,
}

impl Readers {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let idle = (0..READERS).map(|_| Connection::open_reader(path));
        let idle = Mutex::new(idle.collect::<Result<_, _>>()?);
        Ok(Self { idle, free: Arc::new(Semaphore::new(READERS)) })
    }

    /// Whoever asks must look for the answer: until then it takes the turn of somebody else.
    pub(crate) async fn read<T, F>(self: &Arc<Self>, work: F) -> Result<T, StoreError>
    where
        F: AsyncFn(&mut Tx<'_>) -> Result<T, StoreError> + Send + Sync + 'static,
        T: Send + 'static,
    {
        let permit = Arc::clone(&self.free).acquire_owned().await;
        let permit = permit.map_err(|_| StoreError::Closed)?;
        let readers = Arc::clone(self);
        let answer = tokio::task::spawn_blocking(move || (readers.look(&work), permit));
        let (answer, permit) =
            answer.await.map_err(|error| StoreError::Panicked(error.to_string()))?;
        // Only now: whoever comes next would need another thread while this one is not done yet.
        drop(permit);
        answer
    }

    fn look<T, F>(&self, work: &F) -> Result<T, StoreError>
    where
        F: AsyncFn(&mut Tx<'_>) -> Result<T, StoreError>,
    {
        let mut connection = self.take()?;
        let answer = look(&mut connection, work);
        self.give_back(connection);
        answer
    }

    fn take(&self) -> Result<Connection, StoreError> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.pop().ok_or(StoreError::Closed)
    }

    fn give_back(&self, connection: Connection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}

/// One transaction, so that several questions see the same state.
fn look<T, F>(connection: &mut Connection, work: &F) -> Result<T, StoreError>
where
    F: AsyncFn(&mut Tx<'_>) -> Result<T, StoreError>,
{
    connection.execute("BEGIN", &[])?;
    let (answer, _) = now_or_never(work, connection, crate::store::now());
    connection.execute("ROLLBACK", &[])?;
    answer
}
