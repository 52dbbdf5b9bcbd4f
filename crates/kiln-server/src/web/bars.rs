//! How workflows did lately: a bar for each of the last runs, as high as it took long.

use std::time::Duration;

use kiln_core::id::{RepoId, WorkflowId};
use kiln_core::run::Conclusion;
use kiln_store::Page as Piece;
use kiln_store::runs::{RunFilter, RunSummary};
use maud::{Markup, html};

use super::parts::{self, Look};
use super::runs::address;
use super::visitor::Visitor;
use crate::app::App;
use crate::http::error::Answer;
use crate::service::runs::{self, Named};

/// How many runs of a workflow have bars.
const BARS: u32 = 30;
/// How many workflows are looked at to find those that ran last.
const MOST: u32 = 2_000;

/// The last runs of a workflow, the newest first.
pub(super) struct History {
    newest: Named,
    runs: Vec<RunSummary>,
}

impl History {
    pub(super) fn is_of(&self, workflow: WorkflowId) -> bool {
        self.newest.run.workflow == workflow
    }

    pub(super) fn bars(&self) -> Markup {
        bars(&self.newest, &self.runs)
    }
}

/// Of the workflows that ran last, in one repository or in all that somebody may see.
pub(super) async fn histories(
    app: &App,
    visitor: &Visitor,
    repo: Option<RepoId>,
    limit: u32,
) -> Answer<Vec<History>> {
    let caller = &visitor.caller;
    let newest = runs::latest_of_workflows(app, caller, repo, (MOST, limit)).await?;
    let mut histories = Vec::new();
    for named in newest {
        let filter = RunFilter {
            repo: Some(named.run.repo),
            workflow: Some(named.run.workflow),
            ..RunFilter::default()
        };
        let found = runs::list(app, caller, filter, Piece::first(BARS)).await?;
        let runs = found.into_iter().map(|found| found.run).collect();
        histories.push(History { newest: named, runs });
    }
    Ok(histories)
}

pub(super) fn list(histories: &[History], with_repo: bool) -> Markup {
    html! {
        ul.histories { @for history in histories { (row(history, with_repo)) } }
    }
}

fn row(history: &History, with_repo: bool) -> Markup {
    let History { newest, runs } = history;
    let (repo, file) = (newest.repo.full(), newest.workflow.path.rsplit('/').next());
    let done: Vec<&RunSummary> = runs.iter().filter(|run| run.conclusion.is_some()).collect();
    let good = done.iter().filter(|run| run.conclusion == Some(Conclusion::Success)).count();
    html! {
        li data-entry="" {
            (Look::of_run(&newest.run).icon())
            div.what {
                a.title href={ "/" (repo) "/actions/workflows/" (file.unwrap_or_default()) } data-open="" {
                    (newest.workflow.name)
                }
                p.about { @if with_repo { (repo) } @else { code { (newest.workflow.path) } } }
            }
            (bars(newest, runs))
            p.rate {
                @if let Some(usual) = median(&done) { span { (parts::length(usual)) } }
                @if !done.is_empty() { span.quiet { (good * 100 / done.len()) " % green" } }
            }
        }
    }
}

/// How long half of the runs took at most.
fn median(done: &[&RunSummary]) -> Option<Duration> {
    let mut took: Vec<Duration> =
        done.iter().filter_map(|run| Some(run.ended?.since(run.started?))).collect();
    took.sort();
    took.get(took.len() / 2).copied()
}

/// What a bar says to whoever points at it.
fn about(run: &RunSummary) -> String {
    let (look, title) = (Look::of_run(run), &run.title);
    match (run.conclusion, parts::took(run.started, run.ended)) {
        (Some(_), Some(took)) => {
            format!("#{} · {} in {} · {title}", run.number, look.word(), parts::length(took))
        }
        (None, Some(took)) => {
            format!("#{} · {} for {} · {title}", run.number, look.word(), parts::length(took))
        }
        (_, None) => format!("#{} · {} · {title}", run.number, look.word()),
    }
}

/// A bar for each run, the oldest at the left, as high as it took long.
fn bars(newest: &Named, runs: &[RunSummary]) -> Markup {
    let took =
        |run: &RunSummary| parts::took(run.started, run.ended).unwrap_or_default().as_millis();
    let longest = runs.iter().map(took).max().unwrap_or_default().max(1);
    let width = 8 * BARS;
    html! {
        svg.bars viewBox={ "0 0 " (width) " 36" } role="group" aria-label={ "The last " (runs.len()) " runs" } {
            @for (at, run) in runs.iter().enumerate() {
                @let look = Look::of_run(run);
                @let height = 5 + u64::try_from(took(run) * 30 / longest).unwrap_or_default();
                @let named = Named { run: run.clone(), ..newest.clone() };
                a href=(address(&named)) {
                    rect.run.(look.class()) x=(i64::from(width) - 8 * (i64::try_from(at).unwrap_or_default() + 1))
                        y=(36 - height) width="6" height=(height) rx="1.5" {
                        title { (about(run)) }
                    }
                    @if look.is_bad() {
                        path.notch d={ "M" (i64::from(width) - 8 * (i64::try_from(at).unwrap_or_default() + 1)) " 36h6" } {}
                    }
                }
            }
        }
    }
}
