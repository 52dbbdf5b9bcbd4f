//! Archives that are made while they are sent: nothing of them is held but the list at their end.

use std::io::{self, Write as _};

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// Lengths follow the content, and names are UTF-8.
const FLAGS: u16 = 0x0808;
const DEFLATED: u16 = 8;
/// The first day that an archive can name. Logs say themselves when they were written.
const DATE: u16 = 0x0021;
/// By Unix, for those who know large archives.
const MADE_BY: u16 = 0x032d;
/// A plain file that everybody may read.
const MODE: u32 = 0o100_644 << 16;
/// Numbers from here on are written elsewhere.
const FULL: u32 = u32::MAX;

/// How a file is written.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// From 0, not packed at all, to 9.
    pub level: u32,
    /// It may have more than two gigabytes, which not everybody can read.
    pub is_large: bool,
}

/// An archive on its way. Each call returns what comes next.
#[derive(Debug, Default)]
pub struct Zip {
    /// How many bytes there were.
    at: u64,
    list: Vec<u8>,
    files: u64,
    file: Option<File>,
}

#[derive(Debug)]
struct File {
    name: String,
    at: u64,
    size: u64,
    packed: u64,
    is_large: bool,
    checksum: crc32fast::Hasher,
    content: DeflateEncoder<Vec<u8>>,
}

impl Zip {
    /// Begins a file.
    pub fn begin(&mut self, name: &str) -> Vec<u8> {
        self.begin_as(name, Manner { level: 1, is_large: false })
    }

    /// Begins a file in a certain manner.
    pub fn begin_as(&mut self, name: &str, Manner { level, is_large }: Manner) -> Vec<u8> {
        let name: String = name.chars().take(1_000).collect();
        let mut head = Vec::new();
        words(&mut head, &[0x0403_4b50]);
        halves(&mut head, &[if is_large { 45 } else { 20 }, FLAGS, DEFLATED, 0, DATE]);
        words(&mut head, &[0, 0, 0]);
        halves(&mut head, &[short(name.len()), if is_large { 20 } else { 0 }]);
        head.extend_from_slice(name.as_bytes());
        if is_large {
            // Says that the lengths behind the content are long ones.
            halves(&mut head, &[1, 16]);
            head.extend_from_slice(&[0; 16]);
        }
        self.file = Some(File {
            name,
            at: self.at,
            size: 0,
            packed: 0,
            is_large,
            checksum: crc32fast::Hasher::new(),
            content: DeflateEncoder::new(Vec::new(), Compression::new(level)),
        });
        self.passed(head)
    }

    /// Adds to the file that was begun. Says no to what would make it too large for a plain archive.
    pub fn add(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let Some(file) = &mut self.file else { return Ok(Vec::new()) };
        let size = file.size + bytes.len() as u64;
        if !file.is_large && size >= u64::from(FULL / 2) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        file.size = size;
        file.checksum.update(bytes);
        file.content.write_all(bytes)?;
        let packed = std::mem::take(file.content.get_mut());
        file.packed += packed.len() as u64;
        Ok(self.passed(packed))
    }

    /// Ends the file that was begun.
    pub fn end(&mut self) -> io::Result<Vec<u8>> {
        let Some(file) = self.file.take() else { return Ok(Vec::new()) };
        let mut rest = file.content.finish()?;
        let packed = file.packed + rest.len() as u64;
        let checksum = file.checksum.finalize();
        words(&mut rest, &[0x0807_4b50, checksum]);
        let mut large = Vec::new();
        let sizes = if file.is_large {
            for number in [packed, file.size] {
                rest.extend_from_slice(&number.to_le_bytes());
            }
            large.extend([file.size, packed]);
            [FULL, FULL]
        } else {
            // What is not large was kept below half of that, also packed.
            let sizes = [packed, file.size].map(|size| u32::try_from(size).unwrap_or(FULL));
            words(&mut rest, &sizes);
            sizes
        };
        let near = u32::try_from(file.at).ok().filter(|at| *at < FULL);
        if near.is_none() {
            large.push(file.at);
        }
        let list = &mut self.list;
        words(list, &[0x0201_4b50]);
        halves(list, &[MADE_BY, 45, FLAGS, DEFLATED, 0, DATE]);
        words(list, &[checksum, sizes[0], sizes[1]]);
        let extra = if large.is_empty() { 0 } else { short(4 + 8 * large.len()) };
        halves(list, &[short(file.name.len()), extra, 0, 0, 0]);
        words(list, &[MODE, near.unwrap_or(FULL)]);
        list.extend_from_slice(file.name.as_bytes());
        if !large.is_empty() {
            halves(list, &[1, short(8 * large.len())]);
            for number in &large {
                list.extend_from_slice(&number.to_le_bytes());
            }
        }
        self.files += 1;
        Ok(self.passed(rest))
    }

    /// The list at the end.
    pub fn finish(self) -> Vec<u8> {
        let (at, size) = (self.at, self.list.len() as u64);
        let mut end = self.list;
        let files = u16::try_from(self.files).ok().filter(|files| *files < u16::MAX);
        let near = u32::try_from(at).ok().filter(|at| *at < FULL);
        let short_size = u32::try_from(size).ok().filter(|size| *size < FULL);
        if files.is_none() || near.is_none() || short_size.is_none() {
            words(&mut end, &[0x0606_4b50]);
            end.extend_from_slice(&44_u64.to_le_bytes());
            halves(&mut end, &[MADE_BY, 45]);
            words(&mut end, &[0, 0]);
            for number in [self.files, self.files, size, at] {
                end.extend_from_slice(&number.to_le_bytes());
            }
            words(&mut end, &[0x0706_4b50, 0]);
            end.extend_from_slice(&(at + size).to_le_bytes());
            words(&mut end, &[1]);
        }
        let files = files.unwrap_or(u16::MAX);
        words(&mut end, &[0x0605_4b50]);
        halves(&mut end, &[0, 0, files, files]);
        words(&mut end, &[short_size.unwrap_or(FULL), near.unwrap_or(FULL)]);
        halves(&mut end, &[0]);
        end
    }

    fn passed(&mut self, bytes: Vec<u8>) -> Vec<u8> {
        self.at += bytes.len() as u64;
        bytes
    }
}

fn short(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

fn halves(to: &mut Vec<u8>, numbers: &[u16]) {
    to.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn words(to: &mut Vec<u8>, numbers: &[u32]) {
    to.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    fn u16_at(bytes: &[u8], at: usize) -> usize {
        usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()))
    }

    fn u32_at(bytes: &[u8], at: usize) -> usize {
        u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
    }

    /// All files, by the list at the end.
    fn read(zip: &[u8]) -> Vec<(String, String)> {
        let end = zip.len() - 22;
        assert_eq!(u32_at(zip, end), 0x0605_4b50);
        let mut at = u32_at(zip, end + 16);
        let mut files = Vec::new();
        for _ in 0..u16_at(zip, end + 10) {
            assert_eq!(u32_at(zip, at), 0x0201_4b50);
            let (packed, size, length) =
                (u32_at(zip, at + 20), u32_at(zip, at + 24), u16_at(zip, at + 28));
            let name = String::from_utf8(zip[at + 46..at + 46 + length].to_vec()).unwrap();
            let start = u32_at(zip, at + 42) + 30 + length;
            let mut content = String::new();
            let mut unpacked = flate2::read::DeflateDecoder::new(&zip[start..start + packed]);
            unpacked.read_to_string(&mut content).unwrap();
            assert_eq!(content.len(), size);
            assert_eq!(crc32fast::hash(content.as_bytes()) as usize, u32_at(zip, at + 16));
            files.push((name, content));
            at += 46 + length;
        }
        files
    }

    #[test]
    fn files_come_out_as_they_went_in() {
        let (mut zip, mut sent) = (Zip::default(), Vec::new());
        let long = "a line\n".repeat(50_000);
        for (name, pieces) in
            [("a/1_b ü.txt", vec!["x", "y\n"]), ("empty", vec![]), ("c", vec![&*long])]
        {
            sent.extend(zip.begin(name));
            for piece in pieces {
                sent.extend(zip.add(piece.as_bytes()).unwrap());
            }
            sent.extend(zip.end().unwrap());
        }
        sent.extend(zip.finish());
        let expect = [("a/1_b ü.txt", "xy\n"), ("empty", ""), ("c", &*long)];
        let expect: Vec<_> = expect.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
        assert_eq!(read(&sent), expect);
    }

    #[test]
    fn more_than_a_plain_archive_can_count_is_counted_elsewhere() {
        let mut zip = Zip { at: u64::from(FULL) + 7, ..Zip::default() };
        zip.begin("far");
        zip.end().unwrap();
        let end = zip.finish();
        let tail = end.len() - 22;
        assert_eq!(
            (u32_at(&end, tail + 16), u32_at(&end, tail - 20)),
            (FULL as usize, 0x0706_4b50)
        );
        let extra = 46 + "far".len();
        assert_eq!(
            u64::from_le_bytes(end[extra + 4..extra + 12].try_into().unwrap()),
            u64::from(FULL) + 7
        );
    }

    #[test]
    fn files_that_may_be_large_are_read_by_whoever_knows_them() {
        let (mut zip, mut sent) = (Zip::default(), Vec::new());
        for level in [0, 6, 9] {
            sent.extend(zip.begin_as(&format!("at {level}"), Manner { level, is_large: true }));
            sent.extend(zip.add(b"kiln kiln kiln").unwrap());
            sent.extend(zip.end().unwrap());
        }
        sent.extend(zip.finish());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.zip");
        std::fs::write(&path, &sent).unwrap();
        let mut file = std::fs::File::open(&path).unwrap();
        let entries = super::super::file::entries(&mut file).unwrap();
        assert_eq!(entries.len(), 3);
        for entry in entries {
            let mut content = Vec::new();
            super::super::file::unpack(&mut file, &entry, &mut content).unwrap();
            assert_eq!((entry.size, content.as_slice()), (14, &b"kiln kiln kiln"[..]));
        }
        std::fs::write(&path, &sent[..sent.len() - 9]).unwrap();
        let mut cut = std::fs::File::open(&path).unwrap();
        assert!(super::super::file::entries(&mut cut).is_err());
    }
}
