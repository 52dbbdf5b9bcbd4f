//! A disk without room.

use kiln_blob::{Backend as _, BlobError, Disk, of_bytes};
use kiln_testkit::disk::{on_small_disk, with_small_disk};

use crate::support::{content, name, noise, read};

#[tokio::test]
#[ignore = "started by another test, where a small disk is mounted"]
async fn on_a_small_disk() {
    on_small_disk(async |folder| {
        let disk = Disk::open(folder.join("objects")).unwrap();
        let (first, second) = (name("blobs/first"), name("blobs/second"));
        let body = noise(1, 5 << 20);
        disk.put(&first, content(&body)).await.unwrap();
        for _ in 0..3 {
            let error = disk.put(&second, content(&noise(2, 5 << 20))).await.unwrap_err();
            assert!(matches!(error, BlobError::Full { .. }), "{error}");
            assert!(error.to_string().contains("no room is left in"), "{error}");
            assert_eq!(disk.size(&second).await.unwrap(), None);
        }
        // Nothing half-written takes the room that is left, and what was there is whole.
        disk.put(&name("blobs/small"), content(&noise(3, 2 << 20))).await.unwrap();
        assert!(read(&disk, &first).await.unwrap() == body);
        disk.delete(&first).await.unwrap();
        disk.put(&second, content(&body)).await.unwrap();
        assert!(read(&disk, &second).await.unwrap() == body);
        disk.put(&first, of_bytes("x")).await.unwrap();
    })
    .await;
}

#[test]
fn a_full_disk_is_said_to_be_full_and_works_again_when_it_is_not() {
    with_small_disk("full::on_a_small_disk");
}
