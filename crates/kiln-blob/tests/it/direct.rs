//! Addresses of the store itself. (C3)

use std::time::Duration;

use kiln_blob::{Backend as _, Direct as _, S3, Span};
use kiln_testkit::s3::S3Server;
use reqwest::{Client, StatusCode};

use crate::support::{all, name, noise, options};

const LIFE: Duration = Duration::from_mins(1);

async fn put(url: &str, body: impl Into<reqwest::Body>) -> (StatusCode, Option<String>) {
    let answer = Client::new().put(url).body(body).send().await.unwrap();
    let tag = answer.headers().get("etag").and_then(|tag| tag.to_str().ok()).map(str::to_owned);
    (answer.status(), tag)
}

async fn get(url: &str) -> (StatusCode, Vec<u8>) {
    let answer = Client::new().get(url).send().await.unwrap();
    (answer.status(), answer.bytes().await.unwrap().to_vec())
}

#[tokio::test]
async fn an_address_is_good_for_one_object_and_one_thing() {
    let folder = tempfile::tempdir().unwrap();
    let server = S3Server::start(folder.path());
    let s3 = S3::open(options(server.port)).unwrap();
    let (one, two) = (name("uploads/one"), name("uploads/two"));
    let url = s3.put_url(&one, 5, LIFE).await.unwrap();
    assert_eq!(put(&url, "hello").await.0, StatusCode::OK);
    assert_eq!(put(&url, "hello!").await.0, StatusCode::FORBIDDEN);
    let elsewhere = url.replace("uploads/one", "uploads/two");
    assert_eq!(put(&elsewhere, "hello").await.0, StatusCode::FORBIDDEN);
    assert_eq!(get(&url).await.0, StatusCode::FORBIDDEN);
    assert_eq!(s3.size(&two).await.unwrap(), None);
    let read = s3.get_url(&one, LIFE).await.unwrap();
    assert_eq!(get(&read).await, (StatusCode::OK, b"hello".to_vec()));
    assert_eq!(put(&read, "evil!").await.0, StatusCode::FORBIDDEN);
    let (cut, _) = read.split_at(read.len() - 1);
    assert!(get(cut).await.0.is_client_error());
    let longer = read.replace("X-Amz-Expires=60", "X-Amz-Expires=600000");
    assert_eq!(get(&longer).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn parts_become_one_object() {
    let folder = tempfile::tempdir().unwrap();
    let server = S3Server::start(folder.path());
    let s3 = S3::open(options(server.port)).unwrap();
    let name = name("uploads/large");
    let parts = s3.begin_parts(&name).await.unwrap();
    let body = noise(1, 11 << 20);
    let mut tags = Vec::new();
    for (number, part) in (1..).zip(body.chunks(5 << 20)) {
        let url = s3.part_url(&name, &parts, number, LIFE).await.unwrap();
        let (status, tag) = put(&url, part.to_vec()).await;
        assert_eq!(status, StatusCode::OK);
        tags.push(tag.expect("a part has a tag"));
        let other = url.replace(&format!("partNumber={number}"), "partNumber=9");
        assert_eq!(put(&other, "x").await.0, StatusCode::FORBIDDEN);
    }
    assert_eq!(s3.size(&name).await.unwrap(), None);
    s3.finish_parts(&name, &parts, tags).await.unwrap();
    let found = s3.get(&name, Span::All).await.unwrap();
    assert!(all(found).await.unwrap() == body);
    let given_up = s3.begin_parts(&name).await.unwrap();
    s3.abort_parts(&name, &given_up).await.unwrap();
    assert_eq!(s3.size(&name).await.unwrap(), Some(11 << 20));
}
