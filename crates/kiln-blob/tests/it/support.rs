//! Backends to be tested, an S3 server, and bytes.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kiln_blob::{
    Backend, BlobError, Compressed, Content, Disk, Found, Memory, Name, Remembered, S3, S3Options,
    Span, Verified, collect, of_pieces,
};
use tempfile::TempDir;

pub const KEY: (&str, &str) = ("KILNTESTKEY123456789", "kiln-test-secret-0123456789");

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Bytes that look random, the same for the same seed.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// As a stream in pieces of odd sizes.
pub fn content(bytes: &[u8]) -> Content {
    let bytes = Bytes::copy_from_slice(bytes);
    let pieces: Vec<Bytes> = (0..bytes.len())
        .step_by(70_001)
        .map(|at| bytes.slice(at..bytes.len().min(at + 70_001)))
        .collect();
    of_pieces(pieces)
}

pub async fn all(found: Found) -> Result<Bytes, BlobError> {
    collect(found.content, 1 << 30).await
}

pub async fn read(backend: &dyn Backend, name: &Name) -> Result<Bytes, BlobError> {
    all(backend.get(name, Span::All).await?).await
}

/// A store that is gone when this is dropped.
#[derive(Debug)]
pub struct Place {
    pub backend: Arc<dyn Backend>,
    pub folder: TempDir,
    _server: Option<Server>,
}

impl Place {
    fn new(backend: Arc<dyn Backend>, folder: TempDir, server: Option<Server>) -> Self {
        Self { backend, folder, _server: server }
    }

    pub fn memory() -> Self {
        Self::new(Arc::new(Memory::default()), tempfile::tempdir().unwrap(), None)
    }

    pub fn disk() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::new(Arc::new(Disk::open(folder.path().join("objects")).unwrap()), folder, None)
    }

    pub fn s3() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Server::start(folder.path());
        let backend = Arc::new(S3::open(server.options()).unwrap());
        Self::new(backend, folder, Some(server))
    }

    /// Alone, in each wrapper, and in all of them.
    pub fn wrapped(&self) -> Vec<(&'static str, Arc<dyn Backend>)> {
        let plain = || Arc::clone(&self.backend);
        vec![
            ("plain", plain()),
            ("verified", Arc::new(Verified(plain()))),
            ("compressed", Arc::new(Compressed(plain()))),
            ("remembered", Arc::new(Remembered::new(plain(), 100))),
            ("all", Arc::new(Remembered::new(Verified(Compressed(plain())), 100))),
        ]
    }
}

/// A real S3 server, which checks signatures.
#[derive(Debug)]
pub struct Server {
    child: Child,
    pub port: u16,
}

impl Server {
    pub fn start(folder: &Path) -> Self {
        let program = std::env::var_os("KILN_TEST_S3S").map(PathBuf::from);
        let program = program.expect("KILN_TEST_S3S names s3s-fs; scripts/test sets it");
        let root = folder.join("s3");
        std::fs::create_dir_all(root.join("bucket")).unwrap();
        let port = free_port();
        let child = Command::new(program)
            .args(["--access-key", KEY.0, "--secret-key", KEY.1, "--host", "127.0.0.1", "--port"])
            .arg(port.to_string())
            .arg(root)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("s3s-fs starts");
        let server = Self { child, port };
        let until = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "the S3 server does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    pub fn options(&self) -> S3Options {
        options(self.port)
    }
}

pub fn options(port: u16) -> S3Options {
    S3Options {
        endpoint: Some(format!("http://127.0.0.1:{port}")),
        key: Some((KEY.0.to_owned(), KEY.1.to_owned())),
        prefix: Some(name("kiln/bytes")),
        ..S3Options::new("bucket", "us-east-1")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// This test binary again, to run one test that is ignored otherwise.
pub fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    command.stdin(Stdio::null());
    command
}

/// The most memory that this process ever had, in bytes.
pub fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}
