//! What all requests and duties of one server share.

use std::sync::Arc;

use kiln_store::runs::Runs;
use kiln_store::{Store, Traffic};
use tokio_util::sync::CancellationToken;

use crate::auth::Bearers;
use crate::bus::Bus;
use crate::config::Config;
use crate::fleet::Fleet;
use crate::http::health::Probe;
use crate::logs::Logs;
use crate::logs::tails::Tails;
use crate::seal::{Letters, Vault};
use crate::service::blobs::Arrivals;
use crate::service::job::Texts;
use crate::service::log::room::Rooms;
use crate::service::log::usage::LogUses;
use crate::sources::Workflows;
use crate::storage::Storage;
use crate::tasks::Board;
use crate::token::Signer;

/// One server. Requests hold it by an `Arc`.
#[derive(Debug)]
pub struct App {
    pub config: Config,
    pub store: Store,
    pub runs: Runs,
    pub traffic: Traffic,
    /// Makes and checks the tokens of runners and jobs.
    pub signer: Signer,
    /// Opens secrets that are kept.
    pub vault: Vault,
    /// Seals them to runners.
    pub letters: Letters,
    /// Texts of jobs for their runners.
    pub texts: Texts,
    pub logs: Arc<dyn Logs>,
    /// Logs that are watched on other servers.
    pub tails: Tails,
    /// What those who follow the same log share.
    pub rooms: Rooms,
    /// What logs take, as it was counted last.
    pub log_uses: LogUses,
    /// Where bytes lie, and the addresses under which they are sent and had.
    pub storage: Storage,
    /// Uploads that are being looked at.
    pub arrivals: Arrivals,
    /// Repositories, and what their workflows say at a commit.
    pub workflows: Workflows,
    pub fleet: Fleet,
    /// API tokens that were shown lately.
    pub bearers: Bearers,
    pub bus: Bus,
    /// What the duties of this server did last.
    pub board: Board,
    /// Whether it can work, as it was found a moment ago.
    pub probe: Probe,
    /// Cancelled when the server is to stop: who waits for something answers now.
    pub stopping: CancellationToken,
}

/// How requests hold the server.
pub type Shared = Arc<App>;
