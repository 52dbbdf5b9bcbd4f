//! From bytes of a pipe to lines.

use std::io;
use std::os::fd::AsFd;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;

/// Longer lines are passed in pieces of at most so many bytes.
pub const MAX_LINE: usize = 64 * 1024;

/// What is read at once: all that fits into a pipe.
const READ: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// What follows a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A line break, which is not part of the text: `\n` or `\r\n`.
    Newline,
    /// More of the same line, in the next call for this stream: the line is longer than [`MAX_LINE`].
    Continued,
    /// The end of the stream; the last line had no line break.
    EndOfStream,
}

/// Takes the output of a process.
pub trait Sink {
    /// A line, or a piece of a long one. The bytes are those of the process, not necessarily UTF-8;
    /// but a piece does not end within a character.
    fn line(&mut self, stream: Stream, text: &[u8], ending: Ending);

    /// All that has arrived so far was passed on: a good moment to write out what was buffered.
    fn flush(&mut self) {}
}

/// The part of a stream that has been read but has no line break yet.
pub(super) struct Lines {
    stream: Stream,
    bytes: Vec<u8>,
}

impl Lines {
    pub(super) fn new(stream: Stream) -> Self {
        // Memory comes with the first read: many processes print nothing.
        let bytes = Vec::new();
        Self { stream, bytes }
    }

    /// Reads once and passes on what is complete. `false` at the end of the stream.
    pub(super) fn read(&mut self, from: impl AsFd, sink: &mut dyn Sink) -> io::Result<bool> {
        self.bytes.reserve_exact(READ);
        let known = self.bytes.len();
        let count = match rustix::io::read(from, spare_capacity(&mut self.bytes)) {
            Err(Errno::INTR | Errno::AGAIN) => return Ok(true),
            read => read?,
        };
        if count == 0 {
            self.finish(sink);
            return Ok(false);
        }
        self.split(known, sink);
        Ok(true)
    }

    /// Passes on what is left without a line break.
    pub(super) fn finish(&mut self, sink: &mut dyn Sink) {
        if !self.bytes.is_empty() {
            pass(self.stream, &self.bytes, Ending::EndOfStream, sink);
            self.bytes.clear();
        }
    }

    /// Passes on the lines that end after the first `known` bytes, which have no line break.
    fn split(&mut self, known: usize, sink: &mut dyn Sink) {
        let mut start = 0;
        for found in memchr::memchr_iter(b'\n', &self.bytes[known..]) {
            let end = known + found;
            let line = &self.bytes[start..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            pass(self.stream, line, Ending::Newline, sink);
            start = end + 1;
        }
        // A byte stays back, so that the ending of the last piece is known when it is passed.
        while self.bytes.len() - start > MAX_LINE {
            let piece = piece_of(&self.bytes[start..]);
            sink.line(self.stream, piece, Ending::Continued);
            start += piece.len();
        }
        self.bytes.drain(..start);
    }
}

/// Passes on a line, in pieces where it is long.
fn pass(stream: Stream, mut line: &[u8], ending: Ending, sink: &mut dyn Sink) {
    while line.len() > MAX_LINE {
        let piece = piece_of(line);
        sink.line(stream, piece, Ending::Continued);
        line = &line[piece.len()..];
    }
    sink.line(stream, line, ending);
}

/// The first piece of a line that is too long, cut between characters if it is UTF-8.
fn piece_of(line: &[u8]) -> &[u8] {
    let continues = |byte: u8| byte & 0b1100_0000 == 0b1000_0000;
    let cut = (MAX_LINE - 3..=MAX_LINE).rev().find(|&at| !continues(line[at]));
    &line[..cut.unwrap_or(MAX_LINE)]
}

#[cfg(test)]
mod tests {
    use super::{Ending, Lines, MAX_LINE, Sink, Stream};
    use proptest::prelude::*;

    #[derive(Default)]
    struct Pieces(Vec<(Vec<u8>, Ending)>);

    impl Sink for Pieces {
        fn line(&mut self, _: Stream, text: &[u8], ending: Ending) {
            assert!(text.len() <= MAX_LINE);
            self.0.push((text.to_vec(), ending));
        }
    }

    fn pieces(reads: &[&[u8]]) -> Vec<(Vec<u8>, Ending)> {
        let mut pieces = Pieces::default();
        let mut lines = Lines::new(Stream::Stdout);
        for read in reads {
            let known = lines.bytes.len();
            lines.bytes.extend_from_slice(read);
            lines.split(known, &mut pieces);
        }
        lines.finish(&mut pieces);
        pieces.0
    }

    fn check(reads: &[&str], expect: &[(&str, Ending)]) {
        let reads: Vec<&[u8]> = reads.iter().map(|read| read.as_bytes()).collect();
        let expect = expect.iter().map(|(text, ending)| (text.as_bytes().to_vec(), *ending));
        assert_eq!(pieces(&reads), expect.collect::<Vec<_>>());
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        use Ending::{EndOfStream, Newline};
        check(&[], &[]);
        check(&["\n"], &[("", Newline)]);
        check(&["a\nb\n"], &[("a", Newline), ("b", Newline)]);
        check(&["a", "\n", "b"], &[("a", Newline), ("b", EndOfStream)]);
        check(&["a\r", "\nb\rc\r\n"], &[("a", Newline), ("b\rc", Newline)]);
        check(&["a\r"], &[("a\r", EndOfStream)]);
    }

    #[test]
    fn a_long_line_comes_in_pieces_and_the_last_one_ends_it() {
        let long = "x".repeat(MAX_LINE);
        let check = |tail: &str, expect: &[(&str, Ending)]| {
            check(&[&format!("{long}{tail}")], expect);
            check(&[&long, tail], expect);
        };
        check("\n", &[(&long, Ending::Newline)]);
        check("\r\n", &[(&long, Ending::Newline)]);
        check("", &[(&long, Ending::EndOfStream)]);
        check("y\n", &[(&long, Ending::Continued), ("y", Ending::Newline)]);
        check("y", &[(&long, Ending::Continued), ("y", Ending::EndOfStream)]);
    }

    #[test]
    fn a_piece_does_not_end_within_a_character() {
        for shift in 0..4 {
            let line = format!("{}{}", "x".repeat(shift), "🦀".repeat(MAX_LINE / 4 + 2));
            let pieces = pieces(&[line.as_bytes()]);
            assert_eq!(pieces.len(), 2);
            assert!(pieces.iter().all(|(text, _)| str::from_utf8(text).is_ok()));
        }
        // Bytes that are no text are cut where they must be.
        assert_eq!(pieces(&[&vec![0x80; MAX_LINE + 1]])[0].0.len(), MAX_LINE);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_between_reads(
            text in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..400),
            cut in 0..400_usize,
        ) {
            let cut = cut.min(text.len());
            let whole = pieces(&[&text]);
            prop_assert_eq!(&pieces(&[&text[..cut], &text[cut..]]), &whole);
            let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
            let last = lines.pop().filter(|last| !last.is_empty());
            let mut expect: Vec<Vec<u8>> = lines.iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec()).collect();
            expect.extend(last.map(<[u8]>::to_vec));
            prop_assert_eq!(whole.into_iter().map(|piece| piece.0).collect::<Vec<_>>(), expect);
        }
    }
}
