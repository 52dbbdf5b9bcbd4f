//! The runners of this server: what is known of them, and who waits for work.

use kiln_store::Store;

use crate::bus::Bus;

/// How much runners may ask of this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Polls and heartbeats of a runner in a minute.
    pub polls: u32,
    /// Logs, events and words about jobs of a runner in a minute.
    pub uploads: u32,
}

impl Default for Rates {
    fn default() -> Self {
        Self { polls: 1_200, uploads: 12_000 }
    }
}

#[derive(Debug, Clone)]
pub struct Fleet;

impl Fleet {
    /// Listens to the bus as long as it lives. Must be called where tokio runs.
    pub fn start(_store: &Store, _bus: &Bus, _rates: Rates) -> Self {
        Self
    }
}
