//! Single files of artifacts: which there are, and their bytes, without unpacking the rest.
//!
//! What an archive says was written by a job: it is bounded before it is believed.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use kiln_blob::{Digest, Span};
use kiln_core::id::ArtifactId;
use kiln_core::time::Timestamp;
use kiln_store::content::artifacts::Artifact;
use tokio::sync::Semaphore;

use super::blobs::{self, Opened};
use super::content::artifacts::ZIP;
use super::content::seen::{gone, look};
use crate::app::App;
use crate::clock;
use crate::http::error::{Answer, Failure};
use crate::percent::encoded;
use crate::storage::{Grant, LIFE};
use crate::zip::read::{self as zip, Broken, Entry};

/// The longest list of files that is read here; `kiln artifacts browse` reads longer ones.
const LARGEST_LIST: u64 = 8 << 20;
/// The largest file that is unpacked here.
pub const LARGEST_FILE: u64 = 32 << 20;

/// How many files are unpacked at once, on this server.
static UNPACKING: Semaphore = Semaphore::const_new(4);

fn size_of(artifact: &Artifact) -> u64 {
    u64::try_from(artifact.size).unwrap_or_default()
}

/// A file of an artifact.
#[derive(Debug, Clone)]
pub struct File {
    pub name: String,
    pub size: u64,
    /// Where it is in the archive; an artifact that is none is its only file.
    entry: Option<Entry>,
}

/// The files of an artifact, by name.
pub async fn list(app: &App, artifact: &Artifact) -> Answer<Vec<File>> {
    if artifact.is_expired(clock::now()) {
        return Err(gone());
    }
    if artifact.content_type != ZIP {
        let whole = File { name: artifact.name.clone(), size: size_of(artifact), entry: None };
        return Ok(vec![whole]);
    }
    let size = size_of(artifact);
    let from = size.saturating_sub(zip::TAIL);
    let tail = part(app, artifact, from, size).await?;
    let list = zip::list(&tail, size).map_err(broken)?;
    if list.size > LARGEST_LIST {
        return Err(Failure::too_large("it has too many files to list them here; download it"));
    }
    let bytes = part(app, artifact, list.from, list.from + list.size).await?;
    let entries = zip::entries(&bytes).map_err(broken)?.into_iter();
    let files = entries.filter(|entry| entry.kind == zip::Kind::File);
    let mut files: Vec<File> = files
        .map(|entry| File { name: entry.name.clone(), size: entry.size, entry: Some(entry) })
        .collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

/// The bytes of one of its files, if there are not too many.
pub async fn read(app: &App, artifact: &Artifact, file: File) -> Answer<Vec<u8>> {
    if file.size > LARGEST_FILE
        || file.entry.as_ref().is_some_and(|entry| entry.packed > LARGEST_FILE)
    {
        return Err(Failure::too_large("the file is too large to be shown; download the artifact"));
    }
    let _turn = UNPACKING.acquire().await.map_err(Failure::internal)?;
    let Some(entry) = file.entry else { return part(app, artifact, 0, file.size).await };
    let nowhere = || Failure::invalid("the archive is damaged: it says something that cannot be");
    let end_of_head = entry.at.checked_add(zip::HEAD).ok_or_else(nowhere)?;
    let head = part(app, artifact, entry.at, end_of_head).await?;
    let from =
        entry.at.checked_add(entry.content_after(&head).map_err(broken)?).ok_or_else(nowhere)?;
    let packed =
        part(app, artifact, from, from.checked_add(entry.packed).ok_or_else(nowhere)?).await?;
    let unpacking = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        entry.unpack(packed.as_slice(), &mut bytes).map(|()| bytes)
    });
    unpacking.await.map_err(Failure::internal)?.map_err(broken)
}

/// These bytes of an artifact, all at once.
async fn part(app: &App, artifact: &Artifact, from: u64, to: u64) -> Answer<Vec<u8>> {
    if from >= to || to > size_of(artifact) {
        let fits = from == to;
        return if fits { Ok(Vec::new()) } else { Err(Failure::invalid("the archive is damaged")) };
    }
    let hash = artifact.hash.as_deref().and_then(Digest::from_slice);
    let hash = hash.ok_or_else(|| Failure::not_found("artifact"))?;
    match blobs::open_here(app, artifact.org, hash, Span::Between(from, to)).await? {
        Opened::Here(found) => {
            let bytes = found.content.try_fold(Vec::new(), async |mut all, piece| {
                all.extend_from_slice(&piece);
                Ok(all)
            });
            bytes.await.map_err(Failure::internal)
        }
        Opened::There(_) => Err(Failure::unavailable("the bytes are elsewhere; try again")),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
fn broken(why: Broken) -> Failure {
    Failure::invalid(why.to_string())
}

/// Where the files of an artifact can be looked at for an hour without a session: a page of its own origin has none.
pub fn address(app: &App, artifact: &Artifact, file: &str) -> String {
    let grant = grant(artifact, clock::now() + LIFE);
    let (id, expires, signature) = (artifact.id, grant.expires.0, app.storage.signature(&grant));
    format!("/api/previews/{id}/{expires}/{signature}/{}", encoded(file))
}

fn grant(artifact: &Artifact, expires: Timestamp) -> Grant {
    Grant {
        method: "GET",
        object: format!("preview/{}", artifact.id),
        size: size_of(artifact),
        org: artifact.org,
        job: None,
        expires,
    }
}

/// The bytes of a file, for whoever has an address of ours.
pub async fn open(
    app: &App,
    (id, expires, signature): (ArtifactId, u64, &str),
    name: &str,
) -> Answer<Arc<[u8]>> {
    let missing = || Failure::not_found("file");
    let artifact = look(app, id).await.map_err(|_| missing())?.artifact;
    if !app.storage.check(&grant(&artifact, Timestamp(expires)), signature, clock::now()) {
        return Err(missing());
    }
    let file = list(app, &artifact).await?.into_iter().find(|file| file.name == name);
    read(app, &artifact, file.ok_or_else(missing)?).await.map(Into::into)
}
