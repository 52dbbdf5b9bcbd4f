//! Writes a frame of the log at once.
//!
//! SQLite writes each page that it adds to its log in two parts: 24 bytes about it, and the page. Both go through the
//! file system, which for a server that commits all the time is a fifth of the writer's work. Here the small part waits
//! for the large one, which follows at once, and both go out together.
//!
//! SQLite lets a program stand between it and a file (a VFS). This one is the usual one, and changes how the log is
//! written by the connection that asks for it.
#![expect(unsafe_code, reason = "SQLite asks for functions and structures of C")]

use std::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use rusqlite::ffi::{
    SQLITE_IOERR_WRITE, SQLITE_OK, SQLITE_OPEN_WAL, sqlite3_file, sqlite3_filename, sqlite3_int64,
    sqlite3_io_methods, sqlite3_vfs, sqlite3_vfs_find, sqlite3_vfs_register,
};

/// What a connection asks for.
const NAME: &CStr = c"kiln";
/// How long the part is that comes first.
const HEAD: usize = 24;
/// SQLite's largest page.
const PAGE: usize = 64 << 10;

/// Lies behind the file of the usual VFS, in memory that SQLite made for both.
struct Log {
    /// As the usual one has them, but for what must know of a head that waits.
    methods: sqlite3_io_methods,
    usual: &'static sqlite3_io_methods,
    /// A head that waits for its page, and its place.
    head: Option<([u8; HEAD], sqlite3_int64)>,
    /// Where the last write ended. A head waits only if it follows: another one may mend an older frame, and no page comes.
    end: sqlite3_int64,
    /// Where head and page are put together.
    frame: Box<[u8]>,
}

/// The usual VFS, which lives as long as the program.
#[derive(Clone, Copy)]
struct Usual(*mut sqlite3_vfs);

// SAFETY: SQLite itself uses it on all threads, and what we look at never changes.
unsafe impl Send for Usual {}
// SAFETY: as above.
unsafe impl Sync for Usual {}

static USUAL: OnceLock<Option<Usual>> = OnceLock::new();

/// The name of this VFS; none if SQLite does not take it.
pub(super) fn vfs() -> Option<&'static CStr> {
    USUAL.get_or_init(register).map(|_| NAME)
}

fn register() -> Option<Usual> {
    // SAFETY: the usual VFS lives as long as the program. The copy is never freed; of its functions only that which opens
    // files looks at what it is called with, and it gets the original.
    unsafe {
        let usual = sqlite3_vfs_find(std::ptr::null());
        let mut ours = *usual.as_ref()?;
        ours.szOsFile += c_int::try_from(size_of::<Log>() + align_of::<Log>()).ok()?;
        ours.zName = NAME.as_ptr();
        ours.xOpen = Some(open);
        ours.pNext = std::ptr::null_mut();
        let taken = sqlite3_vfs_register(Box::leak(Box::new(ours)), 0) == SQLITE_OK;
        taken.then_some(Usual(usual))
    }
}

/// Where the log of a file lies.
///
/// # Safety
///
/// SQLite must have made room for the file as our VFS asks for.
unsafe fn place(usual: Usual, file: *mut sqlite3_file) -> *mut Log {
    // SAFETY: behind the file of the usual VFS there is room for a log, and for what is left out so that it lies straight.
    unsafe {
        let behind = file.cast::<u8>().add(usize::try_from((*usual.0).szOsFile).unwrap_or(0));
        behind.add(behind.align_offset(align_of::<Log>())).cast()
    }
}

/// # Safety
///
/// The file must be a log that [`open`] has opened, and nobody else may hold it.
unsafe fn log_of<'f>(file: *mut sqlite3_file) -> &'f mut Log {
    let usual = USUAL.get().copied().flatten().expect("a file was opened by it");
    // SAFETY: it was filled when the file was opened. One connection has it, and is used by one thread at a time.
    unsafe { &mut *place(usual, file) }
}

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    given: *mut c_int,
) -> c_int {
    let usual = USUAL.get().copied().flatten().expect("SQLite has it since then");
    // SAFETY: SQLite calls with what the usual VFS expects; that is asked first, and what follows is done with a file that
    // it has opened, in room that was asked for.
    unsafe {
        let opened = (*usual.0)
            .xOpen
            .map_or(SQLITE_IOERR_WRITE, |open| open(usual.0, name, file, flags, given));
        if opened == SQLITE_OK
            && flags & SQLITE_OPEN_WAL != 0
            && let Some(methods) = (*file).pMethods.as_ref()
        {
            let log = place(usual, file);
            log.write(Log {
                methods: sqlite3_io_methods {
                    xClose: Some(close),
                    xRead: Some(read),
                    xWrite: Some(write),
                    xTruncate: Some(truncate),
                    xSync: Some(sync),
                    xFileSize: Some(size),
                    ..*methods
                },
                usual: methods,
                head: None,
                end: -1,
                frame: vec![0; HEAD + PAGE].into(),
            });
            (*file).pMethods = &raw const (*log).methods;
        }
        opened
    }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    length: c_int,
    at: sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite calls with a log of ours, and with as many bytes as it says.
    let (log, bytes) = unsafe {
        let length = usize::try_from(length).unwrap_or(0);
        (log_of(file), std::slice::from_raw_parts(bytes.cast::<u8>(), length))
    };
    let follows = at == log.end;
    log.end = at.saturating_add(length.into());
    let head: Option<[u8; HEAD]> = bytes.try_into().ok();
    if let Some(head) = head.filter(|_| follows && log.head.is_none()) {
        log.head = Some((head, at));
        return SQLITE_OK;
    }
    if follows
        && bytes.len() <= PAGE
        && let Some((head, from)) = log.head.take()
    {
        log.frame[..HEAD].copy_from_slice(&head);
        log.frame[HEAD..HEAD + bytes.len()].copy_from_slice(bytes);
        let frame = &log.frame[..HEAD + bytes.len()];
        // SAFETY: the file is the usual one's, too.
        return unsafe { write_through(log.usual, file, frame, from) };
    }
    // SAFETY: as above.
    unsafe {
        match settle(log, file) {
            SQLITE_OK => write_through(log.usual, file, bytes, at),
            failed => failed,
        }
    }
}

/// # Safety
///
/// The file must be one of the usual VFS, with these methods.
unsafe fn write_through(
    usual: &sqlite3_io_methods,
    file: *mut sqlite3_file,
    bytes: &[u8],
    at: sqlite3_int64,
) -> c_int {
    let (Some(write), Ok(length)) = (usual.xWrite, c_int::try_from(bytes.len())) else {
        return SQLITE_IOERR_WRITE;
    };
    // SAFETY: so says the caller.
    unsafe { write(file, bytes.as_ptr().cast(), length, at) }
}

/// Writes a head that waits. SQLite never lets one wait for anything else; should it ever, nothing is lost.
///
/// # Safety
///
/// As for [`log_of`].
unsafe fn settle(log: &mut Log, file: *mut sqlite3_file) -> c_int {
    match log.head.take() {
        // SAFETY: the file is the usual one's, too.
        Some((head, at)) => unsafe { write_through(log.usual, file, &head, at) },
        None => SQLITE_OK,
    }
}

/// What else is done with a log: whatever waits is written before.
macro_rules! settled {
    ($name:ident, $method:ident $(, $argument:ident: $type:ty)*) => {
        unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $argument: $type)*) -> c_int {
            // SAFETY: SQLite calls with a log of ours, and with what the usual VFS expects.
            unsafe {
                let log = log_of(file);
                match (settle(log, file), log.usual.$method) {
                    (SQLITE_OK, Some(usual)) => usual(file $(, $argument)*),
                    (SQLITE_OK, None) => SQLITE_IOERR_WRITE,
                    (failed, _) => failed,
                }
            }
        }
    };
}

settled!(read, xRead, to: *mut c_void, length: c_int, at: sqlite3_int64);
settled!(truncate, xTruncate, length: sqlite3_int64);
settled!(sync, xSync, flags: c_int);
settled!(size, xFileSize, to: *mut sqlite3_int64);

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite calls with a log of ours, and never again afterwards.
    unsafe {
        let log = log_of(file);
        let settled = settle(log, file);
        let closed = log.usual.xClose.map_or(SQLITE_OK, |close| close(file));
        std::ptr::drop_in_place(std::ptr::from_mut(log));
        if settled == SQLITE_OK { closed } else { settled }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use rusqlite::{Connection, OpenFlags};

    use super::*;

    fn open_both(folder: &Path) -> [Connection; 2] {
        let open = |name: &str, vfs: &CStr| {
            let path = folder.join(name);
            let one = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), vfs).unwrap();
            let pragmas = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = 20;
                           PRAGMA wal_autocheckpoint = 300; CREATE TABLE t (id INTEGER PRIMARY KEY, x BLOB);";
            one.execute_batch(pragmas).unwrap();
            one
        };
        [open("usual.db", c"unix"), open("ours.db", vfs().unwrap())]
    }

    /// How many rows there are, and how much is in them.
    fn content(connection: &Connection) -> (i64, i64, String) {
        let sql = "SELECT count(*), coalesce(sum(length(x) * id), 0) FROM t";
        let (count, sum): (i64, i64) =
            connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let whole = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        (count, sum, whole)
    }

    /// What the usual VFS finds in the files as they are now: it believes only frames whose checksums are right.
    fn after_a_crash(folder: &Path) -> (i64, i64, String) {
        for ending in ["", "-wal"] {
            let path = |name: &str| folder.join(format!("{name}.db{ending}"));
            fs::copy(path("ours"), path("crashed")).unwrap();
        }
        let crashed = Connection::open(folder.join("crashed.db")).unwrap();
        let found = content(&crashed);
        crashed.close().unwrap();
        found
    }

    /// S3: large transactions spill pages and mend their frames, small ones follow each other, some are undone.
    #[test]
    fn the_log_and_the_file_are_the_same_as_without_it() {
        let folder = tempfile::tempdir().unwrap();
        let both = open_both(folder.path());
        let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
        for round in 0..40 {
            for one in &both {
                one.execute_batch("BEGIN").unwrap();
                for id in 0..if round % 7 == 3 { 400 } else { 3 } {
                    let sql = "INSERT OR REPLACE INTO t VALUES (?1 * 37 % 500, zeroblob(?2))";
                    one.execute(sql, [round + id, 10 + id * 13 % 900]).unwrap();
                }
                let end = if round % 5 == 4 { "ROLLBACK" } else { "COMMIT" };
                one.execute_batch(end).unwrap();
            }
            assert_eq!(read("usual.db"), read("ours.db"), "{round}");
            // Two numbers in the head of a log are random, and all checksums depend on them.
            let places = |log: &[u8]| -> Vec<Vec<u8>> {
                let frames = log.get(32..).unwrap_or_default().chunks(HEAD + 4096);
                frames.map(|frame| [&frame[..8], &frame[HEAD..]].concat()).collect()
            };
            let (usual, ours) = (read("usual.db-wal"), read("ours.db-wal"));
            assert_eq!(places(&usual), places(&ours), "{round}");
            assert_eq!(after_a_crash(folder.path()), content(&both[1]), "{round}");
        }
        assert_eq!(content(&both[0]), content(&both[1]));
        assert_eq!(content(&both[1]).2, "ok");
        for one in both {
            one.close().unwrap();
        }
        assert_eq!(read("usual.db"), read("ours.db"));
    }
}
