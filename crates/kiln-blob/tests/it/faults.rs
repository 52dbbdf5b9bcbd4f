//! An S3 that fails, is slow, or hangs up.

use std::time::{Duration, Instant};

use kiln_blob::{Backend as _, BlobError, S3, S3Options, Span};
use kiln_testkit::proxy::{Fault, Proxy};
use kiln_testkit::s3::{KEY, S3Server};

use crate::support::{all, content, name, noise, options, read};

/// In front of a server: the first connections fail, the others pass.
fn proxy(server: u16, fault: Fault, failing: usize) -> Proxy {
    let proxy = Proxy::start(server);
    proxy.fail(fault, failing);
    proxy
}

fn through(proxy: &Proxy) -> S3Options {
    S3Options {
        request_timeout: Duration::from_secs(2),
        give_up_after: Duration::from_secs(20),
        retries: 4,
        ..options(proxy.port)
    }
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
        let proxy = proxy(world.server.port, fault, 2);
        let s3 = S3::open(through(&proxy)).unwrap();
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
    let proxy = proxy(world.server.port, Fault::Cut(1 << 20), 3);
    let s3 = S3::open(through(&proxy)).unwrap();
    let found = s3.get(&name("a/b"), Span::All).await.unwrap();
    assert!(all(found).await.unwrap() == body);
    assert_eq!(proxy.left(), 0);
}

#[tokio::test]
async fn a_store_that_never_works_is_given_up_in_time_and_named() {
    for fault in [Fault::Error, Fault::Silence, Fault::Cut(40)] {
        let world = world();
        let proxy = proxy(world.server.port, fault, usize::MAX);
        let impatient =
            S3Options { retries: 2, request_timeout: Duration::from_secs(1), ..through(&proxy) };
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
