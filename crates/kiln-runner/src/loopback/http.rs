//! Requests of HTTP/1.1, as far as git and the clients of actions send them, with a bound on everything.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// The request line and all headers.
const MAX_HEAD: u64 = 16 * 1024;
/// What a body for git may hold, compressed or not. A negotiation over a hundred thousand commits is 5 MB.
pub(crate) const MAX_BODY: u64 = 64 * 1024 * 1024;

/// What a client wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    /// With names in lower case.
    headers: Vec<(String, String)>,
}

/// Why a request gets no answer of its own.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The client went away, or was too slow.
    Gone,
    Malformed(&'static str),
    TooLarge,
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                Self::Malformed("the body is not what its headers say")
            }
            _ => Self::Gone,
        }
    }
}

impl Head {
    pub(crate) fn read(from: &mut impl BufRead) -> Result<Self, Fault> {
        let mut limited = from.take(MAX_HEAD);
        let request = line(&mut limited)?;
        let mut words = request.split(' ');
        let (method, target, version) = (words.next(), words.next(), words.next());
        let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
            (method, target, version, words.next())
        else {
            return Err(Fault::Malformed("this is no request of HTTP/1.1"));
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut head = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: Vec::new(),
        };
        loop {
            let line = line(&mut limited)?;
            if line.is_empty() {
                return Ok(head);
            }
            let Some((name, value)) = line.split_once(':') else {
                return Err(Fault::Malformed("a header has no colon"));
            };
            head.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Passes on the whole body, without the encodings of its transport. Returns its length, which is
    /// no more than `most`.
    pub(crate) fn copy_body(
        &self,
        from: &mut impl BufRead,
        to: &mut impl io::Write,
        most: u64,
    ) -> Result<u64, Fault> {
        let is_chunked =
            self.header("transfer-encoding").is_some_and(|is| is.eq_ignore_ascii_case("chunked"));
        if is_chunked {
            let chunks = io::BufReader::new(Chunks { from, left: 0, is_over: false });
            return self.decode(chunks, to, most);
        }
        let length = self.header("content-length").unwrap_or("0");
        let length: u64 =
            length.parse().map_err(|_| Fault::Malformed("the length of the body is no number"))?;
        if length > most {
            return Err(Fault::TooLarge);
        }
        let mut body = from.take(length);
        let copied = self.decode(&mut body, to, most)?;
        // Whoever hangs up in the middle has sent nothing.
        if body.limit() == 0 { Ok(copied) } else { Err(Fault::Gone) }
    }

    fn decode(&self, from: impl BufRead, to: &mut impl io::Write, most: u64) -> Result<u64, Fault> {
        match self.header("content-encoding") {
            None | Some("identity") => copy(from, to, most),
            Some("gzip" | "x-gzip") => copy(GzDecoder::new(from), to, most),
            Some(_) => Err(Fault::Malformed("the body is neither plain nor gzip")),
        }
    }
}

fn copy(from: impl Read, to: &mut impl io::Write, most: u64) -> Result<u64, Fault> {
    let copied = io::copy(&mut from.take(most.saturating_add(1)), to)?;
    if copied > most { Err(Fault::TooLarge) } else { Ok(copied) }
}

/// A line without its ending.
fn line(from: &mut io::Take<&mut impl BufRead>) -> Result<String, Fault> {
    let mut bytes = Vec::new();
    from.read_until(b'\n', &mut bytes)?;
    if bytes.pop() != Some(b'\n') {
        return Err(if from.limit() == 0 { Fault::TooLarge } else { Fault::Gone });
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    String::from_utf8(bytes).map_err(|_| Fault::Malformed("the head is not text"))
}

/// The body of a request that does not know its length beforehand.
struct Chunks<'f, F> {
    from: &'f mut F,
    /// How much of the current chunk is still to come.
    left: u64,
    is_over: bool,
}

impl<F: BufRead> Read for Chunks<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.is_over {
            self.left = self.next()?;
            self.is_over = self.left == 0;
        }
        if self.is_over || buffer.is_empty() {
            return Ok(0);
        }
        let count = Read::take(&mut *self.from, self.left).read(buffer)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        if self.left == 0 && !self.line()?.is_empty() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(count)
    }
}

impl<F: BufRead> Chunks<'_, F> {
    /// The size of the next chunk; 0 at the end.
    fn next(&mut self) -> io::Result<u64> {
        let line = self.line()?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(digits, 16)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        // Trailers mean nothing here; they end with an empty line.
        while size == 0 && !self.line()?.is_empty() {}
        Ok(size)
    }

    fn line(&mut self) -> io::Result<String> {
        line(&mut Read::take(&mut *self.from, MAX_HEAD)).map_err(|fault| match fault {
            Fault::Gone => io::ErrorKind::UnexpectedEof.into(),
            _ => io::ErrorKind::InvalidData.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use io::Write as _;
    use proptest::prelude::*;

    fn request(text: &[u8]) -> Result<(Head, Vec<u8>), Fault> {
        let mut from = text;
        let head = Head::read(&mut from)?;
        let mut body = Vec::new();
        head.copy_body(&mut from, &mut body, MAX_BODY)?;
        Ok((head, body))
    }

    fn check_body(headers: &str, body: &[u8], expect: Result<&[u8], Fault>) {
        let text = [b"POST / HTTP/1.1\r\n", headers.as_bytes(), b"\r\n", body].concat();
        let found = request(&text).map(|(_, body)| body);
        assert_eq!(found, expect.map(<[u8]>::to_vec), "{headers}");
    }

    #[test]
    fn a_head_is_taken_apart() {
        let text =
            b"GET /o/r/info/refs?service=x HTTP/1.1\r\nHost: a\r\nGIT-Protocol:  version=2 \n\r\n";
        let (head, body) = request(text).unwrap();
        assert_eq!((head.method.as_str(), head.path.as_str()), ("GET", "/o/r/info/refs"));
        assert_eq!(head.query, "service=x");
        assert_eq!(head.header("git-protocol"), Some("version=2"));
        assert_eq!(head.header("accept"), None);
        assert!(body.is_empty());
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let check = |text: &[u8], expect: fn(&Fault) -> bool| {
            let fault = request(text).unwrap_err();
            assert!(expect(&fault), "{fault:?}");
        };
        let malformed = |fault: &Fault| matches!(fault, Fault::Malformed(_));
        check(b"", |fault| *fault == Fault::Gone);
        check(b"GET / HTTP/1.1\r\nHost: a", |fault| *fault == Fault::Gone);
        check(b"GET / HTTP/2\r\n\r\n", malformed);
        check(b"GET / x HTTP/1.1\r\n\r\n", malformed);
        check(b"\x16\x03\x01\n", malformed);
        check(b"GET / HTTP/1.1\r\nno colon\r\n\r\n", malformed);
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(20_000));
        check(long.as_bytes(), |fault| *fault == Fault::TooLarge);
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(5_000));
        check(many.as_bytes(), |fault| *fault == Fault::TooLarge);
    }

    #[test]
    fn a_body_is_as_long_as_it_says_or_comes_in_chunks() {
        check_body("Content-Length: 2\r\n", b"abc", Ok(b"ab"));
        check_body("Content-Length: 4\r\n", b"abc", Err(Fault::Gone));
        check_body(
            "Content-Length: -1\r\n",
            b"",
            Err(Fault::Malformed("the length of the body is no number")),
        );
        check_body("Content-Length: 99999999999\r\n", b"", Err(Fault::TooLarge));
        let chunked = "Transfer-Encoding: chunked\r\n";
        check_body(
            chunked,
            b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: x\r\n\r\n",
            Ok(b"abc0123456789"),
        );
        check_body(chunked, b"3\r\nab", Err(Fault::Gone));
        let malformed = Fault::Malformed("the body is not what its headers say");
        check_body(chunked, b"x\r\nabc\r\n", Err(malformed));
        let malformed = Fault::Malformed("the body is not what its headers say");
        check_body(chunked, b"3\r\nabcdef\r\n", Err(malformed));
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_compressed_body_is_bounded_by_what_it_holds() {
        let body = gzip(b"0032want");
        let headers = format!("Content-Encoding: gzip\r\nContent-Length: {}\r\n", body.len());
        check_body(&headers, &body, Ok(b"0032want"));
        let bomb = gzip(&vec![0; usize::try_from(MAX_BODY).unwrap() + 1]);
        assert!(bomb.len() < 1_000_000);
        let headers = format!("Content-Encoding: gzip\r\nContent-Length: {}\r\n", bomb.len());
        check_body(&headers, &bomb, Err(Fault::TooLarge));
        check_body(
            "Content-Encoding: br\r\nContent-Length: 1\r\n",
            b"x",
            Err(Fault::Malformed("the body is neither plain nor gzip")),
        );
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_odd(tail in proptest::collection::vec(any::<u8>(), 0..300), chunked: bool) {
            let _ = request(&tail);
            let kind = if chunked { "Transfer-Encoding: chunked" } else { "Content-Encoding: gzip\r\nContent-Length: 99" };
            let head = format!("POST / HTTP/1.1\r\n{kind}\r\n\r\n");
            let _ = request(&[head.as_bytes(), &tail].concat());
        }
    }
}
