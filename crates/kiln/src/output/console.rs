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
        let mut out = io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        self.note(written)
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
