//! The packs of trees, kept by the server: what a job may read of them, and what it adds.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use kiln_blob::Digest;
use kiln_blob::tree::{Packed, Shelf, Spot};
use kiln_proto::blob::{NewUpload, Upload};
use kiln_proto::content::{FindChunks, FoundChunks, NewPack, TreeChunk};
use std::collections::HashMap;

use crate::gateway::Refusal;

use super::content::{OnServer, SMALL, STALL, TRANSFER};
use super::http::Fault;

/// How many chunks are asked for at once.
const CHUNKS: usize = 4096;

/// The packs that the server has for one job.
#[derive(Debug)]
pub(super) struct Packs {
    server: OnServer,
}

impl Packs {
    pub(super) fn new(server: OnServer) -> Self {
        Self { server }
    }

    fn ask(&self, chunks: &[Digest]) -> io::Result<HashMap<Digest, Spot>> {
        let asked = FindChunks { hashes: chunks.iter().map(Digest::to_string).collect() };
        let path = self.server.job("caches/chunks");
        let found: FoundChunks = self.server.post(&path, &asked).map_err(failed)?;
        found.chunks.iter().map(spot).collect()
    }

    /// A piece of a pack, all of it or nothing.
    async fn fetch(&self, path: &str, from: u64, to: u64) -> Result<Bytes, Fault> {
        let away = |why: String| Fault::Away { why, after: None };
        let ranged = (from, Some(to));
        let mut response = self.server.http.bytes(path, &self.server.token, ranged).await?;
        let mut bytes = BytesMut::new();
        loop {
            let next = tokio::time::timeout(STALL, response.chunk()).await;
            let next = next.map_err(|_| away("the server sends nothing any more".to_owned()))?;
            match next.map_err(|error| away(error.to_string()))? {
                Some(more) => bytes.extend_from_slice(&more),
                None if bytes.len() as u64 == to - from => return Ok(bytes.freeze()),
                None => return Err(away("the server sent another part of a pack".to_owned())),
            }
            if bytes.len() as u64 > to - from {
                return Err(away("the server sent more of a pack than was asked for".to_owned()));
            }
        }
    }
}

fn failed(refusal: Refusal) -> io::Error {
    io::Error::other(refusal.message)
}

fn spot(chunk: &TreeChunk) -> io::Result<(Digest, Spot)> {
    let read = |text: &str| text.parse::<Digest>().map_err(io::Error::other);
    let TreeChunk { offset, stored, size, .. } = *chunk;
    Ok((read(&chunk.hash)?, Spot { pack: read(&chunk.pack)?, offset, stored, size }))
}

impl Shelf for Packs {
    fn put(&self, pack: Packed) -> io::Result<()> {
        send_bytes(&self.server, pack.digest, &pack.bytes.into(), true).map_err(failed)?;
        let new = NewPack { hash: pack.digest.to_string() };
        self.server.tell(&self.server.job("caches/packs"), &new).map(drop).map_err(failed)
    }

    fn find(&self, chunks: &[Digest]) -> io::Result<Vec<Option<Spot>>> {
        let mut spots = Vec::with_capacity(chunks.len());
        for some in chunks.chunks(CHUNKS) {
            let known = self.ask(some)?;
            spots.extend(some.iter().map(|chunk| known.get(chunk).copied()));
        }
        Ok(spots)
    }

    fn read(&self, pack: Digest, from: u32, to: u32) -> io::Result<Bytes> {
        let path = format!("/api/blobs/{pack}");
        let (from, to) = (u64::from(from), u64::from(to));
        self.server.persist(async || self.fetch(&path, from, to).await).map_err(failed)
    }
}

/// Sends what lies in memory, unless the server has it.
pub(super) fn send_bytes(
    server: &OnServer,
    hash: Digest,
    bytes: &Bytes,
    whole: bool,
) -> Result<(), Refusal> {
    let size = bytes.len() as u64;
    let content = (size <= SMALL).then(|| STANDARD.encode(bytes));
    let new = NewUpload { owner: None, hash: hash.to_string(), size, content, whole };
    let upload: Upload = server.post("/api/blobs/uploads", &new)?;
    let Some(id) = upload.id.filter(|_| !upload.stored) else { return Ok(()) };
    let mut tags = Vec::new();
    for piece in &upload.pieces {
        let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX).min(bytes.len());
        let part = bytes.slice(at(piece.from)..at(piece.to));
        let length = part.len() as u64;
        let send = async || {
            let body = reqwest::Body::from(part.clone());
            server.http.send(&piece.url, body, length, TRANSFER).await
        };
        tags.push(server.persist(send)?.unwrap_or_default());
    }
    if tags.len() == 1 {
        tags.clear();
    }
    server.finish_upload(&new, id, tags)
}
