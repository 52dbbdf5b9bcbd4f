//! Writers that are killed in the middle.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use kiln_blob::{Backend as _, Digest, Disk, Name, Verified};

use crate::support::{again, content, name, noise, read};

const FOLDER: &str = "KILN_TEST_BLOB_FOLDER";

/// Writes objects until it is killed; says the name of each that was acknowledged.
#[tokio::test]
#[ignore = "started and killed by another test"]
async fn writes_until_it_is_killed() {
    let folder = std::env::var_os(FOLDER).expect("the folder is named");
    let disk = Disk::open(folder).unwrap();
    let writers = (0..4_usize).map(|writer| {
        let disk = disk.clone();
        async move {
            for turn in 0..1_000_000_usize {
                let unique = u64::try_from(writer * 1_000_000 + turn).unwrap();
                let body = noise(unique, 200_000 + 7_777 * (turn % 100));
                let name = Name::of_blob("blobs", Digest::of(&body));
                disk.put(&name, content(&body)).await.unwrap();
                println!("kept {name}");
            }
        }
    });
    futures_util::future::join_all(writers).await;
}

#[tokio::test]
async fn a_writer_that_is_killed_leaves_nothing_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut drafts = 0;
    for round in 0..6 {
        let mut child = again("crash::writes_until_it_is_killed")
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut kept = Vec::new();
        while kept.len() < 5 + round * 7 {
            let line = lines.next().expect("the writer writes").unwrap();
            kept.extend(line.split_once("kept ").map(|(_, text)| name(text)));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kept.extend(lines.map_while(Result::ok).filter_map(|line| {
            line.split_once("kept ").and_then(|(_, text)| Name::new(text).ok())
        }));
        let disk = Verified(Disk::open(folder.path()).unwrap());
        // All that was acknowledged is there, and all that is there is whole.
        let there = disk.exist(&kept).await.unwrap();
        assert!(there.iter().all(|there| *there), "{kept:?}");
        let mut after = None;
        while let Some(entry) = disk.list(&name("blobs"), after.as_ref(), 1).await.unwrap().pop() {
            read(&disk, &entry.name).await.unwrap();
            after = Some(entry.name);
        }
        assert_eq!(disk.sweep(SystemTime::UNIX_EPOCH).await.unwrap(), 0);
        drafts += disk.sweep(SystemTime::now() + Duration::from_mins(1)).await.unwrap();
        let left = std::fs::read_dir(folder.path().join(".drafts")).unwrap().count();
        assert_eq!(left, 0);
    }
    assert!(drafts > 0, "no writer was killed in the middle");
}
