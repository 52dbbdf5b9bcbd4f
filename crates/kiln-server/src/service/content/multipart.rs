//! Forms as browsers and `curl -F` send them (RFC 7578), read as they come.
//!
//! Nothing is kept but what may be the beginning of a boundary, however large a file is.

use axum::http::{HeaderMap, header};
use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::{Stream, StreamExt as _};
use memchr::memmem;

use crate::http::error::{Answer, Failure};

/// The most bytes that the headers of a part may have.
const HEADERS: usize = 16 << 10;
/// The longest boundary that there may be.
const BOUNDARY: usize = 70;

/// One field of a form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) file: Option<String>,
    pub(super) content_type: Option<String>,
}

/// A form that is being read.
pub(super) struct Form<S> {
    stream: S,
    buffer: BytesMut,
    /// A line break, two dashes and the boundary: so every part ends.
    delimiter: Vec<u8>,
    is_over: bool,
}

fn wrong(why: &str) -> Failure {
    Failure::invalid(format!("the form cannot be read: {why}"))
}

/// The boundary that the head of a request names.
pub(super) fn boundary(headers: &HeaderMap) -> Answer<String> {
    let expected =
        || Failure::invalid("expected a form: `Content-Type: multipart/form-data; boundary=…`");
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let (kind, rest) = text.and_then(|text| text.split_once(';')).ok_or_else(expected)?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return Err(expected());
    }
    let found = parameter(rest, "boundary").ok_or_else(expected)?;
    if found.is_empty() || found.len() > BOUNDARY { Err(expected()) } else { Ok(found) }
}

/// `name=value` or `name="value"` among others, with `;` between.
fn parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches([';', ' ', '\t']);
        let (key, after) = rest.split_once('=')?;
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(';').unwrap_or((after, "")),
        };
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(value.trim().to_owned());
        }
        rest = next;
    }
}

impl<S, E> Form<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: std::fmt::Display,
{
    pub(super) fn new(stream: S, boundary: &str) -> Self {
        // The first boundary has no line before it; this is as if it had.
        let buffer = BytesMut::from(&b"\r\n"[..]);
        let delimiter = format!("\r\n--{boundary}").into_bytes();
        Self { stream, buffer, delimiter, is_over: false }
    }

    /// More bytes, or the mistake that there are none.
    async fn more(&mut self) -> Answer<()> {
        match self.stream.next().await {
            Some(Ok(bytes)) => {
                self.buffer.extend_from_slice(&bytes);
                Ok(())
            }
            Some(Err(error)) => Err(wrong(&error.to_string())),
            None => Err(wrong("it ends in the middle")),
        }
    }

    /// The next part; what is left of the one before is passed over.
    pub(super) async fn part(&mut self) -> Answer<Option<Part>> {
        while self.piece().await?.is_some() {}
        if self.is_over {
            return Ok(None);
        }
        while self.buffer.len() < self.delimiter.len() + 2 {
            self.more().await?;
        }
        self.buffer.advance(self.delimiter.len());
        if self.buffer.starts_with(b"--") {
            self.is_over = true;
            return Ok(None);
        }
        let end = loop {
            if let Some(end) = memmem::find(&self.buffer, b"\r\n\r\n") {
                break end;
            }
            if self.buffer.len() > HEADERS {
                return Err(wrong("a part has too many headers"));
            }
            self.more().await?;
        };
        let head = self.buffer.split_to(end);
        self.buffer.advance(4);
        // A part without bytes ends right here: the line break belongs to the boundary.
        read_head(&head).map(Some)
    }

    /// The next bytes of the part, until there are none.
    pub(super) async fn piece(&mut self) -> Answer<Option<Bytes>> {
        loop {
            if self.is_over {
                return Ok(None);
            }
            if let Some(end) = memmem::find(&self.buffer, &self.delimiter) {
                let rest = self.buffer.split_to(end);
                return Ok((!rest.is_empty()).then(|| rest.freeze()));
            }
            // All but what may be the beginning of a boundary.
            let sure = self.buffer.len().saturating_sub(self.delimiter.len());
            if sure > 0 {
                return Ok(Some(self.buffer.split_to(sure).freeze()));
            }
            self.more().await?;
        }
    }

    /// A part that is a short text.
    pub(super) async fn text(&mut self, longest: usize) -> Answer<String> {
        let mut all = Vec::new();
        while let Some(piece) = self.piece().await? {
            all.extend_from_slice(&piece);
            if all.len() > longest {
                return Err(wrong("a field is too long"));
            }
        }
        String::from_utf8(all).map_err(|_| wrong("a field is no text"))
    }
}

fn read_head(head: &[u8]) -> Answer<Part> {
    let head = std::str::from_utf8(head).map_err(|_| wrong("the headers of a part are no text"))?;
    let mut part = Part::default();
    for line in head.split("\r\n").filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or_else(|| wrong("a header has no `:`"))?;
        if name.eq_ignore_ascii_case("content-disposition") {
            part.name = parameter(value.split_once(';').map_or("", |(_, rest)| rest), "name")
                .ok_or_else(|| wrong("a part has no name"))?;
            part.file = parameter(value.split_once(';').map_or("", |(_, rest)| rest), "filename");
        } else if name.eq_ignore_ascii_case("content-type") {
            part.content_type = Some(value.trim().to_owned());
        }
    }
    Ok(part)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const TEXT: &[u8] = b"--XX\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\ndist\r\n\
        --XX\r\ncontent-disposition: form-data; filename=\"a.zip\"; name=file\r\n\
        Content-Type: application/zip\r\n\r\nPK\r\n--X\r\n\r\n--XY\r\n--XX\r\n\
        Content-Disposition: form-data; name=empty\r\n\r\n\r\n--XX--\r\nrest";

    async fn read(text: &'static [u8], size: usize) -> Answer<Vec<(Part, Vec<u8>)>> {
        let pieces: Vec<_> =
            text.chunks(size).map(|piece| Ok::<_, Infallible>(Bytes::from_static(piece))).collect();
        let mut form = Form::new(futures_util::stream::iter(pieces), "XX");
        let mut parts = Vec::new();
        while let Some(part) = form.part().await? {
            let mut bytes = Vec::new();
            while let Some(piece) = form.piece().await? {
                bytes.extend_from_slice(&piece);
            }
            parts.push((part, bytes));
        }
        Ok(parts)
    }

    #[tokio::test]
    async fn a_form_is_read_in_whatever_pieces_it_comes() {
        for size in 1..=TEXT.len() {
            let parts = read(TEXT, size).await.unwrap();
            let [(name, dist), (file, bytes), (empty, nothing)] = &parts[..] else {
                panic!("{size}: {parts:?}")
            };
            assert_eq!((name.name.as_str(), dist.as_slice()), ("name", &b"dist"[..]));
            assert_eq!((file.name.as_str(), file.file.as_deref()), ("file", Some("a.zip")));
            assert_eq!(file.content_type.as_deref(), Some("application/zip"));
            assert_eq!(bytes, b"PK\r\n--X\r\n\r\n--XY", "{size}");
            assert_eq!((empty.name.as_str(), nothing.len()), ("empty", 0));
        }
    }

    #[tokio::test]
    async fn a_form_that_breaks_off_is_refused_wherever_it_does() {
        let end = TEXT.len() - b"--\r\nrest".len();
        for length in 0..end {
            assert!(read(&TEXT[..length], 7).await.is_err(), "{length}");
        }
        assert!(read(b"--XX\r\n\r\n\r\n--XX--", 3).await.is_ok(), "a part may say nothing");
        assert!(read(b"--XX\r\nnonsense\r\n\r\n\r\n--XX--", 3).await.is_err());
        let long: &'static [u8] = vec![b'x'; HEADERS + 10].leak();
        let long: &'static [u8] = [b"--XX\r\n", long].concat().leak();
        assert!(read(long, 1_000).await.is_err());
    }

    #[test]
    fn the_boundary_is_what_the_head_says() {
        let check = |text: &str, expect: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, text.parse().unwrap());
            assert_eq!(boundary(&headers).ok().as_deref(), expect, "{text}");
        };
        check("multipart/form-data; boundary=abc", Some("abc"));
        check("Multipart/Form-Data; charset=x; Boundary=\"a b\"", Some("a b"));
        for wrong in
            ["multipart/form-data", "multipart/mixed; boundary=a", "text/plain; boundary=a"]
        {
            check(wrong, None);
        }
        check("multipart/form-data; boundary=", None);
        check(&format!("multipart/form-data; boundary={}", "x".repeat(71)), None);
    }
}
