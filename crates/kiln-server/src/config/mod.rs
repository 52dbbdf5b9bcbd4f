//! What can be set on a server: in a file, in the environment, by flags; checked before anything starts.
//!
//! [`KEYS`] is the one table of all settings. A value comes from the strongest place that has one:
//! flags, then the environment, then the file, then the default.

mod file;
mod keys;
mod network;
mod settings;
mod storage;
mod values;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kiln_core::queue::Policy;
use kiln_store::Options;
use kiln_store::retention::Keep;

use crate::fleet::Rates;
use crate::tls::{Fault, Files};

pub use keys::{KEYS, Key, reference};
pub use network::Network;
pub use settings::{Origin, Problem, Setting, Settings};
pub use storage::{Place, Storage};

/// The file that is read when none is named and this one exists.
pub const USUAL_FILE: &str = "/etc/kiln/kiln.toml";

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
    /// Logs of jobs. Servers that share a database share them.
    pub logs_folder: PathBuf,
    /// The keys with which secrets are sealed. Servers that share a database share them.
    pub keys_file: PathBuf,
    /// Whether requests must say who makes them.
    pub authentication: bool,
    /// Whether runners that serve everybody may run steps on their host. Only where everybody trusts
    /// everybody, as on one's own machine.
    pub allow_shared_host: bool,
    /// Where the certificate for HTTPS lies, if the server speaks it itself.
    pub tls: Option<Files>,
    pub proxies: Proxies,
    pub outbound: Outbound,
    /// Where bytes lie, and how many may come.
    pub storage: Storage,
    /// How long artifacts and caches are kept, and how much.
    pub content: Content,
    /// Bytes that the log of a job may have; what is longer is cut.
    pub log_bytes: u64,
    /// How long the logs of a run are kept after it ended.
    pub keep_logs: Duration,
    /// How much runners may ask of this server.
    pub rates: Rates,
    pub limits: Limits,
    pub keep: Keep,
    /// After how long a runner that is not heard of is forgotten.
    pub forget_runners: Duration,
    pub policy: Policy,
    /// How long requests may take after the server was told to stop.
    pub shutdown_grace: Duration,
    /// What is logged, as `tracing` filters it.
    pub log: String,
    pub log_json: bool,
}

/// Whose word about clients counts, and where they say it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    pub trusted: Vec<Network>,
    /// In `Forwarded` (RFC 7239), not in the headers that begin with `X-Forwarded-`.
    pub forwarded: bool,
}

/// How others are reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outbound {
    /// An address; it may hold a password.
    pub proxy: Option<String>,
    /// Hosts that are reached without it.
    pub no_proxy: Vec<String>,
    /// Certificates in PEM that are trusted beside those of the system.
    pub ca_file: Option<PathBuf>,
}

/// What jobs leave behind, and how long it stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// How long an artifact is kept, at most, unless somebody keeps it.
    pub artifacts: Duration,
    /// How long what runs of a kind leave is kept, where that is set.
    pub of_kind: OfKind,
    /// How long a cache is kept that nobody uses.
    pub caches: Duration,
    /// How long the result of a job may be used again.
    pub results: Duration,
    /// How many bytes the caches of one repository may have.
    pub quota: u64,
}

/// How long what runs of each kind leave is kept, if that differs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OfKind {
    pub pull_requests: Option<Duration>,
    pub default_branch: Option<Duration>,
    pub tags: Option<Duration>,
    pub schedules: Option<Duration>,
}

impl Content {
    /// How many bytes the caches may have that trusted runs wrote, or runs of code from elsewhere. They are
    /// counted apart, so that strangers cannot push out what others use.
    pub fn quota_of(&self, trusted: bool) -> u64 {
        if trusted { self.quota } else { self.quota / 4 }
    }
}

/// How much there may be of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long a job may take that says nothing itself.
    pub job: Duration,
    /// How long a job may say nothing.
    pub silence: Duration,
    /// How long steps have that run although their job was cancelled.
    pub clean_up: Duration,
    /// Jobs that no runner could take fail after this.
    pub unsupported: Duration,
    pub connections: usize,
    /// Requests of one address in a minute; 0 is any number.
    pub requests: u32,
    /// Requests of one address in a minute that fail to say who makes them; 0 is any number.
    pub failed_logins: u32,
}

impl Config {
    /// Where the server on this machine is reached from this machine. A certificate is good for names, so
    /// with one the public address is the only one that is sure to be right.
    pub fn local_url(&self) -> String {
        if self.tls.is_some() { self.public_url.clone() } else { self.usual_url() }
    }

    /// The address by which it listens.
    fn usual_url(&self) -> String {
        usual_url(self.tls.is_some(), self.listen)
    }

    /// The port that a server got which asked for any.
    pub fn listens_on(&mut self, address: SocketAddr) {
        let is_usual = self.public_url == self.usual_url();
        self.listen = address;
        if is_usual {
            self.public_url = self.usual_url();
        }
    }

    /// The defaults, with everything in one folder.
    pub fn in_folder(data: &Path) -> Self {
        let flags = [("data", data.display().to_string())];
        let settings = Settings::gather(None, &|_| None, &flags);
        let (config, problems) = Self::of(&settings.unwrap_or_default(), data);
        debug_assert!(problems.is_empty(), "{problems:?}");
        config
    }

    /// What the settings say. Problems are all there are; with any, the rest must not be used.
    pub fn of(settings: &Settings, usual_data: &Path) -> (Self, Vec<Problem>) {
        let mut take = Take { settings, problems: settings.problems().to_vec() };
        let config = take.config(usual_data);
        take.check(&config);
        (config, take.problems)
    }
}

/// Takes settings one by one, and notes what is wrong with them.
struct Take<'s> {
    settings: &'s Settings,
    problems: Vec<Problem>,
}

impl Take<'_> {
    fn config(&mut self, usual_data: &Path) -> Config {
        let listen = self.get("listen", values::address);
        let data = self.optional("data", values::path).unwrap_or_else(|| usual_data.to_owned());
        let url = self.optional("public_url", values::url);
        let database = self.optional("database", values::database);
        let connections = self.get("database_connections", |text| values::number(text, 2, 1_000));
        let tls = self.tls();
        let outbound = self.outbound();
        Config {
            listen,
            public_url: url.unwrap_or_else(|| usual_url(tls.is_some(), listen)),
            tls,
            database: match database {
                Some(Options::Postgres { url, .. }) => Options::Postgres { url, connections },
                Some(sqlite) => sqlite,
                None => Options::Sqlite { path: data.join("kiln.db") },
            },
            keys_file: self
                .optional("keys_file", values::path)
                .unwrap_or_else(|| data.join("keys")),
            logs_folder: self
                .optional("logs_folder", values::path)
                .unwrap_or_else(|| data.join("logs")),
            storage: self.storage(&data, &outbound),
            data,
            authentication: self.get("authentication", values::flag),
            allow_shared_host: self.get("allow_shared_host", values::flag),
            proxies: Proxies {
                trusted: self.get("trusted_proxies", values::networks),
                forwarded: self.get("proxy_headers", values::is_forwarded),
            },
            outbound,
            content: Content {
                artifacts: self.get("keep.artifacts", values::duration),
                of_kind: OfKind {
                    pull_requests: self.optional("keep.pull_requests", values::duration),
                    default_branch: self.optional("keep.default_branch", values::duration),
                    tags: self.optional("keep.tags", values::duration),
                    schedules: self.optional("keep.schedules", values::duration),
                },
                caches: self.get("keep.caches", values::duration),
                results: self.get("keep.results", values::duration),
                quota: self.get("limits.caches", values::size),
            },
            log_bytes: self.get("limits.log", values::size),
            keep_logs: self.get("keep.logs", values::duration),
            rates: self.rates(),
            limits: self.limits(),
            keep: self.keep(),
            forget_runners: self.get("keep.silent_runners", values::duration),
            policy: self.get("scheduling", values::policy),
            shutdown_grace: self.get("shutdown_grace", values::duration),
            log: self.get("log", |text| Ok(text.to_owned())),
            log_json: self.get("log_format", values::is_json),
        }
    }

    fn outbound(&mut self) -> Outbound {
        Outbound {
            proxy: self.optional("proxy", values::proxy),
            no_proxy: self.get("no_proxy", values::hosts),
            ca_file: self.optional("ca_file", values::certificates),
        }
    }

    /// A certificate and its key, which must fit together now; later the server looks itself.
    fn tls(&mut self) -> Option<Files> {
        let cert = self.optional("tls_cert", values::path);
        let key = self.optional("tls_key", values::path);
        let (name, why) = match (cert, key) {
            (None, None) => return None,
            (Some(_), None) => {
                ("tls_cert", "a certificate needs its key; set `tls_key`".to_owned())
            }
            (None, Some(_)) => {
                ("tls_key", "a key needs its certificate; set `tls_cert`".to_owned())
            }
            (Some(cert), Some(key)) => {
                let files = Files { cert, key };
                match files.load() {
                    Ok(_) => return Some(files),
                    Err(Fault::Cert(why)) => ("tls_cert", why),
                    Err(Fault::Key(why)) => ("tls_key", why),
                }
            }
        };
        self.problems.push(self.settings.get(name).problem(&why));
        None
    }

    fn rates(&mut self) -> Rates {
        let count = |text: &str| values::number(text, 1, 1_000_000);
        Rates { polls: self.get("limits.polls", count), uploads: self.get("limits.uploads", count) }
    }

    fn limits(&mut self) -> Limits {
        let count = |text: &str| values::number(text, 0, 1_000_000);
        Limits {
            job: self.get("limits.job", values::duration),
            silence: self.get("limits.silence", values::duration),
            clean_up: self.get("limits.clean_up", values::duration),
            unsupported: self.get("limits.unsupported", values::duration),
            connections: self.get("limits.connections", |text| values::number(text, 1, 1_000_000)),
            requests: self.get("limits.requests", count),
            failed_logins: self.get("limits.failed_logins", count),
        }
    }

    fn keep(&mut self) -> Keep {
        Keep {
            runs: self.get("keep.runs", values::duration),
            events: self.get("keep.events", values::duration),
            audit: self.get("keep.audit", values::duration),
            webhook_deliveries: self.get("keep.webhook_deliveries", values::duration),
            trigger_keys: self.get("keep.trigger_keys", values::duration),
            parked_tasks: self.get("keep.parked_tasks", values::duration),
            unused: self.get("keep.unused", values::duration),
        }
    }

    /// What the setting says, else its default.
    fn get<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> T {
        let default = || {
            let default = keys::find(name).and_then(|key| key.default);
            parse(default.unwrap_or_default())
                .unwrap_or_else(|why| panic!("default of {name}: {why}"))
        };
        self.optional(name, &parse).unwrap_or_else(default)
    }

    fn optional<T>(&mut self, name: &str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let setting = self.settings.get(name);
        let text = setting.text.as_deref()?;
        match parse(text) {
            Ok(value) => Some(value),
            Err(why) => {
                self.problems.push(setting.problem(&why));
                None
            }
        }
    }

    /// What no setting says alone.
    fn check(&mut self, config: &Config) {
        if !config.authentication && !config.listen.ip().is_loopback() {
            let why = format!(
                "without authentication everybody who reaches `{}` could run programs here; \
                 listen on 127.0.0.1, or set `authentication = true`",
                config.listen
            );
            self.problems.push(self.settings.get("authentication").problem(&why));
        }
    }
}

fn usual_url(tls: bool, listen: SocketAddr) -> String {
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{}", reachable(listen))
}

/// An address that others can use: nobody reaches `0.0.0.0`.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let mut address = listen;
    match listen {
        SocketAddr::V4(four) if four.ip().is_unspecified() => {
            address.set_ip(std::net::Ipv4Addr::LOCALHOST.into());
        }
        SocketAddr::V6(six) if six.ip().is_unspecified() => {
            address.set_ip(std::net::Ipv6Addr::LOCALHOST.into());
        }
        _ => {}
    }
    address
}

#[cfg(test)]
mod tests;
