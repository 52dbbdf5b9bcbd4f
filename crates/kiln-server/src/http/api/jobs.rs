//! One job, and what it printed.

use axum::Json as Reply;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use kiln_core::access::Right;
use kiln_core::id::JobId;
use kiln_proto::api;
use kiln_proto::headers::LOG_LENGTH;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::params::OfLog;
use crate::app::Shared;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Path, Query as Params};
use crate::http::openapi::Problems;
use crate::service::log::{self, Form, Opened, Reading};
use crate::service::runs;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(one)).routes(routes!(read_log))
}

/// A job by its number or slug.
pub(in crate::http) fn job_id(text: &str) -> Answer<JobId> {
    text.parse().map_err(|_| Failure::not_found("job"))
}

/// A job with its steps. `job` is its number or its slug.
#[utoipa::path(
    get, path = "/api/jobs/{job}", tag = "runs", params(("job" = String, Path)),
    responses((status = 200, body = api::Job), Problems)
)]
async fn one(
    State(app): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
) -> Answer<Reply<api::Job>> {
    let (_, job) = runs::job(&app, &caller, Right::Read, job_id(&job)?).await?;
    Ok(Reply(runs::job_shown(&job)))
}

/// What a job printed.
#[utoipa::path(
    get, path = "/api/jobs/{job}/log", tag = "runs", params(("job" = String, Path), OfLog),
    responses(
        (status = 200, description = "Lines", body = String, content_type = "text/plain",
         headers(("kiln-log-length" = u64, description = "How many bytes are kept of it"))),
        Problems,
    )
)]
async fn read_log(
    State(app): State<Shared>,
    caller: Caller,
    Path(job): Path<String>,
    Params(which): Params<OfLog>,
) -> Answer<Response> {
    let (_, job) = runs::job(&app, &caller, Right::Read, job_id(&job)?).await?;
    let form = match which.format.as_deref() {
        None | Some("text") => Form::Text,
        Some("raw") => Form::Raw,
        Some(_) => return Err(Failure::invalid("`format` is `text` or `raw`")),
    };
    let reading = Reading {
        claim: which.attempt,
        from: which.from.unwrap_or_default(),
        limit: which.limit,
        follow: which.follow.unwrap_or_default(),
        form,
    };
    stream(app, &job, reading).await
}

/// The answer with a log, also in GitHub's shape.
pub(in crate::http) async fn stream(
    app: Shared,
    job: &crate::service::jobs::Seen,
    reading: Reading,
) -> Answer<Response> {
    let Opened { length, pieces } = log::read(app, job, reading).await?;
    let mut response = Body::from_stream(pieces).into_response();
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, text);
    headers.insert(HeaderName::from_static(LOG_LENGTH), length.into());
    Ok(response)
}
