//! Archives that lie as they were sent are cut into chunks, so that what several have in common is kept once.

use kiln_blob::{BlobError, Digest, Name, Span, checked};
use kiln_core::id::BlobId;
use kiln_store::content::packing::{self, Cut, Whole};
use kiln_store::{Duty, Refusal, Scope, StoreError, Tx};

use super::garbage::Trouble;
use crate::app::App;
use crate::storage;

const SCOPE: Scope = Scope::System(Duty::Retention);

/// The next archive after one that is to be cut.
pub async fn next(app: &App, after: BlobId) -> Result<Option<Whole>, StoreError> {
    let next = async move |tx: &mut Tx<'_>| packing::next(tx, SCOPE, after, 1).await;
    Ok(app.store.read(next).await?.pop())
}

/// Cuts an archive. If it went meanwhile, or a pack that it was to share did, nothing changes, and the
/// next round finds what is left to do.
pub async fn pack(app: &App, whole: Whole) -> Result<bool, Trouble> {
    let backend = app.storage.backend();
    let found = match backend.get(&Name::new(whole.place.as_str())?, Span::All).await {
        Err(BlobError::NotFound(_)) => return Ok(false),
        found => found?,
    };
    let Some(hash) = Digest::from_slice(&whole.hash) else { return Ok(false) };
    let content = checked(found.content, hash, Some(found.size));
    let chunked = storage::cut(backend, &app.store, whole.org, content).await?;
    let cut = Cut {
        recipe: chunked.recipe.to_string(),
        stored: i64::try_from(chunked.recipe_size).unwrap_or(i64::MAX),
        packs: chunked.packs.iter().map(Name::to_string).collect(),
    };
    let swap = async move |tx: &mut Tx<'_>| packing::swap(tx, SCOPE, &whole, &cut).await;
    match app.store.write(swap).await {
        Err(StoreError::Refused(Refusal::Conflict(_))) => Ok(false),
        swapped => Ok(swapped?),
    }
}
