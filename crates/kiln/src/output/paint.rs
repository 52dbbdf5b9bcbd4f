//! How a frame replaces the one before it: one text for the terminal, and nothing when nothing
//! changed. The cursor is never hidden, so that no end of the program can leave it so.

use std::fmt::Write as _;

use super::frame::Size;
use super::text::width;

/// Terminals that know these show the text between them at once; the others ignore them.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";

/// What is on the terminal now.
#[derive(Debug, Default)]
pub(crate) struct Painted {
    lines: Vec<String>,
    columns: usize,
}

impl Painted {
    /// The text that puts `above` where it scrolls away, and `lines` in the place of the last ones.
    pub(crate) fn replace(
        &mut self,
        above: &str,
        lines: Vec<String>,
        size: Size,
    ) -> Option<String> {
        if above.is_empty() && lines == self.lines && size.columns == self.columns {
            return None;
        }
        let mut text = format!("{BEGIN}{}", self.back_to_start(size.columns));
        for line in above.lines() {
            let _ = write!(text, "{line}\x1b[K\r\n");
        }
        for (index, line) in lines.iter().enumerate() {
            let _ = write!(text, "{}{line}\x1b[K", if index > 0 { "\r\n" } else { "" });
        }
        text.push_str("\x1b[J");
        text.push_str(END);
        *self = Self { lines, columns: size.columns };
        Some(text)
    }

    /// Something else wrote to the terminal: what comes next starts on a new line.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Moves to the first line of the frame. A terminal that became narrower has wrapped the lines.
    fn back_to_start(&self, columns: usize) -> String {
        let rows = |line: &String| {
            let bare = anstream::adapter::strip_str(line).to_string();
            width(&bare).max(1).div_ceil(columns.max(1))
        };
        let up = self.lines.iter().map(rows).sum::<usize>().saturating_sub(1);
        if up > 0 { format!("\r\x1b[{up}A") } else { "\r".to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[&str]) -> Vec<String> {
        text.iter().map(|&line| line.to_owned()).collect()
    }

    const SIZE: Size = Size { columns: 20, rows: 10 };

    #[test]
    fn a_frame_is_written_over_the_one_before_and_only_when_it_differs() {
        let mut painted = Painted::default();
        let first = painted.replace("", lines(&["a", "b"]), SIZE);
        assert_eq!(first.as_deref(), Some("\x1b[?2026h\ra\x1b[K\r\nb\x1b[K\x1b[J\x1b[?2026l"));
        assert_eq!(painted.replace("", lines(&["a", "b"]), SIZE), None);
        let next = painted.replace("done\n", lines(&["c"]), SIZE);
        assert_eq!(
            next.as_deref(),
            Some("\x1b[?2026h\r\x1b[1Adone\x1b[K\r\nc\x1b[K\x1b[J\x1b[?2026l")
        );
        let cleared = painted.replace("", Vec::new(), SIZE);
        assert_eq!(cleared.as_deref(), Some("\x1b[?2026h\r\x1b[J\x1b[?2026l"));
    }

    #[test]
    fn lines_that_a_narrower_terminal_has_wrapped_are_counted() {
        let mut painted = Painted::default();
        painted.replace("", lines(&["\x1b[1m0123456789\x1b[0m", "", "x"]), SIZE);
        let narrow = Size { columns: 4, rows: 10 };
        let text = painted.replace("", lines(&["y"]), narrow).expect("it differs");
        assert!(text.starts_with("\x1b[?2026h\r\x1b[4Ay"), "{text:?}");
        painted.forget();
        assert!(
            painted
                .replace("", lines(&["y"]), narrow)
                .expect("it is new")
                .starts_with("\x1b[?2026h\ry")
        );
    }
}
