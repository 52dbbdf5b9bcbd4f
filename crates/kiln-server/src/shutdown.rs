//! How a server ends: in order, and in time.
//!
//! First nobody new is let in; who waits for something is answered; requests that are under way may
//! finish, up to a bound; duties end between two passes; the database is closed last.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::app::Shared;
use crate::serve::Connections;
use crate::tasks::Duties;

/// How long the database may take to close.
const CLOSING: Duration = Duration::from_secs(5);

pub(crate) async fn end(app: Shared, connections: Connections, duties: Duties) {
    let grace = app.config.shutdown_grace;
    let (cut_off, unfinished) = tokio::join!(connections.end(grace), duties.end(grace));
    if cut_off > 0 {
        tracing::warn!(cut_off, "connections were still busy and are cut off");
    }
    for name in unfinished {
        tracing::warn!(name, "the duty did not end in time; another pass will do the rest");
    }
    let store = app.store.clone();
    // Whoever else still holds the server holds the store, too.
    if let Some(app) = Arc::into_inner(app) {
        drop(app);
    }
    if timeout(CLOSING, store.close()).await.is_err() {
        tracing::warn!("the database is still in use and is left to the end of the process");
    }
    tracing::info!("stopped");
}
