//! How bytes are had.

use kiln_blob::{BlobError, Content, Digest, Found, Name, Span, checked, of_bytes};
use kiln_core::access::Right;
use kiln_core::id::OrgId;
use kiln_proto::blob::Link;
use kiln_store::content::blobs::{self, Blob, Body};
use kiln_store::{Refusal, Scope, StoreError, Tx};

use super::{Asker, unkept};
use crate::app::App;
use crate::clock;
use crate::http::error::{Answer, Failure};
use crate::storage::{Grant, LIFE, Storage};

/// Bytes that are being read, or where they are.
pub enum Opened {
    Here(Found),
    /// An address of the store itself.
    There(String),
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Here(found) => found.fmt(f),
            Self::There(_) => f.write_str("There(…)"),
        }
    }
}

fn missing() -> Failure {
    Failure::not_found("blob")
}

async fn blob(app: &App, org: OrgId, hash: Digest) -> Answer<Blob> {
    let find = async move |tx: &mut Tx<'_>| blobs::by_hash(tx, Scope::Org(org), org, &hash.0).await;
    match app.store.read(find).await {
        Err(StoreError::Refused(Refusal::NotFound(_))) => Err(missing()),
        blob => Ok(blob?),
    }
}

/// Bytes of an organization, for those who may look at its things.
pub async fn open(
    app: &App,
    asker: &Asker,
    owner: Option<&str>,
    hash: &str,
    span: Span,
) -> Answer<Opened> {
    let hash = hash.parse().map_err(|_: BlobError| missing())?;
    let org = asker.org(app, Right::Read, owner).await?;
    read(app, org, hash, span).await
}

/// Bytes, or where they can be had without us.
async fn read(app: &App, org: OrgId, hash: Digest, span: Span) -> Answer<Opened> {
    let blob = blob(app, org, hash).await?;
    if let (Body::At(place), Some(direct)) = (&blob.body, app.storage.backend().direct())
        && Storage::is_plain(place)
    {
        let name = Name::new(place.as_str()).map_err(unkept)?;
        return direct.get_url(&name, LIFE).await.map(Opened::There).map_err(unkept);
    }
    open_here(app, org, hash, span).await
}

/// Bytes from this server, which says what they are, wherever they lie. An archive may be cut between the look at
/// its row and at its place; then it is somewhere else.
pub async fn open_here(app: &App, org: OrgId, hash: Digest, span: Span) -> Answer<Opened> {
    for _ in 0..2 {
        if let Some(found) = open_once(app, org, hash, span).await? {
            return Ok(Opened::Here(found));
        }
    }
    tracing::error!(%hash, "bytes are not where their row says");
    Err(Failure::unavailable("the bytes cannot be read at the moment; try again"))
}

async fn open_once(app: &App, org: OrgId, hash: Digest, span: Span) -> Answer<Option<Found>> {
    let blob = blob(app, org, hash).await?;
    let size = u64::try_from(blob.size).map_err(Failure::internal)?;
    let place = match blob.body {
        Body::Inline(bytes) => return cut(bytes, span).map(Some),
        Body::At(place) => place,
    };
    let mut found = match app.storage.read(&place, span).await {
        Err(BlobError::NotFound(_)) => return Ok(None),
        Err(BlobError::OutOfRange { .. }) => return Err(out_of_range(size)),
        found => found.map_err(unkept)?,
    };
    if found.range == (0..size) && !Storage::is_checked(&place) {
        found.content = checked(found.content, hash, Some(size));
    }
    Ok(Some(found))
}

fn cut(bytes: Vec<u8>, span: Span) -> Answer<Found> {
    let size = bytes.len() as u64;
    let name = Name::new("inline").map_err(Failure::internal)?;
    let range = span.of(&name, size).map_err(|_| out_of_range(size))?;
    let at = |place: u64| usize::try_from(place).unwrap_or(usize::MAX);
    let content: Content =
        of_bytes(bytes::Bytes::from(bytes).slice(at(range.start)..at(range.end)));
    Ok(Found { size, range, content })
}

/// 416, with the size that there is.
pub fn out_of_range(size: u64) -> Failure {
    use axum::http::{HeaderValue, StatusCode, header};
    let detail = format!("there are {size} bytes, and none of those that are asked for");
    let failure = Failure::new(StatusCode::RANGE_NOT_SATISFIABLE, "range", detail);
    match HeaderValue::try_from(format!("bytes */{size}")) {
        Ok(value) => failure.with_header(header::CONTENT_RANGE, value),
        Err(_) => failure,
    }
}

/// An address that is good for these bytes, for an hour, without a token.
pub async fn link(app: &App, asker: &Asker, owner: Option<&str>, hash: &str) -> Answer<Link> {
    let hash: Digest = hash.parse().map_err(|_: BlobError| missing())?;
    let org = asker.org(app, Right::Read, owner).await?;
    let blob = blob(app, org, hash).await?;
    let expires = clock::now() + LIFE;
    let grant = Grant {
        method: "GET",
        object: format!("blob/{hash}"),
        size: u64::try_from(blob.size).map_err(Failure::internal)?,
        org,
        job: asker.job(),
        expires,
    };
    let query = app.storage.sign(&grant);
    let url = format!("{}/api/signed/{hash}?{query}", app.config.public_url);
    Ok(Link { url, expires_at: expires.rfc3339() })
}

/// Bytes, for whoever has an address of ours.
pub async fn open_signed(
    app: &App,
    grant: &Grant,
    signature: &str,
    hash: &str,
    span: Span,
) -> Answer<Opened> {
    let hash: Digest = hash.parse().map_err(|_: BlobError| missing())?;
    if !app.storage.check(grant, signature, clock::now()) {
        return Err(missing());
    }
    read(app, grant.org, hash, span).await
}
