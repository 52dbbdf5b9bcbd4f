//! Ctrl-C, for commands that go on until something ends.

use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};
use tokio::sync::mpsc::{self, UnboundedReceiver};

/// Hears of interrupts until it is dropped.
#[derive(Debug)]
pub(super) struct Interrupts {
    receiver: UnboundedReceiver<()>,
    handle: Handle,
}

impl Interrupts {
    pub(super) fn listen() -> Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM]).context("cannot wait for signals")?;
        let handle = signals.handle();
        let (sender, receiver) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for _ in signals.forever() {
                // When nobody listens any more, the command has just ended.
                let _ = sender.send(());
            }
        });
        Ok(Self { receiver, handle })
    }

    /// Waits for one.
    pub(super) async fn next(&mut self) {
        if self.receiver.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.handle.close();
    }
}
