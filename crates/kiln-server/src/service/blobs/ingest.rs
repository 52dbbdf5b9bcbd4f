//! Bytes that were sent are looked at, and only then somebody's.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kiln_blob::{BlobError, Content, Digest, Name, Span, checked, collect};
use kiln_core::access::Right;
use kiln_core::id::{OrgId, UploadId};
use kiln_proto::blob::{Blob, CompleteUpload};
use kiln_store::content::blobs::{self, Body, LARGEST_INLINE, NewBlob};
use kiln_store::content::{garbage, uploads};
use kiln_store::{Refusal, Scope, StoreError, Tx};

use super::{Asker, FIND, unkept};
use crate::app::{App, Shared};
use crate::http::error::{Answer, Failure};
use crate::storage::{BLOBS, CHUNKED, WHOLE, cut};
use tokio::task::JoinHandle;

/// How often an archive is cut anew because a pack that it was to share was just removed.
const TRIES: u32 = 3;

/// How long whoever completes an upload is kept waiting before they are told to ask again.
const PATIENCE: Duration = Duration::from_secs(20);
/// How many outcomes wait for those who ask again.
const MOST: usize = 1_000;

/// Uploads that are being looked at. It goes on also when whoever asked does not wait.
#[derive(Debug, Default)]
pub struct Arrivals(Mutex<HashMap<Whose, Arc<Slot>>>);

/// An upload, and who completes it.
type Whose = (i64, String);

/// Nothing once somebody has heard how it ended.
type Slot = tokio::sync::Mutex<Option<JoinHandle<Answer<Blob>>>>;

impl Arrivals {
    fn of(&self, whose: Whose, start: impl FnOnce() -> JoinHandle<Answer<Blob>>) -> Arc<Slot> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            // Nobody came back for these.
            let is_over = |slot: &Slot| {
                slot.try_lock().is_ok_and(|slot| slot.as_ref().is_none_or(JoinHandle::is_finished))
            };
            all.retain(|_, slot| !is_over(slot));
        }
        let slot = || Arc::new(tokio::sync::Mutex::new(Some(start())));
        Arc::clone(all.entry(whose).or_insert_with(slot))
    }

    fn has(&self, whose: &Whose) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(whose)
    }

    fn forget(&self, whose: &Whose) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(whose);
    }
}

/// Like [`complete`]. What takes long goes on when nothing is returned: the same question again is for how it
/// ended.
pub async fn complete_in_time(
    app: &Shared,
    asker: Asker,
    id: i64,
    said: CompleteUpload,
) -> Answer<Option<Blob>> {
    let whose = (id, asker.key());
    if !app.arrivals.has(&whose) {
        find(app, &asker, UploadId(id)).await?;
    }
    let begin = || {
        let app = Arc::clone(app);
        tokio::spawn(async move { complete(&app, &asker, id, said).await })
    };
    let slot = app.arrivals.of(whose.clone(), begin);
    let waiting = async {
        let mut slot = slot.lock().await;
        let Some(work) = slot.as_mut() else { return Err(Failure::not_found("upload")) };
        let done = work.await.unwrap_or_else(|error| Err(Failure::internal(error)));
        *slot = None;
        app.arrivals.forget(&whose);
        done
    };
    tokio::time::timeout(PATIENCE, waiting).await.ok().transpose()
}

/// Everything was sent. It is read once, and kept if it is what was named.
pub async fn complete(app: &App, asker: &Asker, id: i64, said: CompleteUpload) -> Answer<Blob> {
    let upload = find(app, asker, UploadId(id)).await?;
    let missing = || Failure::not_found("upload");
    let hash = Digest::from_slice(&upload.hash).ok_or_else(missing)?;
    let size = u64::try_from(upload.size).map_err(|_| missing())?;
    let arrival =
        Arrival { app, org: upload.org, id: upload.id, hash, size, place: named(&upload)? };
    arrival.join(upload.parts, said.tags).await?;
    if size <= LARGEST_INLINE as u64 {
        arrival.inline().await?;
    } else if app.storage.backend().direct().is_none() {
        arrival.as_sent().await?;
    } else if size < CHUNKED || upload.place.starts_with(WHOLE) {
        arrival.copied().await?;
    } else {
        arrival.in_chunks().await?;
    }
    Ok(Blob { hash: hash.to_string(), size })
}

fn not_there() -> Failure {
    Failure::conflict("the bytes have not arrived; send them first")
}

fn named(upload: &uploads::Upload) -> Answer<Name> {
    Name::new(upload.place.as_str()).map_err(unkept)
}

/// The upload, for whoever reserved it: the same job, or people who may write.
pub(super) async fn find(app: &App, asker: &Asker, id: UploadId) -> Answer<uploads::Upload> {
    let missing = || Failure::not_found("upload");
    let scope = match asker {
        Asker::Job(access) => Scope::Org(access.org),
        Asker::Person(_) => FIND,
    };
    let find = async move |tx: &mut Tx<'_>| uploads::get(tx, scope, id).await;
    let upload = match app.store.read(find).await {
        Err(StoreError::Refused(Refusal::NotFound(_))) => return Err(missing()),
        upload => upload?,
    };
    if upload.job != asker.job() {
        return Err(missing());
    }
    if let Asker::Person(caller) = asker {
        caller.require(Right::Write, Some(upload.org), "upload")?;
    }
    Ok(upload)
}

/// Bytes that have arrived.
struct Arrival<'a> {
    app: &'a App,
    org: OrgId,
    id: UploadId,
    hash: Digest,
    size: u64,
    place: Name,
}

impl Arrival<'_> {
    /// Parts become one object. If that was done before, there is nothing to do.
    async fn join(&self, parts: Option<String>, tags: Vec<String>) -> Answer<()> {
        let backend = self.app.storage.backend();
        let (Some(parts), Some(direct)) = (parts, backend.direct()) else { return Ok(()) };
        if backend.size(&self.place).await.map_err(unkept)?.is_some() {
            return Ok(());
        }
        let joined = direct.finish_parts(&self.place, &kiln_blob::Parts(parts), tags).await;
        joined.map_err(|error| match error {
            BlobError::Invalid(_) | BlobError::NotFound(_) => {
                tracing::info!(%error, "the parts of an upload do not fit");
                Failure::invalid("`tags`: the store has other parts than these, or not all of them")
            }
            error => unkept(error),
        })
    }

    /// The bytes, which end with an error if they are others.
    async fn content(&self) -> Answer<Content> {
        match self.app.storage.backend().get(&self.place, Span::All).await {
            Ok(found) => Ok(checked(found.content, self.hash, Some(self.size))),
            Err(BlobError::NotFound(_)) => Err(not_there()),
            Err(error) => Err(unkept(error)),
        }
    }

    async fn inline(&self) -> Answer<()> {
        let bytes = collect(self.content().await?, LARGEST_INLINE).await.map_err(unkept)?;
        let (org, id, hash) = (self.org, self.id, self.hash);
        let put = async move |tx: &mut Tx<'_>| {
            let scope = Scope::Org(org);
            let body = Body::Inline(bytes.to_vec());
            let size = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
            blobs::put(tx, scope, org, &hash.0, size, body).await?;
            uploads::finish(tx, scope, id, false).await
        };
        Ok(self.app.store.write(put).await?)
    }

    /// What was sent to this server was looked at then, and nobody else can write where it lies.
    async fn as_sent(&self) -> Answer<()> {
        match self.app.storage.size(&self.place).await.map_err(unkept)? {
            Some((size, stored)) if size == self.size => {
                self.keep(self.place.to_string(), stored, Vec::new()).await
            }
            _ => Err(not_there()),
        }
    }

    /// Where others could still write to the place, the bytes get a place of their own.
    async fn copied(&self) -> Answer<()> {
        let own = Name::of_blob(BLOBS, self.hash);
        let content = self.content().await?;
        self.app.storage.backend().put(&own, content).await.map_err(unkept)?;
        self.keep(own.to_string(), self.size, Vec::new()).await
    }

    async fn in_chunks(&self) -> Answer<()> {
        let mut tries = 0;
        loop {
            let content = self.content().await?;
            let app = self.app;
            let stored = cut(app.storage.backend(), &app.store, self.org, content).await;
            let stored = stored.map_err(unkept)?;
            let packs = stored.packs.iter().map(Name::to_string).collect();
            let kept = self.keep(stored.recipe.to_string(), stored.recipe_size, packs).await;
            match kept {
                Err(failure)
                    if failure.status() == axum::http::StatusCode::CONFLICT && tries < TRIES =>
                {
                    tries += 1;
                }
                other => return other,
            }
        }
    }

    /// The row that makes them the organization's. What is not needed any more goes.
    async fn keep(&self, place: String, stored: u64, packs: Vec<String>) -> Answer<()> {
        let signed = |size: u64| i64::try_from(size).unwrap_or(i64::MAX);
        let (org, id, sent_to) = (self.org, self.id, self.place.to_string());
        let new = NewBlob {
            hash: self.hash.0.to_vec(),
            size: signed(self.size),
            place: place.clone(),
            stored: signed(stored),
            packs,
        };
        let keep = async move |tx: &mut Tx<'_>| {
            let scope = Scope::Org(org);
            let kept = blobs::keep(tx, scope, org, new.clone()).await?;
            let is_ours = kept.body == Body::At(place.clone());
            uploads::finish(tx, scope, id, is_ours && place == sent_to).await?;
            if !is_ours && place != sent_to {
                garbage::remove(tx, vec![(place.clone(), new.stored)]).await?;
            }
            Ok(())
        };
        Ok(self.app.store.write(keep).await?)
    }
}
