//! Kiln's own interface, below `/api`.

mod about;
mod artifacts;
pub(super) mod blobs;
mod events;
mod jobs;
mod keys;
mod logs;
mod manifests;
mod page;
mod params;
mod pause;
mod queue;
mod repos;
mod runners;
mod runs;
mod storage;
mod tokens;
mod welcome;

use utoipa_axum::router::OpenApiRouter;

use crate::app::Shared;

// GitHub's interface reads the same things.
pub(super) use artifacts::artifact_id;
pub(super) use jobs::{job_id, stream as log_stream};
pub(super) use logs::live;
pub(super) use params::OfLive;
pub(super) use repos::idempotency_key;
pub(super) use runs::{run_id, status_of};

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(about::routes())
        .merge(artifacts::routes())
        .merge(repos::routes())
        .merge(runs::routes())
        .merge(jobs::routes())
        .merge(logs::routes())
        .merge(events::routes())
        .merge(pause::routes())
        .merge(queue::routes())
        .merge(runners::routes())
        .merge(keys::routes())
        .merge(manifests::routes())
        .merge(storage::routes())
        .merge(tokens::routes())
        .merge(welcome::routes())
}
