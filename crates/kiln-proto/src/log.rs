//! The log of a job: lines with a time and a step.
//!
//! One line is `TIME STEP TEXT\n`: UTC milliseconds and the number of the step in decimal, then the text
//! as it was printed, secrets masked. A text never holds a line break. Offsets count bytes.

use std::io::Write as _;

/// A line of a log, as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    pub at: u64,
    pub step: u32,
    pub text: &'a [u8],
}

impl<'a> Line<'a> {
    pub fn write(&self, to: &mut Vec<u8>) {
        // A vector takes everything.
        let _ = write!(to, "{} {} ", self.at, self.step);
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
        let empty = Line { at: 0, step: 0, text: b"" };
        assert_eq!(Line::parse(b"0 0 "), empty);
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
