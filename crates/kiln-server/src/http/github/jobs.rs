//! Jobs in GitHub's shape.

use std::collections::HashSet;

use axum::Json as Reply;
use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use kiln_core::access::Right;
use kiln_proto::github::{Job, Jobs, Nothing};
use kiln_proto::live::{LiveEvent, Message};

use super::list::{Asked, Paging, Window};
use super::params::OfJobs;
use super::runs::{attempt_number, known};
use super::shape;
use crate::app::{App, Shared};
use crate::auth::{Caller, OfRepo};
use crate::http::api::{OfLive, job_id, live, run_id};
use crate::http::error::{Answer, Failure};
use crate::http::extract::{Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::change::{self, What};
use crate::service::jobs::Seen;
use crate::service::runs::{self, Attempt, Named};

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(of_run))
        .routes(routes!(of_attempt))
        .routes(routes!(one))
        .routes(routes!(live_log))
        .routes(routes!(rerun))
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/runs/{run_id}/jobs", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("run_id" = String, Path), OfJobs),
    responses((status = 200, body = Jobs), Problems)
)]
async fn of_run(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, run_id)): Path<(String, String, String)>,
    asked: Asked,
    Params(which): Params<OfJobs>,
) -> Answer<(HeaderMap, Reply<Jobs>)> {
    let window = which.window()?;
    let run = known(&app, &caller, Right::Read, (&owner, &repo, &run_id)).await?;
    let mut found = runs::attempt(&app, &caller, run, None).await?;
    if which.all()? {
        let mut known: HashSet<_> = found.jobs.iter().filter_map(|job| job.id).collect();
        for number in (1..found.view.attempt).rev() {
            let earlier = runs::attempt(&app, &caller, run, Some(number)).await?;
            let new =
                earlier.jobs.into_iter().filter(|job| job.id.is_some_and(|id| known.insert(id)));
            found.jobs.extend(new);
        }
    }
    Ok(list(&app, &found, (window, &asked)))
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/runs/{run_id}/attempts/{attempt_number}/jobs",
    tag = "github",
    params(
        ("owner" = String, Path), ("repo" = String, Path), ("run_id" = String, Path),
        ("attempt_number" = String, Path), Paging,
    ),
    responses((status = 200, body = Jobs), Problems)
)]
async fn of_attempt(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, run_id, number)): Path<(String, String, String, String)>,
    asked: Asked,
    Params(paging): Params<Paging>,
) -> Answer<(HeaderMap, Reply<Jobs>)> {
    let window = paging.window()?;
    let run = known(&app, &caller, Right::Read, (&owner, &repo, &run_id)).await?;
    let number = attempt_number(&number)?;
    let found = runs::attempt(&app, &caller, run, Some(number)).await?;
    Ok(list(&app, &found, (window, &asked)))
}

fn list(app: &App, found: &Attempt, (window, asked): (Window, &Asked)) -> (HeaderMap, Reply<Jobs>) {
    let total_count = found.jobs.len() as u64;
    let shown = found.jobs.iter().skip(window.skip).take(window.take);
    let jobs = shown.map(|job| shape::job(app, &found.named, job)).collect();
    (window.links(app, asked, total_count), Reply(Jobs { total_count, jobs }))
}

/// A job of the repository that the address names.
pub(super) async fn find(
    app: &Shared,
    caller: &Caller,
    right: Right,
    (owner, repo, job): (&str, &str, &str),
) -> Answer<(Named, Seen)> {
    let (named, job) = runs::job(app, caller, right, job_id(job)?).await?;
    if named.repo.full() == format!("{owner}/{repo}") {
        Ok((named, job))
    } else {
        Err(Failure::not_found("job"))
    }
}

#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/jobs/{job_id}", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("job_id" = String, Path)),
    responses((status = 200, body = Job), Problems)
)]
async fn one(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, job)): Path<(String, String, String)>,
) -> Answer<Reply<Job>> {
    let (named, job) = find(&app, &caller, Right::Read, (&owner, &repo, &job)).await?;
    Ok(Reply(shape::job(&app, &named, &job)))
}

/// What a job prints, as it prints it: messages on a WebSocket, or a stream of events.
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/actions/runs/{run_id}/jobs/{job_id}/logs/live", tag = "github",
    params(
        ("owner" = String, Path), ("repo" = String, Path), ("run_id" = String, Path),
        ("job_id" = String, Path), OfLive,
    ),
    responses(
        (status = 101, description = "A WebSocket, in which each text is a message", body = Message),
        (status = 200, body = LiveEvent, content_type = "text/event-stream"),
        Problems,
    )
)]
async fn live_log(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, run, job)): Path<(String, String, String, String)>,
    Params(which): Params<OfLive>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Answer<Response> {
    let (_, job) = find(&app, &caller, Right::Read, (&owner, &repo, &job)).await?;
    if job.run != run_id(&run)? {
        return Err(Failure::not_found("job"));
    }
    live(app, &job, &which, &headers, upgrade).await
}

#[utoipa::path(
    post, path = "/repos/{owner}/{repo}/actions/jobs/{job_id}/rerun", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("job_id" = String, Path)),
    responses((status = 201, body = Nothing), Problems)
)]
async fn rerun(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, job)): Path<(String, String, String)>,
) -> Answer<(StatusCode, Reply<Nothing>)> {
    let (named, job) = find(&app, &caller, Right::Write, (&owner, &repo, &job)).await?;
    let id = job.id.ok_or_else(|| Failure::not_found("job"))?;
    change::rerun(&app, &caller, named.run.id, What::Job { job: id.to_string(), step: None })
        .await?;
    Ok((StatusCode::CREATED, Reply(Nothing {})))
}
