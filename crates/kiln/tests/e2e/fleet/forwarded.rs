//! Behind a proxy: what a trusted one says of its clients counts, and nobody else's word.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::world::{PATIENCE, Server};
use super::{Kind, World};

/// A request with headers of its own, as a proxy passes it on. Says the status line and the headers of the answer.
fn ask(server: &Server, request: &str, headers: &str) -> String {
    let host = server.address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("it is no zero");
    let token = server.token();
    let body = r#"{"reason": "a test"}"#;
    let length = body.len();
    let text = format!(
        "{request} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(text.as_bytes()).expect("it is heard");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers with text");
    answer.split("\r\n\r\n").next().unwrap_or_default().to_owned()
}

/// The address that the last change was made from.
fn last_address(world: &World, server: &Server) -> String {
    let audit = world.get(server, "/api/audit");
    let of_pause = |one: &&serde_json::Value| {
        one["action"].as_str().is_some_and(|action| action.contains("pause"))
    };
    let entries = audit["items"].as_array().expect("it is a list");
    let last = entries.iter().filter(of_pause).max_by_key(|one| one["id"].as_i64());
    last.unwrap_or_else(|| panic!("{audit:#}"))["address"].as_str().unwrap_or_default().to_owned()
}

/// The standard's header counts where it is said so, from where it is said so; the other kind does not.
#[test]
fn a_trusted_proxy_says_who_asks() {
    let world = World::new(Kind::Sqlite);
    world.set("KILN_TRUSTED_PROXIES", "127.0.0.0/8");
    world.set("KILN_PROXY_HEADERS", "forwarded");
    let server = world.server("behind");
    let pause = |headers: &str| {
        let answer = ask(&server, "PUT /api/pause", headers);
        assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
        last_address(&world, &server)
    };
    let said = "forwarded: for=\"[2001:db8::7]:4711\";proto=https, for=127.0.0.2\r\n";
    assert_eq!(pause(said), "2001:db8::7");
    assert_eq!(pause("forwarded: for=203.0.113.9\r\n"), "203.0.113.9");
    // What clients put in front of it themselves is further away than the first stranger.
    let made_up = "forwarded: for=10.9.9.9\r\nforwarded: for=203.0.113.9\r\n";
    assert_eq!(pause(made_up), "203.0.113.9");
    assert_eq!(pause("x-forwarded-for: 203.0.113.10\r\n"), "127.0.0.1");
}

#[test]
fn a_stranger_says_nothing_about_who_asks() {
    let world = World::new(Kind::Sqlite);
    world.set("KILN_PROXY_HEADERS", "forwarded");
    let server = world.server("open");
    let answer = ask(&server, "PUT /api/pause", "forwarded: for=203.0.113.9\r\n");
    assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
    assert_eq!(last_address(&world, &server), "127.0.0.1");
}
