//! One connection of HTTP/1.1, as small as it can be: what is measured is the server, and a client of the
//! usual size would take as much of the processors as it does. So answers are read where they lie.

use std::io::Write as _;

use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The header by which an access token is renewed.
const FRESH: &str = "kiln-access-token:";
const LENGTH: &str = "content-length:";
/// Answers are small; what is longer is no answer.
const LONGEST: usize = 4 << 20;

#[derive(Debug)]
pub(crate) struct Wire {
    /// Host and port.
    address: String,
    /// None before the first question, and after one that got no answer.
    stream: Option<TcpStream>,
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// It lies where it was read.
#[derive(Debug)]
pub(crate) struct Answered<'w> {
    pub(crate) status: u16,
    pub(crate) fresh: Option<&'w str>,
    pub(crate) body: &'w [u8],
}

impl Wire {
    pub(crate) fn new(url: &str) -> Self {
        let address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Self { address, stream: None, request: Vec::new(), answer: Vec::new() }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Answered<'_>, String> {
        self.ask("GET", path, "", b"").await
    }

    pub(crate) async fn post(
        &mut self,
        path: &str,
        token: &str,
        body: &[u8],
    ) -> Result<Answered<'_>, String> {
        self.ask("POST", path, token, body).await
    }

    async fn ask(
        &mut self,
        method: &str,
        path: &str,
        token: &str,
        body: &[u8],
    ) -> Result<Answered<'_>, String> {
        let Self { address, stream, request, answer } = self;
        request.clear();
        let length = body.len();
        write!(
            request,
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n",
        )
        .expect("memory takes all that is written");
        request.extend_from_slice(body);
        let answered = exchange(address, stream, request, answer).await;
        if answered.is_err() {
            *stream = None;
        }
        answered.map_err(|error| format!("{method} {path}: {error}"))
    }
}

async fn exchange<'w>(
    address: &str,
    stream: &mut Option<TcpStream>,
    request: &[u8],
    answer: &'w mut Vec<u8>,
) -> std::io::Result<Answered<'w>> {
    let stream = match stream {
        Some(stream) => stream,
        None => {
            let new = TcpStream::connect(address).await?;
            new.set_nodelay(true)?;
            stream.insert(new)
        }
    };
    stream.write_all(request).await?;
    answer.clear();
    let end = loop {
        more(stream, answer).await?;
        if let Some(end) = memmem::find(answer, b"\r\n\r\n") {
            break end + 4;
        }
    };
    let no_answer = || std::io::Error::other("what came is no answer");
    let length = length(&answer[..end]).ok_or_else(no_answer)?;
    while answer.len() < end + length {
        more(stream, answer).await?;
    }
    let (head, body) = answer.split_at(end);
    let (status, fresh) = understand(head).ok_or_else(no_answer)?;
    Ok(Answered { status, fresh, body: &body[..length] })
}

/// The value of a header, if there is one of that name.
fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let value = |line: &'h str| {
        let (found, value) = line.split_at_checked(name.len())?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    };
    head.lines().find_map(value)
}

/// How long the body is; none if what came is no answer.
fn length(head: &[u8]) -> Option<usize> {
    header(str::from_utf8(head).ok()?, LENGTH).map_or(Some(0), |text| text.parse().ok())
}

/// The status, and a fresh token.
fn understand(head: &[u8]) -> Option<(u16, Option<&str>)> {
    let head = str::from_utf8(head).ok()?;
    Some((head.get(9..12)?.parse().ok()?, header(head, FRESH)))
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<()> {
    let got = stream.read_buf(buffer).await?;
    if got == 0 || buffer.len() > LONGEST {
        return Err(std::io::Error::other("the server hung up, or says too much"));
    }
    Ok(())
}
