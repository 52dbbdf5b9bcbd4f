//! Bytes at an address that was given out: the part of Azure's block blobs that GitHub's clients use.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;
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
    pub(super) fn begin_cache(&self, new: &NewCache) -> Result<Arc<Pending>, Refusal> {
        let entry = Entry::Cache(new.clone());
        let id = match self.grants.pending(&entry) {
            Some(pending) => pending.id,
            None => self.services.reserve_cache(new).map_err(twirp::denied)?,
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

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_of_blocks_are_read() {
        let check = |xml: &str, expect: Option<&[&str]>| {
            let list = block_list(xml.as_bytes()).ok();
            assert_eq!(
                list,
                expect.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect()),
                "{xml}"
            );
        };
        check("<BlockList></BlockList>", Some(&[]));
        check("<?xml version=\"1.0\"?>\n<BlockList/>", Some(&[]));
        check(
            "<BlockList>\n <Latest>a=</Latest>\n <Committed> b+ </Committed></BlockList>",
            Some(&["a=", "b+"]),
        );
        check("<BlockList><Latest>a</Committed></BlockList>", None);
        check("<Latest>a</Latest>", None);
    }

    #[test]
    fn names_of_files_stay_within_their_header() {
        let check = |name: &str, expect: &str| assert_eq!(disposition(name), expect);
        check("a b.zip", "attachment; filename=\"a b.zip\"");
        check(
            "a\"b\r\n.zip",
            "attachment; filename=\"a_b__.zip\"; filename*=UTF-8''a%22b%0D%0A.zip",
        );
        check("ä", "attachment; filename=\"_\"; filename*=UTF-8''%C3%A4");
    }

    #[test]
    fn who_waits_for_an_answer_hears_that_somebody_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let line = b"HTTP/1.1 102 Processing\r\n\r\n";
        let mut heard = vec![0; 2 * line.len()];
        let done = while_working(&server, Duration::from_millis(5), || {
            client.read_exact(&mut heard).unwrap();
            7
        });
        assert_eq!((done, heard), (7, line.repeat(2)));
    }

    proptest! {
        #[test]
        fn no_list_and_no_range_is_too_odd(text: String, size: u64) {
            let _ = block_list(text.as_bytes());
            let _ = block_list(format!("<BlockList>{text}</BlockList>").as_bytes());
            if let Span::Part(from, to) = span(&text, size) {
                prop_assert!(from < to && to <= size);
            }
        }
    }
}
