//! The log of a job: its first screen is complete, and `log.js` brings the rest by blocks of lines.

mod claims;
mod page;
mod read;
mod rows;
mod search;
mod stream;

use axum::extract::{Path, Query, State};
use axum::http::{HeaderName, header};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use kiln_core::access::Right;
use kiln_core::id::JobId;
use kiln_proto::headers::LOG_LINES;
use serde::Deserialize;

use super::failure::Shown;
use super::layout::{Page, Section};
use super::parts::Look;
use super::run::find;
use super::visitor::Visitor;
use crate::app::{App, Shared};
use crate::http::error::{Answer, Failure};
use crate::service::jobs::Seen;
use crate::service::runs::{self, Named};

pub(super) use search::search;
pub(super) use stream::follow;

/// How many lines are brought at a time.
pub(super) const BLOCK: u64 = 200;
/// How many a program may ask for at once.
const MOST: u64 = 1_000;

/// Owner, repository, run and job, as the address has them.
type Place = (String, String, String, String);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Which {
    /// The line that one wants to see.
    line: Option<u64>,
    /// The step whose first line one wants to see, from 1.
    step: Option<u32>,
    /// `error` for the first error.
    at: Option<String>,
    /// Which claim of the job.
    claim: Option<u32>,
}

/// The run and the number of the job that the address names.
async fn find_id(app: &App, visitor: &Visitor, place: &Place) -> Answer<(Named, JobId)> {
    let (owner, repo, run, job) = place.clone();
    let named = find(app, visitor, Right::Read, &(owner, repo, run)).await?;
    let id: JobId = job.parse().map_err(|_| Failure::not_found("job"))?;
    if id.run() != named.run.id {
        return Err(Failure::not_found("job"));
    }
    Ok((named, id))
}

/// A job of the run that the address names.
async fn find_job(app: &App, visitor: &Visitor, place: &Place) -> Answer<(Named, Seen)> {
    let (named, id) = find_id(app, visitor, place).await?;
    let job = runs::job_of(app, &named, id).await?;
    Ok((named, job))
}

pub(super) fn address(named: &Named, job: JobId) -> String {
    format!("{}/job/{job}", super::runs::address(named))
}

/// Where a line is. A job that was claimed several times has as many logs, so the claim is part of it.
fn line_address(named: &Named, job: &Seen, claim: Option<u32>, line: u64) -> String {
    let claim = claim.or_else(|| (job.claim > 1).then_some(job.claim));
    let claim = claim.map(|claim| format!("&claim={claim}")).unwrap_or_default();
    let there = job.id.map(|id| address(named, id)).unwrap_or_default();
    format!("{there}?line={line}{claim}#L{line}")
}

pub(super) async fn show(
    State(app): State<Shared>,
    visitor: Visitor,
    Path(place): Path<Place>,
    Query(which): Query<Which>,
) -> Shown<Response> {
    let (named, id) = find_id(&app, &visitor, &place).await?;
    let jobs = runs::jobs_beside(&app, &named, id).await?;
    let job = jobs.iter().find(|job| job.id == Some(id));
    let job = job.ok_or_else(|| Failure::not_found("job"))?;
    let wanted = match (which.at.as_deref(), which.step) {
        (Some("error"), _) => read::first_error(&app, job, which.claim).await?,
        (_, Some(step)) => read::first_of_step(&app, job, which.claim, step).await?,
        _ => None,
    };
    if let Some(line) = wanted {
        let there = line_address(&named, job, which.claim, line);
        return Ok(Redirect::to(&there).into_response());
    }
    let screen = read::screen(&app, job, which.claim, which.line).await?;
    let is_bad = Look::of_job(job).is_bad();
    let error = if is_bad { read::first_error(&app, job, which.claim).await? } else { None };
    let may_change = visitor.caller.grants().allow(Right::Write, Some(named.run.org)).is_ok();
    let claim = which.claim;
    let about =
        page::About { named: &named, job, jobs: &jobs, screen: &screen, error, claim, may_change };
    let body = page::body(&visitor, &about);
    let title = format!("{} · {}", job.name, named.run.title);
    // What can be done with a job depends on its run, too.
    let live = named.run.conclusion.is_none() || job.conclusion.is_none();
    let live = live.then_some(named.run.id.0);
    Ok(Page { title: &title, section: Section::Runs, live, body }.show(&visitor).into_response())
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OfAttempt {
    attempt: Option<u32>,
}

/// One click from a red run to its first error.
pub(super) async fn first_error(
    State(app): State<Shared>,
    visitor: Visitor,
    Path(place): Path<(String, String, String)>,
    Query(which): Query<OfAttempt>,
) -> Shown<Redirect> {
    let named = find(&app, &visitor, Right::Read, &place).await?;
    let found = runs::attempt_of(&app, named, which.attempt).await?;
    let named = &found.named;
    let bad = found.jobs.iter().find(|job| Look::of_job(job).is_bad() && job.id.is_some());
    let Some((job, id)) = bad.and_then(|job| Some((job, job.id?))) else {
        let attempt = which.attempt.map(|attempt| format!("?attempt={attempt}"));
        let there = super::runs::address(named) + &attempt.unwrap_or_default();
        return Ok(Redirect::to(&there));
    };
    Ok(Redirect::to(&match read::first_error(&app, job, None).await? {
        Some(line) => line_address(named, job, None, line),
        None => address(named, id),
    }))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Wanted {
    from: u64,
    count: u64,
    claim: Option<u32>,
    /// Instead of lines: the number of the first line of this step, from 1.
    first_of: Option<u32>,
    /// Instead of lines: the number of the last line of the group that begins here.
    end_of_group: Option<u64>,
}

/// Lines as rows of the page.
pub(super) async fn lines(
    State(app): State<Shared>,
    visitor: Visitor,
    Path(place): Path<Place>,
    Query(wanted): Query<Wanted>,
) -> Shown<Response> {
    let (_, job) = find_job(&app, &visitor, &place).await?;
    let number = match (wanted.first_of, wanted.end_of_group) {
        (Some(step), _) => Some(read::first_of_step(&app, &job, wanted.claim, step).await?),
        (_, Some(from)) => Some(read::end_of_group(&app, &job, wanted.claim, from).await?),
        _ => None,
    };
    if let Some(number) = number {
        return Ok(axum::Json(number).into_response());
    }
    let count = wanted.count.clamp(1, MOST);
    let block = read::block(&app, &job, wanted.claim, wanted.from.max(1), count).await?;
    let html = rows::show_by_block(&job, &block.lines);
    let total = [(HeaderName::from_static(LOG_LINES), block.total.to_string())];
    let policy = [(header::CONTENT_SECURITY_POLICY, super::layout::POLICY)];
    Ok((total, policy, Html(html)).into_response())
}
