//! The attempts of a run side by side: how each job ended in each of them, and how long it took.

use std::collections::HashMap;

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
                    @for (name, jobs) in rows(attempts) {
                        tr {
                            th scope="row" { (name) }
                            @for (one, job) in attempts.iter().zip(jobs) { (cell(one, job)) }
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

/// The jobs of all attempts, in the order of the first that has them, with what each attempt has of them.
fn rows(attempts: &[Attempt]) -> Vec<(&str, Vec<Option<&Seen>>)> {
    let mut rows: Vec<(&str, Vec<Option<&Seen>>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (at, one) in attempts.iter().enumerate() {
        for job in &one.jobs {
            let place = *places.entry(&job.name).or_insert_with(|| {
                rows.push((&job.name, vec![None; attempts.len()]));
                rows.len() - 1
            });
            rows[place].1[at].get_or_insert(job);
        }
    }
    rows
}

fn cell(one: &Attempt, job: Option<&Seen>) -> Markup {
    let Some(job) = job else {
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
