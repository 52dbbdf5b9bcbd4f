//! How bytes are sent: with the question if they are few, else to an address that is good for them alone.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kiln_blob::{Content, Digest, Name, Parts, checked};
use kiln_core::access::Right;
use kiln_core::id::{OrgId, UploadId};
use kiln_proto::blob::{NewUpload, Piece, Upload};
use kiln_store::content::blobs::{self, Body, LARGEST_INLINE};
use kiln_store::content::uploads;
use kiln_store::{Refusal, Scope, StoreError, Tx};

use super::{Asker, digest, size_of, unkept};
use crate::app::App;
use crate::clock;
use crate::http::error::{Answer, Failure};
use crate::storage::{CHUNKED, Grant, LARGE, LIFE, SMALL, UPLOADS, WHOLE};

/// What is larger goes to S3 in parts of this size.
const PART: u64 = 64 << 20;

/// Says where bytes go, unless they came with the question or the organization has them.
pub async fn reserve(app: &App, asker: &Asker, new: NewUpload) -> Answer<Upload> {
    let org = asker.org(app, Right::Write, new.owner.as_deref()).await?;
    let hash = digest(&new.hash)?;
    let largest = app.config.storage.largest;
    if new.size > largest {
        return Err(Failure::too_large(format!("`size`: an upload may have {largest} bytes")));
    }
    let stored = Upload { stored: true, ..Upload::default() };
    if is_there(app, org, hash).await? {
        return Ok(stored);
    }
    if let Some(content) = &new.content {
        keep_inline(app, org, hash, new.size, content).await?;
        return Ok(stored);
    }
    begin(app, asker, org, (hash, new.size), new.whole).await
}

/// Whether the organization has them; if so, they stay for the time of grace.
async fn is_there(app: &App, org: OrgId, hash: Digest) -> Answer<bool> {
    let hashes: Arc<[Vec<u8>]> = Arc::new([hash.0.to_vec()]);
    let scope = Scope::Org(org);
    let look = {
        let hashes = Arc::clone(&hashes);
        async move |tx: &mut Tx<'_>| blobs::exists(tx, scope, org, &hashes).await
    };
    if app.store.read(look).await?.is_empty() {
        return Ok(false);
    }
    let hold = async move |tx: &mut Tx<'_>| blobs::hold(tx, scope, org, &hashes).await;
    Ok(!app.store.write(hold).await?.is_empty())
}

async fn keep_inline(app: &App, org: OrgId, hash: Digest, size: u64, content: &str) -> Answer<()> {
    let bytes = BASE64.decode(content).map_err(|_| Failure::invalid("`content` is no base64"))?;
    if bytes.len() > LARGEST_INLINE {
        let message = format!("`content`: up to {LARGEST_INLINE} bytes come with the question");
        return Err(Failure::too_large(message));
    }
    let found = Digest::of(&bytes);
    if bytes.len() as u64 != size || found != hash {
        let message = format!(
            "`content` has {} bytes and the SHA-256 {found}, not those that were named",
            bytes.len()
        );
        return Err(Failure::invalid(message));
    }
    let size = size_of(size)?;
    let put = async move |tx: &mut Tx<'_>| {
        let body = Body::Inline(bytes.clone());
        blobs::put(tx, Scope::Org(org), org, &hash.0, size, body).await
    };
    app.store.write(put).await?;
    Ok(())
}

async fn begin(
    app: &App,
    asker: &Asker,
    org: OrgId,
    (hash, size): (Digest, u64),
    whole: bool,
) -> Answer<Upload> {
    let direct = app.storage.backend().direct();
    // What goes straight to a store lies there as it was sent; others read it without us.
    let is_ours = direct.is_none();
    let place = Name::fresh(if whole {
        WHOLE
    } else if is_ours && size >= CHUNKED {
        LARGE
    } else if is_ours && size > LARGEST_INLINE as u64 {
        SMALL
    } else {
        UPLOADS
    });
    let parts = match direct {
        Some(direct) if size > PART => Some(direct.begin_parts(&place).await.map_err(unkept)?),
        _ => None,
    };
    let new = uploads::NewUpload {
        org,
        job: asker.job(),
        hash: hash.0.to_vec(),
        size: size_of(size)?,
        place: place.to_string(),
        parts: parts.as_ref().map(|parts| parts.0.clone()),
        life: LIFE,
        budget: i64::try_from(app.config.storage.open).unwrap_or(i64::MAX),
    };
    let reserve =
        async move |tx: &mut Tx<'_>| uploads::reserve(tx, Scope::Org(org), new.clone()).await;
    let upload = app.store.write(reserve).await?;
    addresses(app, &upload, size).await
}

/// It takes longer than the addresses are good: new ones, for the same bytes.
pub async fn renew(app: &App, asker: &Asker, id: i64) -> Answer<Upload> {
    let found = super::ingest::find(app, asker, UploadId(id)).await?;
    let (scope, id) = (Scope::Org(found.org), found.id);
    let renew = async move |tx: &mut Tx<'_>| uploads::renew(tx, scope, id, LIFE).await;
    let upload = app.store.write(renew).await?;
    let size = u64::try_from(upload.size).map_err(Failure::internal)?;
    addresses(app, &upload, size).await
}

/// Where the bytes of an upload go.
async fn addresses(app: &App, upload: &uploads::Upload, size: u64) -> Answer<Upload> {
    let place = Name::new(upload.place.as_str()).map_err(unkept)?;
    let parts = upload.parts.clone().map(Parts);
    let mut pieces = Vec::new();
    match (app.storage.backend().direct(), &parts) {
        (None, _) => pieces.push(Piece { url: own_url(app, upload, size), from: 0, to: size }),
        (Some(direct), None) => {
            let url = direct.put_url(&place, size, LIFE).await.map_err(unkept)?;
            pieces.push(Piece { url, from: 0, to: size });
        }
        (Some(direct), Some(parts)) => {
            for number in 1..=u32::try_from(size.div_ceil(PART)).unwrap_or(u32::MAX) {
                let url = direct.part_url(&place, parts, number, LIFE).await.map_err(unkept)?;
                let from = u64::from(number - 1) * PART;
                pieces.push(Piece { url, from, to: size.min(from + PART) });
            }
        }
    }
    let expires_at = Some(upload.expires_at.rfc3339());
    Ok(Upload { stored: false, id: Some(upload.id.0), pieces, expires_at })
}

fn grant(upload: &uploads::Upload, size: u64) -> Grant {
    Grant {
        method: "PUT",
        object: format!("upload/{}", upload.id.0),
        size,
        org: upload.org,
        job: upload.job,
        expires: upload.expires_at,
    }
}

fn own_url(app: &App, upload: &uploads::Upload, size: u64) -> String {
    let query = app.storage.sign(&grant(upload, size));
    format!("{}/api/uploads/{}?{query}", app.config.public_url, upload.id.0)
}

/// Takes bytes that were sent to an address of ours. They are looked at as they come: others than those
/// that were named are not kept.
pub async fn receive(
    app: &App,
    grant: &Grant,
    signature: &str,
    id: i64,
    body: Content,
) -> Answer<()> {
    let missing = || Failure::not_found("upload");
    if !app.storage.check(grant, signature, clock::now()) {
        return Err(missing());
    }
    let (org, id) = (grant.org, UploadId(id));
    let find = async move |tx: &mut Tx<'_>| uploads::get(tx, Scope::Org(org), id).await;
    let upload = match app.store.read(find).await {
        Err(StoreError::Refused(Refusal::NotFound(_))) => return Err(missing()),
        upload => upload?,
    };
    let hash = Digest::from_slice(&upload.hash).ok_or_else(missing)?;
    let place = Name::new(upload.place).map_err(unkept)?;
    let body = checked(body, hash, Some(grant.size));
    app.storage.put(&place, body).await.map_err(unkept)?;
    Ok(())
}
