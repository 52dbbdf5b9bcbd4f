//! Lists of runs: all that somebody may see, or those of a repository.

use axum::extract::{Path, Query, State};
use axum::response::Html;
use kiln_core::access::Right;
use kiln_core::run::Conclusion;
use kiln_store::runs::{Look as Glance, RunFilter, RunStatus};
use maud::{Markup, html};
use serde::Deserialize;

use super::failure::{Shown, sentence};
use super::layout::{Page, Section};
use super::parts::{self, Look};
use super::visitor::Visitor;
use crate::app::{App, Shared};
use crate::http::error::{Answer, Failure};
use crate::percent::encoded;
use crate::service::runs::{Found, Named};
use crate::service::{repos, runs};

/// How many runs a page has.
const RUNS: u32 = 40;
/// How many runs are looked at for a page, however rare what fits is.
const LOOKED: u32 = 10_000;

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
    /// The page begins after this run, towards older ones.
    after: String,
    /// The page ends before this run: newer ones.
    newer: String,
}

/// What can be chosen as a status: a word in addresses, and what people read.
const STATUSES: [(&str, &str); 10] = [
    ("", "any status"),
    ("in_progress", "running"),
    ("queued", "queued"),
    ("pending", "waiting for a group"),
    ("success", "succeeded"),
    ("failure", "failed"),
    ("cancelled", "cancelled"),
    ("skipped", "skipped"),
    ("timed_out", "timed out"),
    ("startup_failure", "could not start"),
];

impl Filter {
    /// A search through texts is not repeated with each change.
    fn live(&self) -> Option<i64> {
        self.q.trim().is_empty().then_some(0)
    }

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

    /// The address of this list at another place.
    fn address(&self, base: &str, place: Option<(&str, i64)>) -> String {
        let fields = self.fields();
        let chosen = fields.iter().filter(|(_, value)| !value.is_empty());
        let mut pairs: Vec<String> =
            chosen.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        pairs.extend(place.map(|(name, run)| format!("{name}={run}")));
        if pairs.is_empty() { base.to_owned() } else { format!("{base}?{}", pairs.join("&")) }
    }

    fn glance(&self) -> Result<Glance, Failure> {
        let newest = Glance { from: None, newer: false, limit: RUNS, most: LOOKED };
        let (name, from) = match (self.after.as_str(), self.newer.as_str()) {
            ("", "") => return Ok(newest),
            ("", newer) => ("newer", newer),
            (after, _) => ("after", after),
        };
        let id = from.parse::<i64>().ok().filter(|id| (0..kiln_core::id::LIMIT).contains(id));
        let id = id.ok_or_else(|| Failure::invalid(format!("`{name}` is no run")))?;
        Ok(Glance { from: Some(id), newer: name == "newer", ..newest })
    }

    /// One that does not exist is the caller's mistake: all runs would be the answer to another question.
    fn read(&self) -> Result<RunFilter, Failure> {
        let known = STATUSES.iter().map(|(word, _)| *word);
        if !known.clone().any(|word| word == self.status) {
            let known: Vec<&str> = known.filter(|word| !word.is_empty()).collect();
            let message = format!("`{}` is no status; there are {}", self.status, known.join(", "));
            return Err(Failure::invalid(message));
        }
        let text = |text: &str| (!text.trim().is_empty()).then(|| text.trim().to_owned());
        let all = [RunStatus::Queued, RunStatus::Pending, RunStatus::InProgress];
        Ok(RunFilter {
            workflow_named: text(&self.workflow),
            branch: text(&self.branch),
            event: text(&self.event),
            actor: text(&self.actor),
            status: all.into_iter().find(|status| status.word() == self.status),
            conclusion: Conclusion::of_github(&self.status),
            text: text(&self.q),
            ..RunFilter::default()
        })
    }
}

pub(super) async fn all(
    State(app): State<Shared>,
    visitor: Visitor,
    Query(filter): Query<Filter>,
) -> Shown<Html<String>> {
    let mut wanted = filter.read()?;
    if !filter.repo.trim().is_empty() {
        let name = filter.repo.trim();
        wanted.repo = Some(repos::find(&app, &visitor.caller, Right::Read, name).await?.0.id);
    }
    let found = find(&app, &visitor, &filter, wanted).await?;
    let body = html! {
        div.head { h1 { "Runs" } }
        (form(&filter, "/runs", true))
        (results(&filter, "/runs", &found))
    };
    let page = Page { title: "Runs", section: Section::Runs, live: filter.live(), body };
    Ok(page.show(&visitor))
}

/// One page of runs.
struct Listed {
    runs: Vec<Named>,
    /// Where newer ones begin.
    newer: Option<i64>,
    /// Where older ones begin.
    older: Option<i64>,
    /// Whether the page ends because so many were looked at, not because so many fit.
    cut: bool,
}

async fn find(app: &App, visitor: &Visitor, filter: &Filter, wanted: RunFilter) -> Answer<Listed> {
    let glance = filter.glance()?;
    let (mut listed, is_end) = piece(app, visitor, wanted.clone(), glance).await?;
    if glance.newer && is_end {
        // The newest ones are among them: a whole page of those.
        let newest = Glance { from: None, newer: false, ..glance };
        listed = piece(app, visitor, wanted, newest).await?.0;
    }
    Ok(listed)
}

/// One page in the direction of the glance, and whether there is nothing beyond it.
async fn piece(
    app: &App,
    visitor: &Visitor,
    wanted: RunFilter,
    glance: Glance,
) -> Answer<(Listed, bool)> {
    // One more than is shown says whether there are more.
    let look = Glance { limit: RUNS + 1, ..glance };
    let Found { mut runs, further } = runs::sift(app, &visitor.caller, wanted, look).await?;
    let is_over = runs.len() > RUNS as usize;
    if is_over {
        runs.remove(if glance.newer { 0 } else { RUNS as usize });
    }
    let id = |named: Option<&Named>| named.map(|named| named.run.id.0);
    let (first, last) = (id(runs.first()), id(runs.last()));
    let beyond = if is_over { if glance.newer { first } else { last } } else { further };
    let back = glance.from.map(|from| {
        if glance.newer { last.unwrap_or(from + 1) } else { first.unwrap_or(from - 1) }
    });
    let (newer, older) = if glance.newer { (beyond, back) } else { (back, beyond) };
    let cut = !is_over && further.is_some();
    Ok((Listed { runs, newer, older, cut }, beyond.is_none()))
}

pub(super) async fn of_repo(
    State(app): State<Shared>,
    visitor: Visitor,
    Path((owner, repo)): Path<(String, String)>,
    Query(filter): Query<Filter>,
) -> Shown<Html<String>> {
    let name = format!("{owner}/{repo}");
    let (row, _) = repos::find(&app, &visitor.caller, Right::Read, &name).await?;
    let wanted = RunFilter { repo: Some(row.id), ..filter.read()? };
    let found = find(&app, &visitor, &filter, wanted).await?;
    let base = format!("/{name}/actions");
    let filter = Filter { repo: String::new(), ..filter };
    let body = html! {
        (super::repos::head(&name, "runs"))
        (form(&filter, &base, false))
        (results(&filter, &base, &found))
    };
    let title = format!("Runs of {name}");
    let page = Page { title: &title, section: Section::Repositories, live: filter.live(), body };
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

fn results(filter: &Filter, base: &str, found: &Listed) -> Markup {
    let is_first = filter.after.is_empty() && found.newer.is_none();
    let at = |name: &str, run: Option<i64>| run.map(|run| filter.address(base, Some((name, run))));
    let (newer, older) = (at("newer", found.newer), at("after", found.older));
    html! {
        section #runs data-part="" aria-label="Runs" {
            @if found.runs.is_empty() && !found.cut { (nothing(filter)) } @else { (list(&found.runs, true)) }
            @if found.cut {
                p.calm { "Of the " (LOOKED) " runs that were looked at, no more fit. There are others." }
            }
        }
        @if older.is_some() || !is_first {
            nav.pages aria-label="Pages" {
                @if !is_first { a.button href=(filter.address(base, None)) rel="first" { "Newest" } }
                @if let Some(newer) = newer { a.button href=(newer) rel="prev" { "Newer" } }
                @if let Some(older) = older {
                    a.button href=(older) rel="next" { @if found.cut { "Search older ones" } @else { "Older" } }
                }
            }
        }
    }
}

fn nothing(filter: &Filter) -> Markup {
    if filter.is_any() && filter.after.is_empty() && filter.newer.is_empty() {
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
                @if let Some(waits) = &named.waits { p.about { (sentence(waits)) } }
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
