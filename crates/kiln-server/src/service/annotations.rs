//! What steps said about places in the source.

use kiln_proto::api;
use kiln_store::events::{self, Level};
use kiln_store::{Scope, Tx};

use super::runs::Attempt;
use crate::app::App;
use crate::http::error::Answer;

/// How many of an attempt are looked at.
const MOST: u32 = 1_000;

/// The first annotations of an attempt, as they came.
pub async fn list(app: &App, found: &Attempt) -> Answer<Vec<api::Annotation>> {
    let scope = Scope::Org(found.named.run.org);
    let (run, attempt) = (found.named.run.id, found.view.attempt);
    let work =
        async move |tx: &mut Tx<'_>| events::annotations(tx, scope, run, attempt, MOST).await;
    let said = app.store.read(work).await?.into_iter();
    let shown = said.map(|(id, said)| {
        let job = found.jobs.iter().find(|job| job.id.is_some() && job.id == id);
        api::Annotation {
            level: match said.level {
                Level::Error => "error",
                Level::Warning => "warning",
                Level::Notice => "notice",
            }
            .to_owned(),
            message: said.message,
            title: said.title,
            file: said.file,
            line: said.line,
            end_line: said.end_line,
            column: said.column,
            end_column: said.end_column,
            code: said.code,
            job_id: id.map(|id| id.0),
            job: job.map(|job| job.name.clone()),
            step: said.step.map(|step| step.saturating_add(1)),
        }
    });
    Ok(shown.collect())
}
