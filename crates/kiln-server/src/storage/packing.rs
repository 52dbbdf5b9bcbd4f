//! Cuts archives into chunks, where that keeps nobody waiting.

use std::sync::Arc;

use kiln_blob::{Backend, BlobError, Chunked, Content, store_chunked};
use kiln_core::id::OrgId;
use kiln_store::Store;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::index::Chunks;

/// Keeps the chunks of an archive that the organization does not have yet, and its recipe. Hashing and
/// compressing take whole seconds, so they get a thread of their own.
pub(crate) async fn cut(
    backend: &Arc<dyn Backend>,
    store: &Store,
    org: OrgId,
    content: Content,
) -> Result<Chunked, BlobError> {
    let (backend, index) = (Arc::clone(backend), Chunks { store: store.clone(), org });
    let work = move || Handle::current().block_on(store_chunked(&*backend, content, &index));
    spawn_blocking(work).await.unwrap_or_else(|error| Err(BlobError::Cut(error.to_string())))
}
