//! Routes that can be described, without a description in the program.
//!
//! What describes them is several megabytes of code and needs ten more of memory to be put together. So a release has
//! none of it: it serves the document that was published, which tests compare with the routes.

use std::convert::Infallible;

use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, Route};
use tower::{Layer, Service};
#[cfg(debug_assertions)]
use utoipa::openapi::OpenApi;
#[cfg(debug_assertions)]
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::app::Shared;

/// The handlers of one path.
#[derive(Debug)]
pub struct Handled {
    pub path: String,
    pub serve: MethodRouter<Shared>,
    /// Makes what is said of them.
    #[cfg(debug_assertions)]
    pub describe: fn() -> UtoipaMethodRouter<Shared>,
}

/// Routes, and how each is described.
#[derive(Debug, Default)]
pub struct Routes {
    router: Router<Shared>,
    #[cfg(debug_assertions)]
    described: Vec<fn() -> UtoipaMethodRouter<Shared>>,
}

/// Handlers of one path, for [`Routes::routes`].
macro_rules! routes {
    ($first:ident $(, $more:ident)* $(,)?) => {
        utoipa_axum::paste! {{
            use utoipa::Path as _;
            use utoipa_axum::PathItemExt as _;
            let serve = axum::routing::MethodRouter::new();
            let serve = [<__path_ $first>]::methods()
                .iter()
                .fold(serve, |serve, method| serve.on(method.to_method_filter(), $first));
            $(let serve = [<__path_ $more>]::methods()
                .iter()
                .fold(serve, |serve, method| serve.on(method.to_method_filter(), $more));)*
            $crate::http::routes::Handled {
                path: [<__path_ $first>]::path(),
                serve,
                #[cfg(debug_assertions)]
                describe: || utoipa_axum::routes!($first $(, $more)*),
            }
        }}
    };
}
pub(crate) use routes;

impl Routes {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the handlers of a path.
    #[must_use]
    pub fn routes(mut self, handled: Handled) -> Self {
        self.router = self.router.route(&handled.path, handled.serve);
        #[cfg(debug_assertions)]
        self.described.push(handled.describe);
        self
    }

    /// Adds the routes of another part.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.router = self.router.merge(other.router);
        #[cfg(debug_assertions)]
        self.described.extend(other.described);
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
    #[cfg(debug_assertions)]
    pub fn describe(self, about: OpenApi) -> OpenApi {
        let all = OpenApiRouter::<Shared>::with_openapi(about);
        self.described.into_iter().fold(all, |all, describe| all.routes(describe())).into_openapi()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    #[test]
    fn no_two_shapes_have_the_same_name() {
        let mut known = BTreeMap::new();
        for describe in crate::http::routes().described {
            for (name, schema) in describe().0 {
                let schema = serde_json::to_value(schema).unwrap();
                let first = known.entry(name.clone()).or_insert_with(|| schema.clone());
                assert_eq!(*first, schema, "another shape is called {name}, too");
            }
        }
        assert!(known.len() > 50);
    }
}
