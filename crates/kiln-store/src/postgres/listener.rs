//! Hints between servers: one connection that tells the others and hears them.
//!
//! A notification takes a lock of the whole cluster when it commits, so it is never part of the work
//! itself: this connection alone sends them, a few a second at most.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::{AsyncMessage, Client};

use super::{Link, Way};
use crate::StoreError;
use crate::signal::{Hub, Inbox, Origin, Signals};

/// The shortest time between two notifications; the first after a quiet time goes out at once.
const PACE: Duration = Duration::from_millis(50);
/// After how much quiet the connection is asked whether it still lives.
const PING: Duration = Duration::from_secs(5);
/// How long the server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait before the next attempt to connect, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Keeps the connection up as long as the store is open. What was not told by then stays untold: the
/// others look after a while.
#[derive(Debug)]
pub(crate) struct Listener {
    way: Way,
    hub: Arc<Hub>,
    task: OnceLock<JoinHandle<()>>,
}

impl Listener {
    pub(super) fn new(mut way: Way, hub: Arc<Hub>) -> Self {
        way.config.application_name(super::HINTS);
        Self { way, hub, task: OnceLock::new() }
    }

    /// Begins with the first hint or the first ear: before, there is nothing to do, and perhaps no
    /// runtime to do it on.
    pub(crate) fn start(&self) {
        self.task.get_or_init(|| tokio::spawn(serve(self.way.clone(), Arc::clone(&self.hub))));
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

async fn serve(way: Way, hub: Arc<Hub>) {
    let Some(outgoing) = hub.outgoing() else { return };
    let mut wait = RETRY.0;
    loop {
        if let Ok(Ok(line)) = timeout(PATIENCE, Line::connect(&way, &hub)).await {
            wait = RETRY.0;
            // What was said while nobody listened is lost.
            hub.publish(&Signals::everything(), Origin::AnotherServer);
            line.tell_all(&outgoing).await;
        }
        sleep(wait).await;
        wait = (wait * 2).min(RETRY.1);
    }
}

/// A connection that listens.
struct Line {
    client: Client,
    ears: JoinHandle<()>,
}

impl Line {
    async fn connect(way: &Way, hub: &Arc<Hub>) -> Result<Self, StoreError> {
        let (client, connection) = way.connect().await?;
        let ourselves = Arc::new(AtomicI32::new(0));
        let ears = tokio::spawn(hear(connection, Arc::clone(hub), Arc::clone(&ourselves)));
        let row = client.query_one("SELECT pg_backend_pid()", &[]).await?;
        ourselves.store(row.try_get(0)?, Ordering::Relaxed);
        client.batch_execute("LISTEN kiln").await?;
        Ok(Self { client, ears })
    }

    /// Sends what comes until the connection breaks.
    async fn tell_all(mut self, outgoing: &Inbox) {
        loop {
            let signals = tokio::select! {
                signals = timeout(PING, outgoing.take()) => signals.unwrap_or_default(),
                _ = &mut self.ears => return,
            };
            let told = timeout(PATIENCE, self.tell(&signals)).await;
            if !matches!(told, Ok(Ok(()))) {
                outgoing.put(&signals);
                return;
            }
            sleep(PACE).await;
        }
    }

    async fn tell(&self, signals: &Signals) -> Result<(), StoreError> {
        if signals.is_empty() {
            return Ok(self.client.batch_execute("").await?);
        }
        self.client.execute("SELECT pg_notify('kiln', $1)", &[&signals.payload()]).await?;
        Ok(())
    }
}

/// Passes on what other servers say. Ends with the connection.
async fn hear(mut connection: Link, hub: Arc<Hub>, ourselves: Arc<AtomicI32>) {
    while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
        if let AsyncMessage::Notification(said) = message
            && said.process_id() != ourselves.load(Ordering::Relaxed)
        {
            hub.publish(&Signals::of_payload(said.payload()), Origin::AnotherServer);
        }
    }
}
