//! Hints of the store, fanned out to those who wait in this process.

use std::time::Duration;

use kiln_store::{Signal, Store};
use tokio::sync::broadcast;

/// Who is slower than this hears [`Signal::Everything`] instead.
const BACKLOG: usize = 4_096;

/// One subscription to the store for the whole server.
#[derive(Debug, Clone)]
pub struct Bus(broadcast::Sender<Signal>);

impl Bus {
    /// Listens until the last clone is gone. Must be called where tokio runs.
    pub fn start(store: &Store, patience: Duration) -> Self {
        let (sender, _) = broadcast::channel(BACKLOG);
        let (mut signals, weak) = (store.subscribe(), sender.downgrade());
        tokio::spawn(async move {
            loop {
                let heard = signals.next(patience).await;
                let Some(sender) = weak.upgrade() else { return };
                for signal in heard {
                    // Nobody may be listening just now.
                    let _ = sender.send(signal);
                }
            }
        });
        Self(sender)
    }

    pub fn listen(&self) -> Listener {
        Listener(self.0.subscribe())
    }
}

/// An ear on the bus.
#[derive(Debug)]
pub struct Listener(broadcast::Receiver<Signal>);

impl Listener {
    /// The next hint. One that was missed comes as [`Signal::Everything`].
    pub async fn next(&mut self) -> Signal {
        match self.0.recv().await {
            Ok(signal) => signal,
            Err(broadcast::error::RecvError::Lagged(_)) => Signal::Everything,
            // The server is going; whoever waits notices that elsewhere.
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }

    /// Waits until a hint concerns the caller.
    pub async fn until(&mut self, concerns: impl Fn(Signal) -> bool) {
        loop {
            let signal = self.next().await;
            if signal == Signal::Everything || concerns(signal) {
                return;
            }
        }
    }
}
