//! Archives are cut into chunks after they were sent. (C7)

use kiln_core::id::BlobId;
use kiln_server::service::garbage::Trouble;
use kiln_server::service::packing;
use kiln_store::directory::members::Role;
use reqwest::Method;

use crate::api::people::{As, person};
use crate::blobs::{get, noise, send};
use crate::garbage::{object, stored};
use crate::support::Server;

/// Cuts all that is not cut yet; says how many that were.
pub(crate) async fn pack_all(server: &Server) -> usize {
    let (mut after, mut packed) = (BlobId(0), 0);
    while let Some(whole) = packing::next(&server.app, after).await.unwrap() {
        after = whole.id;
        packed += usize::from(packing::pack(&server.app, whole).await.unwrap());
    }
    packed
}

async fn bytes_kept(server: &Server, folders: &[&str]) -> u64 {
    let names = stored(server).await;
    let mut sum = 0;
    for name in names.iter().filter(|name| folders.contains(&name.split('/').next().unwrap())) {
        let name = kiln_blob::Name::new(name.as_str()).unwrap();
        sum += server.app.storage.backend().size(&name).await.unwrap().unwrap_or_default();
    }
    sum
}

on_both! {
    /// C7
    what_two_archives_have_in_common_is_kept_once
}

async fn what_two_archives_have_in_common_is_kept_once(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let first = noise(1, 12 << 20);
    let second = [&first[..6 << 20], b"something else", &first[6 << 20..]].concat();
    for bytes in [&first, &second] {
        send(&server, &ada, bytes).await;
        object(&server, place.org, bytes).await.unwrap();
        assert!(get(&ada, bytes, None).await == (200, bytes.clone()));
    }
    assert_eq!(pack_all(&server).await, 2);
    assert_eq!(pack_all(&server).await, 0);
    let packed = bytes_kept(&server, &["packs", "recipes"]).await;
    assert!(packed < (12 << 20) * 105 / 100, "{packed} bytes for both");
    for bytes in [&first, &second] {
        assert!(get(&ada, bytes, None).await == (200, bytes.clone()));
        let (status, part) = get(&ada, bytes, Some("bytes=6291450-6291480")).await;
        assert!(status == 206 && part == bytes[6_291_450..6_291_481]);
    }
    // What was sent goes with the next round of the collector.
    let mut round = kiln_server::service::garbage::Round::default();
    while !round.is_over() {
        round.go_on(&server.app).await.unwrap();
    }
    assert_eq!(bytes_kept(&server, &["large", "uploads"]).await, 0);
    assert!(get(&ada, &second, None).await == (200, second.clone()));
}

on_both! {
    /// C7: an answer that is under way goes on while the archive is cut and what was sent is removed.
    a_reader_does_not_notice
}

async fn a_reader_does_not_notice(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let bytes = noise(2, 24 << 20);
    send(&server, &ada, &bytes).await;
    let path = format!("/api/blobs/{}?owner=acme", crate::blobs::hash(&bytes));
    let mut answer = ada.request(Method::GET, &path).send().await.unwrap();
    let mut found = answer.chunk().await.unwrap().unwrap().to_vec();
    assert_eq!(pack_all(&server).await, 1);
    for name in stored(&server).await.iter().filter(|name| name.starts_with("large/")) {
        let name = kiln_blob::Name::new(name.as_str()).unwrap();
        server.app.storage.backend().delete(&name).await.unwrap();
    }
    while let Some(piece) = answer.chunk().await.unwrap() {
        found.extend_from_slice(&piece);
    }
    assert!(found == bytes);
    assert!(get(&ada, &bytes, None).await == (200, bytes.clone()));
}

on_both! {
    /// C1: a disk that lost bits is found out before the only copy is given up.
    a_damaged_archive_is_left_alone_and_named
}

async fn a_damaged_archive_is_left_alone_and_named(server: Server) {
    let place = server.repository("acme", "app").await;
    let ada = person(&server, "ada", As::member(place.org, Role::Developer)).await;
    let mut bytes = noise(3, 5 << 20);
    send(&server, &ada, &bytes).await;
    bytes[1000] ^= 1;
    let before = stored(&server).await;
    let name = kiln_blob::Name::new(before[0].as_str()).unwrap();
    let damaged = kiln_blob::of_bytes(bytes);
    server.app.storage.backend().put(&name, damaged).await.unwrap();
    let whole = packing::next(&server.app, BlobId(0)).await.unwrap().unwrap();
    match packing::pack(&server.app, whole).await {
        Err(Trouble::Bytes(error)) => assert!(error.to_string().contains("SHA-256"), "{error}"),
        other => panic!("{other:?}"),
    }
    assert!(packing::next(&server.app, BlobId(0)).await.unwrap().is_some());
    assert!(stored(&server).await.contains(&before[0]));
}
