//! How a server starts: nothing slow before it can answer, nothing half done when it cannot.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kiln_store::directory::settings;
use kiln_store::runs::Runs;
use kiln_store::{Duty, Scope, Serving, Store, StoreError, Traffic, Tx};
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;

use crate::app::{App, Shared};
use crate::auth::Bearers;
use crate::bus::Bus;
use crate::config::{Config, Place};
use crate::files::{self, FolderLock};
use crate::first::{self, Welcome};
use crate::fleet::Fleet;
use crate::http::health::Probe;
use crate::logs::objects::ObjectLogs;
use crate::logs::tails::Tails;
use crate::logs::{FileLogs, Logs};
use crate::seal::{KEY, Key, Letters, Vault};
use crate::service::blobs::Arrivals;
use crate::service::context::Contexts;
use crate::service::job::Texts;
use crate::service::log::room::Rooms;
use crate::service::log::usage::LogUses;
use crate::sources::{Sources, Workflows};
use crate::storage::Storage;
use crate::tasks::{Board, Duties};
use crate::tls::{Fault, Tls};
use crate::token::{Signer, random};
use crate::{serve, shutdown};

/// How long somebody who waits for a hint may have missed one.
const PATIENCE: Duration = Duration::from_secs(2);
/// The name of the key with which tokens of runners and jobs are signed.
const SIGNING_KEY: &str = "signing_key";

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {address}: {error}{}", remedy(error))]
    Listen { address: String, error: io::Error },
    #[error("cannot use the folder `{}`: {error}", path.display())]
    Folder { path: PathBuf, error: io::Error },
    #[error("the folder `{}` is used by another Kiln{}; stop that one, or choose another with `--data`",
        path.display(), process.map(|id| format!(" (process {id})")).unwrap_or_default())]
    Locked { path: PathBuf, process: Option<u32> },
    #[error("database `{database}`: {error}")]
    Store { database: String, error: StoreError },
    #[error("cannot speak HTTPS: {0}")]
    Tls(Fault),
    #[error("cannot use the place for bytes: {0}")]
    Storage(kiln_blob::BlobError),
    #[error("cannot use the keys in `{}`: {why}", path.display())]
    Keys { path: PathBuf, why: String },
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "; another program, perhaps another Kiln, has this port: choose another with `--listen`"
        }
        io::ErrorKind::PermissionDenied => "; choose a port from 1024 on with `--listen`",
        io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        _ => "",
    }
}

/// A server that has started. Its duties are under way; [`Server::serve`] answers requests.
#[derive(Debug)]
pub struct Server {
    app: Shared,
    duties: Duties,
    welcome: Welcome,
    tls: Option<Arc<Tls>>,
    held: Held,
}

/// What nobody else may have while the server runs.
#[derive(Debug)]
pub(crate) struct Held {
    _folder: FolderLock,
    _database: Serving,
}

impl Server {
    /// Takes the address. Comes first, so that a port that is taken leaves nothing behind. Must be called where tokio runs.
    pub fn bind(config: &mut Config) -> Result<TcpListener, StartError> {
        let address = config.listen;
        let failed = |error| StartError::Listen { address: address.to_string(), error };
        let listener = listen(address).map_err(failed)?;
        config.listens_on(listener.local_addr().map_err(failed)?);
        Ok(listener)
    }

    /// Opens everything, and begins with the duties. Must be called where tokio runs.
    pub async fn start(config: Config, sources: Arc<dyn Sources>) -> Result<Self, StartError> {
        let tls = config.tls.clone().map(Tls::open).transpose().map_err(StartError::Tls)?;
        files::make_folder(&config.data)?;
        let folder = files::lock(&config.data)?;
        let explain = |error| StartError::Store { database: config.database.to_string(), error };
        let store = Store::open(&config.database).map_err(explain)?;
        let database = store.lock_for_serving().map_err(explain)?;
        store.migrate().await.map_err(explain)?;
        let signer = signer(&store).await.map_err(explain)?;
        let vault = vault(&config)?;
        let storage = Storage::open(&config.storage, &signer).map_err(StartError::Storage)?;
        let welcome = first::welcome(&store, &config).await.map_err(explain)?;
        if let Err(error) = first::write_client_file(&config, &welcome) {
            return Err(StartError::Folder { path: config.data.clone(), error });
        }
        let app = Arc::new(app(config, store, signer, vault, storage, sources));
        let duties = Duties::start(&app);
        let held = Held { _folder: folder, _database: database };
        Ok(Self { app, duties, welcome, tls, held })
    }

    pub fn app(&self) -> &Shared {
        &self.app
    }

    /// What a first start made, and where to look.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Answers requests until [`App::stopping`] is cancelled, then ends in order and in time.
    pub async fn serve(self, listener: TcpListener) {
        let Self { app, duties, held, tls, .. } = self;
        let connections = serve::accept(&app, listener, tls).await;
        shutdown::end(app, connections, duties).await;
        // Last of all, so that the next server finds nothing under way.
        drop(held);
    }
}

/// An address where many can knock at once: after a restart all runners do, and whoever finds no room tries again a
/// second later, then three. The system may allow less.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    const KNOCKING: u32 = 4_096;
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A server that was just stopped has connections that are not quite gone.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(KNOCKING)
}

fn app(
    config: Config,
    store: Store,
    signer: Signer,
    vault: Vault,
    storage: Storage,
    sources: Arc<dyn Sources>,
) -> App {
    let runs = Runs::new(store.clone(), Arc::new(Contexts));
    let bus = Bus::start(&store, PATIENCE);
    App {
        traffic: Traffic::new(&runs, config.policy),
        runs,
        signer,
        vault,
        letters: Letters::default(),
        texts: Texts::default(),
        logs: logs(&config, &storage),
        storage,
        workflows: Workflows::new(sources),
        tails: Tails::start(&store, &bus),
        rooms: Rooms::default(),
        fleet: Fleet::start(&store, &bus, config.rates),
        bus,
        bearers: Bearers::default(),
        arrivals: Arrivals::default(),
        log_uses: LogUses::default(),
        board: Board::default(),
        probe: Probe::new(),
        stopping: CancellationToken::new(),
        store,
        config,
    }
}

/// Logs go where bytes go, when that is a store that servers share.
fn logs(config: &Config, storage: &Storage) -> Arc<dyn Logs> {
    match config.storage.place {
        Place::Folder(_) => Arc::new(FileLogs::new(&config.logs_folder, config.log_bytes)),
        Place::S3(_) => Arc::new(ObjectLogs::new(Arc::clone(storage.backend()), config.log_bytes)),
    }
}

/// The key that all servers of a database share.
async fn signer(store: &Store) -> Result<Signer, StoreError> {
    let new = BASE64.encode(random::<KEY>());
    let scope = Scope::System(Duty::Authentication);
    // Most starts find one, and need not write.
    let known =
        store.read(async move |tx: &mut Tx<'_>| settings::get(tx, scope, SIGNING_KEY).await);
    let kept = match known.await? {
        Some(key) => key,
        None => {
            let put = async move |tx: &mut Tx<'_>| {
                settings::get_or_put(tx, scope, SIGNING_KEY, &new).await
            };
            store.write(put).await?
        }
    };
    let key = BASE64.decode(&kept).map_err(|_| {
        StoreError::Database("the setting `signing_key` is damaged; restore a backup".to_owned())
    })?;
    Ok(Signer::new(&key))
}

/// The keys of secrets: a line for each, the current one first.
fn vault(config: &Config) -> Result<Vault, StartError> {
    let path = &config.keys_file;
    let failed = |why: String| StartError::Keys { path: path.clone(), why };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = format!(
                "# Keys of secrets, the current one first. Without them secrets are lost: keep a copy.\n{}\n",
                BASE64.encode(random::<KEY>())
            );
            files::write_private(path, &text).map_err(|error| failed(error.to_string()))?;
            text
        }
        Err(error) => return Err(failed(error.to_string())),
    };
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut keys = Vec::new();
    for (at, line) in lines.enumerate() {
        let bytes = BASE64.decode(line).ok().and_then(|bytes| <[u8; KEY]>::try_from(bytes).ok());
        let wrong = || failed(format!("key {} is not {KEY} bytes in base64", at + 1));
        keys.push(Key::of(bytes.ok_or_else(wrong)?));
    }
    let mut keys = keys.into_iter();
    let current = keys.next().ok_or_else(|| failed("there is none in it".to_owned()))?;
    Ok(Vault::new(current, keys.collect()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    /// Q5
    #[tokio::test]
    async fn hundreds_can_knock_before_anybody_is_let_in() {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        // Whoever finds no room hears nothing for a second.
        let knock = |_| TcpStream::connect_timeout(&address, Duration::from_millis(900)).unwrap();
        let knocking: Vec<TcpStream> = (0..400).map(knock).collect();
        assert_eq!(knocking.len(), 400);
    }
}
