//! What is looked for in a log: the lines as rows, and how many there are.

use axum::Json;
use axum::extract::{Path, Query, State};
use kiln_core::time::Timestamp;
use kiln_proto::api::LogMatch;
use kiln_proto::log::Line;
use serde::{Deserialize, Serialize};

use super::rows::{self, Past, Row};
use super::{Place, find_job};
use crate::app::Shared;
use crate::http::error::{Answer, Failure};
use crate::service::log::{Matcher, search};
use crate::web::visitor::Visitor;

/// How many lines an answer has at most.
const MOST: usize = 1_000;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(in crate::web) struct Sought {
    q: String,
    regex: bool,
    ignore_case: bool,
    claim: Option<u32>,
    /// The `next` of the answer before.
    after: Option<String>,
    /// Lines are counted, and none is shown.
    count: bool,
}

/// What was found. A search that takes long ends with where to go on.
#[derive(Debug, Default, Serialize)]
pub(in crate::web) struct Found {
    /// Numbers of lines; none where lines are counted.
    lines: Vec<u64>,
    /// The same as rows.
    html: String,
    count: u64,
    next: Option<String>,
}

pub(in crate::web) async fn search(
    State(app): State<Shared>,
    visitor: Visitor,
    Path(place): Path<Place>,
    Query(sought): Query<Sought>,
) -> Answer<Json<Found>> {
    let (_, job) = find_job(&app, &visitor, &place).await?;
    let matcher = Matcher::new(&sought.q, sought.regex, sought.ignore_case);
    let wrong = |()| Failure::invalid("`after` is not the `next` of an answer");
    let query = search::Query {
        matcher: matcher.map_err(Failure::invalid)?,
        steps: Vec::new(),
        context: 0,
        limit: MOST,
        after: sought.after.map(|spot| spot.parse().map_err(wrong)).transpose()?,
        attempt: None,
        patience: search::PATIENCE,
    };
    let Some(log) = search::of_job(&job, sought.claim) else {
        return Ok(Json(Found::default()));
    };
    if sought.count {
        let search::Count { lines: count, next } = search::count(&app, &log, query).await?;
        let next = next.map(|spot| spot.to_string());
        return Ok(Json(Found { count, next, ..Found::default() }));
    }
    let found = search::in_logs(&app, vec![log], query).await?;
    let rows: Vec<Row> = found.items.iter().map(row).collect();
    let html = rows::show_picked(&job, &rows).into_string();
    let lines: Vec<u64> = rows.iter().map(|row| row.number).collect();
    Ok(Json(Found { count: lines.len() as u64, lines, html, next: found.next }))
}

fn row(hit: &LogMatch) -> Row {
    let at = Timestamp::parse_rfc3339(&hit.at).unwrap_or_default().0;
    let step = hit.step.saturating_sub(1);
    Past::default().draw(hit.line, &Line { at, step, text: hit.text.as_bytes() })
}
