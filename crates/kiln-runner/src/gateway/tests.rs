//! The gateway asked byte by byte, also for what no honest client asks.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::Arc;

use kiln_blob::tree;
use kiln_core::value::Object;
use kiln_proto::content::{Artifact, Cache, FindCache, NewArtifact, NewCache};
use serde_json::{Value, json};

use super::local::{Artifacts, Caches, OnShelf, Shelf};
use super::*;

const REPOSITORY: &str = "octo/app";

struct World {
    directory: tempfile::TempDir,
    gateway: Gateway,
}

struct Heard {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Heard {
    #[track_caller]
    fn status(&self, expect: u16) -> &Self {
        assert_eq!(self.status, expect, "{} {}", self.head, String::from_utf8_lossy(&self.body));
        self
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("it is JSON")
    }
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let caches = Caches::new(directory.path().join("caches"), "r".to_owned(), 1 << 30);
        let shelf = Arc::new(Shelf::new(Artifacts::new(&directory.path().join("run")), caches));
        fs::create_dir(directory.path().join("run")).unwrap();
        let services = Arc::new(OnShelf::new(shelf, &Object::new(), None));
        Self::over(directory, services)
    }

    fn over(directory: tempfile::TempDir, services: Arc<dyn Services>) -> Self {
        let gateway = Gateway::new(services, Self::facts(), directory.path().join("spool"));
        Self { directory, gateway }
    }

    fn facts() -> Facts {
        Facts {
            repository: REPOSITORY.to_owned(),
            default_branch: "trunk".to_owned(),
            reference: "refs/heads/main".to_owned(),
            run: "7".to_owned(),
            token: "a-token-of-the-job".to_owned(),
            may_identify: true,
            reads_caches_only: false,
            may_write_actions: false,
            elsewhere: false,
        }
    }

    fn variable(&self, name: &str) -> String {
        let told = self.gateway.tell().unwrap();
        told.variables.into_iter().find(|(known, _)| *known == name).unwrap().1
    }

    fn port(&self) -> u16 {
        let base = self.variable("ACTIONS_RESULTS_URL");
        base.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap()
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port())).unwrap()
    }

    fn raw(&self, request: &[u8]) -> Heard {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        heard(&mut stream)
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Heard {
        let path = path
            .split_once("127.0.0.1:")
            .map_or(path, |(_, rest)| &rest[rest.find('/').unwrap()..]);
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n");
        self.raw(&[head.as_bytes(), body].concat())
    }

    fn twirp(&self, call: &str, body: &Value) -> Heard {
        let path = format!("/twirp/github.actions.results.api.v1.{call}");
        let token = self.variable("ACTIONS_RUNTIME_TOKEN");
        let headers = format!("Authorization: Bearer {token}\r\n");
        self.ask("POST", &path, &headers, body.to_string().as_bytes())
    }

    fn create(&self, key: &str) -> String {
        let made =
            self.twirp("CacheService/CreateCacheEntry", &json!({"key": key, "version": "v"}));
        made.status(200).json()["signed_upload_url"].as_str().unwrap().to_owned()
    }

    fn finalize(&self, key: &str, size: u64) -> Heard {
        let body = json!({"key": key, "version": "v", "size_bytes": size.to_string()});
        self.twirp("CacheService/FinalizeCacheEntryUpload", &body)
    }

    fn find(&self, key: &str) -> Value {
        let body = json!({"key": key, "restore_keys": [], "version": "v"});
        self.twirp("CacheService/GetCacheEntryDownloadURL", &body).status(200).json()
    }
}

fn heard(stream: &mut TcpStream) -> Heard {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let end = all.windows(4).position(|four| four == b"\r\n\r\n").expect("there is a head");
    let head = String::from_utf8(all[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Heard { status, head, body: all[end + 4..].to_vec() }
}

fn files_below(folder: &Path) -> usize {
    fs::read_dir(folder).map_or(0, |entries| entries.flatten().count())
}

/// R8
#[test]
fn blocks_in_any_order_become_what_the_list_says_and_the_list_may_be_repeated() {
    let world = World::new();
    let url = world.create("k");
    for (id, text) in [("Mg==", "world"), ("MQ==", "old"), ("MQ==", "hello "), ("Mw==", "unlisted")]
    {
        let block = format!("{url}&comp=block&blockid={}", id.replace('=', "%3D"));
        world.ask("PUT", &block, "", text.as_bytes()).status(201);
    }
    let list = b"<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?><BlockList><Latest>MQ==</Latest><Latest>Mg==</Latest></BlockList>";
    let address = format!("{url}&comp=blocklist");
    let wrong = b"<BlockList><Latest>OQ==</Latest></BlockList>";
    let refused = world.ask("PUT", &address, "", wrong);
    assert!(refused.status(400).json()["msg"].as_str().unwrap().contains("OQ=="));
    world.ask("PUT", &address, "", list).status(201);
    world.ask("PUT", &address, "", list).status(201);
    assert_eq!(world.find("k"), json!({"ok": false}), "it is not complete yet");
    world.finalize("k", 99).status(400);
    world.finalize("k", 11).status(200);
    world.finalize("k", 11).status(404);
    let found = world.find("k");
    let url = found["signed_download_url"].as_str().unwrap();
    assert_eq!(world.ask("GET", url, "", b"").status(200).body, b"hello world");
    assert_eq!(files_below(&world.directory.path().join("spool")), 0, "nothing is left of it");
}

/// R8
/// R8
#[test]
fn a_job_that_may_only_read_caches_tells_its_actions() {
    let mode = |gateway: &Gateway| {
        let variables = gateway.tell().unwrap().variables;
        variables.into_iter().find(|(name, _)| *name == "ACTIONS_CACHE_MODE").map(|(_, mode)| mode)
    };
    let usual = World::new();
    assert_eq!(mode(&usual.gateway), None, "without a word, clients read and write");
    let facts = Facts { reads_caches_only: true, ..World::facts() };
    let spool = usual.directory.path().join("another spool");
    let reads = Gateway::new(Arc::clone(&usual.gateway.services), facts, spool);
    assert_eq!(mode(&reads).as_deref(), Some("read"));
}

#[test]
fn what_is_read_has_a_length_and_ranges() {
    let world = World::new();
    world.ask("PUT", &world.create("k"), "", b"0123456789").status(201);
    world.finalize("k", 10).status(200);
    let found = world.find("k");
    let url = found["signed_download_url"].as_str().unwrap();
    let check = |range: &str, status: u16, expect: &[u8], header: &str| {
        let heard = world.ask("GET", url, &format!("Range: {range}\r\n"), b"");
        assert_eq!(heard.status(status).body, expect, "{range}");
        assert!(heard.head.contains(header), "{range}: {}", heard.head);
    };
    check("bytes=2-4", 206, b"234", "Content-Range: bytes 2-4/10");
    check("bytes=7-", 206, b"789", "Content-Range: bytes 7-9/10");
    check("bytes=-2", 206, b"89", "Content-Length: 2");
    check("bytes=5-99", 206, b"56789", "Content-Range: bytes 5-9/10");
    check("bytes=10-", 416, b"", "Content-Range: bytes */10");
    check("bytes=0-1,4-5", 200, b"0123456789", "Content-Length: 10");
    check("lines=1-2", 200, b"0123456789", "Accept-Ranges: bytes");
    let head = world.ask("HEAD", url, "", b"");
    assert!(head.status(200).head.contains("Content-Length: 10") && head.body.is_empty());
    world.ask("PUT", url, "", b"changed").status(404);
}

/// R7
#[test]
fn every_door_has_its_token_and_every_address_its_word() {
    let world = World::new();
    let url = world.create("k");
    let runtime = world.variable("ACTIONS_RUNTIME_TOKEN");
    let pass = world.gateway.tell().unwrap().pass.unwrap();
    pass.leader().is_this_process();
    let identity = pass.word().to_owned();
    let check = |method: &str, path: &str, token: &str, expect: u16| {
        let headers = format!("Authorization: Bearer {token}\r\n");
        let heard = world.ask(method, path, &headers, b"{}");
        assert_eq!(heard.status, expect, "{method} {path}");
    };
    let (cache, twirp) = (
        "/_apis/artifactcache/cache?keys=k&version=v",
        "/twirp/github.actions.results.api.v1.ArtifactService/ListArtifacts",
    );
    let (api, oidc) = ("/api/v3/repos/octo/app", "/oidc/token?api-version=2.0");
    for token in ["", "x", identity.as_str(), "a-token-of-the-job"] {
        check("GET", cache, token, 401);
        check("POST", twirp, token, 401);
    }
    check("GET", cache, &runtime, 204);
    check("POST", twirp, &runtime, 400);
    check("GET", api, &runtime, 401);
    check("GET", api, "a-token-of-the-job", 200);
    check("GET", "/api/v3/repos/octo/other", "a-token-of-the-job", 404);
    check("GET", "/api/v3/user", "a-token-of-the-job", 404);
    check("GET", oidc, &runtime, 401);
    check("GET", oidc, &identity, 200);
    check("GET", "/", &runtime, 404);
    assert_eq!(pass.issued().len(), 1);
    // A word is good for its process, and as long as that runs.
    let other = world.gateway.tell().unwrap().pass.unwrap();
    assert_ne!(other.word(), identity);
    let process = other.leader().is_another();
    check("GET", oidc, other.word(), 403);
    drop(process);
    assert!(other.issued().is_empty());
    drop(pass);
    check("GET", oidc, &identity, 401);
    for wrong in [
        url.replace("sig=", "sig=0"),
        url.replace("/blobs/1", "/blobs/2"),
        url.split('?').next().unwrap().to_owned(),
    ] {
        world.ask("PUT", &wrong, "", b"x").status(404);
    }
    world.ask("GET", &url, "", b"").status(404);
    world.ask("PUT", &url, "", b"x").status(201);
}

/// R8
#[test]
fn half_an_upload_is_none_and_goes_with_the_gateway() {
    let world = World::new();
    let url = world.create("k");
    let path = &url[url.find("/blobs").unwrap()..];
    let mut stream = world.connect();
    let head = format!("PUT {path} HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&[7; 5000]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut nothing = Vec::new();
    stream.read_to_end(&mut nothing).unwrap();
    assert!(nothing.is_empty(), "who hangs up in the middle gets no answer");
    world.finalize("k", 5000).status(400);
    let spool = world.directory.path().join("spool");
    assert_eq!(files_below(&spool), 0, "what came of it is gone");
    let block = format!("{url}&comp=block&blockid=MQ");
    world.ask("PUT", &block, "", b"never listed").status(201);
    assert_eq!(files_below(&spool), 1);
    let port = world.port();
    world.gateway.stop();
    assert!(!spool.exists());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "nobody listens any more");
}

/// R8
#[test]
fn pieces_of_the_first_version_come_at_any_place_and_all_of_them_must() {
    let world = World::new();
    let token = world.variable("ACTIONS_RUNTIME_TOKEN");
    let ask = |method: &str, path: &str, range: &str, body: &[u8]| {
        let headers = format!("Authorization: Bearer {token}\r\nContent-Range: {range}\r\n");
        world.ask(method, &format!("/_apis/artifactcache/{path}"), &headers, body)
    };
    let made = ask("POST", "caches", "", br#"{"key":"k","version":"v","cacheSize":9}"#);
    let id = made.status(201).json()["cacheId"].as_i64().unwrap();
    let one = format!("caches/{id}");
    ask("PATCH", &one, "bytes 4-8/*", b"o you").status(204);
    ask("POST", &one, "", br#"{"size":9}"#).status(400);
    ask("PATCH", &one, "bytes 0-3/*", b"shor").status(204);
    ask("PATCH", &one, "bytes 0-3/*", b"too long").status(413);
    ask("PATCH", &one, "bytes 0-3/*", b"xx").status(400);
    ask("PATCH", &one, "bytes 3-0/*", b"").status(400);
    ask("PATCH", &one, "bytes 0-3/*", b"hell").status(204);
    ask("PATCH", "caches/12", "bytes 0-3/*", b"hell").status(404);
    ask("POST", &one, "", br#"{"size":5}"#).status(400);
    ask("POST", &one, "", br#"{"size":9}"#).status(204);
    ask("POST", "caches", "", br#"{"key":"k","version":"v"}"#).status(409);
    ask("POST", "caches", "", br#"{"key":"a,b","version":"v"}"#).status(400);
    ask("POST", "caches", "", br#"{"key":"big","version":"v","cacheSize":99999999999999}"#)
        .status(400);
    let found = ask("GET", "cache?keys=x%2Ck&version=v", "", b"").status(200).json();
    let url = found["archiveLocation"].as_str().unwrap();
    assert_eq!(world.ask("GET", url, "", b"").status(200).body, b"hello you");
    ask("GET", "cache?keys=x%2Ck&version=w", "", b"").status(204);
}

/// R5
#[test]
fn artifacts_have_sound_names_and_the_bytes_that_were_sent() {
    let world = World::new();
    let ids = |more: Value| {
        let mut body =
            json!({"workflow_run_backend_id": "run-7", "workflow_job_run_backend_id": "x"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let call =
        |method: &str, more: Value| world.twirp(&format!("ArtifactService/{method}"), &ids(more));
    for wrong in ["", "a/b", "a\\b", "..", "a\nb", "a:b", &"x".repeat(300)] {
        call("CreateArtifact", json!({"name": wrong})).status(400);
    }
    let other = json!({"workflow_run_backend_id": "run-8", "name": "a"});
    world.twirp("ArtifactService/CreateArtifact", &other).status(404);
    let made = call("CreateArtifact", json!({"name": "a", "version": 7})).status(200).json();
    let url = made["signed_upload_url"].as_str().unwrap().to_owned();
    call("FinalizeArtifact", json!({"name": "a", "size": "3"})).status(400);
    world.ask("PUT", &url, "x-ms-blob-type: BlockBlob\r\n", b"abc").status(201);
    let hash = format!("sha256:{}", "0".repeat(64));
    call("FinalizeArtifact", json!({"name": "a", "size": "3", "hash": hash})).status(400);
    let made = call("FinalizeArtifact", json!({"name": "a", "size": "3"})).status(200).json();
    world.ask("PUT", &url, "", b"abcd").status(404);
    let listed =
        call("ListArtifacts", json!({"id_filter": made["artifact_id"]})).status(200).json();
    assert_eq!(listed["artifacts"][0]["name"], "a");
    let digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(listed["artifacts"][0]["digest"], digest);
    call("CreateArtifact", json!({"name": "a"})).status(409);
    let signed = call("GetSignedArtifactURL", json!({"name": "a"})).status(200).json();
    let got = world.ask("GET", signed["signed_url"].as_str().unwrap(), "", b"");
    assert!(got.status(200).head.contains("filename=\"a.zip\""), "{}", got.head);
    call("DeleteArtifact", json!({"name": "a"})).status(200);
    call("GetSignedArtifactURL", json!({"name": "a"})).status(404);
}

#[test]
fn what_is_no_request_gets_an_answer_and_nothing_else() {
    let world = World::new();
    let check = |request: &[u8], expect: u16| {
        assert_eq!(world.raw(request).status, expect, "{}", String::from_utf8_lossy(request));
    };
    check(b"nonsense\r\n\r\n", 400);
    check(b"GET / HTTP/2\r\n\r\n", 400);
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(20_000));
    check(long.as_bytes(), 413);
    let token = world.variable("ACTIONS_RUNTIME_TOKEN");
    let twirp = format!(
        "POST /twirp/github.actions.results.api.v1.CacheService/CreateCacheEntry HTTP/1.1\r\nAuthorization: Bearer {token}\r\n"
    );
    check(format!("{twirp}Content-Length: 9999999\r\n\r\n").as_bytes(), 413);
    check(format!("{twirp}Content-Length: x\r\n\r\n").as_bytes(), 400);
    check(format!("{twirp}Content-Length: 4\r\n\r\nnull").as_bytes(), 400);
    check(format!("{twirp}Content-Length: 3\r\n\r\n{{]}}").as_bytes(), 400);
    let url = world.create("k");
    let id = "x".repeat(100);
    world.ask("PUT", &format!("{url}&comp=block&blockid={id}"), "", b"x").status(400);
    world.ask("PUT", &format!("{url}&comp=page"), "", b"x").status(400);
    for wrong in [
        "",
        "<BlockList>",
        "<BlockList><Latest>x</BlockList>",
        "<BlockList><Odd>x</Odd></BlockList>",
    ] {
        world.ask("PUT", &format!("{url}&comp=blocklist"), "", wrong.as_bytes()).status(400);
    }
    world.ask("PUT", &format!("{url}&comp=blocklist"), "", b"<BlockList></BlockList>").status(201);
    world.finalize("k", 0).status(200);
}

/// Refuses all, as a server would.
#[derive(Debug)]
struct Strict(Reason);

impl Strict {
    fn no<T>(&self) -> Result<T, Refusal> {
        Err(Refusal::new(self.0, "an untrusted run writes nothing here"))
    }
}

impl Services for Strict {
    fn find_cache(&self, _: &FindCache) -> Result<Option<Cache>, Refusal> {
        self.no()
    }
    fn reserve_cache(&self, _: &NewCache) -> Result<i64, Refusal> {
        self.no()
    }
    fn complete_cache(&self, _: i64, _: &NewCache, _: &Spooled) -> Result<i64, Refusal> {
        self.no()
    }
    fn trees(&self) -> Result<Box<dyn tree::Shelf>, Refusal> {
        self.no()
    }
    fn complete_tree(&self, _: i64, _: &NewCache, _: &tree::Saved) -> Result<i64, Refusal> {
        self.no()
    }
    fn artifacts(&self) -> Result<Vec<Artifact>, Refusal> {
        self.no()
    }
    fn reserve_artifact(&self, _: &NewArtifact) -> Result<i64, Refusal> {
        self.no()
    }
    fn complete_artifact(&self, _: i64, _: &NewArtifact, _: &Spooled) -> Result<i64, Refusal> {
        self.no()
    }
    fn delete_artifact(&self, _: i64) -> Result<(), Refusal> {
        self.no()
    }
    fn open(&self, _: &Stored, _: u64) -> Result<Box<dyn io::Read + Send>, Refusal> {
        self.no()
    }
    fn id_token(&self, _: &str, _: Option<&str>) -> Result<String, Refusal> {
        self.no()
    }
}

/// G8
#[test]
fn what_services_refuse_is_told_in_the_words_of_the_clients() {
    let check = |reason: Reason, status: u16, code: &str, begins: &str| {
        let world = World::over(tempfile::tempdir().unwrap(), Arc::new(Strict(reason)));
        let body = json!({"key": "k", "version": "v"});
        let heard = world.twirp("CacheService/CreateCacheEntry", &body);
        let told = heard.status(status).json();
        assert_eq!(told["code"], code);
        assert!(told["msg"].as_str().unwrap().starts_with(begins), "{told}");
        assert_eq!(
            world.ask("GET", "/.well-known/jwks", "", b"").status,
            404,
            "its keys are elsewhere"
        );
    };
    check(Reason::Forbidden, 403, "permission_denied", "cache write denied: an untrusted run");
    check(Reason::Exists, 409, "already_exists", "an untrusted run");
    check(Reason::Unavailable, 503, "unavailable", "an untrusted run");
}
