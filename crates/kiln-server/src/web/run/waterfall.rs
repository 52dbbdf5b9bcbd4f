//! When jobs waited and when they ran, on one axis of time.

use kiln_core::time::Timestamp;
use maud::{Markup, html};

use super::job_address;
use crate::clock;
use crate::service::jobs::Seen;
use crate::service::runs::Attempt;
use crate::web::parts::{self, Look};

/// Units of the axis.
const WIDTH: u64 = 1_000;

pub(super) fn show(found: &Attempt) -> Markup {
    let now = clock::now();
    let from = found.view.created;
    let ends = found.jobs.iter().filter_map(|job| job.timings.ended);
    let open = found.jobs.iter().any(|job| Look::of_job(job).is_open());
    let last = ends.max().filter(|_| !open).unwrap_or(now);
    let axis = Axis { from, span: last.since(from).as_millis().max(1) };
    html! {
        div.waterfall {
            div.axis aria-hidden="true" {
                span { "0" }
                span { (parts::length(last.since(from) / 2)) }
                span { (parts::length(last.since(from))) }
            }
            ol {
                @for job in &found.jobs { (row(found, job, &axis, last)) }
            }
            p.legend.quiet {
                svg viewBox="0 0 24 8" aria-hidden="true" { rect.wait width="24" height="8" rx="2" {} } " waits for a runner "
                svg viewBox="0 0 24 8" aria-hidden="true" { rect.work width="24" height="8" rx="2" {} } " runs"
            }
        }
    }
}

struct Axis {
    from: Timestamp,
    span: u128,
}

impl Axis {
    fn place(&self, at: Timestamp) -> u64 {
        let since = at.since(self.from).as_millis() * u128::from(WIDTH) / self.span;
        u64::try_from(since).unwrap_or(WIDTH).min(WIDTH)
    }

    /// Something short is still seen.
    fn piece(&self, from: Timestamp, to: Timestamp) -> (u64, u64) {
        let (start, end) = (self.place(from), self.place(to));
        (start.min(WIDTH - 3), end.saturating_sub(start).max(3))
    }
}

fn row(found: &Attempt, job: &Seen, axis: &Axis, last: Timestamp) -> Markup {
    let look = Look::of_job(job);
    let times = job.timings;
    let began = times.started.or(times.claimed);
    let waited =
        times.queued.map(|queued| axis.piece(queued, began.or(times.ended).unwrap_or(last)));
    let worked = began.map(|began| axis.piece(began, times.ended.unwrap_or(last)));
    html! {
        li data-entry="" {
            div.label {
                (look.icon())
                @match job.id {
                    Some(id) => a href=(job_address(found, id)) data-open="" { (job.name) },
                    None => span { (job.name) },
                }
            }
            svg viewBox={ "0 0 " (WIDTH) " 16" } preserveAspectRatio="none" role="img" aria-label=(look.word()) {
                @if let Some((x, width)) = waited { rect.wait x=(x) y="5" width=(width) height="6" rx="2" {} }
                @if let Some((x, width)) = worked { rect.work.(look.class()) x=(x) y="1" width=(width) height="14" rx="2" {} }
            }
            (parts::clocked(began, times.ended))
        }
    }
}
