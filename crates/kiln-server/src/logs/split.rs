//! Where lines end. Everything that counts lines uses this, so that all count alike.

use kiln_proto::log::LONGEST_LINE;
use memchr::memchr;

/// The end of the first line, behind its line break. None when it has none yet and is not too long.
pub fn line_end(bytes: &[u8]) -> Option<usize> {
    let window = &bytes[..bytes.len().min(LONGEST_LINE)];
    match memchr(b'\n', window) {
        Some(at) => Some(at + 1),
        None if window.len() == LONGEST_LINE => Some(LONGEST_LINE),
        None => None,
    }
}

/// Lines with their line breaks. What is left at the end without one is not among them.
#[derive(Debug, Clone)]
pub struct Lines<'b>(pub &'b [u8]);

impl<'b> Iterator for Lines<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        let (line, rest) = self.0.split_at(line_end(self.0)?);
        self.0 = rest;
        Some(line)
    }
}

/// How many bytes at the beginning are whole lines.
pub fn whole(bytes: &[u8]) -> usize {
    let mut lines = Lines(bytes);
    // Where no line is too long, the last line break says it without a look at the others.
    if bytes.len() < LONGEST_LINE {
        return memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
    }
    while lines.next().is_some() {}
    bytes.len() - lines.0.len()
}

/// A line without its line break.
pub fn bare(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_its_break_or_when_it_is_too_long() {
        let long = [vec![b'x'; LONGEST_LINE + 3], b"\nrest".to_vec()].concat();
        let lengths: Vec<usize> = Lines(&long).map(<[u8]>::len).collect();
        assert_eq!(lengths, [LONGEST_LINE, 4]);
        assert_eq!(whole(&long), LONGEST_LINE + 4);
        assert_eq!(whole(b"a\n\nb"), 3);
        assert_eq!(whole(b"b"), 0);
        assert_eq!(Lines(b"a\n\nb").collect::<Vec<_>>(), [&b"a\n"[..], b"\n"]);
        assert_eq!(bare(b"a\r\n"), b"a\r");
    }
}
