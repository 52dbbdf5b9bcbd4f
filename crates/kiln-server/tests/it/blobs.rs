//! Bytes over HTTP: sent, looked at, had; and what nobody may do with them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kiln_blob::Digest;
use kiln_store::directory::members::Role;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::api::people::{As, Person, person};
use crate::runner::{LINUX, Runner};
use crate::support::Server;

pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend(next());
    }
    bytes.truncate(length);
    bytes
}

pub(crate) fn hash(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()
}

pub(crate) async fn reserve(who: &Person<'_>, bytes: &[u8]) -> Value {
    let wish = json!({ "owner": "acme", "hash": hash(bytes), "size": bytes.len() });
    who.post("/api/blobs/uploads", wish).await.expect(201)
}

/// Sends bytes to an address.
pub(crate) async fn put(server: &Server, url: &str, bytes: &[u8]) -> StatusCode {
    server.client.put(url).body(bytes.to_vec()).send().await.unwrap().status()
}

/// Sends bytes as a client does.
pub(crate) async fn send(server: &Server, who: &Person<'_>, bytes: &[u8]) {
    let upload = reserve(who, bytes).await;
    if upload["stored"] == true {
        return;
    }
    let url = upload["pieces"][0]["url"].as_str().unwrap();
    assert_eq!(put(server, url, bytes).await, 204);
    let path = format!("/api/blobs/uploads/{}/complete", upload["id"]);
    let done = who.post(&path, json!({})).await.expect(200);
    assert_eq!(done, json!({ "hash": hash(bytes), "size": bytes.len() }));
}

pub(crate) async fn get(who: &Person<'_>, bytes: &[u8], range: Option<&str>) -> (u16, Vec<u8>) {
    let path = format!("/api/blobs/{}?owner=acme", hash(bytes));
    let mut request = who.request(Method::GET, &path);
    if let Some(range) = range {
        request = request.header("range", range);
    }
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.bytes().await.unwrap().to_vec())
}

on_both! {
    /// C3
    bytes_of_any_size_are_sent_and_had
}

async fn bytes_of_any_size_are_sent_and_had(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    for size in [0, 1, 64 << 10, (64 << 10) + 1, 3 << 20, 9 << 20] {
        let bytes = noise(size as u64, size);
        send(&server, &ada, &bytes).await;
        assert!(get(&ada, &bytes, None).await == (200, bytes.clone()), "{size}");
        // Once is enough.
        assert_eq!(reserve(&ada, &bytes).await["stored"], true);
        if size > 100 {
            let (status, part) = get(&ada, &bytes, Some("bytes=7-99")).await;
            assert!(status == 206 && part == bytes[7..100], "{size}");
            let (status, part) = get(&ada, &bytes, Some("bytes=-5")).await;
            assert!(status == 206 && part == bytes[size - 5..], "{size}");
        }
        assert_eq!(get(&ada, &bytes, Some(&format!("bytes={size}-"))).await.0, 416);
    }
    // Few bytes may come with the question.
    let wish =
        json!({ "owner": "acme", "hash": hash(b"hi"), "size": 2, "content": BASE64.encode("hi") });
    assert_eq!(ada.post("/api/blobs/uploads", wish).await.expect(201)["stored"], true);
    assert_eq!(get(&ada, b"hi", None).await, (200, b"hi".to_vec()));
    let lie = json!({ "owner": "acme", "hash": hash(b"hi!"), "size": 3, "content": BASE64.encode("ho!") });
    assert!(ada.post("/api/blobs/uploads", lie).await.problem(422).contains("SHA-256"));
    let long = vec![b'x'; (64 << 10) + 1];
    let long = json!({ "owner": "acme", "hash": hash(&long), "size": long.len(), "content": BASE64.encode(&long) });
    ada.post("/api/blobs/uploads", long).await.expect(413);
}

on_both! {
    /// C1
    what_can_be_compressed_takes_less_room_and_any_part_of_it_can_be_had
}

async fn what_can_be_compressed_takes_less_room_and_any_part_of_it_can_be_had(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let root = person(&server, "root", As::administrator()).await;
    let stored = async || {
        let storage = root.get("/api/storage").await.expect(200);
        storage["kept"]["stored"].as_u64().unwrap()
    };
    let line = |number: u32| format!("line {number} of a report that says much the same\n");
    let text: Vec<u8> = (0..40_000).map(line).collect::<String>().into_bytes();
    send(&server, &ada, &text).await;
    let packed = stored().await;
    assert!(packed < text.len() as u64 / 3, "{packed} of {}", text.len());
    let bytes = noise(5, 1_000_000);
    send(&server, &ada, &bytes).await;
    // What does not shrink is kept as it is, and a few bytes say so.
    let plain = stored().await - packed;
    assert!((1_000_000..1_000_200).contains(&plain), "{plain}");
    for bytes in [&text, &bytes] {
        assert!(get(&ada, bytes, None).await == (200, bytes.clone()));
        for (from, to) in [(0, 0), (262_143, 262_145), (500_000, 999_998)] {
            let (status, part) = get(&ada, bytes, Some(&format!("bytes={from}-{to}"))).await;
            assert!(status == 206 && part == bytes[from..=to], "{from}-{to}");
        }
    }
}

on_both! {
    /// C2
    only_those_who_have_bytes_know_of_them
}

async fn only_those_who_have_bytes_know_of_them(server: Server) {
    let place = server.repository("acme", "app").await;
    let other = server.repository("other", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let eve = person(&server, "eve", As::member(other.org, Role::Admin)).await;
    let viewer = person(&server, "vic", As::member(place.org, Role::Viewer)).await;
    let bytes = noise(1, 100_000);
    send(&server, &ada, &bytes).await;
    let ask = |owner: &str| json!({ "owner": owner, "hashes": [hash(&bytes), hash(b"never")] });
    let present = ada.post("/api/blobs/exists", ask("acme")).await.expect(200);
    assert_eq!(present, json!({ "present": [hash(&bytes)] }));
    assert_eq!(eve.post("/api/blobs/exists", ask("other")).await.expect(200)["present"], json!([]));
    eve.post("/api/blobs/exists", ask("acme")).await.expect(404);
    assert_eq!(get(&eve, &bytes, None).await.0, 404);
    // Who may look may not send.
    assert_eq!(get(&viewer, &bytes, None).await.0, 200);
    let wish = json!({ "owner": "acme", "hash": hash(b"x"), "size": 1 });
    viewer.post("/api/blobs/uploads", wish.clone()).await.expect(403);
    // What somebody reserved, somebody else cannot complete.
    let upload = reserve(&ada, b"x").await;
    let complete = format!("/api/blobs/uploads/{}/complete", upload["id"]);
    eve.post(&complete, json!({})).await.expect(404);
    viewer.post(&complete, json!({})).await.expect(403);
    assert!(ada.post(&complete, json!({})).await.problem(409).contains("not arrived"));
    // A second organization has to prove that it has the bytes, and shares the place.
    let wish = json!({ "owner": "other", "hash": hash(&bytes), "size": bytes.len() });
    assert_eq!(eve.post("/api/blobs/uploads", wish).await.expect(201)["stored"], false);
    let many: Vec<String> = (0..10_001_u32).map(|_| hash(b"")).collect();
    let many = json!({ "owner": "acme", "hashes": many });
    let answer = ada.post("/api/blobs/exists", many).await.status.as_u16();
    assert!(answer == 413 || answer == 422, "{answer}");
}

on_both! {
    /// C3
    an_address_is_good_for_one_upload_and_these_bytes
}

async fn an_address_is_good_for_one_upload_and_these_bytes(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let (bytes, others) = (noise(1, 100_000), noise(2, 100_000));
    let [one, two] = [reserve(&ada, &bytes).await, reserve(&ada, &others).await];
    let url = one["pieces"][0]["url"].as_str().unwrap();
    let id = |upload: &Value| upload["id"].as_i64().unwrap();
    for wrong in [&others[..], &bytes[1..], &[&bytes[..], b"!"].concat(), b""] {
        assert_eq!(put(&server, url, wrong).await, 422);
    }
    let complete = format!("/api/blobs/uploads/{}/complete", id(&one));
    ada.post(&complete, json!({})).await.expect(409);
    assert_eq!(get(&ada, &bytes, None).await.0, 404);
    let changed = [
        url.replace(&format!("/uploads/{}?", id(&one)), &format!("/uploads/{}?", id(&two))),
        url.replace("size=100000", "size=100001"),
        url.replace(&format!("org={}", place.org.0), &format!("org={}", place.org.0 + 1)),
        url.replace("org=", "job=1&org="),
        url.replace("&expires=", "&expires=9"),
        url[..url.len() - 1].to_owned(),
        format!("{url}0"),
    ];
    for changed in changed {
        assert_eq!(put(&server, &changed, &bytes).await, 404, "{changed}");
    }
    assert_eq!(put(&server, url, &bytes).await, 204);
    assert_eq!(get(&ada, &bytes, None).await.0, 404, "it was not looked at yet");
    ada.post(&complete, json!({})).await.expect(200);
    // It is over.
    assert_eq!(put(&server, url, &bytes).await, 404);
    ada.post(&complete, json!({})).await.expect(404);
    // Links are for reading, and for these bytes.
    let link = ada.get(&format!("/api/blobs/{}/link?owner=acme", hash(&bytes))).await.expect(200);
    let link = link["url"].as_str().unwrap();
    let read = async |url: &str| server.client.get(url).send().await.unwrap();
    let answer = read(link).await;
    assert_eq!(
        (answer.status().as_u16(), answer.bytes().await.unwrap().to_vec()),
        (200, bytes.clone())
    );
    assert_eq!(read(&link.replace(&hash(&bytes), &hash(&others))).await.status(), 404);
    assert_eq!(read(&link.replace("size=", "size=1")).await.status(), 404);
    let as_upload =
        link.replace(&format!("/signed/{}", hash(&bytes)), &format!("/uploads/{}", id(&two)));
    assert_eq!(put(&server, &as_upload, &others).await, 404);
}

on_both! {
    /// S24
    a_job_sends_and_reads_for_its_organization_while_it_runs
}

async fn a_job_sends_and_reads_for_its_organization_while_it_runs(server: Server) {
    let place = server.repository("acme", "app").await;
    server.repository("other", "app").await;
    let (_, key) = server.pool(Some(place.org), "builders").await;
    server.run(&place, "  build: {runs-on: linux, steps: [{run: 'true'}]}\n").await;
    let runner = Runner::new(&server, &key, "one", LINUX).await;
    let job = runner.claim("a", 20).await.unwrap();
    let post = async |token: &str, path: &str, body: Value| {
        let request = server.client.post(server.url(path)).bearer_auth(token).json(&body);
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let bytes = noise(3, 200_000);
    let wish = json!({ "hash": hash(&bytes), "size": bytes.len() });
    let (status, upload) = post(&job.token, "/api/blobs/uploads", wish.clone()).await;
    assert_eq!(status, 201, "{upload}");
    let url = upload["pieces"][0]["url"].as_str().unwrap();
    assert!(url.contains("job="), "{url}");
    assert_eq!(put(&server, url, &bytes).await, 204);
    let complete = format!("/api/blobs/uploads/{}/complete", upload["id"]);
    // People cannot finish what a job began.
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    ada.post(&complete, json!({})).await.expect(404);
    assert_eq!(post(&job.token, &complete, json!({})).await.0, 200);
    let own = json!({ "owner": "acme", "hashes": [hash(&bytes)] });
    assert_eq!(
        post(&job.token, "/api/blobs/exists", own).await.1["present"],
        json!([hash(&bytes)])
    );
    let foreign = json!({ "owner": "other", "hashes": [hash(&bytes)] });
    assert_eq!(post(&job.token, "/api/blobs/exists", foreign.clone()).await.0, 404);
    let url = server.url(&format!("/api/blobs/{}", hash(&bytes)));
    let read = server.client.get(&url).bearer_auth(&job.token).send().await.unwrap();
    assert_eq!(read.bytes().await.unwrap().to_vec(), bytes);
    // Tokens that steps see, and those of jobs that are over, are good for nothing here.
    let end = crate::runner::completion("success");
    let path = format!("/actions/jobs/{}/attempts/{}/complete", job.job_id, job.attempt);
    let (status, said) = post(&job.token, &path, serde_json::to_value(end).unwrap()).await;
    assert_eq!(status, 200, "{said}");
    assert_eq!(post(&job.token, "/api/blobs/uploads", wish).await.0, 401);
}
