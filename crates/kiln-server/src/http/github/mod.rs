//! GitHub's interface, as its clients expect it, below `/repos`.

mod artifacts;
mod caches;
mod jobs;
mod list;
mod params;
mod runs;
mod shape;
mod workflows;

use utoipa_axum::router::OpenApiRouter;

use crate::app::Shared;

pub(super) use artifacts::uploads;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(runs::routes())
        .merge(jobs::routes())
        .merge(workflows::routes())
        .merge(artifacts::routes())
        .merge(caches::routes())
}
