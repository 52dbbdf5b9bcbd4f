//! Requests: who asks, what for, and how it is answered.
//!
//! Each part brings its routes with their documentation, so that none is served that the OpenAPI
//! document does not know.

pub mod api;
pub mod error;
pub mod extract;
pub mod git;
pub mod github;
pub mod health;
pub mod runner;
pub mod worker;

use utoipa_axum::router::OpenApiRouter;

use crate::app::Shared;

/// All routes.
pub fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(health::routes())
        .merge(api::routes())
        .merge(github::routes())
        .merge(git::routes())
        .merge(runner::routes())
        .merge(worker::routes())
}

/// All that is served, ready to be asked.
pub fn router(app: Shared) -> axum::Router {
    let (router, _) = routes().split_for_parts();
    router.with_state(app)
}
