//! Bytes in S3: they go straight there and come straight from there.

use kiln_blob::S3Options;
use kiln_server::config::Place as Bytes;
use kiln_store::directory::members::Role;
use kiln_testkit::database::Database;
use kiln_testkit::s3::{BUCKET, KEY, S3Server};
use serde_json::json;
use tempfile::TempDir;

use crate::api::people::{As, person};
use crate::blobs::{get, hash, noise, reserve};
use crate::support::{Options, Server};

async fn with_bucket() -> (Server, S3Server, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = S3Server::start(folder.path());
    let options = S3Options {
        endpoint: Some(store.endpoint()),
        key: Some((KEY.0.to_owned(), KEY.1.to_owned())),
        ..S3Options::new(BUCKET, "us-east-1")
    };
    let options = Options { bytes: Some(Bytes::S3(options)), ..Options::default() };
    (Server::with(Database::sqlite(), options).await, store, folder)
}

/// C3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_go_straight_to_the_bucket_in_parts_if_they_are_many() {
    let (server, store, _folder) = with_bucket().await;
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    for (size, pieces) in [(1_000, 1), (100_000, 1), (5 << 20, 1), (70 << 20, 2)] {
        let bytes = noise(size as u64, size);
        let upload = reserve(&ada, &bytes).await;
        let mut tags = Vec::new();
        let all = upload["pieces"].as_array().unwrap();
        assert_eq!(all.len(), pieces);
        for piece in all {
            let url = piece["url"].as_str().unwrap();
            assert!(url.starts_with(&store.endpoint()), "{url}");
            let at = |end: &str| usize::try_from(piece[end].as_u64().unwrap()).unwrap();
            let body = bytes[at("from")..at("to")].to_vec();
            let answer = server.client.put(url).body(body).send().await.unwrap();
            assert_eq!(answer.status(), 200);
            tags.push(answer.headers()["etag"].to_str().unwrap().to_owned());
        }
        assert_eq!(get(&ada, &bytes, None).await.0, 404, "it was not looked at yet");
        let path = format!("/api/blobs/uploads/{}/complete", upload["id"]);
        ada.post(&path, json!({ "tags": tags })).await.expect(200);
        assert!(get(&ada, &bytes, None).await == (200, bytes.clone()), "{size}");
        let (status, part) = get(&ada, &bytes, Some("bytes=10-19")).await;
        assert!(status == 206 && part == bytes[10..20], "{size}");
    }
}

/// C3: whoever still has the address of an upload cannot change what was looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_looked_at_cannot_be_replaced_and_wrong_bytes_are_refused() {
    let (server, _store, _folder) = with_bucket().await;
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let (right, wrong) = (noise(1, 100_000), noise(2, 100_000));
    let upload = reserve(&ada, &right).await;
    let url = upload["pieces"][0]["url"].as_str().unwrap();
    let send = async |bytes: &[u8]| {
        server.client.put(url).body(bytes.to_vec()).send().await.unwrap().status().as_u16()
    };
    let path = format!("/api/blobs/uploads/{}/complete", upload["id"]);
    assert_eq!(send(&wrong).await, 200);
    assert!(ada.post(&path, json!({})).await.problem(422).contains(&hash(&right)));
    assert_eq!(get(&ada, &right, None).await.0, 404);
    assert_eq!(send(&right).await, 200);
    ada.post(&path, json!({})).await.expect(200);
    assert_eq!(send(&wrong).await, 200, "S3 knows nothing of our rows");
    assert!(get(&ada, &right, None).await == (200, right));
}
