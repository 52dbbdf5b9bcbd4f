//! Who does what only one server may do at a time.
//!
//! A leader holds an advisory lock on a connection of its own. If its process or its connection dies,
//! PostgreSQL gives the lock back. If it is frozen, it stops asking, PostgreSQL ends the idle session,
//! and the next server takes over. The frozen one may think it leads no longer than the session would
//! have lived since its last question, so when it wakes, it knows before it does anything.

use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_postgres::Client;

use crate::StoreError;
use crate::postgres::Way;

/// After how much silence PostgreSQL ends the session of a leader.
const SILENCE: Duration = Duration::from_millis(2_500);
/// How often a leader shows that it lives.
const PING: Duration = Duration::from_millis(500);
/// How often the others ask whether the lock is free.
const ASK: Duration = Duration::from_millis(500);
/// How long a question may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Until when this process may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Term {
    None,
    Until(Instant),
    Forever,
}

impl Term {
    fn holds(self) -> bool {
        match self {
            Self::None => false,
            Self::Until(end) => Instant::now() < end,
            Self::Forever => true,
        }
    }
}

/// A candidacy that lasts until it is dropped; then the lock is given back at once.
#[derive(Debug)]
pub struct Leadership {
    term: watch::Receiver<Term>,
    told: bool,
    candidate: Option<JoinHandle<()>>,
}

impl Leadership {
    /// The embedded database has one process, which leads.
    pub(crate) fn alone() -> Self {
        let (_, term) = watch::channel(Term::Forever);
        Self { term, told: false, candidate: None }
    }

    pub(crate) fn run_for(mut way: Way, duty: &'static str) -> Self {
        way.config.application_name("kiln leader").connect_timeout(PATIENCE);
        let (tell, term) = watch::channel(Term::None);
        let candidate = tokio::spawn(async move {
            loop {
                // Whatever ended the last candidacy, the next begins with a new session.
                let _ = stand(&way, key_of(duty), &tell).await;
                tell.send_replace(Term::None);
                sleep(ASK).await;
            }
        });
        Self { term, told: false, candidate: Some(candidate) }
    }

    /// Whether this process may act now. Ask again before every piece of work.
    pub fn is_leader(&self) -> bool {
        self.term.borrow().holds()
    }

    /// Waits until it is different from what the last call said (which was no, before the first), and
    /// says what it is.
    pub async fn changed(&mut self) -> bool {
        loop {
            let term = *self.term.borrow_and_update();
            if term.holds() != self.told {
                self.told = !self.told;
                return self.told;
            }
            let end = if let Term::Until(end) = term { Some(end) } else { None };
            tokio::select! {
                changed = self.term.changed() => if changed.is_err() {
                    // Alone for ever: nothing will change any more.
                    std::future::pending::<()>().await;
                },
                () = expiry(end), if self.told && end.is_some() => {}
            }
        }
    }
}

async fn expiry(end: Option<Instant>) {
    if let Some(end) = end {
        sleep_until(end).await;
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        if let Some(candidate) = &self.candidate {
            candidate.abort();
        }
    }
}

/// One session: asks for the lock until it has it, then keeps it until something breaks.
async fn stand(way: &Way, key: i64, tell: &watch::Sender<Term>) -> Result<(), StoreError> {
    let (client, connection) = timeout(PATIENCE, way.connect()).await.map_err(late)??;
    let mut connection = tokio::spawn(connection);
    let settings = format!("SET idle_session_timeout = {}", SILENCE.as_millis());
    timeout(PATIENCE, client.batch_execute(&settings)).await.map_err(late)??;
    loop {
        let asked = Instant::now();
        if timeout(PATIENCE, try_lock(&client, key)).await.map_err(late)?? {
            return keep(&client, &mut connection, asked, tell).await;
        }
        sleep(ASK).await;
    }
}

async fn try_lock(client: &Client, key: i64) -> Result<bool, StoreError> {
    let row = client.query_one("SELECT pg_try_advisory_lock($1)", &[&key]).await?;
    Ok(row.try_get(0)?)
}

/// The session lives at least this long after an answer, and the answer came after the question: so
/// the lock is held until then, counted from the question.
async fn keep(
    client: &Client,
    connection: &mut JoinHandle<Result<(), tokio_postgres::Error>>,
    mut asked: Instant,
    tell: &watch::Sender<Term>,
) -> Result<(), StoreError> {
    loop {
        let end = asked + SILENCE;
        tell.send_replace(Term::Until(end));
        tokio::select! {
            () = sleep(PING) => {}
            _ = &mut *connection => return Ok(()),
        }
        asked = Instant::now();
        timeout_at(end, client.batch_execute("")).await.map_err(late)??;
    }
}

fn late(_: tokio::time::error::Elapsed) -> StoreError {
    StoreError::Transient("the server does not answer".to_owned())
}

/// The name of the lock: any number that nobody else uses.
fn key_of(duty: &str) -> i64 {
    let hash = Sha256::digest(format!("kiln leader {duty}"));
    let start = hash.first_chunk().expect("a hash has 32 bytes");
    i64::from_be_bytes(*start)
}
