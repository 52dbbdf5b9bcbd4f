//! The repository of a run, fetched by the real git over loopback.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use kiln_runner::git::Repository;
use kiln_runner::origin::{Origin, Served};
use kiln_runner::process::Tree;

/// A user's repository, its origin, and a place for clones.
struct Case {
    directory: tempfile::TempDir,
    user: Repository,
    origin: Origin,
    address: String,
}

fn git(repository: &Repository, words: &[&str]) -> String {
    repository.ask(words).unwrap()
}

fn commit(repository: &Repository, file: &str, text: &str) -> String {
    fs::write(repository.root().join(file), text).unwrap();
    git(repository, &["add", "-A"]);
    let who = ["-c", "user.name=a", "-c", "user.email=a@localhost"];
    git(repository, &[&who[..], &["commit", "-qm", text]].concat());
    git(repository, &["rev-parse", "HEAD"])
}

impl Case {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("user");
        fs::create_dir_all(&root).unwrap();
        let user = Repository::at(&root);
        git(&user, &["init", "-q", "-b", "main"]);
        commit(&user, "a", "one");
        let head = commit(&user, "a", "two");
        git(&user, &["update-ref", "refs/remotes/origin/theirs", "HEAD~1"]);
        let served = Served::of(&user, directory.path().join("served.git"));
        let secrets = [("PAT".to_owned(), "a-token-of-my-own-1234".to_owned())];
        let origin = Origin::new(served, "acme/app", &head, "refs/pull/1/merge", &secrets).unwrap();
        let address = origin.address(&Tree::new(None).unwrap()).unwrap();
        Self { directory, user, origin, address }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// An empty repository to fetch into.
    fn client(&self, name: &str) -> Repository {
        let root = self.path().join(name);
        fs::create_dir_all(&root).unwrap();
        let client = Repository::at(&root);
        git(&client, &["init", "-q", "-b", "main"]);
        client
    }

    fn fetch(
        &self,
        client: &Repository,
        token: &str,
        repository: &str,
        words: &[&str],
    ) -> Result<String, String> {
        let basic = base64(&format!("x-access-token:{token}"));
        let header = format!("http.extraheader=AUTHORIZATION: basic {basic}");
        let url = format!("{}/{repository}", self.address);
        let start = ["-c", "credential.helper=", "-c", "core.askPass=true", "-c", &header, "fetch"];
        let mut all = start.to_vec();
        all.extend(words.iter().filter(|word| word.starts_with('-')));
        all.push(&url);
        all.extend(words.iter().filter(|word| !word.starts_with('-')));
        client.ask(&all).map_err(|error| error.to_string())
    }

    /// Sends bytes and reads the whole answer.
    fn raw(&self, request: &str) -> String {
        let port = self.address.rsplit(':').next().unwrap().parse::<u16>().unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

fn base64(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut encoded = String::new();
    for group in text.as_bytes().chunks(3) {
        let bits = group.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte))
            << (8 * (3 - group.len()));
        for at in 0..=group.len() {
            encoded.push(char::from(ALPHABET[bits >> (18 - 6 * at) & 63]));
        }
        encoded.push_str(&"="[..].repeat(3 - group.len()));
    }
    encoded
}

/// P9, R1
#[test]
fn a_bare_commit_is_fetched_with_a_token_by_every_protocol() {
    let case = Case::new();
    let head = git(&case.user, &["rev-parse", "HEAD"]);
    let first = git(&case.user, &["rev-parse", "HEAD~1"]);
    for version in ["0", "1", "2"] {
        let client = case.client(&format!("client-{version}"));
        git(&client, &["config", "protocol.version", version]);
        let token = case.origin.token();
        case.fetch(&client, token, "acme/app", &["--depth=1", &head]).unwrap();
        assert_eq!(git(&client, &["rev-parse", "FETCH_HEAD"]), head);
        // Not the tip of anything, by another case of the name, with a secret of the run.
        let secret = "a-token-of-my-own-1234";
        case.fetch(&client, secret, "ACME/App.git", &["--depth=1", &first]).unwrap();
        assert_eq!(git(&client, &["show", "FETCH_HEAD:a"]), "one");
    }
}

#[test]
fn the_refs_are_those_a_server_would_have() {
    let case = Case::new();
    let client = case.client("client");
    git(&case.user, &["tag", "late"]);
    let token = case.origin.token();
    case.fetch(&client, token, "acme/app", &["+refs/*:refs/x/*"]).unwrap();
    let refs = git(&client, &["for-each-ref", "--format=%(refname)", "refs/x"]);
    let expect =
        ["refs/x/heads/main", "refs/x/heads/theirs", "refs/x/pull/1/merge", "refs/x/tags/late"];
    assert_eq!(refs.lines().collect::<Vec<_>>(), expect);
    // From the first fetch on, the run sees one and the same repository.
    git(&case.user, &["tag", "later"]);
    case.fetch(&client, token, "acme/app", &["+refs/*:refs/x/*"]).unwrap();
    assert_eq!(git(&client, &["for-each-ref", "--format=%(refname)", "refs/x"]), refs);
}

#[test]
fn strangers_and_other_repositories_are_refused_and_nobody_can_push() {
    let case = Case::new();
    let client = case.client("client");
    let check = |token: &str, repository: &str, expect: &str| {
        let error = case.fetch(&client, token, repository, &["HEAD"]).unwrap_err();
        assert!(error.contains(expect), "{error}");
    };
    check("wrong", "acme/app", "Authentication failed");
    check("wrong", "acme/other", "Authentication failed");
    check(case.origin.token(), "acme/other", "not found");
    check(case.origin.token(), "acme/app/../other", "not found");
    commit(&client, "b", "mine");
    let basic = base64(&format!("x-access-token:{}", case.origin.token()));
    let header = format!("http.extraheader=AUTHORIZATION: basic {basic}");
    let url = format!("{}/acme/app", case.address);
    let error = client.ask(&["-c", &header, "push", &url, "HEAD:new"]).unwrap_err();
    assert!(error.to_string().contains("403"), "{error}");
    assert!(case.user.ask(&["rev-parse", "-q", "--verify", "refs/heads/new"]).is_err());
}

#[test]
fn a_long_negotiation_is_compressed_and_understood() {
    let case = Case::new();
    let client = case.client("client");
    // More than a kilobyte of commits that the server does not know: git compresses the request.
    for number in 0..30 {
        commit(&client, "b", &number.to_string());
    }
    let token = case.origin.token();
    case.fetch(&client, token, "acme/app", &["refs/heads/main"]).unwrap();
    assert_eq!(git(&client, &["show", "FETCH_HEAD:a"]), "two");
}

#[test]
fn odd_requests_get_a_short_answer() {
    let case = Case::new();
    let basic = base64(&format!("x:{}", case.origin.token()));
    let known = format!("Authorization: Basic {basic}\r\n");
    let check = |request: String, expect: &str| {
        let answer = case.raw(&request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {expect}")), "{request:?}: {answer:?}");
        assert!(answer.contains("Connection: close\r\n"), "{answer:?}");
    };
    check("nonsense\r\n\r\n".to_owned(), "400");
    check(format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(20_000)), "413");
    check("GET /acme/app/info/refs?service=git-upload-pack HTTP/1.1\r\n\r\n".to_owned(), "401");
    check(format!("GET / HTTP/1.1\r\n{known}\r\n"), "404");
    check(format!("GET /acme/app/HEAD HTTP/1.1\r\n{known}\r\n"), "404");
    check(format!("GET /acme/app/info/refs HTTP/1.1\r\n{known}\r\n"), "403");
    check(format!("GET /acme/app/git-upload-pack HTTP/1.1\r\n{known}\r\n"), "405");
    let long = "Content-Length: 99999999999\r\n";
    check(format!("POST /acme/app/git-upload-pack HTTP/1.1\r\n{known}{long}\r\n"), "413");
}

#[test]
fn after_its_end_nobody_answers() {
    let case = Case::new();
    let client = case.client("client");
    let port = case.address.rsplit(':').next().unwrap().parse::<u16>().unwrap();
    // One that has not said what it wants does not hold up the end.
    let mut idle = TcpStream::connect(("127.0.0.1", port)).unwrap();
    idle.write_all(b"GET /acme").unwrap();
    case.fetch(&client, case.origin.token(), "acme/app", &["refs/heads/main"]).unwrap();
    case.origin.stop();
    case.origin.stop();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    let mut rest = Vec::new();
    assert_eq!(idle.read_to_end(&mut rest).unwrap_or_default(), 0);
}

/// R1
#[test]
fn a_snapshot_has_what_is_not_committed_and_leaves_no_trace() {
    let case = Case::new();
    let user = &case.user;
    let head = git(user, &["rev-parse", "HEAD"]);
    let objects = git(user, &["count-objects"]);
    let served = Served::of(user, case.path().join("two.git"));
    assert_eq!(served.commit(&head, true).unwrap().0, head, "nothing has changed");
    fs::write(user.root().join("a"), "changed").unwrap();
    fs::write(user.root().join("new"), "new").unwrap();
    fs::write(user.root().join(".gitignore"), "ignored").unwrap();
    fs::write(user.root().join("ignored"), "ignored").unwrap();
    let status = git(user, &["status", "--porcelain"]);
    let snapshot = served.commit(&head, true).unwrap().0;
    assert_eq!(
        served.commit(&head, true).unwrap().0,
        snapshot,
        "the same files are the same commit"
    );
    let repository = served.repository().unwrap();
    let files = git(repository, &["ls-tree", "-r", "--name-only", &snapshot]);
    assert_eq!(files.lines().collect::<Vec<_>>(), [".gitignore", "a", "new"]);
    assert_eq!(git(repository, &["show", &format!("{snapshot}:a")]), "changed");
    assert_eq!(git(repository, &["rev-parse", &format!("{snapshot}^")]), head);
    assert_eq!(git(user, &["status", "--porcelain"]), status);
    assert_eq!(git(user, &["count-objects"]), objects);
}
