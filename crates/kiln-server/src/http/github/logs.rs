//! Logs in GitHub's manner: who may see them is led to an address that is good for a while without a token.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use kiln_core::access::Right;
use kiln_core::id::OrgId;

use super::jobs;
use super::runs::{attempt_number, known};
use crate::app::{App, Shared};
use crate::auth::{Caller, OfRepo};
use crate::clock;
use crate::http::api::{Signed, job_id, log_stream, run_id};
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::change;
use crate::service::jobs::Seen;
use crate::service::log::{Form, Reading, archive, expired};
use crate::service::runs::{self, Named};
use crate::storage::Grant;

/// How long such an address is good.
const LIFE: std::time::Duration = std::time::Duration::from_mins(10);

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(of_job))
        .routes(routes!(of_run, remove))
        .routes(routes!(of_attempt))
        .routes(routes!(signed_job))
        .routes(routes!(signed_attempt))
}

/// The address of a log, which needs no token.
fn lead(app: &App, org: OrgId, what: &str) -> Response {
    let grant = Grant {
        method: "GET",
        object: format!("log/{what}"),
        size: 0,
        org,
        job: None,
        expires: clock::now() + LIFE,
    };
    let query = app.storage.sign(&grant);
    let url = format!("{}/api/signed/logs/{what}?{query}", app.config.public_url);
    (StatusCode::FOUND, [(header::LOCATION, url)]).into_response()
}

/// The run that a signed address is for.
async fn led(app: &App, signed: &Signed, what: &str, run: kiln_core::id::RunId) -> Answer<Named> {
    let grant = signed.grant("GET", format!("log/{what}"));
    if !app.storage.check(&grant, &signed.signature, clock::now()) {
        return Err(Failure::not_found("log"));
    }
    let named = runs::look(app, run).await?;
    Some(named).filter(|named| named.run.org == grant.org).ok_or_else(|| Failure::not_found("log"))
}

/// Leads to the lines of a job's last claim, each with its time.
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/jobs/{job_id}/logs", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("job_id" = String, Path)),
    responses((status = 302, description = "The address is in `Location`, good for ten minutes"), Problems)
)]
async fn of_job(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, job)): Path<(String, String, String)>,
) -> Answer<Response> {
    let (named, job) = jobs::find(&app, &caller, Right::Read, (&owner, &repo, &job)).await?;
    let id = job.id.ok_or_else(|| Failure::not_found("log"))?;
    Ok(lead(&app, named.run.org, &format!("jobs/{id}")))
}

/// Leads to an archive with the logs of a run's last attempt.
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/runs/{run_id}/logs", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("run_id" = String, Path)),
    responses((status = 302, description = "The address is in `Location`, good for ten minutes"), Problems)
)]
async fn of_run(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, run)): Path<(String, String, String)>,
) -> Answer<Response> {
    let run = known(&app, &caller, Right::Read, (&owner, &repo, &run)).await?;
    let named = runs::find(&app, &caller, Right::Read, run).await?;
    Ok(lead(&app, named.run.org, &format!("runs/{run}/{}", named.run.attempt)))
}

/// Removes the logs of a run that has ended, of all its attempts.
#[utoipa::path(
    delete, path = "/repos/{owner}/{repo}/actions/runs/{run_id}/logs", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("run_id" = String, Path)),
    responses((status = 204), Problems)
)]
async fn remove(
    State(app): State<Shared>,
    caller: Caller,
    Path((owner, repo, run)): Path<(String, String, String)>,
) -> Answer<StatusCode> {
    let run = known(&app, &caller, Right::Write, (&owner, &repo, &run)).await?;
    change::remove_logs(&app, &caller, run).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Leads to an archive with the logs of an attempt.
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/runs/{run_id}/attempts/{attempt_number}/logs",
    tag = "github",
    params(
        ("owner" = String, Path), ("repo" = String, Path), ("run_id" = String, Path),
        ("attempt_number" = String, Path),
    ),
    responses((status = 302, description = "The address is in `Location`, good for ten minutes"), Problems)
)]
async fn of_attempt(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, run, number)): Path<(String, String, String, String)>,
) -> Answer<Response> {
    let run = known(&app, &caller, Right::Read, (&owner, &repo, &run)).await?;
    let named = runs::find(&app, &caller, Right::Read, run).await?;
    let number = attempt_number(&number)?;
    if number > named.run.attempt {
        return Err(Failure::not_found("attempt"));
    }
    Ok(lead(&app, named.run.org, &format!("runs/{run}/{number}")))
}

/// The log of a job, at an address that the server gave
#[utoipa::path(
    get, path = "/api/signed/logs/jobs/{job_id}", tag = "bytes",
    params(("job_id" = String, Path), Signed),
    responses((status = 200, description = "Lines", body = String, content_type = "text/plain"), Problems),
    security(())
)]
async fn signed_job(
    State(app): State<Shared>,
    Path(job): Path<String>,
    Params(signed): Params<Signed>,
) -> Answer<Response> {
    let id = job_id(&job)?;
    let named = led(&app, &signed, &format!("jobs/{id}"), id.run()).await?;
    let job = runs::job_of(&app, &named, id).await?;
    log_stream(app, &job, Reading { form: Form::Timed, ..Reading::default() }).await
}

/// The logs of an attempt as an archive, at an address that the server gave
///
/// A file for each job, and for each job a folder with a file for each step.
#[utoipa::path(
    get, path = "/api/signed/logs/runs/{run_id}/{attempt_number}", tag = "bytes",
    params(("run_id" = String, Path), ("attempt_number" = String, Path), Signed),
    responses(
        (status = 200, description = "An archive", body = String, content_type = "application/zip"), Problems,
    ),
    security(())
)]
async fn signed_attempt(
    State(app): State<Shared>,
    Path((run, number)): Path<(String, String)>,
    Params(signed): Params<Signed>,
) -> Answer<Response> {
    let (run, number) = (run_id(&run)?, attempt_number(&number)?);
    let named = led(&app, &signed, &format!("runs/{run}/{number}"), run).await?;
    let found = runs::attempt_of(&app, named, Some(number)).await?;
    must_be_there(&app, &found.jobs).await?;
    let mut response = Body::from_stream(archive(app, found.jobs)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zip"));
    let name = format!("attachment; filename=\"logs_{run}.zip\"");
    if let Ok(name) = HeaderValue::try_from(name) {
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

/// Refuses an archive in which nothing would be, because all logs have expired.
async fn must_be_there(app: &App, jobs: &[Seen]) -> Answer<()> {
    let mut gone = None;
    for job in jobs {
        let Some(log) = job.log(job.claim) else { continue };
        let Some(expired) = expired(app, job) else { return Ok(()) };
        if app.logs.length(log).await.map_err(Failure::internal)? > 0 {
            return Ok(());
        }
        gone = Some(expired);
    }
    gone.map_or(Ok(()), Err)
}
