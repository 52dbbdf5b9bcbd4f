//! How requests to S3 go out: by a proxy, with certificates of one's own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use kiln_blob::{Backend as _, BlobError, Name, S3, S3Options, Span};

/// A proxy that knows nothing, and tells which address it was asked for.
fn proxy() -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
        let first = lines.next().unwrap();
        lines.find(String::is_empty).unwrap();
        let answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        stream.write_all(answer.as_bytes()).unwrap();
        first
    });
    (address, asked)
}

/// A store whose name nobody knows.
fn options() -> S3Options {
    S3Options {
        endpoint: Some("http://store.invalid:9000".to_owned()),
        key: Some(("id".to_owned(), "secret".to_owned())),
        retries: 0,
        request_timeout: Duration::from_secs(5),
        ..S3Options::new("bucket", "eu")
    }
}

async fn read(options: S3Options) -> Result<(), BlobError> {
    let s3 = S3::open(options)?;
    let name = Name::new("a").unwrap();
    s3.get(&name, Span::All).await.map(drop)
}

#[tokio::test]
async fn requests_go_by_the_proxy_but_to_those_that_need_none() {
    let (address, asked) = proxy();
    let by_proxy = S3Options { proxy: Some(address.clone()), ..options() };
    let answer = read(by_proxy.clone()).await;
    assert!(matches!(answer, Err(BlobError::NotFound(_))), "{answer:?}");
    let asked = asked.join().unwrap();
    assert!(asked.contains("http://store.invalid:9000/bucket/a"), "{asked}");
    // Its name means nothing, so nobody can be asked without the proxy.
    let around = S3Options { no_proxy: vec!["store.invalid".to_owned()], ..by_proxy };
    let answer = read(around).await;
    assert!(matches!(answer, Err(BlobError::Remote { .. })), "{answer:?}");
}

#[test]
fn certificates_that_cannot_be_read_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let open = || S3::open(S3Options { ca_file: Some(file.clone()), ..options() });
    assert!(open().is_err(), "there is none");
    std::fs::write(&file, "no certificate").unwrap();
    let refused = open().unwrap_err().to_string();
    assert!(refused.contains("there is no certificate in PEM in it"), "{refused}");
}
