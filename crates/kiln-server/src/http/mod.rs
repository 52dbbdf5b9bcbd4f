//! Requests: who asks, what for, and how it is answered.
//!
//! Each part brings its [routes](routes::Routes) with their documentation, so that none is served that the
//! OpenAPI document does not know.

pub mod addresses;
pub mod api;
pub mod compress;
pub mod error;
pub mod extract;
pub mod git;
pub mod github;
pub mod health;
pub mod identity;
pub mod middleware;
pub mod openapi;
pub mod routes;
pub mod runner;
pub(crate) mod unread;
pub mod worker;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use tower::ServiceExt as _;

use crate::app::Shared;
use routes::Routes;

/// What requests of people and their programs may have as a body, unless a route says otherwise.
const LARGEST_BODY: usize = 1 << 20;

/// All routes.
pub fn routes() -> Routes {
    let people = Routes::new()
        .merge(api::routes())
        .merge(github::routes())
        .layer(axum::middleware::from_fn(middleware::in_time))
        .layer(DefaultBodyLimit::max(LARGEST_BODY));
    Routes::new()
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
    let router = routes()
        .into_router()
        .fallback_service(crate::web::router(Shared::clone(&app)))
        .method_not_allowed_fallback(middleware::no_such_method)
        .layer(axum::middleware::from_fn(compress::packed))
        .layer(axum::middleware::from_fn(middleware::outermost))
        .with_state(app);
    // What is around a router comes before it chooses a route.
    let around = router.map_request(|request| unread::read_on(addresses::settled(request)));
    Router::new().fallback_service(around)
}
