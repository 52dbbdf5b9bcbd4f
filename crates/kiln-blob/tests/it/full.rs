//! A disk without room.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use kiln_blob::{Backend as _, BlobError, Disk, of_bytes};

use crate::support::{content, name, noise, read};

const FOLDER: &str = "KILN_TEST_BLOB_FOLDER";

/// On a disk of 8 MiB.
#[tokio::test]
#[ignore = "started by another test, where a small disk is mounted"]
async fn on_a_small_disk() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).expect("the folder is named"));
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
    println!("all is as it should be");
}

#[test]
fn a_full_disk_is_said_to_be_full_and_works_again_when_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let exe = std::env::current_exe().unwrap();
    let script = "mount -t tmpfs -o size=8m tmpfs \"$1\" && exec \"$2\" --exact full::on_a_small_disk \
                  --ignored --nocapture";
    // A user namespace, for those who are not root.
    let done = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(exe)
        .env(FOLDER, folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("unshare is installed");
    let said = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("all is as it should be"), "{said}{errors}");
}
