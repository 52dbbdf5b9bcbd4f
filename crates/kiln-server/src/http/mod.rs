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
pub mod identity;
pub mod middleware;
pub mod openapi;
pub mod runner;
pub mod worker;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use utoipa_axum::router::OpenApiRouter;

use crate::app::Shared;

/// What requests of people and their programs may have as a body, unless a route says otherwise.
const LARGEST_BODY: usize = 1 << 20;

/// All routes.
pub fn routes() -> OpenApiRouter<Shared> {
    let people = OpenApiRouter::new()
        .merge(api::routes())
        .merge(github::routes())
        .layer(axum::middleware::from_fn(middleware::in_time))
        .layer(DefaultBodyLimit::max(LARGEST_BODY));
    OpenApiRouter::with_openapi(openapi::about())
        .merge(openapi::routes())
        .merge(health::routes())
        .merge(identity::routes())
        .merge(people)
        .merge(api::blobs::routes())
        .merge(github::uploads())
        .merge(git::routes())
        .merge(runner::routes())
        .merge(worker::routes())
}

/// All that is served, ready to be asked.
pub fn router(app: Shared) -> Router {
    let (router, _) = routes().split_for_parts();
    router
        .fallback_service(crate::web::router(Shared::clone(&app)))
        .method_not_allowed_fallback(middleware::no_such_method)
        .layer(axum::middleware::from_fn(middleware::outermost))
        .with_state(app)
}
