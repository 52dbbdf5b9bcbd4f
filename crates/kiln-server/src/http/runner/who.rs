//! Which runner calls, and for which job.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use kiln_core::id::{JobId, RunnerId};
use kiln_proto::headers::{RUNNER_TOKEN, WORKER_TOKEN};
use kiln_store::claims::Lease;
use kiln_store::{Refusal, StoreError};
use serde::Deserialize;

use crate::app::{App, Shared};
use crate::clock;
use crate::fleet::{Member, Use};
use crate::http::error::{Answer, Failure};
use crate::http::extract::Path;
use crate::service::report;
use crate::token::JobAccess;

/// The runner that the path names, and that calls. Known before any body is read.
#[derive(Debug)]
pub(super) struct Caller(pub(super) Arc<Member>);

impl FromRequestParts<Shared> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Answer<Self> {
        let Path(id) = Path::<i64>::from_request_parts(parts, app).await?;
        caller_of(app, &parts.headers, Some(id)).await.map(Self)
    }
}

/// The claim of a job that the path names, and that the token is for.
#[derive(Debug)]
pub(super) struct OfJob(pub(super) JobAccess);

impl FromRequestParts<Shared> for OfJob {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Answer<Self> {
        let Path((job, attempt)) = Path::<(i64, u32)>::from_request_parts(parts, app).await?;
        job_of(app, &parts.headers, job, attempt).map(Self)
    }
}

/// The lease of a job that the path names, that the token is for, and that is not over.
#[derive(Debug)]
pub(super) struct Working(pub(super) Lease);

/// The part of a path that names a claim, whatever follows it.
#[derive(Debug, Deserialize)]
struct Named {
    id: i64,
    attempt: u32,
}

impl FromRequestParts<Shared> for Working {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &Shared) -> Answer<Self> {
        let Path(Named { id, attempt }) = Path::from_request_parts(parts, app).await?;
        let access = job_of(app, &parts.headers, id, attempt)?;
        let over = || Failure::unauthorized("the job of this token is over");
        report::lease(app, access).await?.ok_or_else(over).map(Self)
    }
}

/// What stands in `Authorization`, or in a header of one of the documents.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let word = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let authorization = word(header::AUTHORIZATION.as_str()).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    authorization.or_else(|| word(RUNNER_TOKEN)).or_else(|| word(WORKER_TOKEN))
}

/// The runner that calls. Its token must be its own, young, and of the runner's epoch.
pub(in crate::http) async fn caller_of(
    app: &App,
    headers: &HeaderMap,
    named: Option<i64>,
) -> Answer<Arc<Member>> {
    let token = bearer(headers)
        .ok_or_else(|| Failure::unauthorized("the access token of the runner is missing"))?;
    let stale = || Failure::unauthorized("the access token is wrong or too old; register again");
    let access = app.signer.check_access(token, clock::now()).ok_or_else(stale)?;
    if named.is_some_and(|id| RunnerId(id) != access.runner) {
        return Err(Failure::not_found("runner"));
    }
    let member = match app.fleet.member(access.runner).await {
        Err(StoreError::Refused(Refusal::NotFound(_))) => return Err(Failure::not_found("runner")),
        member => member?,
    };
    if member.runner.epoch != access.epoch {
        return Err(stale());
    }
    admit(app, access.runner, Use::Poll)?;
    Ok(member)
}

/// The claim that a call is about. A token of another job, or of another claim, finds nothing here.
fn job_of(app: &App, headers: &HeaderMap, job: i64, attempt: u32) -> Answer<JobAccess> {
    let token =
        bearer(headers).ok_or_else(|| Failure::unauthorized("the token of the job is missing"))?;
    let access = app
        .signer
        .check_job(token)
        .ok_or_else(|| Failure::unauthorized("the token of the job is wrong"))?;
    if access.job != JobId(job) || access.claim != attempt {
        return Err(Failure::not_found("job"));
    }
    admit(app, access.runner, Use::Upload)?;
    Ok(access)
}

fn admit(app: &App, runner: RunnerId, using: Use) -> Answer<()> {
    app.fleet.admit(runner, using).map_err(|seconds| {
        Failure::too_many(seconds, format!("too many requests; try again in {seconds} s"))
    })
}
