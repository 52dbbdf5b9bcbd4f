//! Kiln's own interface, below `/api`.

mod about;
mod artifacts;
pub(super) mod blobs;
mod events;
mod jobs;
mod keys;
mod logs;
mod manifests;
mod objects;
mod orgs;
mod page;
mod params;
mod pause;
mod queue;
mod repos;
mod runners;
mod runs;
mod storage;
mod tasks;
mod tokens;
mod welcome;

use crate::http::routes::Routes;

// GitHub's interface reads the same things.
pub(super) use artifacts::artifact_id;
pub(super) use jobs::{job_id, stream as log_stream};
pub(super) use logs::live;
pub(super) use params::{OfLive, Signed};
pub(super) use repos::idempotency_key;
pub(super) use runs::{run_id, status_of};

pub fn routes() -> Routes {
    Routes::new()
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
        .merge(objects::routes())
        .merge(orgs::routes())
        .merge(storage::routes())
        .merge(tasks::routes())
        .merge(tokens::routes())
        .merge(welcome::routes())
}
