//! How a server's git reaches repositories: by a proxy, and with an authority of one's own.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use kiln_testkit::certificates::Certificates;
use serde_json::{Value, json};

use super::world::Server;
use super::{Kind, World};

const WORKFLOW: &str = "on: push\njobs:\n  a:\n    runs-on: linux\n    steps: [{ run: 'true' }]\n";

/// A proxy that leads everybody to one place, whatever host they ask for. Tells what it was asked.
fn proxy_to(place: String) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let address = format!("http://{}", listener.local_addr().expect("it listens"));
    let (tell, asked) = mpsc::channel();
    // It ends with the test's process.
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (place, tell) = (place.clone(), tell.clone());
            // Whoever breaks off does so for a reason.
            thread::spawn(move || drop(connection(stream, &place, &tell)));
        }
    });
    (address, asked)
}

fn connection(mut from: TcpStream, place: &str, tell: &mpsc::Sender<String>) -> io::Result<()> {
    let mut reader = BufReader::new(from.try_clone()?);
    let mut head = String::new();
    while reader.read_line(&mut head)? > 2 {}
    let line = head.lines().next().unwrap_or_default().to_owned();
    let is_tunnel = line.starts_with("CONNECT ");
    let _ = tell.send(line);
    let mut to = TcpStream::connect(place)?;
    if is_tunnel {
        from.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    } else {
        to.write_all(head.as_bytes())?;
    }
    let mut back = to.try_clone()?;
    let there = thread::spawn(move || {
        let _ = io::copy(&mut reader, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    io::copy(&mut back, &mut from)?;
    from.shutdown(Shutdown::Write)?;
    let _ = there.join();
    Ok(())
}

/// The address of `acme/app` at another server, as somebody else would know that.
fn source(origin: &Server, scheme: &str, host: &str) -> String {
    format!("{scheme}://me:{}@{host}/acme/app.git", origin.token())
}

/// Adds a repository whose default branch is asked for.
fn add(world: &World, server: &Server, source: &str) -> (u16, Value) {
    let new = json!({ "owner": "acme", "name": "far", "source": source });
    world.post(server, "/api/repos", &new)
}

/// A server that serves a repository to others by HTTPS, and where it listens.
fn origin(world: &World, certificates: &Certificates, names: &str) -> Server {
    let (cert, key) = certificates.make("origin", names);
    let origin = world.server_with("origin", &["--tls-cert", &cert, "--tls-key", &key]);
    world.repository(&origin, "app", WORKFLOW);
    origin
}

/// S20
#[test]
fn a_repository_by_https_needs_its_authority_to_be_known() {
    let place = crate::Place::new();
    let certificates = Certificates::new(place.path());
    let far = World::new(Kind::Sqlite).trusting(&certificates.authority());
    let origin = origin(&far, &certificates, "IP:127.0.0.1");
    let host = origin.address.trim_start_matches("https://").to_owned();
    let source = source(&origin, "https", &host);

    let world = World::new(Kind::Sqlite);
    let stranger = world.server("stranger");
    let (status, refused) = add(&world, &stranger, &source);
    assert_eq!(status, 422, "{refused}");
    let said = refused["detail"].as_str().unwrap();
    assert!(said.contains("certificate"), "{said}");
    assert!(!said.contains(origin.token()), "a password is nobody's business: {said}");
    drop(stranger);

    let ca = format!("ca_file={}", certificates.authority().display());
    let knowing = world.server_with("stranger", &["--set", &ca]);
    let (status, made) = add(&world, &knowing, &source);
    assert_eq!((status, &made["default_branch"]), (201, &json!("main")), "{made}");
    let run = world.run(&knowing, world.trigger(&knowing, "far"));
    assert_eq!(
        (&run["workflow"], &run["status"]),
        (&json!(".github/workflows/ci.yml"), &json!("queued"))
    );
}

/// S20
#[test]
fn git_goes_by_the_proxy_that_is_set() {
    let place = crate::Place::new();
    let certificates = Certificates::new(place.path());
    let far = World::new(Kind::Sqlite).trusting(&certificates.authority());
    // Only the proxy knows where that host is.
    let origin = origin(&far, &certificates, "IP:127.0.0.1,DNS:git.example");
    let (proxy, asked) = proxy_to(origin.address.trim_start_matches("https://").to_owned());
    let source = source(&origin, "https", "git.example");

    let world = World::new(Kind::Sqlite);
    let proxy = format!("proxy={proxy}");
    let ca = format!("ca_file={}", certificates.authority().display());
    let server = world.server_with("server", &["--set", &proxy, "--set", &ca]);
    let (status, made) = add(&world, &server, &source);
    assert_eq!((status, &made["default_branch"]), (201, &json!("main")), "{made}");
    let run = world.run(&server, world.trigger(&server, "far"));
    assert_eq!(run["status"], "queued", "{run:#}");
    let lines: Vec<String> = asked.try_iter().collect();
    assert!(
        !lines.is_empty() && lines.iter().all(|line| line.starts_with("CONNECT git.example:443 ")),
        "{lines:?}"
    );
    drop(server);

    // What is named in `no_proxy` is asked directly, where nobody is.
    let direct = world
        .server_with("server", &["--set", &proxy, "--set", &ca, "--set", "no_proxy=git.example"]);
    let new = json!({ "owner": "acme", "name": "further", "source": source });
    assert_eq!(world.post(&direct, "/api/repos", &new).0, 422);
    assert_eq!(asked.try_iter().count(), 0);
}

/// S20
#[test]
fn plain_http_goes_by_the_proxy_as_well() {
    let far = World::new(Kind::Sqlite);
    let origin = far.server("origin");
    far.repository(&origin, "app", WORKFLOW);
    let (proxy, asked) = proxy_to(origin.listen());
    let world = World::new(Kind::Sqlite);
    let server = world.server_with("server", &["--set", &format!("proxy={proxy}")]);
    let (status, made) = add(&world, &server, &source(&origin, "http", "git.example"));
    assert_eq!(status, 201, "{made}");
    let lines: Vec<String> = asked.try_iter().collect();
    assert!(
        lines.iter().any(|line| line.starts_with("GET http://git.example/acme/app.git/info/refs")),
        "{lines:?}"
    );
}
