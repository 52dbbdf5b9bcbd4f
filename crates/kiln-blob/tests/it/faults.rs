//! An S3 that fails, is slow, or hangs up.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kiln_blob::{Backend as _, BlobError, S3, S3Options, Span};
use kiln_testkit::s3::{KEY, S3Server};

use crate::support::{all, content, name, noise, options, read};

/// What becomes of a connection.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Answered with 500.
    Error,
    /// Taken, and never answered.
    Silence,
    /// The answer ends after so many bytes.
    Cut(usize),
}

/// Between a client and the server: the first connections fail, the others pass.
struct Proxy {
    port: u16,
    left: Arc<AtomicUsize>,
}

impl Proxy {
    fn start(server: u16, fault: Fault, failing: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let left = Arc::new(AtomicUsize::new(failing));
        let counter = Arc::clone(&left);
        std::thread::spawn(move || {
            let mut held = Vec::new();
            for client in listener.incoming().flatten() {
                let fails = |count: usize| count.checked_sub(1);
                let is_bad =
                    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fails).is_ok();
                match fault {
                    _ if !is_bad => pass(&client, server, usize::MAX),
                    Fault::Cut(bytes) => pass(&client, server, bytes),
                    Fault::Silence => held.push(client),
                    Fault::Error => {
                        std::thread::spawn(move || fail(client));
                    }
                }
            }
        });
        Self { port, left }
    }

    fn options(&self) -> S3Options {
        S3Options {
            request_timeout: Duration::from_secs(2),
            give_up_after: Duration::from_secs(20),
            retries: 4,
            ..options(self.port)
        }
    }

    fn left(&self) -> usize {
        self.left.load(Ordering::SeqCst)
    }
}

fn fail(mut client: TcpStream) {
    let mut request = vec![0; 64 << 10];
    let _ = client.read(&mut request);
    let answer =
        "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let _ = client.write_all(answer.as_bytes());
    let _ = client.shutdown(Shutdown::Write);
    // What is still being sent is taken, so that the answer is not lost with a reset.
    while client.read(&mut request).is_ok_and(|count| count > 0) {}
}

fn pass(client: &TcpStream, server: u16, most: usize) {
    let upstream = TcpStream::connect(("127.0.0.1", server)).unwrap();
    copy(client.try_clone().unwrap(), upstream.try_clone().unwrap(), usize::MAX);
    copy(upstream, client.try_clone().unwrap(), most);
}

fn copy(mut from: TcpStream, mut to: TcpStream, most: usize) {
    std::thread::spawn(move || {
        let (mut buffer, mut left) = ([0; 16 << 10], most);
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let count = count.min(left);
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
            left -= count;
            if left == 0 {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}

struct World {
    _folder: tempfile::TempDir,
    server: S3Server,
}

fn world() -> World {
    let folder = tempfile::tempdir().unwrap();
    let server = S3Server::start(folder.path());
    World { _folder: folder, server }
}

#[tokio::test]
async fn a_store_that_fails_for_a_while_is_asked_again() {
    for fault in [Fault::Error, Fault::Silence, Fault::Cut(0), Fault::Cut(40)] {
        let world = world();
        let proxy = Proxy::start(world.server.port, fault, 2);
        let s3 = S3::open(proxy.options()).unwrap();
        let body = noise(1, 10 << 20);
        s3.put(&name("a/b"), content(&body)).await.unwrap();
        assert!(read(&s3, &name("a/b")).await.unwrap() == body, "{fault:?}");
        assert_eq!(proxy.left(), 0, "{fault:?}");
    }
}

#[tokio::test]
async fn a_download_that_breaks_off_goes_on() {
    let world = world();
    let body = noise(2, 10 << 20);
    let direct = S3::open(options(world.server.port)).unwrap();
    direct.put(&name("a/b"), content(&body)).await.unwrap();
    let proxy = Proxy::start(world.server.port, Fault::Cut(1 << 20), 3);
    let s3 = S3::open(proxy.options()).unwrap();
    let found = s3.get(&name("a/b"), Span::All).await.unwrap();
    assert!(all(found).await.unwrap() == body);
    assert_eq!(proxy.left(), 0);
}

#[tokio::test]
async fn a_store_that_never_works_is_given_up_in_time_and_named() {
    for fault in [Fault::Error, Fault::Silence, Fault::Cut(40)] {
        let world = world();
        let proxy = Proxy::start(world.server.port, fault, usize::MAX);
        let impatient =
            S3Options { retries: 2, request_timeout: Duration::from_secs(1), ..proxy.options() };
        let s3 = S3::open(impatient).unwrap();
        let begun = Instant::now();
        for length in [10, 9 << 20] {
            let error = s3.put(&name("a/b"), content(&noise(3, length))).await.unwrap_err();
            assert!(matches!(error, BlobError::Remote { .. }), "{error}");
            let text = error.to_string();
            assert!(
                text.starts_with("cannot write `kiln/bytes/a/b` in the object store"),
                "{text}"
            );
        }
        let error = s3.get(&name("a/b"), Span::All).await.unwrap_err();
        assert!(error.to_string().contains("cannot look at"), "{error}");
        assert!(s3.list(&name("a"), None, 9).await.is_err());
        assert!(s3.delete(&name("a/b")).await.is_err());
        assert!(begun.elapsed() < Duration::from_mins(1), "{fault:?}");
        // Nothing of it can be read.
        let direct = S3::open(options(world.server.port)).unwrap();
        assert_eq!(direct.size(&name("a/b")).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_store_that_nobody_serves_and_a_wrong_key_are_said_to_be_so() {
    let world = world();
    let wrong = S3Options {
        key: Some((KEY.0.to_owned(), "wrong-secret".to_owned())),
        ..options(world.server.port)
    };
    let error = S3::open(wrong).unwrap().put(&name("a"), content(b"x")).await.unwrap_err();
    assert!(error.to_string().contains("403"), "{error}");
    let nobody = S3Options { retries: 1, ..options(1) };
    let error = S3::open(nobody).unwrap().put(&name("a"), content(b"x")).await.unwrap_err();
    assert!(matches!(error, BlobError::Remote { .. }), "{error}");
}
