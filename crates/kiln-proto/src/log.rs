//! The log of a job: lines with a time and a step.
//!
//! One line is `TIME STEP TEXT\n`: UTC milliseconds and the number of the step in decimal, then the text
//! as it was printed, secrets masked. A text never holds a line break. Offsets count bytes. Whether a line was
//! printed to standard output or to standard error is not kept: as on GitHub, both are one log.

/// A line that is longer counts as several: nothing that reads lines needs more memory.
pub const LONGEST_LINE: usize = 1 << 20;

/// The last line of a log that was cut at a limit of bytes; what is behind it is gone.
pub fn truncated(limit: u64) -> String {
    let units = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    let fits = units.into_iter().find(|(unit, _)| limit > 0 && limit.is_multiple_of(*unit));
    let (unit, name) = fits.unwrap_or((1, "bytes"));
    let number = limit / unit;
    format!("[... log truncated at {number} {name}]")
}

/// A line of a log, as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    pub at: u64,
    pub step: u32,
    pub text: &'a [u8],
}

impl<'a> Line<'a> {
    pub fn write(&self, to: &mut Vec<u8>) {
        digits(self.at, to);
        to.push(b' ');
        digits(self.step.into(), to);
        to.push(b' ');
        to.extend_from_slice(self.text);
        to.push(b'\n');
    }

    /// Reads a line without its line break. What is no line of ours is shown as it is.
    pub fn parse(line: &'a [u8]) -> Self {
        let known = || {
            let (at, rest) = number(line)?;
            let (step, text) = number(rest)?;
            Some(Self { at, step: u32::try_from(step).ok()?, text })
        };
        known().unwrap_or(Self { at: 0, step: 0, text: line })
    }
}

/// A line with its number before it, as a client reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbered<'a> {
    /// From 1.
    pub number: u64,
    pub line: Line<'a>,
}

impl<'a> Numbered<'a> {
    /// Reads `NUMBER TIME STEP TEXT` without its line break.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let (number, rest) = number(line)?;
        Some(Self { number, line: Line::parse(rest) })
    }
}

/// A number in decimal. There are two in each line, and lines come by the million.
fn digits(mut number: u64, to: &mut Vec<u8>) {
    let mut reversed = [0; 20];
    let mut count = 0;
    for place in &mut reversed {
        *place = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        count += 1;
        if number == 0 {
            break;
        }
    }
    to.extend(reversed[..count].iter().rev());
}

/// Digits up to a blank, and what follows it.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().take(21).position(|byte| *byte == b' ')?;
    let digits = std::str::from_utf8(&text[..end]).ok()?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((digits.parse().ok().filter(|_| plain)?, &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_leads_back_to_what_was_written() {
        let line = Line { at: 1_700_000_000_123, step: 4, text: b"a  b \xff" };
        let mut bytes = Vec::new();
        line.write(&mut bytes);
        assert_eq!(bytes, b"1700000000123 4 a  b \xff\n");
        assert_eq!(Line::parse(&bytes[..bytes.len() - 1]), line);
        let long = Line { at: u64::MAX, step: u32::MAX, text: b"" };
        bytes.clear();
        long.write(&mut bytes);
        assert_eq!(bytes, b"18446744073709551615 4294967295 \n");
        assert_eq!(Line::parse(&bytes[..bytes.len() - 1]), long);
        let empty = Line { at: 0, step: 0, text: b"" };
        assert_eq!(Line::parse(b"0 0 "), empty);
    }

    #[test]
    fn a_line_can_have_its_number_before_it() {
        let line = Line { at: 5, step: 1, text: b"x" };
        assert_eq!(Numbered::parse(b"7 5 1 x"), Some(Numbered { number: 7, line }));
        assert_eq!(Numbered::parse(b"x 5 1 x"), None);
        assert_eq!(Numbered::parse(b""), None);
    }

    #[test]
    fn a_cut_says_where_it_is() {
        let check = |limit, expect: &str| assert_eq!(truncated(limit), expect);
        check(40, "[... log truncated at 40 bytes]");
        check(2_000, "[... log truncated at 2 kB]");
        check(64_000_000, "[... log truncated at 64 MB]");
        check(67_108_864, "[... log truncated at 67108864 bytes]");
        check(3_000_000_000, "[... log truncated at 3 GB]");
    }

    #[test]
    fn what_is_no_line_is_shown_as_it_is() {
        for text in
            ["", "hello", "12", "12 x y", "+1 2 z", "99999999999999999999 1 x", "1 99999999999 x"]
        {
            assert_eq!(Line::parse(text.as_bytes()).text, text.as_bytes(), "{text}");
        }
    }
}
