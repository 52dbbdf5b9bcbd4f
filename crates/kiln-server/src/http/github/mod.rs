//! GitHub's interface, as its clients expect it, below `/repos`.

mod jobs;
mod list;
mod runs;
mod shape;
mod workflows;

use utoipa_axum::router::OpenApiRouter;

use crate::app::Shared;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().merge(runs::routes()).merge(jobs::routes()).merge(workflows::routes())
}
