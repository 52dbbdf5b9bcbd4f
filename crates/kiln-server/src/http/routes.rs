//! Routes that can be described, without a description at hand.
//!
//! The descriptions of all routes take ten megabytes while they are put together, and most servers are
//! never asked for them: so they are made when somebody asks.

use std::convert::Infallible;

use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse;
use axum::routing::Route;
use tower::{Layer, Service};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::app::Shared;

/// Makes the handlers of a path, and what is said of them.
type Make = fn() -> UtoipaMethodRouter<Shared>;

/// Routes, and how each came about.
#[derive(Debug, Default)]
pub struct Routes {
    router: Router<Shared>,
    made: Vec<Make>,
}

/// Handlers of one path, for [`Routes::routes`].
macro_rules! routes {
    ($($handler:path),+ $(,)?) => {
        || utoipa_axum::routes!($($handler),+)
    };
}
pub(crate) use routes;

impl Routes {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the handlers of a path.
    #[must_use]
    pub fn routes(mut self, make: Make) -> Self {
        let (router, _) = OpenApiRouter::new().routes(make()).split_for_parts();
        self.router = self.router.merge(router);
        self.made.push(make);
        self
    }

    /// Adds the routes of another part.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        self.made.extend(other.made);
        self
    }

    /// Puts something around all that were added so far.
    #[must_use]
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Route> + Clone + Send + Sync + 'static,
        L::Service: Service<Request> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Response: IntoResponse + 'static,
        <L::Service as Service<Request>>::Error: Into<Infallible> + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        self.router = self.router.layer(layer);
        self
    }

    pub fn into_router(self) -> Router<Shared> {
        self.router
    }

    /// What all of them say of themselves.
    pub fn describe(self, about: OpenApi) -> OpenApi {
        let all = OpenApiRouter::<Shared>::with_openapi(about);
        self.made.into_iter().fold(all, |all, make| all.routes(make())).into_openapi()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    #[test]
    fn no_two_shapes_have_the_same_name() {
        let mut known = BTreeMap::new();
        for make in crate::http::routes().made {
            for (name, schema) in make().0 {
                let schema = serde_json::to_value(schema).unwrap();
                let first = known.entry(name.clone()).or_insert_with(|| schema.clone());
                assert_eq!(*first, schema, "another shape is called {name}, too");
            }
        }
        assert!(known.len() > 50);
    }
}
