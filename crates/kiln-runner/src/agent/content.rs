//! What a job leaves behind and finds again, kept by the server: the services of the gateway on a runner.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kiln_blob::{Digest, tree};
use kiln_proto::blob::{CompleteUpload, NewUpload, Piece, Upload};
use kiln_proto::content::{
    Artifact, Artifacts, AskIdToken, Cache, Complete, CompleteTree, FindCache, FoundCache, IdToken,
    NewArtifact, NewCache, Reserved,
};
use kiln_proto::job::JobRef;
use kiln_proto::result::{AskResult, FoundResult};
use reqwest::{Method, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::runtime::Handle;
use tokio_util::io::ReaderStream;

use crate::gateway::{Reason, Refusal, Results, Services, Spooled, Stored};

use super::backoff::Backoff;
use super::clock;
use super::http::{Answer, Body, Fault, Http};
use super::packs::{Packs, send_bytes};

/// How often something is tried while the server is away; clients of actions try again themselves.
const TRIES: u32 = 5;
/// So many bytes may come with the question.
pub(super) const SMALL: u64 = 64 << 10;
/// Addresses are good for an hour; those that are older than this are replaced before the next is used.
const FRESH: Duration = Duration::from_mins(30);
/// How long bytes may take that never stop coming.
pub(super) const TRANSFER: Duration = Duration::from_hours(2);
/// A server that sends nothing for so long is gone.
pub(super) const STALL: Duration = Duration::from_mins(1);
/// How much is read of a file at once.
const BUFFER: usize = 256 << 10;

/// The server, for one job. It is asked from threads that may wait.
#[derive(Debug, Clone)]
pub(super) struct OnServer {
    pub(super) http: Http,
    pub(super) runtime: Handle,
    base: String,
    pub(super) token: String,
}

impl OnServer {
    pub(super) fn new(http: Http, runtime: Handle, job: JobRef, token: &str) -> Self {
        let base = format!("/actions/jobs/{}/attempts/{}", job.job_id, job.attempt);
        Self { http, runtime, base, token: token.to_owned() }
    }

    /// Tries again while the server is away, for as long as clients have patience.
    pub(super) fn persist<T>(
        &self,
        attempt: impl AsyncFn() -> Result<T, Fault>,
    ) -> Result<T, Refusal> {
        self.runtime.block_on(async {
            let mut backoff = Backoff::default();
            loop {
                match attempt().await {
                    Err(Fault::Away { why, after }) => {
                        let pause = backoff.pause(after);
                        if backoff.failures() >= TRIES {
                            return Err(refusal(Fault::Away { why, after }));
                        }
                        tokio::time::sleep(pause).await;
                    }
                    other => return other.map_err(refusal),
                }
            }
        })
    }

    fn ask(&self, method: &Method, path: &str) -> Result<Answer, Refusal> {
        let nothing = || Body::Json(Vec::new());
        self.persist(async || self.http.ask(method.clone(), path, &self.token, nothing()).await)
    }

    pub(super) fn tell(&self, path: &str, body: &impl Serialize) -> Result<Answer, Refusal> {
        self.persist(async || self.http.ask(Method::POST, path, &self.token, Body::of(body)).await)
    }

    pub(super) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Refusal> {
        self.tell(path, body)?.json().map_err(refusal)
    }

    pub(super) fn job(&self, path: &str) -> String {
        format!("{}/{path}", self.base)
    }

    /// Returns the number of what is complete now.
    fn complete(&self, path: &str, bytes: &Spooled) -> Result<i64, Refusal> {
        let body = Complete { hash: bytes.hash.clone(), size: bytes.size };
        Ok(self.post::<Reserved>(&self.job(path), &body)?.id)
    }

    /// Everything of an upload is sent. However long the server looks at it, it is asked until it has.
    pub(super) fn finish_upload(
        &self,
        new: &NewUpload,
        id: i64,
        tags: Vec<String>,
    ) -> Result<(), Refusal> {
        let path = format!("/api/blobs/uploads/{id}/complete");
        let said = CompleteUpload { tags };
        loop {
            match self.tell(&path, &said) {
                Ok(answer) if answer.is_pending() => {}
                // It may have been done, and the answer got lost: then the bytes are there.
                Err(refusal) if refusal.reason == Reason::NotFound => {
                    let again: Upload = self.post("/api/blobs/uploads", new)?;
                    return if again.stored { Ok(()) } else { Err(refusal) };
                }
                done => return done.map(drop),
            }
        }
    }

    fn download(&self, hash: &str, from: u64) -> Result<Response, Refusal> {
        let path = format!("/api/blobs/{hash}");
        self.persist(async || self.http.bytes(&path, &self.token, (from, None)).await)
    }

    /// Sends all parts of a file. What takes long gets new addresses on the way.
    fn send_pieces(
        &self,
        bytes: &Spooled,
        mut upload: Upload,
        id: i64,
    ) -> Result<Vec<String>, Refusal> {
        let (mut tags, mut asked) = (Vec::new(), clock::instant());
        for number in 0..upload.pieces.len() {
            if clock::instant().duration_since(asked) > FRESH {
                upload = self.post(&format!("/api/blobs/uploads/{id}/renew"), &())?;
                asked = clock::instant();
            }
            let piece = upload.pieces.get(number);
            let piece =
                piece.ok_or_else(|| Refusal::invalid("the server lost a part of the upload"))?;
            tags.push(self.send_piece(bytes, piece)?);
        }
        Ok(if tags.len() == 1 { Vec::new() } else { tags })
    }

    /// Sends a part of a file to where the server wants it; returns how the store calls it.
    fn send_piece(&self, bytes: &Spooled, piece: &Piece) -> Result<String, Refusal> {
        let tag = self.persist(async || {
            let part = FilePart::open(bytes, piece).map_err(|error| Fault::Refused {
                status: 500,
                message: format!("cannot read `{}`: {error}", bytes.path.display()),
            })?;
            let body = reqwest::Body::wrap_stream(ReaderStream::with_capacity(part, BUFFER));
            self.http.send(&piece.url, body, piece.to - piece.from, TRANSFER).await
        })?;
        Ok(tag.unwrap_or_default())
    }
}

impl Services for OnServer {
    fn find_cache(&self, wanted: &FindCache) -> Result<Option<Cache>, Refusal> {
        let found: FoundCache = self.post(&self.job("caches/find"), wanted)?;
        Ok(found.cache)
    }

    fn reserve_cache(&self, new: &NewCache) -> Result<i64, Refusal> {
        Ok(self.post::<Reserved>(&self.job("caches"), new)?.id)
    }

    fn complete_cache(&self, id: i64, _: &NewCache, bytes: &Spooled) -> Result<i64, Refusal> {
        self.complete(&format!("caches/{id}/complete"), bytes)
    }

    fn trees(&self) -> Result<Box<dyn tree::Shelf>, Refusal> {
        Ok(Box::new(Packs::new(self.clone())))
    }

    fn complete_tree(&self, id: i64, _: &NewCache, tree: &tree::Saved) -> Result<i64, Refusal> {
        let hash = Digest::of(&tree.root);
        send_bytes(self, hash, &tree.root.clone().into(), false)?;
        let packs = tree.packs.iter().map(Digest::to_string).collect();
        let said = CompleteTree { hash: hash.to_string(), size: tree.root.len() as u64, packs };
        Ok(self.post::<Reserved>(&self.job(&format!("caches/{id}/tree")), &said)?.id)
    }

    fn artifacts(&self) -> Result<Vec<Artifact>, Refusal> {
        let answer = self.ask(&Method::GET, &self.job("artifacts"))?;
        let all: Artifacts = answer.json().map_err(refusal)?;
        Ok(all.artifacts)
    }

    fn reserve_artifact(&self, new: &NewArtifact) -> Result<i64, Refusal> {
        Ok(self.post::<Reserved>(&self.job("artifacts"), new)?.id)
    }

    fn complete_artifact(&self, id: i64, _: &NewArtifact, bytes: &Spooled) -> Result<i64, Refusal> {
        self.complete(&format!("artifacts/{id}/complete"), bytes)
    }

    fn delete_artifact(&self, id: i64) -> Result<(), Refusal> {
        self.ask(&Method::DELETE, &self.job(&format!("artifacts/{id}"))).map(drop)
    }

    fn send(&self, bytes: &Spooled) -> Result<(), Refusal> {
        let content = (bytes.size <= SMALL).then(|| std::fs::read(&bytes.path)).transpose()?;
        let new = NewUpload {
            owner: None,
            hash: bytes.hash.clone(),
            size: bytes.size,
            content: content.map(|content| STANDARD.encode(content)),
            whole: false,
        };
        let upload: Upload = self.post("/api/blobs/uploads", &new)?;
        let Some(id) = upload.id.filter(|_| !upload.stored) else { return Ok(()) };
        let tags = self.send_pieces(bytes, upload, id)?;
        self.finish_upload(&new, id, tags)
    }

    fn open(&self, stored: &Stored, from: u64) -> Result<Box<dyn Read + Send>, Refusal> {
        let hash = stored.hash.clone();
        let response = self.download(&hash, from)?;
        let (server, chunk) = (self.clone(), Bytes::new());
        Ok(Box::new(Download { server, hash, at: from, response, chunk, failures: 0 }))
    }

    fn results(&self) -> Option<&dyn Results> {
        Some(self)
    }

    fn id_token(&self, _: &str, audience: Option<&str>) -> Result<String, Refusal> {
        let asked = AskIdToken { audience: audience.map(str::to_owned) };
        Ok(self.post::<IdToken>(&self.job("id-token"), &asked)?.value)
    }
}

impl Results for OnServer {
    fn earlier(&self, asked: &AskResult) -> Result<FoundResult, Refusal> {
        self.post(&self.job("result"), asked)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "errors are mapped by it")]
fn refusal(fault: Fault) -> Refusal {
    let message = fault.to_string();
    let reason = match fault {
        Fault::Unknown(_) => Reason::NotFound,
        Fault::Refused { status: 403, .. } => Reason::Forbidden,
        Fault::Refused { status: 409, .. } => Reason::Exists,
        Fault::Refused { status: 413, .. } => Reason::TooLarge,
        Fault::Refused { status: 400..500, .. } => Reason::Invalid,
        Fault::Away { .. } | Fault::Gap(_) | Fault::Refused { .. } => Reason::Unavailable,
    };
    Refusal { reason, message }
}

/// A part of a file on its way.
struct FilePart {
    file: File,
    left: u64,
}

impl FilePart {
    fn open(bytes: &Spooled, piece: &Piece) -> io::Result<Self> {
        let mut file = bytes.open()?;
        file.seek(SeekFrom::Start(piece.from))?;
        Ok(Self { file, left: piece.to - piece.from })
    }
}

/// Reading what was just written takes no longer than copying it, so nobody is kept from working.
impl AsyncRead for FilePart {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let most = buffer.remaining().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.file.read(buffer.initialize_unfilled_to(most))?;
        if count == 0 && self.left > 0 && most > 0 {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        buffer.advance(count);
        self.left -= count as u64;
        Poll::Ready(Ok(()))
    }
}

/// Bytes on their way here. Where they break off, they go on: they are the same whenever they are asked for.
struct Download {
    server: OnServer,
    hash: String,
    /// How far it has come.
    at: u64,
    response: Response,
    chunk: Bytes,
    /// How often it broke off since the last bytes came.
    failures: u32,
}

impl Download {
    /// The next bytes; none at the end.
    fn next(&mut self) -> io::Result<Bytes> {
        loop {
            let response = &mut self.response;
            let next = async { tokio::time::timeout(STALL, response.chunk()).await };
            let broke = match self.server.runtime.block_on(next) {
                Ok(Ok(Some(chunk))) if chunk.is_empty() => continue,
                Ok(Ok(chunk)) => {
                    self.failures = 0;
                    return Ok(chunk.unwrap_or_default());
                }
                Ok(Err(error)) => io::Error::other(error),
                Err(_) => io::ErrorKind::TimedOut.into(),
            };
            self.failures += 1;
            if self.failures >= TRIES {
                return Err(broke);
            }
            tracing::info!(at = self.at, %broke, "a download broke off and goes on");
            let again = self.server.download(&self.hash, self.at);
            self.response = again.map_err(|refusal| io::Error::other(refusal.to_string()))?;
        }
    }
}

impl Read for Download {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.chunk.is_empty() {
            self.chunk = self.next()?;
            self.at += self.chunk.len() as u64;
        }
        let count = buffer.len().min(self.chunk.len());
        buffer[..count].copy_from_slice(&self.chunk.split_to(count));
        Ok(count)
    }
}

#[cfg(test)]
mod tests;
