//! The pages that people look at: a request becomes a call of a service, its answer becomes HTML.
//!
//! Pages are complete without JavaScript. The modules in `assets/` add what must move: statuses, the log, keys.

mod ansi;
mod assets;
mod badge;
mod bars;
mod caches;
mod dashboard;
mod deployed;
mod failure;
mod files;
mod job;
mod jump;
mod layout;
mod links;
mod live;
mod markdown;
mod parts;
mod preview;
mod queue;
mod repos;
mod run;
mod runners;
mod runs;
mod search;
mod settings;
mod sign_in;
mod sought;
mod visitor;
mod workflow;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};

use crate::app::Shared;
use crate::http::middleware;

pub(crate) use sign_in::{session_cookie, welcome_page, welcomed_page};

/// First parts of paths that are no owners of repositories.
const NOT_OWNERS: [&str; 5] = ["api", "actions", "repos", "welcome", "assets"];
/// A form has few fields.
const LARGEST_FORM: usize = 2 << 20;

/// What programs ask for too, and the OpenAPI document therefore describes.
#[cfg(debug_assertions)]
pub(crate) fn described() -> crate::http::routes::Routes {
    badge::routes().merge(preview::routes())
}

/// Answers what no address of the API fits.
pub(crate) fn router(app: Shared) -> Router {
    Router::new()
        .route("/", get(dashboard::show))
        .route("/runs", get(runs::all))
        .route("/queue", get(queue::show))
        .route("/runners", get(runners::show))
        .route("/runners/{id}", get(runners::one))
        .route("/runners/{id}/{order}", post(runners::order))
        .route("/repositories", get(repos::list))
        .route("/sign-in", get(sign_in::show).post(sign_in::enter))
        .route("/sign-out", post(sign_in::leave))
        .route("/live", get(live::follow))
        .route("/jump", get(jump::show))
        .route("/{owner}/{repo}", get(repos::one))
        .route("/{owner}/{repo}/settings", get(settings::show))
        .route("/{owner}/{repo}/settings/{what}", post(settings::change))
        .route("/{owner}/{repo}/caches", get(caches::show))
        .route("/{owner}/{repo}/caches/{id}/delete", post(caches::delete))
        .route("/{owner}/{repo}/actions", get(runs::of_repo))
        .route("/{owner}/{repo}/logs", get(search::show))
        .route("/{owner}/{repo}/actions/workflows/{file}", get(workflow::show))
        .route("/{owner}/{repo}/actions/workflows/{file}/dispatch", post(workflow::dispatch))
        .route("/{owner}/{repo}/actions/workflows/{file}/{order}", post(workflow::order))
        .route("/{owner}/{repo}/actions/runs/{run}", get(run::show))
        .route("/{owner}/{repo}/actions/runs/{run}/error", get(job::first_error))
        .route("/{owner}/{repo}/actions/runs/{run}/summary", get(run::summary))
        .route("/{owner}/{repo}/actions/runs/{run}/annotations/{at}", get(run::annotation))
        .route("/{owner}/{repo}/actions/runs/{run}/{order}", post(run::order))
        .route("/{owner}/{repo}/actions/runs/{run}/artifacts/{artifact}", get(run::download))
        .route("/{owner}/{repo}/actions/runs/{run}/artifacts/{artifact}/files", get(files::show))
        .route(
            "/{owner}/{repo}/actions/runs/{run}/artifacts/{artifact}/{order}",
            post(run::order_artifact),
        )
        .route("/{owner}/{repo}/actions/runs/{run}/job/{job}", get(job::show))
        .route("/{owner}/{repo}/actions/runs/{run}/job/{job}/lines", get(job::lines))
        .route("/{owner}/{repo}/actions/runs/{run}/job/{job}/follow", get(job::follow))
        .route("/{owner}/{repo}/actions/runs/{run}/job/{job}/search", get(job::search))
        .merge(badge::routes().into_router())
        .layer(from_fn_with_state(app.clone(), page_or_problem))
        .layer(from_fn(middleware::in_time))
        .layer(DefaultBodyLimit::max(LARGEST_FORM))
        .merge(assets::routes())
        .merge(preview::routes().into_router())
        .method_not_allowed_fallback(middleware::no_such_address)
        .fallback(failure::no_such_page)
        .with_state(app)
}

/// What looks like an address of the API and is none is answered as the API does.
async fn page_or_problem(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let first = request.uri().path().split('/').nth(1).unwrap_or_default();
    if NOT_OWNERS.contains(&first) {
        return middleware::no_such_address(request.uri().clone()).await.into_response();
    }
    let (mut parts, body) = request.into_parts();
    let request = Request::from_parts(parts.clone(), body);
    let response = next.run(request).await;
    let mut response = failure::for_visitor(&app, &mut parts, response).await;
    let headers = response.headers_mut();
    let policy = HeaderValue::from_static(layout::POLICY);
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(policy);
    // Without a referrer, browsers do not say which page a form comes from, either.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}
