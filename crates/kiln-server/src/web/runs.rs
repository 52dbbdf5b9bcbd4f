//! Lists of runs: all that somebody may see, or those of a repository.

use axum::extract::{Path, Query, State};
use axum::response::Html;
use kiln_core::access::Right;
use kiln_core::run::Conclusion;
use kiln_store::Page as Piece;
use kiln_store::runs::{RunFilter, RunStatus};
use maud::{Markup, html};
use serde::Deserialize;

use super::failure::Shown;
use super::layout::{Page, Section};
use super::parts::{self, Look};
use super::visitor::Visitor;
use crate::app::Shared;
use crate::http::error::Failure;
use crate::percent::encoded;
use crate::service::runs::Named;
use crate::service::{repos, runs};

/// How many runs a page has.
const RUNS: u32 = 40;

/// What the form above the list says. Empty is any.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Filter {
    repo: String,
    workflow: String,
    branch: String,
    event: String,
    actor: String,
    status: String,
    q: String,
    after: String,
}

/// What can be chosen as a status: a word in addresses, and what people read.
const STATUSES: [(&str, &str); 9] = [
    ("", "any status"),
    ("in_progress", "running"),
    ("queued", "queued"),
    ("pending", "waiting for a group"),
    ("success", "succeeded"),
    ("failure", "failed"),
    ("cancelled", "cancelled"),
    ("timed_out", "timed out"),
    ("startup_failure", "could not start"),
];

impl Filter {
    fn is_any(&self) -> bool {
        self.fields().iter().all(|(_, value)| value.is_empty())
    }

    fn fields(&self) -> [(&'static str, &str); 7] {
        [
            ("repo", &self.repo),
            ("workflow", &self.workflow),
            ("branch", &self.branch),
            ("event", &self.event),
            ("actor", &self.actor),
            ("status", &self.status),
            ("q", &self.q),
        ]
    }

    /// The address of this list from another place on.
    fn address(&self, base: &str, after: Option<i64>) -> String {
        let fields = self.fields();
        let chosen = fields.iter().filter(|(_, value)| !value.is_empty());
        let mut pairs: Vec<String> =
            chosen.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        pairs.extend(after.map(|after| format!("after={after}")));
        if pairs.is_empty() { base.to_owned() } else { format!("{base}?{}", pairs.join("&")) }
    }

    fn piece(&self) -> Result<Piece, Failure> {
        if self.after.is_empty() {
            return Ok(Piece::first(RUNS));
        }
        let id = self.after.parse::<i64>().ok().filter(|id| (0..kiln_core::id::LIMIT).contains(id));
        id.map(|id| Piece::after(id, RUNS)).ok_or_else(|| Failure::invalid("`after` is no run"))
    }

    fn read(&self) -> RunFilter {
        let text = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
        let all = [RunStatus::Queued, RunStatus::Pending, RunStatus::InProgress];
        RunFilter {
            workflow_named: text(&self.workflow),
            branch: text(&self.branch),
            event: text(&self.event),
            actor: text(&self.actor),
            status: all.into_iter().find(|status| status.word() == self.status),
            conclusion: Conclusion::of_github(&self.status),
            text: text(&self.q),
            ..RunFilter::default()
        }
    }
}

pub(super) async fn all(
    State(app): State<Shared>,
    visitor: Visitor,
    Query(filter): Query<Filter>,
) -> Shown<Html<String>> {
    let mut wanted = filter.read();
    if !filter.repo.trim().is_empty() {
        let name = filter.repo.trim();
        wanted.repo = Some(repos::find(&app, &visitor.caller, Right::Read, name).await?.0.id);
    }
    let found = runs::list(&app, &visitor.caller, wanted, filter.piece()?).await?;
    let body = html! {
        div.head { h1 { "Runs" } }
        (form(&filter, "/runs", true))
        (results(&filter, "/runs", &found))
    };
    // A search through texts is not repeated with each change.
    let live = filter.q.trim().is_empty().then_some(0);
    let page = Page { title: "Runs", section: Section::Runs, live, body };
    Ok(page.show(&visitor))
}

pub(super) async fn of_repo(
    State(app): State<Shared>,
    visitor: Visitor,
    Path((owner, repo)): Path<(String, String)>,
    Query(filter): Query<Filter>,
) -> Shown<Html<String>> {
    let name = format!("{owner}/{repo}");
    let (row, _) = repos::find(&app, &visitor.caller, Right::Read, &name).await?;
    let wanted = RunFilter { repo: Some(row.id), ..filter.read() };
    let found = runs::list(&app, &visitor.caller, wanted, filter.piece()?).await?;
    let base = format!("/{name}/actions");
    let filter = Filter { repo: String::new(), ..filter };
    let body = html! {
        (super::repos::head(&name, "runs"))
        (form(&filter, &base, false))
        (results(&filter, &base, &found))
    };
    let title = format!("Runs of {name}");
    let page = Page { title: &title, section: Section::Repositories, live: Some(0), body };
    Ok(page.show(&visitor))
}

fn form(filter: &Filter, base: &str, with_repo: bool) -> Markup {
    let texts = [
        ("repo", "Repository", &filter.repo, "owner/name"),
        ("workflow", "Workflow", &filter.workflow, "ci.yml"),
        ("branch", "Branch", &filter.branch, "main"),
        ("event", "Event", &filter.event, "push"),
        ("actor", "Actor", &filter.actor, "who"),
    ];
    html! {
        form.filter method="get" action=(base) role="search" aria-label="Filter runs" {
            label.wide { span { "Text" }
                input #search type="search" name="q" value=(filter.q) placeholder="title or branch   /";
            }
            label { span { "Status" }
                select name="status" {
                    @for (value, word) in STATUSES {
                        option value=(value) selected[value == filter.status] { (word) }
                    }
                }
            }
            @for (name, label, value, hint) in texts {
                @if with_repo || name != "repo" {
                    label { span { (label) } input name=(name) value=(value) placeholder=(hint); }
                }
            }
            div.do {
                button type="submit" { "Filter" }
                @if !filter.is_any() { a.quiet href=(base) { "Clear" } }
            }
        }
    }
}

fn results(filter: &Filter, base: &str, found: &[Named]) -> Markup {
    let full = found.len() >= RUNS as usize;
    let older =
        found.last().filter(|_| full).map(|named| filter.address(base, Some(named.run.id.0)));
    let newest = (!filter.after.is_empty()).then(|| filter.address(base, None));
    html! {
        section #runs data-part="" aria-label="Runs" {
            @if found.is_empty() { (nothing(filter)) } @else { (list(found, true)) }
        }
        @if older.is_some() || newest.is_some() {
            nav.pages aria-label="Pages" {
                @if let Some(newest) = newest { a.button href=(newest) rel="first" { "Newest" } }
                @if let Some(older) = older { a.button href=(older) rel="next" { "Older" } }
            }
        }
    }
}

fn nothing(filter: &Filter) -> Markup {
    if filter.is_any() && filter.after.is_empty() {
        return parts::empty(
            "Nothing has run yet",
            &html! {
                "Push to a repository that Kiln knows, or start a workflow with " code { "kiln trigger" } "."
            },
        );
    }
    parts::empty("No run fits", &html! { "Leave something out of the filter above." })
}

/// Where the page of a run is.
pub(super) fn address(named: &Named) -> String {
    format!("/{}/actions/runs/{}", named.repo.full(), named.run.id)
}

/// Runs, one below the other.
pub(super) fn list(found: &[Named], with_repo: bool) -> Markup {
    html! {
        ol.runs { @for named in found { (row(named, with_repo)) } }
    }
}

fn row(named: &Named, with_repo: bool) -> Markup {
    let run = &named.run;
    let (look, href) = (Look::of_run(run), address(named));
    html! {
        li data-entry="" {
            (look.icon())
            div.what {
                a.title href=(href) data-open="" { (run.title) }
                p.about {
                    @if with_repo {
                        a href={ "/" (named.repo.full()) "/actions" } { (named.repo.full()) } " · "
                    }
                    (named.workflow.name) " #" (run.number)
                    @if run.attempt > 1 { " · attempt " (run.attempt) }
                    " · " (run.event) " by " (run.actor)
                }
            }
            span.branch title=(run.reference) { (parts::short_reference(&run.reference)) }
            div.result {
                @if look.is_bad() && run.note.is_none() {
                    a.error-link href={ (href) "/error" } { "First error" }
                }
                span class={ "word " (look.class()) } { (look.word()) }
            }
            div.times {
                (parts::clocked(run.started, run.ended))
                (parts::when(run.created))
            }
        }
    }
}
