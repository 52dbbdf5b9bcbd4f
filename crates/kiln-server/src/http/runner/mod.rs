//! What runners call.

mod content;
mod jobs;
mod lifecycle;
mod params;
mod who;

use utoipa_axum::router::OpenApiRouter;

use crate::app::Shared;

pub(super) use who::caller_of;

pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().merge(lifecycle::routes()).merge(jobs::routes()).merge(content::routes())
}
