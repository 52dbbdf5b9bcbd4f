//! Logs on a disk: what is acknowledged, what survives, and that both forms read alike.

use std::fs::File;
use std::io::Write as _;

use kiln_core::id::JobId;
use kiln_proto::log::Line;

use super::*;
use crate::logs::LogError;

fn log(claim: u32) -> LogId {
    LogId { job: JobId::of(RunId(3), 0), claim }
}

async fn put(logs: &FileLogs, from: u64, text: &'static str) -> Result<u64, Option<u64>> {
    let answer = logs.append(log(1), from, Bytes::from_static(text.as_bytes())).await;
    answer.map_err(|error| match error {
        LogError::Gap { wanted } => Some(wanted),
        LogError::Closed | LogError::Storage(_) => None,
    })
}

async fn all(logs: &FileLogs) -> String {
    let bytes = logs.read(log(1), 0, 1 << 20).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn what_is_there_is_skipped_and_gaps_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let logs = FileLogs::new(folder.path().join("logs"), 1 << 20);
    assert_eq!(logs.length(log(1)).await.unwrap(), 0);
    assert_eq!(put(&logs, 1, "x").await, Err(Some(0)));
    assert_eq!(put(&logs, 0, "hello ").await, Ok(6));
    assert_eq!(put(&logs, 0, "hello ").await, Ok(6));
    assert_eq!(put(&logs, 3, "lo world").await, Ok(11));
    assert_eq!(put(&logs, 2, "llo").await, Ok(11));
    assert_eq!(put(&logs, 12, "!").await, Err(Some(11)));
    assert_eq!(put(&logs, 11, "").await, Ok(11));
    assert_eq!(all(&logs).await, "hello world");
    // Another process finds it as it is.
    let again = FileLogs::new(folder.path().join("logs"), 1 << 20);
    assert_eq!(put(&again, 11, "!").await, Ok(12));
    assert_eq!(again.length(log(1)).await.unwrap(), 12);
    assert_eq!(again.length(log(2)).await.unwrap(), 0);
    assert_eq!(&*again.read(log(1), 6, 3).await.unwrap(), b"wor");
    assert!(again.read(log(1), 12, 3).await.unwrap().is_empty());
    assert!(again.read(log(1), 99, 3).await.unwrap().is_empty());
    again.forget(RunId(3)).await.unwrap();
    again.forget(RunId(3)).await.unwrap();
    assert_eq!(again.length(log(1)).await.unwrap(), 0);
    assert_eq!(put(&again, 0, "new").await, Ok(3));
}

/// W3
#[tokio::test]
async fn those_who_watch_read_from_memory_what_was_just_written() {
    let folder = tempfile::tempdir().unwrap();
    let logs = FileLogs::new(folder.path(), 1 << 20);
    assert_eq!(put(&logs, 0, "one\n").await, Ok(4));
    let eyes = logs.follow(log(1));
    assert_eq!(put(&logs, 4, "two\n").await, Ok(8));
    assert_eq!(put(&logs, 8, "three\n").await, Ok(14));
    let path = folder.path().join("live").join(format!("{}.log", log(1).name()));
    // Another server adds to the file, and then this one does.
    File::options().append(true).open(&path).unwrap().write_all(b"x\n").unwrap();
    assert_eq!(
        &*logs.read(log(1), 4, 99).await.unwrap(),
        b"two\nthree\n",
        "as far as it is at hand"
    );
    assert_eq!(&*logs.read(log(1), 14, 99).await.unwrap(), b"x\n", "the rest is in the file");
    assert_eq!(put(&logs, 16, "four\n").await, Ok(21));
    assert_eq!(all(&logs).await, "one\ntwo\nthree\nx\nfour\n");
    let hidden = path.with_extension("hidden");
    fs::rename(&path, &hidden).unwrap();
    assert_eq!(&*logs.read(log(1), 16, 3).await.unwrap(), b"fou", "without the file");
    assert!(logs.read(log(1), 4, 9).await.unwrap().is_empty());
    fs::rename(&hidden, &path).unwrap();
    drop(eyes);
    assert_eq!(put(&logs, 21, "five\n").await, Ok(26));
    assert_eq!(&*logs.read(log(1), 16, 99).await.unwrap(), b"four\nfive\n");
}

#[tokio::test]
async fn a_log_of_an_earlier_version_is_found_and_archived() {
    let folder = tempfile::tempdir().unwrap();
    let before = folder.path().join("3");
    fs::create_dir(&before).unwrap();
    for claim in 1..=3 {
        fs::write(before.join(format!("{}.log", log(claim).name())), "1 0 hello\n").unwrap();
    }
    let logs = FileLogs::new(folder.path(), 1 << 20);
    assert_eq!(all(&logs).await, "1 0 hello\n");
    assert_eq!(logs.length(log(2)).await.unwrap(), 10);
    assert_eq!(logs.index(log(3)).await.unwrap().length, 10);
    assert_eq!(logs.length(log(4)).await.unwrap(), 0);
    assert!(logs.archive(log(1)).await.unwrap());
    assert_eq!(all(&logs).await, "1 0 hello\n");
    let left: Vec<_> =
        fs::read_dir(before).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// S13
#[tokio::test]
async fn a_log_that_is_too_long_is_cut_and_says_so_and_the_job_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let logs = FileLogs::new(folder.path(), 10);
    assert_eq!(put(&logs, 0, "12345678").await, Ok(8));
    assert_eq!(put(&logs, 8, "90").await, Ok(10));
    assert_eq!(put(&logs, 8, "90ab").await, Ok(12));
    let text = all(&logs).await;
    assert!(
        text.starts_with("1234567890\n") && text.ends_with(" 0 [... log truncated at 10 bytes]\n"),
        "{text}"
    );
    // Whatever comes now is acknowledged, and not kept, also after a restart.
    let again = FileLogs::new(folder.path(), 10);
    assert_eq!(put(&again, 12, "cdef").await, Ok(16));
    assert_eq!(put(&again, 1_000, "").await, Ok(1_000));
    assert_eq!(all(&again).await, text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_at_the_same_time_leave_each_byte_once() {
    let folder = tempfile::tempdir().unwrap();
    let logs = FileLogs::new(folder.path(), 1 << 20);
    let text = "0123456789".repeat(100);
    let writers = (0..8).map(|_| {
        let (logs, text) = (logs.clone(), Bytes::from(text.clone()));
        tokio::spawn(async move {
            let mut at = 0;
            while at < 1_000 {
                let end = (at + 7).min(1_000);
                let from = u64::try_from(at).unwrap();
                let length = logs.append(log(1), from, text.slice(at..end)).await.unwrap();
                at = usize::try_from(length).unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_eq!(all(&logs).await, text);
}

#[tokio::test]
async fn a_log_is_for_the_servers_user_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let logs = FileLogs::new(folder.path().join("logs"), 100);
    put(&logs, 0, "x").await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let path = logs.0.growing(log(1));
    let modes = path.ancestors().take(3).map(mode).collect::<Vec<_>>();
    assert_eq!(modes, [0o600, 0o700, 0o700]);
}

#[tokio::test]
async fn who_follows_hears_of_every_write() {
    let folder = tempfile::tempdir().unwrap();
    let logs = FileLogs::new(folder.path(), 1 << 20);
    let mut follower = logs.follow(log(1));
    put(&logs, 0, "one").await.unwrap();
    follower.changed().await.unwrap();
    assert_eq!(*follower.borrow_and_update(), 3);
    put(&logs, 0, "one").await.unwrap();
    assert!(!follower.has_changed().unwrap());
}

#[test]
fn files_that_rest_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    let logs = FileLogs::new(folder.path(), 1 << 20);
    let follower = logs.follow(log(0));
    for claim in 1..600 {
        drop(logs.follow(log(claim)));
        assert!(locked(&logs.0.logs).len() <= KEPT_OPEN + 1);
    }
    assert!(locked(&logs.0.logs).contains_key(&log(0)));
    drop(follower);
}

#[tokio::test]
async fn a_disk_that_takes_nothing_is_an_error_and_not_an_acknowledgement() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("logs");
    fs::write(&file, "not a folder").unwrap();
    let logs = FileLogs::new(&file, 1 << 20);
    assert_eq!(put(&logs, 0, "x").await, Err(None));
}

/// Lines of all kinds, also such as nobody should print.
fn sample(count: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..count {
        let text: Vec<u8> = match number % 7 {
            0 => b"nul \0 and \xff\xfe".to_vec(),
            1 => b"10%\r20%\r\x1b[31mred\x1b[0m".to_vec(),
            2 => vec![b'y'; usize::try_from(number % 4_000).unwrap()],
            _ => format!("line {number}").into_bytes(),
        };
        Line { at: 1_000 + u64::from(number), step: number / 1_000, text: &text }.write(&mut bytes);
    }
    bytes
}

/// All bytes, as somebody reads them who takes what comes.
async fn bytes_of(logs: &FileLogs, id: LogId, piece: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let more = logs.read(id, bytes.len() as u64, piece).await.unwrap();
        if more.is_empty() {
            return bytes;
        }
        bytes.extend_from_slice(&more);
    }
}

/// C8
#[tokio::test]
async fn an_archived_log_reads_like_the_one_that_grew() {
    let folder = tempfile::tempdir().unwrap();
    let logs = FileLogs::new(folder.path(), 1 << 30);
    let mut raw = sample(20_000);
    raw.extend_from_slice(b"99999 3 half a li");
    let mut at = 0;
    while at < raw.len() {
        let end = (at + 77_777).min(raw.len());
        logs.append(log(1), at as u64, Bytes::copy_from_slice(&raw[at..end])).await.unwrap();
        at = end;
    }
    let before = logs.index(log(1)).await.unwrap();
    assert_eq!(bytes_of(&logs, log(1), 100_000).await, raw);
    assert!(logs.archive(log(1)).await.unwrap());
    assert!(!logs.archive(log(1)).await.unwrap(), "there is nothing left to do");
    assert!(
        !logs.0.growing(log(1)).exists() && !logs.0.growing(log(1)).with_extension("idx").exists()
    );
    assert!(fs::metadata(logs.0.object(log(1))).unwrap().len() * 4 < raw.len() as u64);
    let after = logs.index(log(1)).await.unwrap();
    assert_eq!(after.length, before.length);
    assert_eq!(after.lines(), before.lines() + 1, "the half line is one now");
    let closed = before.blocks.len() - 1;
    assert_eq!(after.blocks[..closed], before.blocks[..closed]);
    for piece in [1 << 20, 50_001] {
        assert_eq!(bytes_of(&logs, log(1), piece).await, raw);
    }
    for from in (0..raw.len()).step_by(99_991) {
        let part = logs.read(log(1), from as u64, 10).await.unwrap();
        assert_eq!(part, raw[from..from + part.len()], "{from}");
    }
    // Repeating is fine, adding is not, here and on a server that had it open.
    assert_eq!(logs.append(log(1), 0, Bytes::from(raw.clone())).await.unwrap(), raw.len() as u64);
    let more = logs.append(log(1), raw.len() as u64, Bytes::from_static(b"x")).await;
    assert!(matches!(more, Err(LogError::Closed)), "{more:?}");
    assert_eq!(logs.length(log(1)).await.unwrap(), raw.len() as u64);
    logs.forget(RunId(3)).await.unwrap();
    assert_eq!(logs.length(log(1)).await.unwrap(), 0);
    assert_eq!(logs.index(log(1)).await.unwrap().lines(), 0);
}

#[tokio::test]
async fn two_servers_share_a_folder_and_each_byte_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let servers = [0, 1].map(|_| FileLogs::new(folder.path(), 1 << 30));
    let raw = Bytes::from(sample(12_000));
    let mut at = 0;
    for turn in 0.. {
        let end = (at + 60_000).min(raw.len());
        let (one, two) = (&servers[turn % 2], &servers[(turn + 1) % 2]);
        let put = |server: &FileLogs| {
            let (server, piece) = (server.clone(), raw.slice(at..end));
            async move { server.append(log(1), at as u64, piece).await }
        };
        // A request that was believed to be lost arrives after all.
        let (first, second) = tokio::join!(put(one), put(two));
        assert_eq!((first.unwrap(), second.unwrap()), (end as u64, end as u64));
        at = end;
        if at == raw.len() {
            break;
        }
    }
    assert_eq!(bytes_of(&servers[0], log(1), 1 << 20).await, raw);
    let mut builder = crate::logs::index::Builder::default();
    builder.add(&raw);
    assert_eq!(*servers[1].index(log(1)).await.unwrap(), builder.finish(false));
    let (one, two) = tokio::join!(servers[0].archive(log(1)), servers[1].archive(log(1)));
    assert!(one.unwrap() || two.unwrap());
    assert_eq!(bytes_of(&servers[0], log(1), 1 << 20).await, raw);
    let again = servers[1].append(log(1), 0, raw.slice(..10)).await;
    assert_eq!(again.unwrap(), raw.len() as u64);
}

/// C11
#[tokio::test]
async fn whatever_a_crash_leaves_the_log_goes_on_where_it_was_whole() {
    let folder = tempfile::tempdir().unwrap();
    let logs = FileLogs::new(folder.path(), 1 << 30);
    let raw = Bytes::from(sample(12_000));
    let half = raw.len() / 2;
    logs.append(log(1), 0, raw.slice(..half)).await.unwrap();
    let (file, side) = (logs.0.growing(log(1)), logs.0.growing(log(1)).with_extension("idx"));
    let cut = |length: usize| {
        let file = File::options().write(true).open(&file).unwrap();
        file.set_len(length as u64).unwrap();
    };
    let damages: [(&str, &dyn Fn()); 5] = [
        ("half of what came last", &|| cut(half - 3)),
        ("zeros at the end", &|| {
            cut(half - 100);
            cut(half + 5_000);
        }),
        ("no index", &|| {
            cut(half - 7);
            fs::remove_file(&side).unwrap();
        }),
        ("a torn index", &|| {
            cut(half - 7);
            File::options().write(true).open(&side).unwrap().set_len(70).unwrap();
        }),
        ("an index of something else", &|| fs::write(&side, vec![7; 6_000]).unwrap()),
    ];
    for (what, damage) in damages {
        damage();
        // A new process, and a runner that does what it is told.
        let logs = FileLogs::new(folder.path(), 1 << 30);
        let read_only = logs.index(log(1)).await.unwrap();
        assert!(read_only.length > 0, "{what}");
        let known = match logs.append(log(1), half as u64, Bytes::new()).await {
            Ok(length) => length,
            Err(LogError::Gap { wanted }) => wanted,
            Err(error) => panic!("{what}: {error}"),
        };
        assert!(known <= half as u64, "{what}");
        let from = usize::try_from(known).unwrap();
        logs.append(log(1), known, raw.slice(from..half)).await.unwrap();
        assert_eq!(bytes_of(&logs, log(1), 1 << 20).await, raw[..half], "{what}");
        let mut builder = crate::logs::index::Builder::default();
        builder.add(&raw[..half]);
        assert_eq!(*logs.index(log(1)).await.unwrap(), builder.finish(false), "{what}");
    }
}

/// C11
#[tokio::test]
async fn an_archive_that_was_cut_off_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let logs = FileLogs::new(folder.path(), 1 << 30);
    let raw = Bytes::from(sample(5_000));
    logs.append(log(1), 0, raw.clone()).await.unwrap();
    // It died while it wrote.
    let object = logs.0.object(log(1));
    fs::create_dir_all(object.parent().unwrap()).unwrap();
    fs::write(object.with_extension("zst.new"), b"half").unwrap();
    assert_eq!(bytes_of(&logs, log(1), 1 << 20).await, raw);
    assert!(logs.archive(log(1)).await.unwrap());
    assert!(!object.with_extension("zst.new").exists());
    // It died before it removed the file.
    fs::write(logs.0.growing(log(1)), &raw).unwrap();
    let packed = fs::read(&object).unwrap();
    assert!(logs.archive(log(1)).await.unwrap());
    assert_eq!(fs::read(&object).unwrap(), packed);
    assert!(!logs.0.growing(log(1)).exists());
    assert_eq!(bytes_of(&logs, log(1), 1 << 20).await, raw);
    // What is damaged says so.
    fs::write(&object, &packed[..packed.len() - 1]).unwrap();
    let error = FileLogs::new(folder.path(), 1 << 30).read(log(1), 0, 10).await.unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error}");
}

/// H3
#[tokio::test]
async fn logs_that_grow_are_listed_and_forgotten_with_their_run() {
    let folder = tempfile::tempdir().unwrap();
    let logs = FileLogs::new(folder.path(), 1 << 20);
    let other = LogId { job: JobId::of(RunId(4), 0), claim: 1 };
    for id in [log(1), log(2), other] {
        logs.append(id, 0, Bytes::from_static(b"1 0 x\n")).await.unwrap();
    }
    let soon = crate::clock::now() + std::time::Duration::from_mins(1);
    let all = logs.growing(None, soon, 10).await.unwrap();
    assert_eq!(all, [log(1), log(2), other]);
    assert_eq!(logs.growing(Some(log(1)), soon, 1).await.unwrap(), [log(2)]);
    assert_eq!(logs.growing(None, Timestamp(1), 10).await.unwrap(), []);
    logs.archive(log(1)).await.unwrap();
    let runs = logs.runs(RunId(0), soon, 10).await.unwrap();
    assert_eq!(runs.iter().map(|(run, _)| *run).collect::<Vec<_>>(), [RunId(3)]);
    logs.forget(RunId(3)).await.unwrap();
    assert_eq!(logs.growing(None, soon, 10).await.unwrap(), [other]);
    assert_eq!(logs.runs(RunId(0), soon, 10).await.unwrap(), []);
}
