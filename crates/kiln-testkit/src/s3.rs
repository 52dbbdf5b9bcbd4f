//! A real S3 server for one test, which checks signatures. It goes with the test.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Who may ask: the id of a key, and the key.
pub const KEY: (&str, &str) = ("KILNTESTKEY123456789", "kiln-test-secret-0123456789");
/// The one bucket there is.
pub const BUCKET: &str = "bucket";

#[derive(Debug)]
pub struct S3Server {
    child: Child,
    pub port: u16,
}

impl S3Server {
    /// Keeps its objects in this folder.
    #[expect(
        clippy::disallowed_methods,
        reason = "the environment says which it is; it dies with the test"
    )]
    pub fn start(folder: &Path) -> Self {
        let program = std::env::var_os("KILN_TEST_S3S").map(PathBuf::from);
        let program = program.expect("KILN_TEST_S3S names s3s-fs; scripts/test sets it");
        let root = folder.join("s3");
        fs::create_dir_all(root.join(BUCKET)).expect("a folder can be made");
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("there is a free port").port();
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
            sleep(Duration::from_millis(20));
        }
        server
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
