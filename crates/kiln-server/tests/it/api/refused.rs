//! Whoever is refused before all was sent hears why.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::people::{As, person};
use crate::support::Server;

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// A connection of a client that does one thing after the other.
struct Client(BufReader<TcpStream>);

impl Client {
    async fn new(server: &Server) -> Self {
        Self(BufReader::new(TcpStream::connect(server.address).await.unwrap()))
    }

    async fn send(&mut self, bytes: &[u8]) {
        let sent = timeout(PATIENCE, self.0.get_mut().write_all(bytes)).await;
        sent.expect("the server reads on").expect("the server does not hang up");
    }

    async fn ask(&mut self, method: &str, path: &str, headers: &str) {
        self.send(format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}\r\n").as_bytes()).await;
    }

    /// Waits until an answer has begun to arrive, without taking it.
    async fn answered(&mut self) {
        let begun = timeout(PATIENCE, self.0.fill_buf()).await.expect("an answer in time");
        assert!(!begun.unwrap().is_empty(), "the server hung up");
    }

    /// The status of the next answer, whose body is read, too.
    async fn status(&mut self) -> u16 {
        timeout(PATIENCE, self.read_answer()).await.expect("an answer in time")
    }

    async fn read_answer(&mut self) -> u16 {
        let (mut first, mut length) = (String::new(), 0);
        self.0.read_line(&mut first).await.unwrap();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).await.unwrap();
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(given) = line.strip_prefix("content-length:") {
                length = given.trim().parse().unwrap();
            }
        }
        self.0.read_exact(&mut vec![0; length]).await.unwrap();
        first.split(' ').nth(1).unwrap_or_else(|| panic!("no answer: `{first}`")).parse().unwrap()
    }
}

/// Sends `before` bytes of a body of `size`, the rest only once the server has answered; then asks something else
/// on the same connection.
async fn check(server: &Server, request: (&str, &str, &str), before: usize, expect: u16) {
    let (method, path, headers) = request;
    let size = before + (4 << 20);
    let mut client = Client::new(server).await;
    client.ask(method, path, &format!("{headers}content-length: {size}\r\n")).await;
    client.send(&vec![b' '; before]).await;
    client.answered().await;
    client.send(&vec![b' '; size - before]).await;
    assert_eq!(client.status().await, expect, "{method} {path}");
    client.ask("GET", "/api/openapi.json", "").await;
    assert_eq!(client.status().await, 200, "{method} {path}: the connection can be used again");
}

on_both! {
    /// S20
    whoever_is_refused_before_all_was_sent_hears_why
}

async fn whoever_is_refused_before_all_was_sent_hears_why(server: Server) {
    let root = person(&server, "root", As::administrator()).await;
    let known = format!("authorization: Bearer {}\r\n", root.token);
    let signed = "/api/uploads/7?size=1&org=1&expires=1&signature=00";
    check(&server, ("PUT", signed, ""), 0, 404).await;
    check(&server, ("POST", "/api/repos", "authorization: Bearer wrong\r\n"), 0, 401).await;
    check(&server, ("POST", "/api/nowhere", &known), 0, 404).await;
    check(&server, ("DELETE", "/api/repos", &known), 0, 405).await;
    check(&server, ("POST", "/api/repos", &known), (1 << 20) + 1, 413).await;
}

on_both! {
    /// S20
    whoever_sends_without_end_hears_why_and_is_cut_off
}

async fn whoever_sends_without_end_hears_why_and_is_cut_off(server: Server) {
    let mut client = Client::new(&server).await;
    client.ask("POST", "/api/repos", "content-length: 1000000000000\r\n").await;
    client.answered().await;
    assert_eq!(client.status().await, 401);
    let piece = vec![b' '; 1 << 20];
    let mut sent = 0;
    let endless = async {
        while client.0.get_mut().write_all(&piece).await.is_ok() {
            sent += piece.len();
        }
    };
    timeout(PATIENCE, endless).await.expect("it is not listened to for ever");
    assert!(sent < 128 << 20, "{sent} bytes were read for nothing");
}

on_both! {
    /// S20
    whoever_waits_to_be_asked_is_not_asked_for_what_is_refused
}

async fn whoever_waits_to_be_asked_is_not_asked_for_what_is_refused(server: Server) {
    let root = person(&server, "root", As::administrator()).await;
    let waits = "expect: 100-continue\r\ncontent-length: 2\r\n";
    let mut client = Client::new(&server).await;
    client.ask("POST", "/api/repos", waits).await;
    assert_eq!(client.status().await, 401);
    let mut client = Client::new(&server).await;
    let known = format!("authorization: Bearer {}\r\n{waits}", root.token);
    client.ask("POST", "/api/repos", &known).await;
    assert_eq!(client.status().await, 100);
    client.send(b"{}").await;
    assert_eq!(client.status().await, 422);
}
