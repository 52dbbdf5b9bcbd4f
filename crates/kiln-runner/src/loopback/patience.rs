//! How long a connection is listened to.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Reads from a connection until a point in time, or for as long as something comes.
#[derive(Debug)]
pub(crate) struct Patience<'s> {
    stream: &'s TcpStream,
    until: Option<Instant>,
    pause: Duration,
}

impl<'s> Patience<'s> {
    /// All must have been read by then.
    #[expect(clippy::disallowed_methods, reason = "a time limit needs the clock")]
    pub(crate) fn within(stream: &'s TcpStream, time: Duration) -> Self {
        Self { stream, until: Some(Instant::now() + time), pause: time }
    }

    /// From now on there is no end as long as nothing pauses for longer than this.
    pub(crate) fn go_on(&mut self, pause: Duration) {
        self.until = None;
        self.pause = pause;
    }
}

impl Read for Patience<'_> {
    #[expect(clippy::disallowed_methods, reason = "a time limit needs the clock")]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = match self.until {
            Some(until) => until.saturating_duration_since(Instant::now()),
            None => self.pause,
        };
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        (&mut &*self.stream).read(buffer)
    }
}
