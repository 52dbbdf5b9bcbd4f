//! Archives for tests.

use std::io::Write as _;

/// An archive of these files, as they are or packed, with modes of Unix.
pub fn archive(files: &[(&str, &[u8], u32)]) -> Vec<u8> {
    let (mut all, mut list) = (Vec::new(), Vec::new());
    for (name, content, mode) in files {
        let mut encoder =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(content).expect("tests have small archives");
        let packed = encoder.finish().expect("tests have small archives");
        let at = u32::try_from(all.len()).expect("tests have small archives");
        let size = |bytes: &[u8]| {
            u32::try_from(bytes.len()).expect("tests have small archives").to_le_bytes()
        };
        let length = u16::try_from(name.len()).expect("tests have small archives").to_le_bytes();
        let numbers =
            [crc32fast::hash(content).to_le_bytes(), size(&packed), size(content)].concat();
        let middle = [&[20, 0, 0, 0, 8, 0, 0, 0, 0, 0][..], &numbers, &length, &[0, 0]].concat();
        all.extend([&[0x50, 0x4b, 3, 4][..], &middle, name.as_bytes(), &packed].concat());
        let tail = [&[0; 6][..], &(mode << 16).to_le_bytes(), &at.to_le_bytes()];
        list.extend([&[0x50, 0x4b, 1, 2, 20, 3][..], &middle, &tail.concat()].concat());
        list.extend(name.as_bytes());
    }
    let from = u32::try_from(all.len()).expect("tests have small archives").to_le_bytes();
    let size = u32::try_from(list.len()).expect("tests have small archives").to_le_bytes();
    let count = u16::try_from(files.len()).expect("tests have small archives").to_le_bytes();
    all.extend(&list);
    let end = [&[0x50, 0x4b, 5, 6, 0, 0, 0, 0][..], &count, &count, &size, &from, &[0, 0]];
    all.extend(end.concat());
    all
}

/// An archive of so many empty files, with the large form of its end.
pub fn of_many(count: u32) -> Vec<u8> {
    let (mut all, mut list) = (Vec::new(), Vec::new());
    for number in 0..count {
        let name = format!("{number:07}");
        let at = u32::try_from(all.len()).expect("tests have small archives");
        let middle = [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &[0; 12], &[7, 0, 0, 0]].concat();
        all.extend([0x50, 0x4b, 3, 4]);
        all.extend(&middle);
        all.extend(name.as_bytes());
        list.extend([0x50, 0x4b, 1, 2, 20, 3]);
        list.extend(&middle);
        list.extend([0; 6]);
        list.extend((0o100_644_u32 << 16).to_le_bytes());
        list.extend(at.to_le_bytes());
        list.extend(name.as_bytes());
    }
    let (from, size) = (all.len() as u64, list.len() as u64);
    all.extend(&list);
    let large = all.len() as u64;
    let counts = [u64::from(count), u64::from(count), size, from];
    all.extend([0x50, 0x4b, 6, 6]);
    all.extend(44_u64.to_le_bytes());
    all.extend([45, 3, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    all.extend(counts.iter().flat_map(|number| number.to_le_bytes()));
    all.extend([0x50, 0x4b, 6, 7, 0, 0, 0, 0]);
    all.extend(large.to_le_bytes());
    all.extend([1, 0, 0, 0]);
    all.extend([0x50, 0x4b, 5, 6, 0, 0, 0, 0]);
    all.extend([0xff; 12]);
    all.extend([0, 0]);
    all
}
