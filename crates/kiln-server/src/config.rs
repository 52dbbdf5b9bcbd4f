//! What can be set on a server, with its defaults.

use std::net::SocketAddr;
use std::path::PathBuf;

use kiln_store::Options;

/// A server's settings, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where people and runners reach it, without a slash at the end; from `listen` unless it is set.
    pub public_url: String,
    pub database: Options,
    /// Logs, mirrors of repositories and other files.
    pub data: PathBuf,
    /// Whether requests must say who makes them.
    pub authentication: bool,
    /// Whether runners that serve everybody may run steps on their host. Only where everybody trusts
    /// everybody, as on one's own machine.
    pub allow_shared_host: bool,
    /// Bytes that the log of a job may have; what is longer is cut.
    pub log_bytes: u64,
}
