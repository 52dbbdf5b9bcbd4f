//! Bytes at an address that was given out: the part of Azure's block blobs that GitHub's clients use.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use kiln_proto::content::{Artifact, NewCache};

use super::door::{Door, no_such};
use super::grants::{Entry, Grant, Pending};
use super::request::{Answer, Reply, Request};
use super::services::{Refusal, Spooled, Stored};
use super::spool::MOST_BYTES;
use super::twirp;

/// One block; clients send 8 or 64 MiB.
const MOST_IN_BLOCK: u64 = 256 << 20;
/// All at once; clients send up to 128 MiB so.
const MOST_AT_ONCE: u64 = 5000 << 20;
/// Azure's own limit of an id, in base64.
const LONGEST_ID: usize = 88;
/// The ids of all blocks.
const LONGEST_LIST: u64 = 8 << 20;
/// Clients hang up when they hear nothing for minutes.
const SIGN_OF_LIFE: Duration = Duration::from_secs(20);

impl Door {
    /// An address of something that is complete.
    pub(super) fn download(
        &self,
        stored: Stored,
        content_type: &str,
        name: &str,
    ) -> Result<String, Refusal> {
        let (content_type, name) = (content_type.to_owned(), name.to_owned());
        Ok(self.address(&self.grants.give(Grant::Read { stored, content_type, name })?))
    }

    pub(super) fn download_artifact(&self, artifact: &Artifact) -> Result<String, Refusal> {
        let is_zip = artifact.content_type == "application/zip";
        let name = format!("{}{}", artifact.name, if is_zip { ".zip" } else { "" });
        self.download(Stored::from(artifact), &artifact.content_type, &name)
    }

    /// Begins the upload of a cache. What this job began and did not complete is begun anew.
    pub(super) fn begin_cache(&self, new: NewCache) -> Result<std::sync::Arc<Pending>, Refusal> {
        let entry = Entry::Cache(new.clone());
        let id = match self.grants.pending(&entry) {
            Some(pending) => pending.id,
            None => self.services.reserve_cache(&new).map_err(twirp::denied)?,
        };
        self.grants.begin(entry, id)
    }

    /// Sends on what has come, while the client hears that somebody is still there.
    pub(super) fn send_on(&self, stream: &TcpStream, bytes: &Spooled) -> Result<(), Refusal> {
        while_working(stream, SIGN_OF_LIFE, || self.services.send(bytes))
    }
}

pub(super) fn answer(door: &Door, request: &mut Request<'_>, number: &str) -> Answer {
    let word = request.parameter("sig").unwrap_or_default();
    let grant = door.grants.look(number, &word);
    let nothing = || Refusal::not_found("this address is good for nothing, or not any more");
    match (grant.ok_or_else(nothing)?, request.method()) {
        (Grant::Write(pending), "PUT") => write(door, request, &pending),
        (Grant::Read { stored, content_type, name }, "GET" | "HEAD") => {
            Ok(read(door, request, &stored)?
                .header("Content-Type", content_type)
                .header("Content-Disposition", disposition(&name)))
        }
        _ => Err(no_such(request)),
    }
}

fn write(door: &Door, request: &mut Request<'_>, pending: &Pending) -> Answer {
    let upload = &pending.upload;
    match request.parameter("comp").as_deref() {
        None => {
            let mut piece = door.spool.file()?;
            piece.size = request.save(&mut piece.writer()?, MOST_AT_ONCE)?;
            let bytes = upload.put(piece)?;
            door.send_on(request.stream, &bytes)?;
        }
        Some("block") => {
            let id = request.parameter("blockid").filter(|id| (1..=LONGEST_ID).contains(&id.len()));
            let id = id.ok_or_else(|| Refusal::invalid("a block has an id of 1 to 64 bytes"))?;
            let mut piece = door.spool.file()?;
            piece.size = request.save(&mut piece.writer()?, MOST_IN_BLOCK)?;
            upload.add_block(id, piece)?;
        }
        Some("blocklist") => {
            let list = block_list(&request.text(LONGEST_LIST)?)?;
            let bytes = upload.assemble(list, &door.spool)?;
            door.send_on(request.stream, &bytes)?;
        }
        Some(other) => {
            return Err(Refusal::invalid(format!("Kiln does not know `comp={other}`")).into());
        }
    }
    Ok(Reply::empty("201 Created"))
}

fn read(door: &Door, request: &Request<'_>, stored: &Stored) -> Answer {
    let size = stored.size;
    let range = request.head.header("range").or_else(|| request.head.header("x-ms-range"));
    let (from, to) = match range.map(|text| span(text, size)) {
        Some(Span::Unsatisfiable) => {
            let all = format!("bytes */{size}");
            let reply = Reply::empty("416 Range Not Satisfiable");
            return Ok(reply.header("Content-Range", all));
        }
        Some(Span::Part(from, to)) => (from, to),
        Some(Span::All) | None => (0, size),
    };
    let reply = if request.method() == "HEAD" {
        Reply::length(to - from)
    } else {
        Reply::bytes(door.services.open(stored, from)?, to - from)
    };
    let reply = reply.header("Accept-Ranges", "bytes");
    if (from, to) == (0, size) {
        return Ok(reply);
    }
    let part = format!("bytes {from}-{}/{size}", to - 1);
    Ok(reply.status("206 Partial Content").header("Content-Range", part))
}

#[derive(Debug, PartialEq, Eq)]
enum Span {
    All,
    /// The first byte, and the one after the last.
    Part(u64, u64),
    Unsatisfiable,
}

/// One range of bytes. What asks for several, or in other units, gets all.
fn span(text: &str, size: u64) -> Span {
    let parts = text.trim().strip_prefix("bytes=").and_then(|range| range.split_once('-'));
    let Some((from, to)) = parts else { return Span::All };
    let (from, to) = match (from.parse::<u64>(), to.parse::<u64>()) {
        (Ok(from), Ok(to)) if from <= to => (from, to.saturating_add(1).min(size)),
        (Ok(from), Err(_)) if to.is_empty() => (from, size),
        (Err(_), Ok(last)) if from.is_empty() => (size.saturating_sub(last), size),
        _ => return Span::All,
    };
    if from >= to || from >= size { Span::Unsatisfiable } else { Span::Part(from, to) }
}

/// The ids of blocks in their order. The document is as simple as its only kind of element.
fn block_list(xml: &[u8]) -> Result<Vec<String>, Refusal> {
    let wrong = || Refusal::invalid("the list of blocks is not understood");
    let text = std::str::from_utf8(xml).map_err(|_| wrong())?;
    let (_, inner) = text.split_once("<BlockList").ok_or_else(wrong)?;
    let mut rest = inner.split_once('>').ok_or_else(wrong)?.1;
    let mut list = Vec::new();
    if inner.trim_end().ends_with("/>") && rest.trim().is_empty() {
        return Ok(list);
    }
    loop {
        rest = rest.trim_start();
        if rest.starts_with("</BlockList>") {
            return Ok(list);
        }
        let element = ["Latest", "Uncommitted", "Committed"].iter().find_map(|name| {
            let begun = rest.strip_prefix('<')?.strip_prefix(name)?.strip_prefix('>')?;
            let (id, after) = begun.split_once('<')?;
            Some((id, after.strip_prefix('/')?.strip_prefix(name)?.strip_prefix('>')?))
        });
        let (id, after) = element.ok_or_else(wrong)?;
        list.push(id.trim().to_owned());
        rest = after;
    }
}

/// The name of a file in a header; what is not plain is encoded.
fn disposition(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._ ()".contains(c);
    let shown: String = name.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    let encoded: String = name
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect();
    if shown == name {
        return format!("attachment; filename=\"{shown}\"");
    }
    format!("attachment; filename=\"{shown}\"; filename*=UTF-8''{encoded}")
}

/// Works, and says now and then that the answer will come.
fn while_working<T>(mut stream: &TcpStream, pause: Duration, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let (working, waits) = mpsc::channel::<()>();
        scope.spawn(move || {
            while waits.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                if stream.write_all(b"HTTP/1.1 102 Processing\r\n\r\n").is_err() {
                    return;
                }
            }
        });
        let done = work();
        drop(working);
        done
    })
}

const _: () = assert!(MOST_AT_ONCE <= MOST_BYTES);
