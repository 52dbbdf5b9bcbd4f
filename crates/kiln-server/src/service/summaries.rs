//! What steps wrote for the page of their run.

use std::collections::BTreeMap;

use kiln_core::id::JobId;
use kiln_proto::api;
use kiln_proto::summary::StepSummary;
use kiln_store::events::{self, Summary};
use kiln_store::{Scope, Tx};

use super::runs::Attempt;
use crate::app::App;
use crate::http::error::Answer;

/// How many bytes of Markdown an answer of the API has, unless a single summary is larger.
pub const ROOM: u64 = 4 << 20;

/// Summaries of an attempt after that number, as many as fit.
pub async fn list(
    app: &App,
    found: &Attempt,
    after: i64,
    room: u64,
) -> Answer<api::Page<StepSummary>> {
    let scope = Scope::Org(found.named.run.org);
    let which = (found.named.run.id, found.view.attempt);
    let work = async move |tx: &mut Tx<'_>| events::summaries(tx, scope, which, after, room).await;
    let summaries = app.store.read(work).await?;
    let last = summaries.found.last().map(|summary| summary.id.to_string());
    let items = newest(summaries.found).into_iter().map(|summary| shown(found, summary)).collect();
    Ok(api::Page { items, next: last.filter(|_| summaries.more) })
}

/// A job that was started anew wrote again; what its last runner said counts.
fn newest(summaries: Vec<Summary>) -> Vec<Summary> {
    let mut by_step: BTreeMap<(Option<JobId>, u32), Summary> = BTreeMap::new();
    for summary in summaries {
        by_step.insert((summary.job, summary.step), summary);
    }
    let mut newest: Vec<Summary> = by_step.into_values().collect();
    newest.sort_by_key(|summary| summary.id);
    newest
}

fn shown(found: &Attempt, summary: Summary) -> StepSummary {
    let job = found.jobs.iter().find(|job| job.id.is_some() && job.id == summary.job);
    StepSummary {
        id: summary.id,
        job_id: summary.job.map(|job| job.0),
        job: job.map(|job| job.name.clone()),
        step: summary.step.saturating_add(1),
        markdown: summary.text,
    }
}
