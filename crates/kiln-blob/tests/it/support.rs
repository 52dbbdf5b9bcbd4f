//! Backends to be tested, an S3 server, and bytes.

use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use kiln_blob::{
    Backend, BlobError, Compressed, Content, Disk, Found, Memory, Name, Remembered, S3, S3Options,
    Span, Verified, collect, of_pieces,
};
use kiln_testkit::s3::{BUCKET, KEY, S3Server};
use tempfile::TempDir;

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Bytes that look random, the same for the same seed.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
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
pub(crate) fn content(bytes: &[u8]) -> Content {
    let bytes = Bytes::copy_from_slice(bytes);
    let pieces: Vec<Bytes> = (0..bytes.len())
        .step_by(70_001)
        .map(|at| bytes.slice(at..bytes.len().min(at + 70_001)))
        .collect();
    of_pieces(pieces)
}

pub(crate) async fn all(found: Found) -> Result<Bytes, BlobError> {
    collect(found.content, 1 << 30).await
}

pub(crate) async fn read(backend: &dyn Backend, name: &Name) -> Result<Bytes, BlobError> {
    all(backend.get(name, Span::All).await?).await
}

/// A store that is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) backend: Arc<dyn Backend>,
    _folder: TempDir,
    _server: Option<S3Server>,
}

impl Place {
    fn new(backend: Arc<dyn Backend>, folder: TempDir, server: Option<S3Server>) -> Self {
        Self { backend, _folder: folder, _server: server }
    }

    pub(crate) fn memory() -> Self {
        Self::new(Arc::new(Memory::default()), tempfile::tempdir().unwrap(), None)
    }

    pub(crate) fn disk() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::new(Arc::new(Disk::open(folder.path().join("objects")).unwrap()), folder, None)
    }

    pub(crate) fn s3() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = S3Server::start(folder.path());
        let backend = Arc::new(S3::open(options(server.port)).unwrap());
        Self::new(backend, folder, Some(server))
    }

    /// Alone, in each wrapper, and in all of them.
    pub(crate) fn wrapped(&self) -> Vec<(&'static str, Arc<dyn Backend>)> {
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

pub(crate) fn options(port: u16) -> S3Options {
    S3Options {
        endpoint: Some(format!("http://127.0.0.1:{port}")),
        key: Some((KEY.0.to_owned(), KEY.1.to_owned())),
        prefix: Some(name("kiln/bytes")),
        ..S3Options::new(BUCKET, "us-east-1")
    }
}

/// This test binary again, to run one test that is ignored otherwise.
pub(crate) fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    command.stdin(Stdio::null());
    command
}

/// The most memory that this process ever had, in bytes.
pub(crate) fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}
