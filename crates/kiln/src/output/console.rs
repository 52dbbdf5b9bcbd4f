//! The one way to standard output and standard error.

use std::io::{self, Write as _};

use anstream::{AutoStream, ColorChoice};
use anyhow::{Context as _, Result};

use crate::cli::Color;

/// Prints with or without colour, and stays silent once nobody listens.
#[derive(Debug)]
pub(crate) struct Console {
    choice: ColorChoice,
    /// What `choice` means for standard output.
    out: ColorChoice,
    closed: bool,
}

impl Console {
    pub(crate) fn new(color: Color) -> Self {
        let choice = match color {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::Always,
            Color::Never => ColorChoice::Never,
        };
        // The terminal is asked once, not for each line.
        let out = AutoStream::new(io::stdout(), choice).current_choice();
        Self { choice, out, closed: false }
    }

    /// Whether standard output shows styles.
    pub(crate) fn has_color(&self) -> bool {
        self.out != ColorChoice::Never
    }

    /// Whether the reader of standard output has gone, as `head` does.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Writes text with styles to standard output; the styles are dropped where they do not belong.
    pub(crate) fn print(&mut self, text: &str) -> Result<()> {
        if !text.contains('\x1b') {
            return self.print_raw(text);
        }
        let mut out = AutoStream::new(io::stdout().lock(), self.out);
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        self.note(written)
    }

    /// Writes text to standard output untouched, for formats that programs read.
    pub(crate) fn print_raw(&mut self, text: &str) -> Result<()> {
        self.print_bytes(text.as_bytes())
    }

    /// Writes bytes to standard output, whatever they are.
    pub(crate) fn print_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let mut out = io::stdout().lock();
        let written = out.write_all(bytes).and_then(|()| out.flush());
        self.note(written)
    }

    /// Writes a frame of a live view to the terminal: its movements stay also where colours do not.
    pub(crate) fn paint(&mut self, frame: &str) {
        let colors = AutoStream::new(io::stdout(), self.choice).current_choice();
        let written = if colors == ColorChoice::Never {
            self.print_raw(&without_styles(frame))
        } else {
            self.print_raw(frame)
        };
        // A terminal that has gone does not stop what it watched.
        let _ = written;
    }

    fn note(&mut self, written: io::Result<()>) -> Result<()> {
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            written => written.context("cannot write to standard output"),
        }
    }

    /// Writes text with styles to standard error.
    pub(crate) fn eprint(&mut self, text: &str) {
        // When standard error is gone there is no one left to tell.
        let _ = AutoStream::new(io::stderr().lock(), self.choice).write_all(text.as_bytes());
    }

    /// Says why kiln could not do what was asked.
    pub(crate) fn error(&mut self, error: &anyhow::Error) {
        let style = clap::builder::styling::AnsiColor::Red.on_default().bold();
        self.eprint(&format!("{style}error:{style:#} {error:#}\n"));
    }

    /// Says what people should know but that is no failure.
    pub(crate) fn note_line(&mut self, text: &str) {
        let style = clap::builder::styling::AnsiColor::Green.on_default().bold();
        self.eprint(&format!("{style}note:{style:#} {text}\n"));
    }
}

/// The text without the sequences that end in `m`, which set colours and weights.
fn without_styles(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let mut bare = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_digit() || c == ';'));
        match end.filter(|end| part[*end..].starts_with('m')) {
            Some(end) => bare.push_str(&part[end + 1..]),
            None => {
                bare.push_str("\x1b[");
                bare.push_str(part);
            }
        }
    }
    bare
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_frame_without_colour_still_moves() {
        let frame = "\x1b[?2026h\r\x1b[2A\x1b[1m\x1b[31mred\x1b[0m\x1b[K\x1b[J";
        assert_eq!(super::without_styles(frame), "\x1b[?2026h\r\x1b[2Ared\x1b[K\x1b[J");
    }
}
