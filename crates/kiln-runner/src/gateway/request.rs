//! A request to the gateway, and what is answered.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::loopback::http::{Fault, Head};
use crate::loopback::patience::Patience;

use super::services::{Reason, Refusal};
use super::spool::BUFFER;

/// The body of a question.
const MOST_WORDS: u64 = 1 << 20;
/// Nobody pauses for longer in the middle of a body.
const PAUSE: Duration = Duration::from_mins(1);

/// What a client asks.
#[derive(Debug)]
pub(super) struct Request<'c> {
    pub(super) head: Head,
    pub(super) from: BufReader<Patience<'c>>,
    pub(super) stream: &'c TcpStream,
    /// Nothing of the body was read yet, and the client may wait to be asked for it.
    unread: bool,
}

/// Why a request is not answered as it wants.
#[derive(Debug)]
pub(super) enum Stop {
    Refused(Refusal),
    Broken(Fault),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Broken(fault)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Refused(error.into())
    }
}

pub(super) type Answer = Result<Reply, Stop>;

impl<'c> Request<'c> {
    pub(super) fn read(
        stream: &'c TcpStream,
        mut from: BufReader<Patience<'c>>,
    ) -> Result<Self, Fault> {
        let head = Head::read(&mut from)?;
        from.get_mut().go_on(PAUSE);
        Ok(Self { head, from, stream, unread: true })
    }

    pub(super) fn method(&self) -> &str {
        &self.head.method
    }

    /// A parameter of the query.
    pub(super) fn parameter(&self, name: &str) -> Option<String> {
        let pairs = self.head.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(known, _)| *known == name).find_map(|(_, value)| decode(value))
    }

    /// What follows after the scheme in `Authorization`.
    pub(super) fn credential(&self) -> Option<&str> {
        let (scheme, rest) = self.head.header("authorization")?.split_once(' ')?;
        let is_known = ["bearer", "token"].iter().any(|it| scheme.eq_ignore_ascii_case(it));
        is_known.then(|| rest.trim())
    }

    /// The body as JSON; nothing counts as an empty object.
    pub(super) fn json(&mut self) -> Result<Value, Stop> {
        let text = self.text(MOST_WORDS)?;
        if text.is_empty() {
            return Ok(Value::Object(serde_json::Map::new()));
        }
        serde_json::from_slice(&text)
            .map_err(|error| Refusal::invalid(format!("the body is no JSON: {error}")).into())
    }

    pub(super) fn text(&mut self, most: u64) -> Result<Vec<u8>, Stop> {
        let mut text = Vec::new();
        self.ask_for_body()?;
        self.head.copy_body(&mut self.from, &mut text, most)?;
        Ok(text)
    }

    /// Writes the body to a file; returns how long it was.
    pub(super) fn save(&mut self, to: &mut BufWriter<File>, most: u64) -> Result<u64, Stop> {
        self.ask_for_body()?;
        let size = self.head.copy_body(&mut self.from, to, most)?;
        to.flush()?;
        Ok(size)
    }

    fn ask_for_body(&mut self) -> Result<(), Stop> {
        let expects = self.head.header("expect");
        if std::mem::take(&mut self.unread)
            && expects.is_some_and(|it| it.eq_ignore_ascii_case("100-continue"))
        {
            let mut stream = self.stream;
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").map_err(Fault::from)?;
        }
        Ok(())
    }
}

/// What is answered.
pub(super) struct Reply {
    status: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Body,
}

enum Body {
    Words(Vec<u8>),
    Bytes {
        from: Box<dyn Read + Send>,
        length: u64,
    },
    /// Only how long it would be.
    Length(u64),
}

impl Reply {
    pub(super) fn empty(status: &'static str) -> Self {
        Self { status, headers: Vec::new(), body: Body::Words(Vec::new()) }
    }

    pub(super) fn json(value: &Value) -> Self {
        Self::json_with("200 OK", value)
    }

    pub(super) fn json_with(status: &'static str, value: &Value) -> Self {
        let body = Body::Words(value.to_string().into_bytes());
        Self { status, headers: vec![("Content-Type", "application/json".to_owned())], body }
    }

    pub(super) fn bytes(from: Box<dyn Read + Send>, length: u64) -> Self {
        Self { status: "200 OK", headers: Vec::new(), body: Body::Bytes { from, length } }
    }

    pub(super) fn length(length: u64) -> Self {
        Self { status: "200 OK", headers: Vec::new(), body: Body::Length(length) }
    }

    pub(super) fn status(mut self, status: &'static str) -> Self {
        self.status = status;
        self
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// A body that ends early is noticed by its length.
    pub(super) fn write(self, mut stream: &TcpStream) -> io::Result<()> {
        let length = match &self.body {
            Body::Words(words) => words.len() as u64,
            Body::Bytes { length, .. } | Body::Length(length) => *length,
        };
        let mut head = format!("HTTP/1.1 {}\r\n", self.status);
        for (name, value) in &self.headers {
            // What comes from a client must not become a header of its own.
            let value: String = value.chars().filter(|c| !c.is_control()).collect();
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let _ = write!(head, "Content-Length: {length}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        match self.body {
            Body::Words(words) => stream.write_all(&words),
            Body::Length(_) => Ok(()),
            Body::Bytes { from, length } => send(from.take(length), stream),
        }
    }
}

fn send(mut from: impl Read, mut to: &TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            count => to.write_all(&buffer[..count])?,
        }
    }
}

impl Reason {
    pub(super) fn status(self) -> &'static str {
        match self {
            Self::Invalid => "400 Bad Request",
            Self::Unknown => "401 Unauthorized",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::Exists => "409 Conflict",
            Self::TooLarge => "413 Content Too Large",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}

/// Percent signs and what follows them; nothing if that is no text.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = rest.get(..2).filter(|two| two.iter().all(u8::is_ascii_hexdigit))?;
        let digits = std::str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_signs_are_decoded() {
        let check = |text: &str, expect: Option<&str>| {
            assert_eq!(decode(text).as_deref(), expect, "{text}");
        };
        check("", Some(""));
        check("a%20b+c", Some("a b+c"));
        check("MDA%3D%2b", Some("MDA=+"));
        check("%e2%82%ac", Some("€"));
        for wrong in ["%", "%2", "%zz", "%ff", "%+1"] {
            check(wrong, None);
        }
    }
}
