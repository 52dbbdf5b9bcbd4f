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
use axum::extract::{DefaultBodyLimit, Request};
use axum::response::Response;
use futures_util::FutureExt as _;
use tower::Service as _;

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

/// All that is served, ready to be asked. Clones are the same.
#[derive(Debug, Clone)]
pub struct Front(Router);

impl Front {
    pub fn new(app: Shared) -> Self {
        let router = routes()
            .into_router()
            .fallback_service(crate::web::router(Shared::clone(&app)))
            .method_not_allowed_fallback(middleware::no_such_method)
            .with_state(app);
        Self(router)
    }

    /// Answers a request. What is around all routes is around the router, not around each of them: a layer of a router
    /// keeps two boxes for every request under way, and thousands wait.
    pub fn answer(&self, request: Request) -> impl Future<Output = Response> + Send + use<> {
        let mut router = self.0.clone();
        let request = unread::read_on(addresses::settled(request));
        middleware::outermost(request, move |request| {
            compress::packed(request, move |request| {
                // A router is always ready, and never fails.
                router.call(request).map(|answered| match answered {
                    Ok(response) => response,
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<'f, F>(_: impl FnOnce(&'f Front, Request) -> F) -> usize {
        size_of::<F>()
    }

    /// Q5: thousands wait in it.
    #[test]
    fn what_is_around_a_request_takes_little_room() {
        assert!(size(Front::answer) <= 896, "{}", size(Front::answer));
    }
}
