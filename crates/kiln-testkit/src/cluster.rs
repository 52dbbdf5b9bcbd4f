//! A PostgreSQL of its own for one test, to be killed and started again. It writes through to the disk,
//! unlike the one that all other tests share.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio_postgres::NoTls;

/// A cluster. It ends with the test, even if that is killed.
#[derive(Debug)]
pub struct Cluster {
    directory: PathBuf,
    /// Goes with the cluster, if it is its own.
    _own: Option<TempDir>,
    port: u16,
    /// Whether it speaks TLS, with `tls.pem` and `tls.key` of its directory.
    speaks_tls: bool,
    server: Option<Child>,
}

impl Cluster {
    /// A new cluster, running. Must be called on the thread of the test: see [`Self::start`].
    pub async fn new() -> Self {
        let own = tempfile::tempdir().expect("the system has a folder for such files");
        let directory = own.path().to_owned();
        Self::at(directory, Some(own)).await
    }

    /// The same in a folder that is there, and empty.
    pub async fn within(directory: &Path) -> Self {
        Self::at(directory.to_owned(), None).await
    }

    async fn at(directory: PathBuf, own: Option<TempDir>) -> Self {
        let mut cluster =
            Self { directory, _own: own, port: free_port(), speaks_tls: false, server: None };
        if rustix::process::geteuid().is_root() {
            run(command("chown").arg("postgres").arg(&cluster.directory));
        }
        let data = cluster.data();
        let initdb = binary("initdb");
        run(as_owner(&initdb).arg("-D").arg(data).args([
            "-A",
            "trust",
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]));
        cluster.start().await;
        cluster
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Starts it again with TLS, and this certificate.
    pub async fn encrypt(&mut self, certificate: &str, key: &str) {
        self.kill();
        for (from, name) in [(certificate, "tls.pem"), (key, "tls.key")] {
            let to = self.directory.join(name);
            fs::copy(from, &to).expect("the folder is ours");
            if rustix::process::geteuid().is_root() {
                run(command("chown").arg("postgres").arg(&to));
            }
            run(command("chmod").arg("600").arg(&to));
        }
        self.speaks_tls = true;
        self.start().await;
    }

    /// Starts the server and waits until it answers. It dies with the thread that calls this.
    pub async fn start(&mut self) {
        let ready = tokio::time::timeout(Duration::from_secs(30), self.come_up()).await;
        assert!(ready.is_ok(), "PostgreSQL does not come up: {}", self.log());
    }

    async fn come_up(&mut self) {
        self.launch();
        while tokio_postgres::connect(&self.url(), NoTls).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let server = self.server.as_mut().expect("it was launched");
            // It refuses to start while a process of the one that was killed has not gone yet.
            if server.try_wait().expect("it is ours").is_some() {
                self.launch();
            }
        }
    }

    fn launch(&mut self) {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.directory.join("log"))
            .expect("the folder is ours");
        let file = |name: &str| self.directory.join(name).display().to_string();
        let tls = [
            "ssl=on".to_owned(),
            format!("ssl_cert_file={}", file("tls.pem")),
            format!("ssl_key_file={}", file("tls.key")),
        ];
        let settings = [
            format!("port={}", self.port),
            "listen_addresses=127.0.0.1".to_owned(),
            format!("unix_socket_directories={}", self.directory.display()),
            "fsync=on".to_owned(),
            // One call instead of one for each of a thousand files, before it recovers.
            "recovery_init_sync_method=syncfs".to_owned(),
            "max_connections=50".to_owned(),
        ];
        let mut server = as_owner(&binary("postgres"));
        server.arg("-D").arg(self.data());
        server.args(settings.iter().flat_map(|setting| ["-c", setting]));
        if self.speaks_tls {
            server.args(tls.iter().flat_map(|setting| ["-c", setting]));
        }
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.server = Some(server.spawn().expect("PostgreSQL is installed"));
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// Kills the server with all its processes at once, as a power failure would.
    pub fn kill(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        let postmaster = Pid::from_child(&server);
        // Each backend is a group of its own. While the postmaster stands still, no new ones come.
        let _ = kill_process(postmaster, Signal::STOP);
        let children = children_of(postmaster);
        for pid in [postmaster].into_iter().chain(children) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = server.wait();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill();
    }
}

fn children_of(parent: Pid) -> Vec<Pid> {
    let parent = parent.as_raw_nonzero().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let child = |entry: fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (_, rest) = stat.rsplit_once(')')?;
        let of = rest.split_whitespace().nth(1)?;
        let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
        (of == parent).then_some(pid)
    };
    processes.filter_map(child).collect()
}

fn free_port() -> u16 {
    let socket = TcpListener::bind(("127.0.0.1", 0)).expect("loopback has free ports");
    socket.local_addr().expect("it is bound").port()
}

/// Where the newest PostgreSQL lies.
fn binary(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().parse::<u32>().ok();
    let newest = versions.max_by_key(version).map(|entry| entry.path());
    newest.expect("PostgreSQL is installed: run scripts/test").join("bin").join(name)
}

#[expect(clippy::disallowed_methods, reason = "what it starts dies with the test")]
pub(crate) fn command(program: &str) -> Command {
    Command::new(program)
}

/// PostgreSQL refuses to run as root; whoever runs it, it must not outlive the test.
fn as_owner(program: &PathBuf) -> Command {
    let mut command = command("setpriv");
    command.args(["--pdeathsig", "KILL"]).current_dir("/");
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]);
    }
    command.arg("--").arg(program);
    command
}

fn run(command: &mut Command) {
    let output = command.output().expect("the program is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}
