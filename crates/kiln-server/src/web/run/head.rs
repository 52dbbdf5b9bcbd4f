//! The head of a run: what it is, how it stands in words, its attempts, and the buttons.

use kiln_core::run::{Conclusion, RunState};
use kiln_core::time::Timestamp;
use maud::{Markup, html};

use crate::service::change;
use crate::service::runs::Attempt;
use crate::web::deployed;
use crate::web::layout::form_token;
use crate::web::parts::{self, Look};
use crate::web::runs::address;
use crate::web::visitor::Visitor;

/// How an attempt stands.
pub(super) fn look(found: &Attempt) -> Look {
    match &found.view.state {
        RunState::Created => Look::Queued,
        RunState::Gated(_) => Look::Waiting,
        // A run under way whose jobs all wait for runners does not run yet.
        RunState::Active if found.view.started.is_none() => Look::Queued,
        RunState::Active => Look::Running,
        RunState::Done(Conclusion::Success) => Look::Success,
        RunState::Done(Conclusion::Skipped) => Look::Skipped,
        RunState::Done(Conclusion::Cancelled) => Look::Cancelled,
        RunState::Done(Conclusion::TimedOut) => Look::TimedOut,
        RunState::Done(_) => Look::Failed,
    }
}

pub(super) fn show(visitor: &Visitor, found: &Attempt, may_change: bool) -> Markup {
    let named = &found.named;
    let (run, repo) = (&named.run, named.repo.full());
    let file = named.workflow.path.rsplit('/').next().unwrap_or_default();
    html! {
        div.head {
            div {
                p.crumbs {
                    a href={ "/" (repo) } { (repo) } span aria-hidden="true" { "/" }
                    a href={ "/" (repo) "/actions/workflows/" (file) } { (named.workflow.name) }
                }
                h1 { (run.title) " " span.number { "#" (run.number) } }
            }
            @if may_change { (buttons(visitor, found)) }
        }
        section #status.status-line data-part="" data-state=(look(found).word()) aria-label="Status" {
            (look(found).pill())
            p { (story(found)) }
            (problem(found))
        }
        (facts(found))
    }
}

/// What happened, in a sentence.
fn story(found: &Attempt) -> Markup {
    let view = &found.view;
    let looks: Vec<Look> = found.jobs.iter().map(Look::of_job).collect();
    let among = |wanted: &[Look]| looks.iter().filter(|look| wanted.contains(look)).count();
    let total = looks.len();
    let failed = among(&[Look::Failed, Look::TimedOut]);
    let (running, waiting) = (among(&[Look::Running]), among(&[Look::Queued, Look::Waiting]));
    let done = total - running - waiting;
    html! {
        @if let RunState::Gated(group) = &view.state {
            "It waits for the concurrency group " code { (group) } "."
        } @else if view.ended.is_some() {
            @if failed > 0 { strong { (failed) " of " (parts::count(total, "job", "jobs")) " failed" } }
            @else { (parts::count(total, "job", "jobs")) }
            " in " (parts::clocked(view.started.or(Some(view.created)), view.ended))
            ", ended " (view.ended.map(parts::when).unwrap_or_default()) "."
        } @else {
            (done) " of " (parts::count(total, "job", "jobs")) " done, " (running) " running, " (waiting) " waiting"
            @if failed > 0 { ", " strong { (failed) " failed" } }
            @if view.started.is_some() { ", since " (parts::clocked(view.started, None)) }
            "."
        }
    }
}

/// Who ended it, or why it never began.
fn problem(found: &Attempt) -> Markup {
    let view = &found.view;
    let older = (view.attempt != found.named.run.attempt).then_some(view.attempt);
    let of_attempt = older.map(|attempt| format!("?attempt={attempt}")).unwrap_or_default();
    let has_errors = found.jobs.iter().any(|job| Look::of_job(job).is_bad() && job.id.is_some());
    html! {
        @if let Some(by) = &view.cancelled_by {
            p.quiet { "Cancelled by " (by)
                @if let Some(reason) = change::given_reason(view) { ": " (reason) }
            }
        }
        @if let Some(note) = &view.note {
            div.notice.bad { p { "The run could not start:" } pre { (note) } }
        }
        @if has_errors {
            p { a.button.small #first-error href={ (address(&found.named)) "/error" (of_attempt) } { "Go to the first error" } }
        }
    }
}

fn facts(found: &Attempt) -> Markup {
    let (run, view) = (&found.named.run, &found.view);
    let here = address(&found.named);
    html! {
        dl.facts {
            div { dt { "Event" } dd { (run.event) } }
            div { dt { "Branch" } dd { code { (parts::short_reference(&run.reference)) } } }
            div { dt { "Commit" } dd { code title=(run.head_sha) { (parts::short_sha(&run.head_sha)) } } }
            div { dt { "Actor" } dd { (run.actor) } }
            div { dt { "Created" } dd { (parts::when(view.created)) } }
            (deployed::facts(&found.jobs))
            @if let Some(waited) = waited(view.created, view.started) {
                div { dt { "Waited" } dd { (waited) } }
            }
            @if run.attempt > 1 {
                div { dt { "Attempt" } dd.attempts {
                    @for number in (1..=run.attempt).rev().take(20) {
                        a href={ (here) "?attempt=" (number) } aria-current=[(number == view.attempt).then_some("true")] { (number) }
                    }
                } }
            }
        }
        @if view.attempt != run.attempt {
            p.notice { "This is attempt " (view.attempt) ". " a href=(here) { "The current one is " (run.attempt) } "." }
        }
    }
}

fn waited(created: Timestamp, started: Option<Timestamp>) -> Option<String> {
    started.map(|started| parts::length(started.since(created)))
}

fn buttons(visitor: &Visitor, found: &Attempt) -> Markup {
    let run = &found.named.run;
    if found.view.attempt != run.attempt {
        return html! {};
    }
    let here = address(&found.named);
    let button = |order: &str, name: &str, class: &str| {
        html! {
            form method="post" action={ (here) "/" (order) } {
                (form_token(visitor))
                button class=(class) type="submit" { (name) }
            }
        }
    };
    let is_over = run.conclusion.is_some();
    let failed = run.conclusion.is_some_and(Conclusion::wants_another_try);
    let cancelling = found.view.cancelled_by.is_some();
    html! {
        div.actions #actions data-part="" {
            @if is_over && found.view.note.is_none() {
                @if failed { (button("rerun-failed", "Re-run failed jobs", "primary")) }
                (button("rerun", "Re-run all jobs", ""))
            } @else if !is_over && !cancelling {
                (button("cancel", "Cancel", "danger"))
            } @else if !is_over {
                (button("force-cancel", "Cancel at once", "danger"))
            }
        }
    }
}
