//! `GET /api/queue`: what waits for runners, why, and for how long yet.

use axum::Json as Reply;
use axum::extract::State;
use kiln_proto::api;
use kiln_proto::held::Held;

use super::params::{OfHeld, OfQueue};
use super::runs::run_id;
use crate::app::Shared;
use crate::auth::Caller;
use crate::http::error::Answer;
use crate::http::extract::Query;
use crate::http::openapi::Problems;
use crate::http::routes::{Routes, routes};
use crate::service::queue;

/// How many entries an answer has unless it is said.
const USUAL: usize = 50;
const MOST: usize = 500;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(waiting)).routes(routes!(held))
}

/// Jobs that wait for a runner, with position, reason and estimate; the first in line first
///
/// `next` leads on behind a piece, also when jobs of it were handed out meanwhile. When all that it remembers of them are
/// gone, it leads to the front of the queue again: a job may come twice, but none is passed over. No more than the first
/// 20,000 places of all lines together are looked at.
#[utoipa::path(
    get, path = "/api/queue", tag = "queues", params(OfQueue),
    responses((status = 200, body = api::Page<api::Waiting>), Problems)
)]
async fn waiting(
    State(app): State<Shared>,
    caller: Caller,
    Query(filter): Query<OfQueue>,
) -> Answer<Reply<api::Page<api::Waiting>>> {
    let run = filter.run.as_deref().map(run_id).transpose()?;
    let limit = filter.limit.unwrap_or(USUAL).clamp(1, MOST);
    let which = queue::Asked { repo: filter.repo, run, after: filter.after };
    queue::waiting(&app, &caller, which, limit).await.map(Reply)
}

/// Runs and jobs that wait for a concurrency group, with who has it; what was made first comes first
#[utoipa::path(
    get, path = "/api/queue/held", tag = "queues", params(OfHeld),
    responses((status = 200, body = api::Page<Held>), Problems)
)]
async fn held(
    State(app): State<Shared>,
    caller: Caller,
    Query(filter): Query<OfHeld>,
) -> Answer<Reply<api::Page<Held>>> {
    let limit = filter.limit.unwrap_or(USUAL).clamp(1, MOST);
    let run = filter.run.as_deref().map(run_id).transpose()?;
    let which = queue::Asked { repo: filter.repo, run, after: filter.after };
    queue::held(&app, &caller, which, limit).await.map(Reply)
}
