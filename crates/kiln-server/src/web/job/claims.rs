//! Why a job was tried again: the claims before the last one.

use maud::{Markup, html};

use crate::service::jobs::{Seen, Tried};
use crate::web::failure::sentence;

/// How many are told; a job that was tried more often has its own log of it.
const MOST: usize = 5;

pub(super) fn list(job: &Seen) -> Markup {
    let skip = job.claims.len().saturating_sub(MOST);
    html! {
        @if !job.claims.is_empty() {
            ul.quiet #tried aria-label="Earlier claims" {
                @for tried in &job.claims[skip..] { li { (one(tried)) } }
            }
        }
    }
}

fn one(tried: &Tried) -> Markup {
    let Tried { past, runner_name } = tried;
    html! {
        a href={ "?claim=" (past.claim) } { "Claim " (past.claim) }
        @if let Some(runner) = runner_name { " on " (runner) }
        " " (ended(&past.outcome))
        @match &past.reason { Some(reason) => { ": " (sentence(reason)) } None => "." }
    }
}

fn ended(outcome: &str) -> &'static str {
    match outcome {
        "lost" => "was lost",
        "retried" => "failed and was tried again",
        _ => "was given back",
    }
}
