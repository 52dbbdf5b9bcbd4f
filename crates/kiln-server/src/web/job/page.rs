//! The page around the log: steps at the side, tools above.

use maud::{Markup, html};

use super::read::Screen;
use super::rows::Row;
use super::{BLOCK, address, rows};
use crate::service::jobs::Seen;
use crate::service::runs::Named;
use crate::web::assets;
use crate::web::failure::sentence;
use crate::web::layout::form_token;
use crate::web::parts::{self, Look};
use crate::web::visitor::Visitor;

/// What the page is about.
#[derive(Debug)]
pub(super) struct About<'a> {
    pub(super) named: &'a Named,
    pub(super) job: &'a Seen,
    pub(super) screen: &'a Screen,
    /// The line of the first error.
    pub(super) error: Option<u64>,
    pub(super) claim: Option<u32>,
}

impl About<'_> {
    fn here(&self) -> String {
        self.job.id.map(|id| address(self.named, id)).unwrap_or_default()
    }

    /// What addresses add to stay with the claim that one looks at.
    fn of_claim(&self, name: &str) -> String {
        self.claim.map(|claim| format!("{name}{claim}")).unwrap_or_default()
    }
}

pub(super) fn body(visitor: &Visitor, about: &About<'_>, may_change: bool) -> Markup {
    html! {
        (head(visitor, about, may_change))
        div.job-page {
            aside.side {
                nav #steps data-part="" aria-label="Steps" { (steps(about)) }
            }
            div.log-side {
                (tools(about))
                (log(about))
            }
        }
        script type="module" src=(assets::address("log.js")) {}
    }
}

fn head(visitor: &Visitor, about: &About<'_>, may_change: bool) -> Markup {
    let About { named, job, .. } = about;
    let (repo, run) = (named.repo.full(), crate::web::runs::address(named));
    let look = Look::of_job(job);
    let began = job.timings.started.or(job.timings.claimed);
    html! {
        div.head.tight {
            div {
                p.crumbs {
                    a href={ "/" (repo) } { (repo) } span aria-hidden="true" { "/" }
                    a href=(run) { (named.run.title) " #" (named.run.number) }
                }
                h1 { (job.name) }
            }
            @if may_change && job.conclusion.is_some() && named.run.conclusion.is_some() {
                div.actions {
                    form method="post" action={ (run) "/rerun-job" } {
                        (form_token(visitor))
                        input type="hidden" name="job" value=[job.id];
                        button type="submit" { "Re-run this job" }
                    }
                }
            }
        }
        section #status.status-line data-part="" aria-live="polite" aria-label="Status" {
            (look.pill())
            p {
                @if look != Look::Success && look != Look::Running { (sentence(&job.reason)) " " }
                @if began.is_some() { (parts::clocked(began, job.timings.ended)) }
                @if let Some(runner) = &job.runner_name { " on " (runner) }
                @if let Some(used) = &job.used {
                    " · " (used.memory_peak_kb / 1_024) " MB · " (parts::length(std::time::Duration::from_millis(used.cpu_ms))) " CPU"
                }
            }
        }
    }
}

fn steps(about: &About<'_>) -> Markup {
    let here = about.here();
    html! {
        ol.steps {
            @for step in &about.job.steps {
                li data-entry="" {
                    (Look::of_step(step).icon())
                    a href={ (here) "?step=" (step.number + 1) (about.of_claim("&claim=")) } data-step=(step.number + 1) data-open="" { (step.name) }
                    (parts::clocked(step.started, step.ended))
                }
            }
        }
        @if about.job.steps.is_empty() { p.quiet { "No step has begun." } }
    }
}

fn tools(about: &About<'_>) -> Markup {
    let raw = about.job.id.map(|id| format!("/api/jobs/{id}/log")).unwrap_or_default();
    let claims = about.job.claim;
    let shown = about.claim.unwrap_or(claims);
    html! {
        div.log-tools role="toolbar" aria-label="Log" {
            label.find hidden {
                span.sr { "Search in the log" }
                input #search type="search" placeholder="Search the whole log   /" autocomplete="off" spellcheck="false";
            }
            span.hits hidden {
                output #hits aria-live="polite" {}
                button #previous.icon type="button" title="Previous hit (N)" aria-label="Previous hit" { "↑" }
                button #next.icon type="button" title="Next hit (n)" aria-label="Next hit" { "↓" }
                button #only.small type="button" aria-pressed="false" { "Only hits" }
            }
            @if let Some(error) = about.error {
                a.button.small #first-error href={ (about.here()) "?line=" (error) (about.of_claim("&claim=")) "#L" (error) } data-line=(error) { "First error" }
            }
            @if claims > 1 {
                span.claims { "Claim "
                    @for claim in 1..=claims.min(20) {
                        a href={ "?claim=" (claim) } aria-current=[(claim == shown).then_some("true")] { (claim) }
                    }
                }
            }
            span.space {}
            button #times.small type="button" hidden title="Time stamps (t)" { "Times: off" }
            button #wrap.small type="button" hidden aria-pressed="true" { "Wrap" }
            a.button.small href={ (raw) (about.of_claim("?attempt=")) } { "Raw" }
            a.button.small href={ (raw) "?format=timed" (about.of_claim("&attempt=")) } download={ (about.job.name) ".log" } { "Download" }
        }
    }
}

fn log(about: &About<'_>) -> Markup {
    let (screen, job) = (about.screen, about.job);
    let here = about.here();
    let is_last = about.claim.is_none_or(|claim| claim == job.claim);
    let follows = (job.conclusion.is_none() && is_last).then_some("");
    let seat = format!("{}-{}", job.claim.max(1), screen.block.total);
    let size = usize::try_from(BLOCK).unwrap_or(usize::MAX);
    let chunks: Vec<&[Row]> = screen.block.lines.chunks(size).collect();
    html! {
        div #log.log.wrap tabindex="-1" role="log" aria-live="off" aria-label="Log"
            data-here=(here) data-lines=(screen.block.total) data-size=(BLOCK) data-error=[about.error]
            data-job=[job.id] data-claim=[about.claim] data-follow=[follows] data-after=(seat) {
            @if screen.first > 0 { p.elsewhere { a href={ (here) "?line=" ((screen.first * BLOCK).max(1)) (about.of_claim("&claim=")) } { "Earlier lines" } } }
            @for (at, lines) in chunks.iter().enumerate() {
                @let before = at.checked_sub(1).map_or(screen.block.before, |before| last_step(chunks[before]));
                div.block data-block=(screen.first + at as u64) { (rows::show(job, before, lines)) }
            }
            @if let Some(last) = screen.block.lines.last().filter(|last| last.number < screen.block.total) {
                p.elsewhere { a href={ (here) "?line=" (last.number + BLOCK) (about.of_claim("&claim=")) } { "Later lines" } }
            }
        }
        @if screen.block.lines.is_empty() { (silent(about)) }
        button #to-live.float type="button" hidden { "Jump to live" }
        ol #only-hits.log.only hidden {}
    }
}

fn last_step(lines: &[Row]) -> Option<u32> {
    lines.last().map(|row| row.step)
}

fn silent(about: &About<'_>) -> Markup {
    let job = about.job;
    html! {
        div #silent {
            (parts::empty(
                if job.conclusion.is_some() { "It printed nothing" } else { "Nothing printed yet" },
                &html! { (sentence(&job.reason)) },
            ))
        }
    }
}
