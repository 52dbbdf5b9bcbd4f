//! Logs as objects: the same promises as on a disk, for two servers.

use kiln_core::id::JobId;
use kiln_proto::log::Line;

use super::*;
use crate::logs::Logs as _;

fn log(claim: u32) -> LogId {
    LogId { job: JobId::of(RunId(3), 0), claim }
}

/// A server on the store of bytes that this folder is.
fn shelf(path: &std::path::Path, limit: u64) -> ObjectLogs {
    let backend = kiln_blob::Disk::open(path).unwrap();
    ObjectLogs::new(Arc::new(backend), limit)
}

fn sample(lines: u32) -> Bytes {
    let mut bytes = Vec::new();
    for number in 0..lines {
        let text = format!("line {number} of a log as objects");
        Line { at: number.into(), step: number / 1_000, text: text.as_bytes() }.write(&mut bytes);
    }
    bytes.into()
}

async fn bytes_of(logs: &ObjectLogs, id: LogId) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let more = logs.read(id, bytes.len() as u64, 100_000).await.unwrap();
        if more.is_empty() {
            return bytes;
        }
        bytes.extend_from_slice(&more);
    }
}

fn index_of(bytes: &[u8], over: bool) -> Index {
    let mut builder = Builder::default();
    builder.add(bytes);
    builder.finish(over)
}

/// C8 C11 H2
#[tokio::test]
async fn two_servers_share_a_log_from_its_first_byte_to_its_archive() {
    let folder = tempfile::tempdir().unwrap();
    let servers = [0, 1].map(|_| shelf(folder.path(), 1 << 30));
    let raw = sample(30_000);
    assert_eq!(servers[0].length(log(1)).await.unwrap(), 0);
    let early = servers[0].append(log(1), 5, Bytes::from_static(b"x")).await;
    assert!(matches!(early, Err(LogError::Gap { wanted: 0 })), "{early:?}");
    let mut at = 0;
    for turn in 0.. {
        let end = (at + 90_001).min(raw.len());
        let put = async |server: &ObjectLogs, end: usize| {
            server.append(log(1), at as u64, raw.slice(at..end)).await
        };
        let (one, two) = (&servers[turn % 2], &servers[(turn + 1) % 2]);
        // A request that was believed to be lost, with less in it, arrives after all.
        assert_eq!(put(one, end).await.unwrap(), end as u64);
        assert!(put(two, (at + 50).min(end)).await.unwrap() <= end as u64);
        at = end;
        if at == raw.len() {
            break;
        }
    }
    for archived in [false, true] {
        assert_eq!(archived, archived && servers[0].archive(log(1)).await.unwrap());
        for server in &servers {
            assert!(bytes_of(server, log(1)).await == raw, "{archived}");
            assert_eq!(
                *server.index(log(1)).await.unwrap(),
                index_of(&raw, archived),
                "{archived}"
            );
            assert_eq!(server.length(log(1)).await.unwrap(), raw.len() as u64);
        }
    }
    assert!(!servers[1].archive(log(1)).await.unwrap());
    for server in servers.iter().chain([&shelf(folder.path(), 1 << 30)]) {
        let again = server.append(log(1), 0, raw.slice(..99)).await;
        assert_eq!(again.unwrap(), raw.len() as u64);
        let more = server.append(log(1), raw.len() as u64, Bytes::from_static(b"x")).await;
        assert!(matches!(more, Err(LogError::Closed)), "{more:?}");
    }
}

/// S13
#[tokio::test]
async fn a_log_that_is_too_long_is_cut_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let logs = shelf(folder.path(), 10);
    let put = async |from, text: &'static str| {
        logs.append(log(1), from, Bytes::from_static(text.as_bytes())).await.unwrap()
    };
    assert_eq!(put(0, "12345678").await, 8);
    assert_eq!(put(8, "90ab").await, 12);
    assert_eq!(put(12, "more").await, 16);
    let text = String::from_utf8(bytes_of(&logs, log(1)).await).unwrap();
    assert!(
        text.starts_with("1234567890\n") && text.ends_with("[... log truncated at 10 bytes]\n")
    );
    let again = shelf(folder.path(), 10);
    assert_eq!(again.append(log(1), 16, Bytes::from_static(b"x")).await.unwrap(), 17);
}

/// C11 H3
#[tokio::test]
async fn what_a_crash_left_is_finished_and_all_of_it_goes_with_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let logs = shelf(folder.path(), 1 << 30);
    let raw = sample(2_000);
    logs.append(log(1), 0, raw.clone()).await.unwrap();
    logs.append(log(2), 0, raw.slice(..100)).await.unwrap();
    let soon = crate::clock::now() + std::time::Duration::from_mins(1);
    assert_eq!(logs.growing(None, soon, 10).await.unwrap(), [log(1), log(2)]);
    assert_eq!(logs.growing(Some(log(1)), soon, 10).await.unwrap(), [log(2)]);
    assert_eq!(logs.growing(None, Timestamp(1), 10).await.unwrap(), []);
    // The archive was there, but not all pieces were gone.
    let piece = chunks::name(&log(1).folder(), 0, raw.len() as u64);
    assert!(logs.archive(log(1)).await.unwrap());
    logs.0.objects.put(&piece, raw.clone()).await.unwrap();
    assert!(shelf(folder.path(), 1 << 30).archive(log(1)).await.unwrap());
    assert!(bytes_of(&logs, log(1)).await == raw);
    assert_eq!(logs.growing(None, soon, 10).await.unwrap(), [log(2)]);
    assert_eq!(logs.runs(RunId(0), soon, 10).await.unwrap(), [RunId(3)]);
    assert_eq!(logs.runs(RunId(3), soon, 10).await.unwrap(), []);
    logs.forget(RunId(3)).await.unwrap();
    assert_eq!(logs.growing(None, soon, 10).await.unwrap(), []);
    assert_eq!(logs.length(log(1)).await.unwrap(), 0);
    assert_eq!(logs.runs(RunId(0), soon, 10).await.unwrap(), []);
}
