//! Archives that somebody else made: what is in them, and a file of them, without believing a word.
//!
//! Only the list at the end is needed to know what there is, and a piece in the middle to have one file, so that
//! an archive on a server need not be fetched. Names cannot lead elsewhere, links are not made, and nothing
//! becomes larger than it says or than is allowed.

use std::io::{Read, Write};
use std::path::{Component, Path, PathBuf};

use flate2::read::DeflateDecoder;

/// What is wrong with an archive.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    #[error("{0}")]
    Says(String),
    #[error(transparent)]
    Unread(#[from] std::io::Error),
}

type Result<T> = std::result::Result<T, Broken>;

macro_rules! bail {
    ($($why:tt)*) => { return Err(Broken::Says(format!($($why)*))) };
}

macro_rules! ensure {
    ($holds:expr, $($why:tt)*) => { if !$holds { bail!($($why)*); } };
}

/// From the end of an archive, so many bytes have all that leads to its list.
pub const TAIL: u64 = 66 << 10;
/// The most bytes that a list may have.
pub const LARGEST_LIST: u64 = 64 << 20;
/// The most entries that are looked at.
const MOST: usize = 250_000;
/// The bytes before a file that do not depend on its name.
pub const HEAD: u64 = 30;

/// Where the list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct List {
    pub from: u64,
    pub size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    /// A symbolic link, or something else that is no file.
    Other,
}

/// Something in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub kind: Kind,
    pub size: u64,
    pub packed: u64,
    /// Where its head begins.
    pub at: u64,
    method: u16,
    checksum: u32,
    encrypted: bool,
    executable: bool,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Where the list of an archive is, by its last bytes: all of it, or at least [`TAIL`].
pub fn list(tail: &[u8], whole: u64) -> Result<List> {
    let start = whole.saturating_sub(tail.len() as u64);
    // The end has a comment of any length behind it, whose length it names.
    let is_end = |at: &usize| {
        u32_at(tail, *at) == Some(0x0605_4b50)
            && u16_at(tail, at + 20)
                .is_some_and(|length| at + 22 + usize::from(length) == tail.len())
    };
    let Some(end) = (0..tail.len().saturating_sub(21)).rev().find(is_end) else {
        bail!("this is no zip archive: it has no end");
    };
    let usual = || Some((u64::from(u32_at(tail, end + 16)?), u64::from(u32_at(tail, end + 12)?)));
    let (mut from, mut size) = usual().unwrap_or_default();
    let mut count = u64::from(u16_at(tail, end + 10).unwrap_or_default());
    if let Some(locator) = end.checked_sub(20)
        && u32_at(tail, locator) == Some(0x0706_4b50)
    {
        let at = u64_at(tail, locator + 8).and_then(|at| at.checked_sub(start));
        let at = at.and_then(|at| usize::try_from(at).ok());
        let large = at.filter(|at| u32_at(tail, *at) == Some(0x0606_4b50));
        let large = large.and_then(|at| {
            Some((u64_at(tail, at + 48)?, u64_at(tail, at + 40)?, u64_at(tail, at + 32)?))
        });
        let Some(found) = large else { bail!("the end of the archive leads nowhere") };
        (from, size, count) = found;
    }
    let stop = start + end as u64;
    ensure!(
        from.checked_add(size).is_some_and(|over| over <= stop),
        "the list of the archive lies outside of it"
    );
    // Whoever says so honestly is spared the list, which is looked at all the same.
    ensure!(
        count <= MOST as u64,
        "the archive has {count} entries; up to {MOST} are looked at: have it whole and unpack it elsewhere"
    );
    ensure!(
        size <= LARGEST_LIST,
        "the list of the archive has {size} bytes; up to {LARGEST_LIST} are read"
    );
    Ok(List { from, size })
}

/// What is in an archive, by its list.
pub fn entries(list: &[u8]) -> Result<Vec<Entry>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < list.len() {
        ensure!(
            found.len() < MOST,
            "the archive has more than {MOST} entries: have it whole and unpack it elsewhere"
        );
        let Some((entry, next)) = entry(list, at) else {
            bail!("the list of the archive is damaged after {} entries", found.len());
        };
        found.push(entry);
        at = next;
    }
    Ok(found)
}

fn entry(list: &[u8], at: usize) -> Option<(Entry, usize)> {
    let short = |offset: usize| u16_at(list, at + offset);
    let word = |offset: usize| u32_at(list, at + offset);
    if word(0)? != 0x0201_4b50 {
        return None;
    }
    let lengths = [short(28)?, short(30)?, short(32)?].map(usize::from);
    let name_end = at + 46 + lengths[0];
    let extra_end = name_end + lengths[1];
    let next = extra_end + lengths[2];
    let name = String::from_utf8_lossy(list.get(at + 46..name_end)?).into_owned();
    let extra = list.get(name_end..extra_end)?;
    list.get(extra_end..next)?;
    let [mut size, mut packed, mut start] = [word(24)?, word(20)?, word(42)?].map(u64::from);
    let mut large = large_numbers(extra);
    for number in [&mut size, &mut packed, &mut start] {
        if *number == u64::from(u32::MAX) {
            *number = large.next()?;
        }
    }
    // Who made it on Unix says what it is in the upper half.
    let mode = if list.get(at + 5) == Some(&3) { word(38)? >> 16 } else { 0 };
    let kind = match mode & 0o170_000 {
        0 | 0o100_000 if !name.ends_with('/') => Kind::File,
        0 | 0o040_000 => Kind::Folder,
        _ => Kind::Other,
    };
    let entry = Entry {
        name,
        kind,
        size,
        packed,
        at: start,
        method: short(10)?,
        checksum: word(16)?,
        encrypted: short(8)? & 1 == 1,
        executable: kind == Kind::File && mode & 0o100 != 0,
    };
    Some((entry, next))
}

/// The numbers that do not fit into 32 bits, in order.
fn large_numbers(extra: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let mut at = 0;
    let mut found: &[u8] = &[];
    while let (Some(id), Some(length)) = (u16_at(extra, at), u16_at(extra, at + 2)) {
        let content = extra.get(at + 4..at + 4 + usize::from(length)).unwrap_or_default();
        if id == 1 {
            found = content;
        }
        at += 4 + usize::from(length);
    }
    found.chunks_exact(8).filter_map(|bytes| u64_at(bytes, 0))
}

impl Entry {
    /// How many bytes lie between the beginning of its head, which this is, and its content.
    pub fn content_after(&self, head: &[u8]) -> Result<u64> {
        let lengths = || {
            let right = u32_at(head, 0)? == 0x0403_4b50;
            right.then_some(u64::from(u16_at(head, 26)?) + u64::from(u16_at(head, 28)?))
        };
        let Some(lengths) = lengths() else {
            bail!("`{}` is not where the list of the archive says", self.name);
        };
        Ok(HEAD + lengths)
    }

    /// Below `folder`, or why nowhere.
    pub fn path(&self, folder: &Path) -> Result<PathBuf> {
        let name = &self.name;
        let odd = |c: char| c == '\\' || c.is_control();
        let mut path = folder.to_owned();
        let is_plain = Path::new(name).components().all(|part| match part {
            Component::Normal(part) => {
                path.push(part);
                true
            }
            Component::CurDir => true,
            _ => false,
        });
        let drive = name.as_bytes().get(1) == Some(&b':');
        ensure!(
            is_plain && !drive && !name.contains(odd) && path != folder && !name.is_empty(),
            "`{}` is no name of a file below a folder; the archive may be an attack",
            name.escape_default()
        );
        Ok(path)
    }

    pub fn is_executable(&self) -> bool {
        self.executable
    }

    /// Writes what the packed bytes hold. More than it said, or something else, is an error.
    pub fn unpack(&self, packed: impl Read, to: &mut impl Write) -> Result<()> {
        let name = &self.name;
        ensure!(self.kind == Kind::File, "`{name}` is no file");
        ensure!(!self.encrypted, "`{name}` is encrypted");
        let packed = packed.take(self.packed);
        let mut from: Box<dyn Read + '_> = match self.method {
            0 => Box::new(packed),
            8 => Box::new(DeflateDecoder::new(packed)),
            other => bail!("`{name}` is packed in a way (number {other}) that is not known here"),
        };
        let (mut checksum, mut size) = (crc32fast::Hasher::new(), 0_u64);
        let mut piece = vec![0; 64 << 10];
        loop {
            let length = from.read(&mut piece)?;
            if length == 0 {
                break;
            }
            size += length as u64;
            ensure!(size <= self.size, "`{name}` is larger than the archive says");
            checksum.update(&piece[..length]);
            to.write_all(&piece[..length])?;
        }
        ensure!(
            size == self.size && checksum.finalize() == self.checksum,
            "`{name}` is damaged: size or checksum are not what the archive says"
        );
        Ok(())
    }
}

/// Whether all of it may be unpacked here.
pub fn fits(entries: &[Entry], most: u64) -> Result<()> {
    let all = entries.iter().try_fold(0_u64, |sum, entry| sum.checked_add(entry.size));
    let all = all.unwrap_or(u64::MAX);
    ensure!(
        all <= most,
        "the archive would become {all} bytes, and {most} are allowed; say more with `--max-size`, or have \
         the archive itself with `--zip`"
    );
    Ok(())
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "the archives of tests are small")]
mod tests {
    use kiln_testkit::zip::archive;

    use super::*;

    fn read(archive: &[u8]) -> Result<Vec<Entry>> {
        let tail = &archive[archive.len().saturating_sub(TAIL as usize)..];
        let List { from, size } = list(tail, archive.len() as u64)?;
        entries(&archive[from as usize..(from + size) as usize])
    }

    fn unpacked(archive: &[u8], entry: &Entry) -> Result<Vec<u8>> {
        let head = &archive[entry.at as usize..];
        let content = &head[entry.content_after(head)? as usize..];
        let mut found = Vec::new();
        entry.unpack(content, &mut found)?;
        Ok(found)
    }

    #[test]
    fn what_is_in_an_archive_is_found_and_unpacked() {
        let large = b"kiln ".repeat(50_000);
        let archive = archive(&[
            ("a.txt", b"hello", 0o100_644),
            ("bin/", b"", 0o040_755),
            ("bin/run", &large, 0o100_755),
        ]);
        let found = read(&archive).unwrap();
        let short: Vec<_> =
            found.iter().map(|one| (one.name.as_str(), one.kind, one.size)).collect();
        let expect =
            [("a.txt", Kind::File, 5), ("bin/", Kind::Folder, 0), ("bin/run", Kind::File, 250_000)];
        assert_eq!(short, expect);
        assert_eq!(unpacked(&archive, &found[0]).unwrap(), b"hello");
        assert_eq!(unpacked(&archive, &found[2]).unwrap(), large);
        assert!(found[2].is_executable() && !found[0].is_executable());
        assert!(fits(&found, 250_005).is_ok() && fits(&found, 250_004).is_err());
    }

    /// Catalogue of attacks: names that lead elsewhere, links, files that grow.
    #[test]
    fn names_cannot_lead_elsewhere() {
        let check = |name: &str, expect: Option<&str>| {
            let archive = archive(&[(name, b"x", 0o100_644)]);
            let path = read(&archive).unwrap()[0].path(Path::new("out")).ok();
            assert_eq!(path.as_deref(), expect.map(Path::new), "{name}");
        };
        check("a/b.txt", Some("out/a/b.txt"));
        check("./a", Some("out/a"));
        check("...", Some("out/..."));
        for evil in [
            "../a",
            "a/../../b",
            "a/..",
            "/etc/passwd",
            "..\\a",
            "a\\..\\b",
            "C:/a",
            "C:a",
            "",
            ".",
            "./",
            "a\0b",
            "a\nb",
            "//a",
        ] {
            check(evil, None);
        }
    }

    #[test]
    fn links_and_other_things_are_no_files() {
        for mode in [0o120_777, 0o060_644, 0o010_644] {
            let archive = archive(&[("link", b"/etc/passwd", mode)]);
            let found = read(&archive).unwrap();
            assert_eq!(found[0].kind, Kind::Other);
            assert!(unpacked(&archive, &found[0]).is_err());
        }
    }

    #[test]
    fn a_file_never_becomes_larger_than_it_says() {
        let bomb = vec![0; 10 << 20];
        let archive = archive(&[("bomb", &bomb, 0)]);
        let honest = read(&archive).unwrap().remove(0);
        assert!(honest.packed < 20_000, "it is a bomb");
        let liar = Entry { size: 100, ..honest.clone() };
        assert!(unpacked(&archive, &liar).unwrap_err().to_string().contains("larger than"));
        let other = Entry { checksum: 1, ..honest.clone() };
        assert!(unpacked(&archive, &other).unwrap_err().to_string().contains("damaged"));
        for strange in [Entry { method: 12, ..honest.clone() }, Entry { encrypted: true, ..honest }]
        {
            assert!(unpacked(&archive, &strange).is_err());
        }
        let endless = Entry { size: u64::MAX, ..read(&archive).unwrap().remove(0) };
        assert!(fits(&[endless.clone(), endless], u64::MAX - 1).is_err());
    }

    #[test]
    fn whatever_bytes_there_are_nothing_breaks() {
        let good = archive(&[("a", b"hello", 0o100_644), ("b", b"", 0)]);
        for length in 0..good.len() {
            assert!(read(&good[..length]).is_err(), "{length}");
        }
        for at in 0..good.len() {
            for change in [0, 0xff, good[at] ^ 1] {
                let mut changed = good.clone();
                changed[at] = change;
                for entry in read(&changed).unwrap_or_default() {
                    if entry.at < changed.len() as u64 {
                        let head = &changed[entry.at as usize..];
                        let after = entry.content_after(head).unwrap_or(0) as usize;
                        let mut out = Vec::new();
                        let _ = entry.unpack(head.get(after..).unwrap_or_default(), &mut out);
                    }
                }
            }
        }
    }

    /// PEERS 23
    #[test]
    fn a_million_entries_are_refused_before_their_list_is_read() {
        let million = kiln_testkit::zip::of_many(1_000_000);
        let whole = million.len() as u64;
        let tail = &million[million.len() - TAIL as usize..];
        let why = list(tail, whole).unwrap_err().to_string();
        assert!(why.contains("has 1000000 entries; up to 250000"), "{why}");
        // One that lies about it is found out, and costs no more than the entries that are looked at.
        let mut lies = million;
        let end = lies.len() - 22;
        let large = end - 20 - 56;
        lies[large + 32..large + 40].copy_from_slice(&7_u64.to_le_bytes());
        let found = list(&lies[lies.len() - TAIL as usize..], whole).unwrap();
        let why = entries(&lies[found.from as usize..(found.from + found.size) as usize]);
        assert!(why.unwrap_err().to_string().contains("more than 250000 entries"));
    }

    #[test]
    fn archives_with_too_many_entries_are_refused() {
        let one = archive(&[("", b"", 0)]);
        let list_at = list(&one, one.len() as u64).unwrap();
        let entry = &one[list_at.from as usize..(list_at.from + list_at.size) as usize];
        let many = entry.repeat(MOST + 1);
        assert!(entries(&many).unwrap_err().to_string().contains("more than"));
        let mut large = one;
        let end = large.len() - 22;
        large[end + 12..end + 16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(list(&large, large.len() as u64).is_err());
        // A list that would have to be huge is not asked for.
        assert!(list(&large, 1 << 40).unwrap_err().to_string().contains("up to"));
    }
}
