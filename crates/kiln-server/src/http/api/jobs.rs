//! One job, and what it printed.

use axum::Json as Reply;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use kiln_core::access::Right;
use kiln_core::id::JobId;
use kiln_core::time::Timestamp;
use kiln_proto::api;
use kiln_proto::headers::{LOG_LENGTH, LOG_LINES};

use super::params::OfLog;
use crate::app::Shared;
use crate::auth::Caller;
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::log::{self, Form, Matcher, Opened, Reading, Selection};
use crate::service::runs;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(one)).routes(routes!(read_log))
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
         headers(("kiln-log-length" = u64, description = "How many bytes are kept of it"),
                 ("kiln-log-lines" = u64, description = "How many lines there are, where lines are asked for"))),
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
        Some("timed") => Form::Timed,
        Some("numbered") => Form::Numbered,
        Some("json") => Form::Json,
        Some(_) => {
            let all = "`format` is `text`, `raw`, `timed`, `numbered` or `json`";
            return Err(Failure::invalid(all));
        }
    };
    let reading = Reading {
        claim: which.attempt,
        from: which.from.unwrap_or_default(),
        limit: which.limit,
        follow: which.follow.unwrap_or_default(),
        form,
        lines: selection(&which, form)?,
    };
    stream(app, &job, reading).await
}

/// Which lines are wanted, if that is said by lines at all.
fn selection(which: &OfLog, form: Form) -> Answer<Option<Selection>> {
    let since = which.since.as_deref().map(|text| {
        let wrong = || Failure::invalid("`since` is a time such as `2026-11-16T09:30:00Z`");
        Timestamp::parse_rfc3339(text).ok_or_else(wrong)
    });
    let matcher = which.grep.as_deref().map(|pattern| {
        let (regex, ignore_case) = (which.regex == Some(true), which.ignore_case == Some(true));
        let wrong = |why| Failure::invalid(format!("grep: {why}"));
        Matcher::new(pattern, regex, ignore_case).map_err(wrong)
    });
    let selection = Selection {
        from: which.from_line.unwrap_or_default(),
        count: which.lines,
        steps: steps(which.step.as_deref())?,
        since: since.transpose()?,
        matcher: matcher.transpose()?,
        tail: which.tail,
    };
    let by_lines = which.from_line.is_some()
        || which.lines.is_some()
        || which.tail.is_some()
        || !selection.steps.is_empty()
        || selection.since.is_some()
        || selection.matcher.is_some();
    if by_lines && (which.from.is_some() || which.limit.is_some()) {
        let why = "`from` and `limit` count bytes, and cannot be combined with what counts lines";
        return Err(Failure::invalid(why));
    }
    Ok((by_lines || form.has_numbers()).then_some(selection))
}

/// Steps as people count them, as the log counts them.
pub(super) fn steps(text: Option<&str>) -> Answer<Vec<u32>> {
    let wrong =
        || Failure::invalid("`step` is the number of a step from 1, or several as in `2,5`");
    let step = |word: &str| {
        let number = word.trim().parse::<u32>().ok().and_then(|number| number.checked_sub(1));
        number.ok_or_else(wrong)
    };
    text.map_or(Ok(Vec::new()), |text| text.split(',').take(100).map(step).collect())
}

/// The answer with a log, also in GitHub's shape.
pub(in crate::http) async fn stream(
    app: Shared,
    job: &crate::service::jobs::Seen,
    reading: Reading,
) -> Answer<Response> {
    let kind = match reading.form {
        Form::Json => "application/x-ndjson",
        _ => "text/plain; charset=utf-8",
    };
    let Opened { length, lines, pieces } = log::read(app, job, reading).await?;
    let mut response = Body::from_stream(pieces).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(HeaderName::from_static(LOG_LENGTH), length.into());
    if let Some(lines) = lines {
        headers.insert(HeaderName::from_static(LOG_LINES), lines.into());
    }
    Ok(response)
}
