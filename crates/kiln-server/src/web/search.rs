//! One search through the logs of all runs of a repository, the newest first.

use axum::extract::{Path, Query, State};
use axum::response::Html;
use kiln_core::access::Right;
use kiln_core::time::Timestamp;
use kiln_proto::api::{LogMatch, LogMatches};
use kiln_store::Scope;
use maud::{Markup, html};
use serde::Deserialize;

use super::failure::Shown;
use super::layout::{Page, Section};
use super::parts;
use super::repos::head;
use super::visitor::Visitor;
use crate::app::Shared;
use crate::http::error::Failure;
use crate::percent::encoded;
use crate::service::log::Matcher;
use crate::service::log::search::{self, Query as Wanted};
use crate::service::repos;

/// How many lines a page has.
const LINES: usize = 100;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Asked {
    q: String,
    /// `q` is a regular expression.
    regex: Option<String>,
    /// Capital and small letters are different.
    case: Option<String>,
    after: String,
}

impl Asked {
    fn query(&self) -> Result<Wanted, Failure> {
        let matcher = Matcher::new(&self.q, self.regex.is_some(), self.case.is_none());
        let after = match self.after.as_str() {
            "" => None,
            spot => Some(spot.parse().map_err(|()| Failure::invalid("`after` is no place"))?),
        };
        Ok(Wanted {
            matcher: matcher.map_err(|why| Failure::invalid(format!("the search: {why}")))?,
            steps: Vec::new(),
            context: 0,
            limit: LINES,
            after,
            attempt: None,
            patience: search::PATIENCE,
        })
    }

    fn address(&self, after: &str) -> String {
        let flag = |name: &str, given: &Option<String>| match given {
            Some(_) => format!("&{name}=1"),
            None => String::new(),
        };
        let (regex, case) = (flag("regex", &self.regex), flag("case", &self.case));
        format!("?q={}{regex}{case}&after={}", encoded(&self.q), encoded(after))
    }
}

pub(super) async fn show(
    State(app): State<Shared>,
    visitor: Visitor,
    Path((owner, repo)): Path<(String, String)>,
    Query(asked): Query<Asked>,
) -> Shown<Html<String>> {
    let name = format!("{owner}/{repo}");
    let (row, _) = repos::find(&app, &visitor.caller, Right::Read, &name).await?;
    let found = if asked.q.is_empty() {
        None
    } else {
        let scope = Scope::Org(row.org);
        Some(search::in_repo(&app, scope, row.id, asked.query()?).await?)
    };
    let body = html! {
        (head(&name, "logs"))
        form.filter method="get" role="search" aria-label="Search all logs" {
            label.wide { span { "In the logs of all runs" }
                input #search type="search" name="q" value=(asked.q) placeholder="text   /" required maxlength="500";
            }
            label.tick { input type="checkbox" name="regex" value="1" checked[asked.regex.is_some()]; span { "regular expression" } }
            label.tick { input type="checkbox" name="case" value="1" checked[asked.case.is_some()]; span { "match case" } }
            div.do { button type="submit" { "Search" } }
        }
        @match &found {
            Some(found) => (results(&name, &asked, found)),
            None => (parts::empty("What are you looking for?", &html! {
                "The last log of each job is searched, the newest run first."
            })),
        }
    };
    let title = format!("Logs of {name}");
    Ok(Page { title: &title, section: Section::Repositories, live: None, body }.show(&visitor))
}

fn results(repo: &str, asked: &Asked, found: &LogMatches) -> Markup {
    let logs = usize::try_from(found.logs).unwrap_or(usize::MAX);
    html! {
        section #found aria-label="Lines" {
            p.quiet {
                (parts::count(found.items.len(), "line", "lines")) " in " (parts::count(logs, "log", "logs"))
                ", " (parts::size(found.bytes)) " searched."
            }
            @if !found.items.is_empty() {
                ol.waits { @for hit in &found.items { (line(repo, hit)) } }
            }
        }
        @if let Some(next) = &found.next {
            nav.pages aria-label="Pages" {
                a.button rel="next" href=(asked.address(next)) { "Search on" }
            }
        }
    }
}

fn line(repo: &str, hit: &LogMatch) -> Markup {
    let (run, job) = (hit.run_id, hit.job_id);
    let there = format!(
        "/{repo}/actions/runs/{run}/job/{job}?line={0}&claim={1}#L{0}",
        hit.line, hit.attempt
    );
    html! {
        li data-entry="" {
            div.what {
                a.title href=(there) data-open="" { (hit.job) " · line " (hit.line) }
                pre.hit { (hit.text) }
            }
            @if let Some(at) = Timestamp::parse_rfc3339(&hit.at) { (parts::when(at)) }
        }
    }
}
