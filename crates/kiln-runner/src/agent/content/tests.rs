//! The runner's side of artifacts and caches against a server that only knows the words.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes as Sent;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post, put};
use serde_json::{Value, json};

use crate::gateway::Kind;
use crate::local::digest as hash;

use super::*;

const TOKEN: &str = "the-token-of-the-job";

#[derive(Default)]
struct Shelf {
    address: String,
    pieces: HashMap<usize, Vec<u8>>,
    bytes: HashMap<String, Vec<u8>>,
    completed: Vec<Value>,
    /// How often the server is away yet.
    away: u32,
    /// How often it is asked before it has looked at what was sent.
    pending: u32,
    /// How many downloads break off yet, each after how many bytes, and from where all were asked for.
    breaks: usize,
    after: usize,
    asked: Vec<usize>,
}

type Shared = Arc<Mutex<Shelf>>;

struct World {
    runtime: tokio::runtime::Runtime,
    shelf: Shared,
    services: OnServer,
    directory: tempfile::TempDir,
}

fn problem(status: u16, detail: &str) -> Response {
    let body = json!({"type": "about:blank", "title": "no", "status": status, "detail": detail});
    (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response()
}

fn is_known(headers: &HeaderMap) -> bool {
    headers.get(header::AUTHORIZATION).is_some_and(|value| value == &format!("Bearer {TOKEN}"))
}

async fn caches(State(shelf): State<Shared>, headers: HeaderMap, body: String) -> Response {
    let mut shelf = shelf.lock().unwrap();
    if !is_known(&headers) {
        return problem(401, "who are you?");
    }
    if shelf.away > 0 {
        shelf.away -= 1;
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    match serde_json::from_str::<NewCache>(&body).unwrap().key.as_str() {
        "taken" => problem(409, "there is one"),
        "forbidden" => problem(403, "an untrusted run"),
        _ => (StatusCode::CREATED, json!({"id": 5}).to_string()).into_response(),
    }
}

async fn complete(State(shelf): State<Shared>, body: String) -> Response {
    let told: Value = serde_json::from_str(&body).unwrap();
    let mut shelf = shelf.lock().unwrap();
    if !shelf.bytes.contains_key(told["hash"].as_str().unwrap()) {
        return problem(422, "the bytes are not there");
    }
    shelf.completed.push(told);
    json!({"id": 50, "key": "k"}).to_string().into_response()
}

/// Wants everything in two pieces.
async fn upload(State(shelf): State<Shared>, body: String) -> Response {
    let new: NewUpload = serde_json::from_str(&body).unwrap();
    let mut shelf = shelf.lock().unwrap();
    if let Some(content) = new.content {
        shelf.bytes.insert(new.hash, STANDARD.decode(content).unwrap());
        return json!({"stored": true, "id": null, "pieces": [], "expires_at": null})
            .to_string()
            .into_response();
    }
    let (middle, address) = (new.size / 2, &shelf.address);
    let pieces = json!([
        {"url": format!("{address}/there/0"), "from": 0, "to": middle},
        {"url": "/there/1", "from": middle, "to": new.size},
    ]);
    json!({"stored": false, "id": 9, "pieces": pieces, "expires_at": null})
        .to_string()
        .into_response()
}

async fn piece(
    State(shelf): State<Shared>,
    Path(number): Path<usize>,
    headers: HeaderMap,
    body: Sent,
) -> Response {
    assert!(headers.get(header::AUTHORIZATION).is_none(), "the token is nobody's business there");
    assert_eq!(headers[header::CONTENT_LENGTH], body.len().to_string());
    shelf.lock().unwrap().pieces.insert(number, body.to_vec());
    ([(header::ETAG, format!("\"tag-{number}\""))], "").into_response()
}

async fn sent(State(shelf): State<Shared>, body: String) -> Response {
    let tags: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(tags["tags"], json!(["\"tag-0\"", "\"tag-1\""]));
    let mut shelf = shelf.lock().unwrap();
    if shelf.pending > 0 {
        shelf.pending -= 1;
        return StatusCode::ACCEPTED.into_response();
    }
    let whole = [shelf.pieces[&0].clone(), shelf.pieces[&1].clone()].concat();
    let (hash, size) = (hash(&whole), whole.len());
    shelf.bytes.insert(hash.clone(), whole);
    json!({"hash": hash, "size": size}).to_string().into_response()
}

async fn blob(
    State(shelf): State<Shared>,
    Path(hash): Path<String>,
    headers: HeaderMap,
) -> Response {
    if !is_known(&headers) {
        return problem(401, "who are you?");
    }
    if shelf.lock().unwrap().bytes.contains_key(&hash) {
        return (StatusCode::FOUND, [(header::LOCATION, format!("/elsewhere/{hash}"))])
            .into_response();
    }
    problem(404, "no such bytes")
}

async fn elsewhere(
    State(shelf): State<Shared>,
    Path(hash): Path<String>,
    headers: HeaderMap,
) -> Response {
    assert!(headers.get(header::AUTHORIZATION).is_none(), "the token is nobody's business there");
    let mut shelf = shelf.lock().unwrap();
    let bytes = shelf.bytes[&hash].clone();
    let range = headers.get(header::RANGE).map(|range| range.to_str().unwrap());
    let from = range.map_or(0, |range| {
        range.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap()
    });
    let status = if range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    shelf.asked.push(from);
    if shelf.breaks == 0 {
        return (status, bytes[from..].to_vec()).into_response();
    }
    shelf.breaks -= 1;
    let some = bytes[from..bytes.len().min(from + shelf.after)].to_vec();
    let pieces = futures_util::stream::unfold(Some(Bytes::from(some)), async |left| {
        let Some(some) = left else {
            // What was sent before arrives, and then the end.
            tokio::time::sleep(Duration::from_millis(100)).await;
            return Some((Err(io::Error::other("the end")), None));
        };
        Some((Ok(some), None))
    });
    let length = [(header::CONTENT_LENGTH, (bytes.len() - from).to_string())];
    (status, length, axum::body::Body::from_stream(pieces)).into_response()
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let shelf = Shared::default();
        let job = "/actions/jobs/3/attempts/2";
        let router = Router::new()
            .route(&format!("{job}/caches"), post(caches))
            .route(&format!("{job}/caches/find"), post(async || json!({"cache": null}).to_string()))
            .route(&format!("{job}/caches/5/complete"), post(complete))
            .route(&format!("{job}/artifacts"), get(async || json!({"artifacts": []}).to_string()))
            .route(&format!("{job}/artifacts/4"), delete(async || StatusCode::NO_CONTENT))
            .route(
                &format!("{job}/id-token"),
                post(async |body: String| json!({"value": body}).to_string()),
            )
            .route("/api/blobs/uploads", post(upload))
            .route("/api/blobs/uploads/9/complete", post(sent))
            .route("/api/blobs/{hash}", get(blob))
            .route("/there/{number}", put(piece))
            .route("/elsewhere/{hash}", get(elsewhere))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(Arc::clone(&shelf));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        shelf.lock().unwrap().address.clone_from(&address);
        runtime.spawn(async { axum::serve(listener, router).await });
        let job = JobRef { job_id: 3, attempt: 2 };
        let http = Http::new(&address, None).unwrap();
        let services = OnServer::new(http, runtime.handle().clone(), job, TOKEN);
        Self { runtime, shelf, services, directory: tempfile::tempdir().unwrap() }
    }

    fn spooled(&self, bytes: &[u8]) -> Spooled {
        let path = self.directory.path().join("spooled");
        std::fs::write(&path, bytes).unwrap();
        Spooled { path, size: bytes.len() as u64, hash: hash(bytes) }
    }
}

fn new(key: &str) -> NewCache {
    NewCache { key: key.to_owned(), version: "v".to_owned() }
}

/// R8
#[test]
fn bytes_are_sent_in_pieces_and_had_from_wherever_they_are() {
    let world = World::new();
    for size in [0, 10, 3_000_001] {
        let bytes: Vec<u8> = (0..size).map(|at: u32| at.to_le_bytes()[0] ^ 0x5a).collect();
        let spooled = world.spooled(&bytes);
        assert_eq!(world.services.reserve_cache(&new("k")).unwrap(), 5);
        let early = world.services.complete_cache(5, &new("k"), &spooled).unwrap_err();
        assert_eq!(early.reason, Reason::Invalid, "{early}");
        world.services.send(&spooled).unwrap();
        assert_eq!(world.services.complete_cache(5, &new("k"), &spooled).unwrap(), 50);
        let stored = Stored { kind: Kind::Cache, id: 5, hash: spooled.hash, size: spooled.size };
        for from in [0, u64::from(size / 3)] {
            let mut read = Vec::new();
            world.services.open(&stored, from).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, bytes[usize::try_from(from).unwrap()..], "{size} from {from}");
        }
    }
    assert_eq!(world.shelf.lock().unwrap().completed.len(), 3);
    let stored = Stored { kind: Kind::Cache, id: 5, hash: "0".repeat(64), size: 1 };
    let gone = world.services.open(&stored, 0).err().unwrap();
    assert_eq!(gone.reason, Reason::NotFound, "{gone}");
    world.runtime.shutdown_background();
}

/// R8: a server that is started anew breaks off what it was sending.
#[test]
fn a_download_that_breaks_off_goes_on_where_it_was() {
    let world = World::new();
    let bytes: Vec<u8> = (0..100_000_u32).map(|at| at.to_le_bytes()[0] ^ 0x5a).collect();
    let spooled = world.spooled(&bytes);
    world.services.send(&spooled).unwrap();
    let stored = Stored { kind: Kind::Cache, id: 5, hash: spooled.hash, size: spooled.size };
    let breaking = |breaks, after| {
        let mut shelf = world.shelf.lock().unwrap();
        (shelf.breaks, shelf.after) = (breaks, after);
    };
    breaking(3, 1_000);
    let mut read = Vec::new();
    world.services.open(&stored, 500).unwrap().read_to_end(&mut read).unwrap();
    assert!(read == bytes[500..], "{} bytes came", read.len());
    assert_eq!(world.shelf.lock().unwrap().asked, [500, 1_500, 2_500, 3_500]);
    // One that never gets further is given up.
    breaking(usize::MAX, 0);
    let broken = world.services.open(&stored, 0).unwrap().read_to_end(&mut read);
    assert!(broken.is_err(), "{broken:?}");
    world.runtime.shutdown_background();
}

/// R8, R7
#[test]
fn what_the_server_says_is_handed_on() {
    let world = World::new();
    let services = &world.services;
    let refused = |key: &str| services.reserve_cache(&new(key)).unwrap_err().reason;
    assert_eq!(refused("taken"), Reason::Exists);
    assert_eq!(refused("forbidden"), Reason::Forbidden);
    assert_eq!(services.find_cache(&FindCache::default()).unwrap(), None);
    assert!(services.artifacts().unwrap().is_empty());
    services.delete_artifact(4).unwrap();
    assert_eq!(
        services.delete_artifact(6).unwrap_err().reason,
        Reason::Unavailable,
        "no problem document"
    );
    assert_eq!(services.id_token("", Some("x")).unwrap(), r#"{"audience":"x"}"#);
    world.shelf.lock().unwrap().away = 2;
    assert_eq!(
        services.reserve_cache(&new("k")).unwrap(),
        5,
        "a server that is away for a moment is asked again"
    );
    world.shelf.lock().unwrap().away = 99;
    assert_eq!(refused("k"), Reason::Unavailable);
    world.runtime.shutdown_background();
}

/// C3
#[test]
fn a_server_that_looks_at_bytes_for_long_is_asked_until_it_has() {
    let world = World::new();
    world.shelf.lock().unwrap().pending = 3;
    let bytes = vec![3; 200_000];
    world.services.send(&world.spooled(&bytes)).unwrap();
    let shelf = world.shelf.lock().unwrap();
    assert_eq!((shelf.pending, shelf.bytes.contains_key(&hash(&bytes))), (0, true));
}
