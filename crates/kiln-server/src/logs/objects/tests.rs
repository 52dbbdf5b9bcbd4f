//! Logs as objects: the same promises as on a disk, for two servers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kiln_blob::{Content, Entry, Found, Name, Span, Work};
use kiln_core::id::JobId;
use kiln_core::time::Timestamp;
use kiln_proto::log::Line;

use super::*;
use crate::logs::index::Index;
use crate::logs::{Future, Logs as _};

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
    let soon = crate::clock::now() + Duration::from_mins(1);
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
    let runs = logs.runs(RunId(0), soon, 10).await.unwrap();
    assert_eq!(runs.iter().map(|(run, _)| *run).collect::<Vec<_>>(), [RunId(3)]);
    let held = logs.sizes().await.unwrap();
    assert_eq!((held.len(), held[0].run, held[0].logs), (1, RunId(3), 2));
    assert!(held[0].bytes > 100 && held[0].bytes < raw.len() as u64, "one is compressed");
    assert_eq!(logs.runs(RunId(3), soon, 10).await.unwrap(), []);
    logs.forget(RunId(3)).await.unwrap();
    assert_eq!(logs.growing(None, soon, 10).await.unwrap(), []);
    assert_eq!(logs.length(log(1)).await.unwrap(), 0);
    assert_eq!(logs.runs(RunId(0), soon, 10).await.unwrap(), []);
}

/// H3: whoever removes logs finds what others wrote a moment ago, and others see that it is gone.
#[tokio::test]
async fn what_one_server_removes_is_gone_for_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = [0, 1].map(|_| shelf(folder.path(), 1 << 30));
    let soon = crate::clock::now() + Duration::from_mins(1);
    assert_eq!(other.growing(None, soon, 10).await.unwrap(), []);
    let near = LogId { job: JobId::of(RunId(4), 0), claim: 1 };
    for id in [log(1), log(2), near] {
        one.append(id, 0, sample(100)).await.unwrap();
    }
    assert!(one.archive(log(2)).await.unwrap());
    other.forget(RunId(3)).await.unwrap();
    let fresh = shelf(folder.path(), 1 << 30);
    assert_eq!(fresh.growing(None, soon, 10).await.unwrap(), [near]);
    assert_eq!(fresh.runs(RunId(0), soon, 10).await.unwrap(), []);
    // What was archived was seen here, and is removed there.
    assert!(one.archive(near).await.unwrap());
    assert!(bytes_of(&other, near).await == sample(100));
    one.forget(RunId(4)).await.unwrap();
    assert!(bytes_of(&other, near).await.is_empty());
    assert_eq!(other.length(near).await.unwrap(), 0);
    assert_eq!(*other.index(near).await.unwrap(), index_of(b"", false));
    // The same of one whose pieces were read for their lines.
    one.append(log(3), 0, sample(100)).await.unwrap();
    assert_eq!(*other.index(log(3)).await.unwrap(), index_of(&sample(100), false));
    one.forget(RunId(3)).await.unwrap();
    assert_eq!(*other.index(log(3)).await.unwrap(), index_of(b"", false));
}

/// The store as a test sees it: what it is asked is counted, and waits while the gate is shut.
#[derive(Debug)]
struct Gate {
    disk: kiln_blob::Disk,
    open: watch::Sender<bool>,
    /// How often it was asked for names and for bytes, and how many names it gave out.
    lists: AtomicUsize,
    gets: AtomicUsize,
    names: AtomicUsize,
}

impl Gate {
    fn at(path: &std::path::Path) -> Arc<Self> {
        let disk = kiln_blob::Disk::open(path).unwrap();
        let zero = AtomicUsize::default;
        let (open, _) = watch::channel(true);
        Arc::new(Self { disk, open, lists: zero(), gets: zero(), names: zero() })
    }

    async fn pass(&self, counter: &AtomicUsize) {
        counter.fetch_add(1, Ordering::SeqCst);
        self.open.subscribe().wait_for(|open| *open).await.unwrap();
    }

    /// Lists, bytes and names since the last time.
    fn asked(&self) -> (usize, usize, usize) {
        let take = |counter: &AtomicUsize| counter.swap(0, Ordering::SeqCst);
        (take(&self.lists), take(&self.gets), take(&self.names))
    }
}

impl Backend for Gate {
    fn put<'a>(&'a self, name: &'a Name, content: Content) -> Work<'a, u64> {
        self.disk.put(name, content)
    }

    fn get<'a>(&'a self, name: &'a Name, span: Span) -> Work<'a, Found> {
        Box::pin(async move {
            self.pass(&self.gets).await;
            self.disk.get(name, span).await
        })
    }

    fn size<'a>(&'a self, name: &'a Name) -> Work<'a, Option<u64>> {
        self.disk.size(name)
    }

    fn delete<'a>(&'a self, name: &'a Name) -> Work<'a, ()> {
        self.disk.delete(name)
    }

    fn list<'a>(
        &'a self,
        folder: &'a Name,
        after: Option<&'a Name>,
        most: usize,
    ) -> Work<'a, Vec<Entry>> {
        Box::pin(async move {
            self.pass(&self.lists).await;
            let found = self.disk.list(folder, after, most).await?;
            self.names.fetch_add(found.len(), Ordering::SeqCst);
            Ok(found)
        })
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

/// C9: whoever reads waits for the store, and whoever writes does not wait for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_wait_for_the_store_hold_up_nobody_who_writes() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Gate::at(folder.path());
    let logs = ObjectLogs::new(Arc::clone(&gate) as Arc<dyn Backend>, 1 << 30);
    let raw = sample(3_000);
    let piece = raw.len() / 60;
    let put = async |number: usize| {
        let (from, end) = (number * piece, raw.len().min((number + 1) * piece));
        let put = logs.append(log(1), from as u64, raw.slice(from..end));
        tokio::time::timeout(PATIENCE, put).await.expect("nobody holds it up").unwrap()
    };
    put(0).await;
    gate.open.send_replace(false);
    let ask = |read: Future<'static, u64>| tokio::spawn(read);
    let readers: Vec<_> = (0..4_u64)
        .map(|kind| {
            let (logs, piece) = (logs.clone(), piece as u64);
            ask(Box::pin(async move {
                match kind {
                    0 => logs.read(log(1), 0, 100).await.map(|read| read.len() as u64),
                    1 => logs.read(log(1), piece, 100).await.map(|read| read.len() as u64),
                    2 => logs.index(log(1)).await.map(|index| index.length),
                    _ => logs.length(log(1)).await,
                }
            }))
        })
        .collect();
    while gate.lists.load(Ordering::SeqCst) + gate.gets.load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    for number in 1..=60 {
        assert_eq!(put(number).await, raw.len().min((number + 1) * piece) as u64);
    }
    assert!(readers.iter().all(|reader| !reader.is_finished()), "the store has not answered");
    gate.open.send_replace(true);
    for reader in readers {
        assert!(reader.await.unwrap().unwrap() > 0);
    }
    assert!(bytes_of(&logs, log(1)).await == raw);
    assert_eq!(*logs.index(log(1)).await.unwrap(), index_of(&raw, false));
}

/// C9 H2: what another server writes costs one question for all who watch here, however long the log is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_new_elsewhere_is_asked_for_once_for_all_who_watch() {
    let folder = tempfile::tempdir().unwrap();
    let writer = shelf(folder.path(), 1 << 30);
    let gate = Gate::at(folder.path());
    let reader = ObjectLogs::new(Arc::clone(&gate) as Arc<dyn Backend>, 1 << 30);
    let mut length = 0;
    let mut add = async |text: String| {
        length = writer.append(log(1), length, text.into()).await.unwrap();
        length
    };
    for number in 0..300 {
        add(format!("1 0 line {number}\n")).await;
    }
    let watching = reader.follow(log(1));
    // Many pieces are read as one, to the end and no further.
    let old = reader.read(log(1), 0, 256 << 10).await.unwrap();
    assert_eq!(memchr::memchr_iter(b'\n', &old).count(), 300);
    gate.asked();
    let at = old.len() as u64;
    let end = add("1 0 news\n".to_owned()).await;
    let viewers: Vec<_> = (0..50)
        .map(|_| {
            let reader = reader.clone();
            tokio::spawn(async move { reader.read(log(1), at, 256 << 10).await.unwrap() })
        })
        .collect();
    for viewer in viewers {
        assert_eq!(&*viewer.await.unwrap(), b"1 0 news\n");
    }
    let (lists, gets, names) = gate.asked();
    assert!(lists <= 3 && gets <= 2 && names <= 6, "{lists} {gets} {names}");
    // Nothing new: one question, and the last piece is all that is listed.
    assert!(reader.read(log(1), end, 9).await.unwrap().is_empty());
    let (lists, gets, names) = gate.asked();
    assert!((lists, gets) == (1, 0) && names <= 1, "{lists} {gets} {names}");
    drop(watching);
    // Archived elsewhere, with an end that was not seen here.
    add("1 0 the end\n".to_owned()).await;
    assert!(writer.archive(log(1)).await.unwrap());
    assert_eq!(&*reader.read(log(1), end, 99).await.unwrap(), b"1 0 the end\n");
    assert_eq!(reader.length(log(1)).await.unwrap(), end + 12);
}

/// C11: pieces that two servers wrote at the same moment overlap; the log is the longest of them.
#[tokio::test]
async fn a_piece_that_begins_before_the_last_one_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let logs = shelf(folder.path(), 1 << 30);
    let raw = sample(10);
    let put = async |from: usize, to: usize| {
        let name = chunks::name(&log(1).folder(), from as u64, to as u64);
        logs.0.objects.put(&name, raw.slice(from..to)).await.unwrap();
    };
    put(0, 50).await;
    put(50, 100).await;
    assert_eq!(logs.read(log(1), 0, 1_000).await.unwrap().len(), 100);
    put(30, 120).await;
    assert_eq!(logs.read(log(1), 100, 1_000).await.unwrap().len(), 0, "it looks for news only");
    put(120, 200).await;
    // There is a gap before what is new: everything is looked at.
    assert!(logs.read(log(1), 100, 1_000).await.unwrap() == raw.slice(100..200));
    put(150, 210).await;
    put(190, 205).await;
    assert_eq!(logs.length(log(1)).await.unwrap(), 210);
    assert!(bytes_of(&logs, log(1)).await == raw.slice(..210));
}
