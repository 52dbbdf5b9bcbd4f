//! What a server's git shows to others.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::json;

use super::{Kind, World};

/// Somebody who asks everybody for a password, and tells which ones were shown.
fn guarded() -> (String, Receiver<Option<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let address = listener.local_addr().expect("it listens").to_string();
    let (tell, shown) = mpsc::channel();
    // It ends with the test's process: nobody can be told that no more requests come.
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
            let password = head.iter().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("authorization").then(|| value.to_owned())
            });
            let _ = tell.send(password);
            let answer = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\n\
                          Content-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = (&stream).write_all(answer.as_bytes());
        }
    });
    (address, shown)
}

/// Otherwise whoever may add a repository could read what the server's user can.
#[test]
fn git_shows_no_password_of_the_servers_user() {
    let world = World::new(Kind::Sqlite);
    let (address, shown) = guarded();
    // `HOME` of the server is this place.
    let helper = "!f() { echo username=ada; echo password=hunter2; }; f";
    world
        .place
        .file(".netrc", "machine 127.0.0.1 login ada password hunter2\n")
        .file(".git-credentials", format!("http://ada:hunter2@{address}\n"))
        .file(".gitconfig", format!("[credential]\n  helper = \"{helper}\"\n  helper = store\n"));
    let server = world.server("server");
    let trigger = |name: &str, source: String| {
        let mut new = json!({ "owner": "acme", "name": name, "source": source });
        // It is asked for its default branch unless that is said.
        let (status, problem) = world.post(&server, "/api/repos", &new);
        assert_eq!(status, 422, "{problem}");
        assert!(!problem.to_string().contains("right"), "{problem}");
        new["default_branch"] = json!("main");
        assert_eq!(world.post(&server, "/api/repos", &new).0, 201);
        let path = format!("/api/repos/acme/{name}/trigger");
        let (status, problem) = world.post(&server, &path, &json!({}));
        assert_eq!(status, 409, "{problem}");
        let said = problem["detail"].as_str().unwrap().to_owned();
        assert!(said.contains("cannot fetch") && !said.contains("right"), "{said}");
        let mut passwords = Vec::new();
        while let Ok(password) = shown.recv_timeout(Duration::from_millis(200)) {
            // `:` is what git says that knows nobody and nothing.
            passwords.extend(password.filter(|password| password != "Basic Og=="));
        }
        passwords
    };
    assert_eq!(trigger("plain", format!("http://{address}/app.git")), Vec::<String>::new());
    // `ada:right`, which the administrator gave for this repository.
    let given = trigger("given", format!("http://ada:right@{address}/app.git"));
    assert!(given.contains(&"Basic YWRhOnJpZ2h0".to_owned()), "{given:?}");
    let mode = |path: &str| {
        let path = world.place.path().join("server").join(path);
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode(""), mode("mirrors"), mode("git-home")), (0o700, 0o700, 0o700));
    assert_eq!((mode("keys"), mode("client.toml")), (0o600, 0o600));
}
