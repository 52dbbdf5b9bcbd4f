//! The page around the log: steps and jobs at the side, tools above.

use kiln_store::runs::StepView;
use maud::{Markup, html};

use super::read::Screen;
use super::{BLOCK, address, claims, line_address, rows};
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
    /// All jobs of the run.
    pub(super) jobs: &'a [Seen],
    pub(super) screen: &'a Screen,
    /// The line of the first error.
    pub(super) error: Option<u64>,
    pub(super) claim: Option<u32>,
    pub(super) may_change: bool,
}

impl About<'_> {
    fn here(&self) -> String {
        self.job.id.map(|id| address(self.named, id)).unwrap_or_default()
    }

    fn may_run_again(&self) -> bool {
        let is_over = self.job.conclusion.is_some() && self.named.run.conclusion.is_some();
        self.may_change && is_over
    }

    /// What addresses add to stay with the claim that one looks at.
    fn of_claim(&self, name: &str) -> String {
        self.claim.map(|claim| format!("{name}{claim}")).unwrap_or_default()
    }
}

/// What `log.js` consists of; the browser asks for all of it at once.
const MODULES: [&str; 5] =
    ["log-blocks.js", "log-copy.js", "log-lines.js", "log-live.js", "log-search.js"];
/// More jobs than these beside the log are folded.
const FEW: usize = 12;

pub(super) fn body(visitor: &Visitor, about: &About<'_>) -> Markup {
    html! {
        @for name in MODULES { link rel="modulepreload" href=(assets::address(name)); }
        script type="module" src=(assets::address("log.js")) {}
        (head(visitor, about))
        div.job-page {
            aside.side {
                nav #steps data-part="" aria-label="Steps" { (steps(visitor, about)) }
                nav #siblings data-part="" aria-label="Jobs of the run" { (siblings(about)) }
            }
            div.log-side {
                (tools(about))
                (log(about))
            }
        }
    }
}

fn head(visitor: &Visitor, about: &About<'_>) -> Markup {
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
            div.actions #actions data-part="" { (buttons(visitor, about)) }
        }
        section #status.status-line data-part="" data-state=(look.word()) aria-label="Status" {
            (look.pill())
            p {
                @if job.reused.is_some() || look != Look::Success && look != Look::Running { (sentence(&job.reason)) " " }
                @if began.is_some() { (parts::clocked(began, job.timings.ended)) }
                @if let Some(runner) = &job.runner_name { " on " (runner) }
                @if let Some(used) = &job.used {
                    " · " (used.memory_peak_kb / 1_024) " MB · " (parts::length(std::time::Duration::from_millis(used.cpu_ms))) " CPU"
                }
            }
            (claims::list(job))
        }
        @if named.run.attempt != job.run_attempt {
            p.notice {
                "This is from attempt " (job.run_attempt) " of the run. "
                a href=(run) { "The current one is " (named.run.attempt) } "."
            }
        }
    }
}

/// What can be done now. There is no way to end one job of a run alone.
fn buttons(visitor: &Visitor, about: &About<'_>) -> Markup {
    let About { named, job, .. } = about;
    let run = crate::web::runs::address(named);
    html! {
        @if about.may_run_again() {
            form method="post" action={ (run) "/rerun-job" } {
                (form_token(visitor))
                input type="hidden" name="job" value=[job.id];
                button type="submit" { "Re-run this job" }
            }
        } @else if about.may_change && job.conclusion.is_none() {
            form method="post" action={ (run) "/cancel" } {
                (form_token(visitor))
                button.danger type="submit" { "Cancel the run" }
            }
        }
    }
}

/// The other jobs of the run, and this one among them.
fn siblings(about: &About<'_>) -> Markup {
    let jobs = about.jobs;
    let list = html! {
        ol.steps {
            @for job in jobs {
                @let here = about.job.id == job.id;
                li.here[here] {
                    (Look::of_job(job).icon())
                    @match job.id {
                        Some(id) => a href=(address(about.named, id)) aria-current=[here.then_some("page")] { (job.name) },
                        None => span { (job.name) },
                    }
                    (parts::clocked(job.timings.started.or(job.timings.claimed), job.timings.ended))
                }
            }
        }
    };
    html! {
        @if jobs.len() > 1 {
            details #siblings-list open[jobs.len() <= FEW] {
                summary { (parts::count(jobs.len(), "job", "jobs")) " in this run" }
                (list)
            }
        }
    }
}

fn steps(visitor: &Visitor, about: &About<'_>) -> Markup {
    let here = about.here();
    // From its first step it runs again as a whole.
    let begins = |number: u32| {
        about.may_run_again()
            && number > about.job.own_steps.start
            && about.job.own_steps.contains(&number)
    };
    html! {
        ol.steps {
            @for step in &about.job.steps {
                li data-entry="" {
                    (Look::of_step(step).icon())
                    a href={ (here) "?step=" (step.number + 1) (about.of_claim("&claim=")) } data-step=(step.number + 1) data-open="" { (step.name) }
                    (parts::clocked(step.started, step.ended))
                    @if begins(step.number) { (from_here(visitor, about, step)) }
                }
            }
        }
        @if about.job.steps.is_empty() { p.quiet { "No step has begun." } }
    }
}

/// Runs the job again from this step on; a menu, so that nobody does so by a slip.
fn from_here(visitor: &Visitor, about: &About<'_>, step: &StepView) -> Markup {
    let run = crate::web::runs::address(about.named);
    html! {
        details.more {
            summary aria-label={ "More for " (step.name) } title="More" { "⋯" }
            form method="post" action={ (run) "/rerun-job" } {
                (form_token(visitor))
                input type="hidden" name="job" value=[about.job.id];
                input type="hidden" name="step" value=(step.number - about.job.own_steps.start + 1);
                button.small type="submit" title="Scripts before this step are left out; actions before it run again" { "Run again from here" }
            }
        }
    }
}

fn tools(about: &About<'_>) -> Markup {
    let raw = about.job.id.map(|id| format!("/api/jobs/{id}/log")).unwrap_or_default();
    let claims = about.job.claim;
    let shown = about.claim.unwrap_or(claims);
    html! {
        div.log-tools role="toolbar" aria-label="Log" {
            div.find hidden {
                label {
                    span.sr { "Search in the log" }
                    input #search type="search" placeholder="Search the whole log   /" autocomplete="off" spellcheck="false";
                }
                button #case.icon type="button" aria-pressed="false" title="Upper and lower case differ" aria-label="Upper and lower case differ" { "Aa" }
                button #regex.icon type="button" aria-pressed="false" title="Regular expression" aria-label="Regular expression" { ".*" }
            }
            span.hits hidden {
                output #hits aria-live="polite" {}
                button #previous.icon type="button" title="Previous hit (N)" aria-label="Previous hit" { "↑" }
                button #next.icon type="button" title="Next hit (n)" aria-label="Next hit" { "↓" }
                button #only.small type="button" aria-pressed="false" { "Only hits" }
                a #everywhere.button.small href={ "/" (about.named.repo.full()) "/logs" } title="Search the logs of all runs" { "All runs" }
            }
            span #errors data-part="" {
                @if let Some(error) = about.error {
                    a.button.small #first-error href=(line_address(about.named, about.job, about.claim, error)) data-line=(error) { "First error" }
                }
            }
            span.claims #claims data-part="" {
                @if claims > 1 {
                    "Claim "
                    @for claim in 1..=claims.min(20) {
                        a href={ "?claim=" (claim) } aria-current=[(claim == shown).then_some("true")] { (claim) }
                    }
                }
            }
            span.space {}
            button #times.small type="button" hidden title="Time stamps (t)" { "Times: off" }
            button #wrap.small type="button" hidden aria-pressed="true" { "Wrap" }
            button #copy.small type="button" hidden title="Copy the log, or the lines that are chosen" { "Copy" }
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
    html! {
        div #log.log.wrap tabindex="-1" role="log" aria-live="off" aria-label="Log"
            data-here=(here) data-lines=(screen.block.total) data-size=(BLOCK)
            data-job=[job.id] data-claim=[about.claim] data-follow=[follows] data-after=(seat) {
            @if screen.first > 0 { p.elsewhere { a href={ (here) "?line=" ((screen.first * BLOCK).max(1)) (about.of_claim("&claim=")) } { "Earlier lines" } } }
            @for (at, lines) in (screen.first..).zip(screen.block.lines.chunks(size)) {
                div.block data-block=(at) { (rows::show(job, lines)) }
            }
            @if let Some(last) = screen.block.lines.last().filter(|last| last.number < screen.block.total) {
                p.elsewhere { a href={ (here) "?line=" (last.number + BLOCK) (about.of_claim("&claim=")) } { "Later lines" } }
            }
        }
        @if screen.block.lines.is_empty() { (silent(about)) }
        button #to-live.float type="button" hidden { "Jump to live" }
        div #only-hits.log.only hidden {
            div {}
            button.small type="button" hidden { "More hits" }
        }
    }
}

fn silent(about: &About<'_>) -> Markup {
    let job = about.job;
    let why = match &about.screen.gone {
        Some(gone) => sentence(gone),
        None if job.conclusion.is_some() => "It printed nothing".to_owned(),
        None => "Nothing printed yet".to_owned(),
    };
    html! {
        div #silent data-part="" {
            (parts::empty(
                &why,
                &html! { (sentence(&job.reason)) },
            ))
        }
    }
}
