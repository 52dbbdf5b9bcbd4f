//! The pages of this program that are in its memory.
#![expect(unsafe_code, reason = "pages can be let go only by address")]

use std::fs;
use std::ops::Range;

/// Lets go of the program's code and constants, for the part that only the start needed: most of what an
/// idle runner has in its memory. The system keeps them as long as it has room; what is needed again comes back,
/// page by page.
pub fn let_go_of_start() {
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else { return };
    let here = let_go_of_start as *const () as usize;
    for range in unchanging(&maps, here) {
        let start = std::ptr::with_exposed_provenance_mut(range.start);
        // SAFETY: it is a whole mapping of the program's file through which nobody can write, so that what comes
        // back is what went.
        unsafe { libc::madvise(start, range.len(), libc::MADV_DONTNEED) };
    }
}

/// Where the file that has `here` among its code is mapped and never written: its code and what comes before
/// it. What comes behind may have been filled in by the loader, even if it cannot be written any more. Code that is in
/// no file would not come back.
fn unchanging(maps: &str, here: usize) -> Vec<Range<usize>> {
    let mappings: Vec<Mapping<'_>> = maps.lines().filter_map(Mapping::parse).collect();
    let Some(code) = mappings.iter().position(|mapping| mapping.range.contains(&here)) else {
        return Vec::new();
    };
    let (file, until) = (mappings[code].file, code + 1);
    if file.1 == "0" {
        return Vec::new();
    }
    let of_file = mappings.into_iter().take(until).filter(|mapping| mapping.file == file);
    of_file.filter(|mapping| !mapping.can_write).map(|mapping| mapping.range).collect()
}

/// A line of `/proc/self/maps`: `55d0c0000000-55d0c0200000 r-xp 00815000 fe:00 1234  /usr/bin/kiln`.
struct Mapping<'a> {
    range: Range<usize>,
    can_write: bool,
    /// Its device and inode.
    file: (&'a str, &'a str),
}

impl<'a> Mapping<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        let range = address(start)?..address(end)?;
        let can_write = words.next()?.contains('w');
        let file = (words.nth(1)?, words.next()?);
        Some(Self { range, can_write, file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0c0000000-55d0c0816000 r--p 00000000 fe:00 1234  /usr/bin/kiln
55d0c0816000-55d0c27a1000 r-xp 00815000 fe:00 1234  /usr/bin/kiln
55d0c27a1000-55d0c289c000 r--p 0279f000 fe:00 1234  /usr/bin/kiln
55d0c289c000-55d0c28a6000 rw-p 02899000 fe:00 1234  /usr/bin/kiln
55d0c28a6000-55d0c28b2000 rw-p 00000000 00:00 0
7f0000000000-7f0000026000 r--p 00000000 fe:00 99    /usr/lib/libc.so.6
7f0000026000-7f000017b000 r-xp 00026000 fe:00 99    /usr/lib/libc.so.6
";

    #[test]
    fn what_the_loader_fills_in_is_kept() {
        let expected = [0x55d0_c000_0000..0x55d0_c081_6000, 0x55d0_c081_6000..0x55d0_c27a_1000];
        assert_eq!(unchanging(MAPS, 0x55d0_c100_0000), expected);
    }

    #[test]
    fn code_that_is_nowhere_lets_nothing_go() {
        assert!(unchanging(MAPS, 0x1000).is_empty());
        assert!(unchanging("no map\n", 0x1000).is_empty());
        let unpacked = MAPS.replace("fe:00 1234  /usr/bin/kiln", "00:00 0");
        assert!(unchanging(&unpacked, 0x55d0_c100_0000).is_empty());
    }

    #[test]
    fn the_program_goes_on_with_less_in_memory() {
        let resident = || {
            let maps = fs::read_to_string("/proc/self/smaps_rollup").unwrap();
            let line = maps.lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
            line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        let before = resident();
        let_go_of_start();
        assert!(resident() < before, "{} is not below {before} kB", resident());
    }
}
