//! The attempts of a run side by side: how each job ended in each of them, and how long it took.

use maud::{Markup, html};

use super::{head, job_address};
use crate::service::jobs::Seen;
use crate::service::runs::Attempt;
use crate::web::parts::{self, Look};
use crate::web::runs::address;

/// How many attempts stand beside each other.
pub(super) const MOST: u32 = 8;

pub(super) fn show(attempts: &[Attempt], chosen: u32) -> Markup {
    html! {
        div.attempts-table tabindex="0" role="region" aria-label="Attempts side by side" {
            table {
                thead { tr {
                    th scope="col" { "Job" }
                    @for one in attempts { (column(one, chosen)) }
                } }
                tbody {
                    @for name in names(attempts) {
                        tr {
                            th scope="row" { (name) }
                            @for one in attempts { (cell(one, name)) }
                        }
                    }
                }
            }
        }
    }
}

fn column(one: &Attempt, chosen: u32) -> Markup {
    let (number, view) = (one.view.attempt, &one.view);
    html! {
        th scope="col" {
            a href={ (address(&one.named)) "?attempt=" (number) } aria-current=[(number == chosen).then_some("true")] {
                "Attempt " (number)
            }
            span.about {
                (head::look(one).icon()) " "
                (parts::clocked(view.started, view.ended))
            }
            span.about { (parts::when(view.created)) }
        }
    }
}

/// The jobs of all attempts, in the order of the first that has them.
fn names(attempts: &[Attempt]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for job in attempts.iter().flat_map(|one| &one.jobs) {
        if !names.contains(&job.name.as_str()) {
            names.push(&job.name);
        }
    }
    names
}

fn cell(one: &Attempt, name: &str) -> Markup {
    let Some(job) = one.jobs.iter().find(|job| job.name == name) else {
        return html! { td.quiet { "not part of it" } };
    };
    let look = Look::of_job(job);
    html! {
        td {
            (look.icon()) " "
            @match job.id {
                Some(id) => a href=(job_address(one, id)) { (look.word()) },
                None => (look.word()),
            }
            " " (took(one, job))
        }
    }
}

/// What was taken over did not run again.
fn took(one: &Attempt, job: &Seen) -> Markup {
    let timings = job.timings;
    html! {
        @if job.run_attempt == one.view.attempt {
            (parts::clocked(timings.started.or(timings.claimed), timings.ended))
        } @else {
            span.about { "taken over from attempt " (job.run_attempt) }
        }
    }
}
