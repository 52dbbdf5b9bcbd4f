//! The jobs of a run below each other, with their steps, and why those that wait do so.

use maud::{Markup, html};

use super::groups::{self, Group};
use super::job_address;
use crate::service::jobs::Seen;
use crate::service::runs::Attempt;
use crate::web::failure::sentence;
use crate::web::parts::{self, Look};

pub(super) fn show(found: &Attempt) -> Markup {
    let groups = groups::groups(&found.jobs);
    html! {
        ol.jobs {
            @for group in &groups {
                @if group.is_matrix() { (folded(found, group)) } @else { (row(found, group.legs[0])) }
            }
        }
    }
}

/// The legs of a matrix, folded unless there is something to look at.
fn folded(found: &Attempt, group: &Group<'_>) -> Markup {
    let look = group.look();
    html! {
        li {
            details.fold id={ "list-" (group.legs[0].node) } open[look.is_bad() || look.is_open()] {
                summary { (look.icon()) span.title { (group.label()) } " " span.number { (group.count()) } }
                ol.jobs { @for leg in &group.legs { (row(found, leg)) } }
            }
        }
    }
}

/// Under the graph: in words, why jobs wait, were skipped or did not end well.
pub(super) fn waits(found: &Attempt) -> Markup {
    let told: Vec<&Seen> = found
        .jobs
        .iter()
        .filter(|job| !matches!(Look::of_job(job), Look::Success | Look::Running))
        .collect();
    html! {
        @if !told.is_empty() {
            ul.reasons {
                @for job in told {
                    @let look = Look::of_job(job);
                    li {
                        (look.icon())
                        div.what {
                            (name(found, job))
                            p.about { (look.word()) ": " (reason(job)) }
                        }
                        @if look.is_bad() { (error_link(found, job)) }
                    }
                }
            }
        }
    }
}

/// The step that failed says more than that the job did.
pub(super) fn reason(job: &Seen) -> String {
    let failed = job.steps.iter().find(|step| Look::of_step(step).is_bad());
    match failed {
        Some(step) => match step.exit_code {
            Some(code) => format!("the step “{}” ended with exit code {code}.", step.name),
            None => format!("the step “{}” failed.", step.name),
        },
        None => sentence(&job.reason),
    }
}

fn name(found: &Attempt, job: &Seen) -> Markup {
    html! {
        @match job.id {
            Some(id) => a.title href=(job_address(found, id)) data-open="" { (job.name) },
            None => span.title { (job.name) },
        }
    }
}

fn error_link(found: &Attempt, job: &Seen) -> Markup {
    html! {
        @if let Some(id) = job.id {
            a.error-link href={ (job_address(found, id)) "?at=error" } { "First error" }
        }
    }
}

fn row(found: &Attempt, job: &Seen) -> Markup {
    let look = Look::of_job(job);
    let timings = job.timings;
    let queued = timings.queued.zip(timings.started.or(timings.claimed));
    html! {
        li data-entry="" {
            div.job-head {
                (look.icon())
                div.what {
                    (name(found, job))
                    p.about {
                        @if job.reused.is_some() || look != Look::Success { (look.word()) ": " (reason(job)) }
                        @if let Some(runner) = &job.runner_name { " On " (runner) "." }
                        @if let Some((from, to)) = queued { " Waited " (parts::length(to.since(from))) "." }
                    }
                }
                @if look.is_bad() { (error_link(found, job)) }
                (parts::clocked(timings.started.or(timings.claimed), timings.ended))
            }
            @if !job.steps.is_empty() { (steps(found, job)) }
        }
    }
}

fn steps(found: &Attempt, job: &Seen) -> Markup {
    let open = Look::of_job(job).is_bad();
    html! {
        details id=[job.id.map(|id| format!("steps-{id}"))] open[open] {
            summary { (parts::count(job.steps.len(), "step", "steps")) }
            ol.steps {
                @for step in &job.steps {
                    li {
                        (Look::of_step(step).icon())
                        @match job.id {
                            Some(id) => a href={ (job_address(found, id)) "?step=" (step.number + 1) } { (step.name) },
                            None => span { (step.name) },
                        }
                        (parts::clocked(step.started, step.ended))
                    }
                }
            }
        }
    }
}
