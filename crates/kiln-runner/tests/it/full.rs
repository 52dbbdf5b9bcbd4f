//! Artifacts of `kiln run` on a disk without room.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use kiln_core::value::Object;
use kiln_proto::content::NewArtifact;
use kiln_runner::gateway::local::{Artifacts, Caches, OnShelf, Shelf};
use kiln_runner::gateway::{Kind, Refusal, Services as _, Spooled, Stored};
use kiln_testkit::disk::{on_small_disk, with_small_disk};

/// What a job sends, on a disk with enough room.
fn spooled(elsewhere: &Path, byte: u8, size: usize) -> Spooled {
    let path = elsewhere.join("spooled");
    fs::write(&path, vec![byte; size]).unwrap();
    Spooled { path, size: size as u64, hash: "0".repeat(64) }
}

fn send(services: &OnShelf, bytes: &Spooled) -> Result<i64, Refusal> {
    let name = "dist".to_owned();
    let new = NewArtifact { name, overwrite: true, ..NewArtifact::default() };
    let id = services.reserve_artifact(&new)?;
    services.complete_artifact(id, &new, bytes)
}

/// All artifacts there are, each as one of the bytes that it is made of.
fn found(services: &OnShelf) -> Vec<u8> {
    let mut bytes = Vec::new();
    for artifact in services.artifacts().unwrap() {
        let (id, size) = (artifact.id, artifact.size);
        let stored = Stored { kind: Kind::Artifact, id, size, hash: artifact.hash.clone() };
        let mut content = Vec::new();
        services.open(&stored, 0).unwrap().read_to_end(&mut content).unwrap();
        assert_eq!(content.len() as u64, size);
        assert!(content.iter().all(|byte| *byte == content[0]), "half of one is of another");
        bytes.push(content[0]);
    }
    bytes
}

#[tokio::test]
#[ignore = "started by another test, where a small disk is mounted"]
async fn on_a_small_disk() {
    on_small_disk(async |small| overwritten(&small)).await;
}

fn overwritten(small: &Path) {
    let elsewhere = tempfile::tempdir().unwrap();
    let caches = Caches::new(elsewhere.path().join("caches"), "r".to_owned(), 1 << 20);
    let shelf = Shelf::new(Artifacts::new(small), caches);
    let services = OnShelf::new(Arc::new(shelf), &Object::default(), None);
    send(&services, &spooled(elsewhere.path(), b'1', 5 << 20)).unwrap();
    for _ in 0..3 {
        send(&services, &spooled(elsewhere.path(), b'2', 5 << 20)).unwrap_err();
        assert_eq!(found(&services), *b"1", "it is there until the new one is complete");
    }
    // Nothing of what failed takes room.
    send(&services, &spooled(elsewhere.path(), b'3', 2 << 20)).unwrap();
    assert_eq!(found(&services), *b"3");
    send(&services, &spooled(elsewhere.path(), b'4', 5 << 20)).unwrap();
    assert_eq!(found(&services), *b"4");
}

/// R9
#[test]
fn an_artifact_is_not_lost_to_one_for_which_there_is_no_room() {
    with_small_disk("full::on_a_small_disk");
}
