//! One connection of HTTP/1.1, as small as it can be: what is measured is the server, and a client of the
//! usual size would take as much of the processors as it does.

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
    buffer: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) fresh: Option<String>,
    pub(crate) body: Vec<u8>,
}

impl Wire {
    pub(crate) fn new(url: &str) -> Self {
        let address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Self { address, stream: None, buffer: Vec::new() }
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Answered, String> {
        self.ask("GET", path, "", b"").await
    }

    pub(crate) async fn post(
        &mut self,
        path: &str,
        token: &str,
        body: &[u8],
    ) -> Result<Answered, String> {
        self.ask("POST", path, token, body).await
    }

    async fn ask(
        &mut self,
        method: &str,
        path: &str,
        token: &str,
        body: &[u8],
    ) -> Result<Answered, String> {
        let answered = self.exchange(method, path, token, body).await;
        if answered.is_err() {
            self.stream = None;
        }
        answered.map_err(|error| format!("{method} {path}: {error}"))
    }

    async fn exchange(
        &mut self,
        method: &str,
        path: &str,
        token: &str,
        body: &[u8],
    ) -> std::io::Result<Answered> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(&self.address).await?;
            stream.set_nodelay(true)?;
            self.stream = Some(stream);
        }
        let stream = self.stream.as_mut().expect("it was connected just now");
        let address = &self.address;
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        stream.write_all(&request).await?;
        read(stream, &mut self.buffer).await
    }
}

async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Answered> {
    buffer.clear();
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        more(stream, buffer).await?;
    };
    let (status, length, fresh) = understand(&buffer[..end])
        .ok_or_else(|| std::io::Error::other("what came is no answer"))?;
    while buffer.len() < end + length {
        more(stream, buffer).await?;
    }
    Ok(Answered { status, fresh, body: buffer[end..end + length].to_vec() })
}

/// The status, the length of the body, and a fresh token.
fn understand(head: &[u8]) -> Option<(u16, usize, Option<String>)> {
    let head = str::from_utf8(head).ok()?;
    let (mut length, mut fresh) = (0, None);
    for line in head.lines() {
        let value = |name: &str| {
            let (found, value) = line.split_at_checked(name.len())?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        };
        if let Some(text) = value(LENGTH) {
            length = text.parse().ok()?;
        } else if let Some(text) = value(FRESH) {
            fresh = Some(text.to_owned());
        }
    }
    Some((head.get(9..12)?.parse().ok()?, length, fresh))
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<()> {
    let got = stream.read_buf(buffer).await?;
    if got == 0 || buffer.len() > LONGEST {
        return Err(std::io::Error::other("the server hung up, or says too much"));
    }
    Ok(())
}
