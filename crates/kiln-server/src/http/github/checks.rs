//! What steps remarked, where clients of GitHub look for it: a job is the check run with its number.

use axum::Json as Reply;
use axum::extract::State;
use axum::http::HeaderMap;
use kiln_core::access::Right;
use kiln_proto::github::Annotation;
use kiln_store::events::{self, Level};
use kiln_store::{Scope, Tx};

use super::jobs;
use super::list::{Asked, Paging};
use crate::app::Shared;
use crate::auth::OfRepo;
use crate::http::error::Answer;
use crate::http::extract::{Path, Query as Params};
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};

/// How many remarks of an attempt are looked at.
const REMARKS: u32 = 1_000;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(annotations))
}

fn shown(said: &events::Annotation) -> Annotation {
    let line = said.line.unwrap_or(1);
    Annotation {
        path: said.file.clone().unwrap_or_else(|| ".github".to_owned()),
        start_line: line,
        end_line: said.end_line.unwrap_or(line),
        start_column: said.column,
        end_column: said.end_column,
        annotation_level: match said.level {
            Level::Error => "failure",
            Level::Warning => "warning",
            Level::Notice => "notice",
        }
        .to_owned(),
        title: said.title.clone(),
        message: said.message.clone(),
        raw_details: None,
    }
}

/// What the steps of a job remarked
#[utoipa::path(
    get, path = "/repos/{owner}/{repo}/check-runs/{job_id}/annotations", tag = "github",
    params(("owner" = String, Path), ("repo" = String, Path), ("job_id" = String, Path), Paging),
    responses((status = 200, body = Vec<Annotation>), Problems)
)]
async fn annotations(
    State(app): State<Shared>,
    OfRepo(caller): OfRepo,
    Path((owner, repo, job)): Path<(String, String, String)>,
    asked: Asked,
    Params(paging): Params<Paging>,
) -> Answer<(HeaderMap, Reply<Vec<Annotation>>)> {
    let window = paging.window()?;
    let (named, job) = jobs::find(&app, &caller, Right::Read, (&owner, &repo, &job)).await?;
    let (scope, run, attempt) = (Scope::Org(named.run.org), named.run.id, job.run_attempt);
    let work =
        async move |tx: &mut Tx<'_>| events::annotations(tx, scope, run, attempt, REMARKS).await;
    let said = app.store.read(work).await?;
    // What a re-run took over said so in the attempt that it ran in.
    let of_job = said.iter().filter(|(of, _)| of.is_some() && *of == job.logged());
    let all: Vec<Annotation> = of_job.map(|(_, said)| shown(said)).collect();
    let links = window.links(&app, &asked, all.len() as u64);
    let piece = all.into_iter().skip(window.skip).take(window.take).collect();
    Ok((links, Reply(piece)))
}
