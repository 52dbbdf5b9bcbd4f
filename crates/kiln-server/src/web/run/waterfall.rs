//! When jobs waited and when they ran, on one axis of time.

use kiln_core::time::Timestamp;
use maud::{Markup, html};

use super::groups::{self, Group};
use super::{job_address, list};
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
    let drawn = Drawn { found, axis, last };
    let groups = groups::groups(&found.jobs);
    let critical = groups::critical(&groups, found.view.ended.is_some());
    html! {
        div.waterfall {
            div.axis aria-hidden="true" {
                div {
                    span { "0" }
                    span { (parts::length(last.since(from) / 2)) }
                    span { (parts::length(last.since(from))) }
                }
            }
            ol {
                @for (at, group) in groups.iter().enumerate() {
                    @let on_path = critical.contains(&at);
                    @if group.is_matrix() { (folded(&drawn, group, on_path)) }
                    @else { li data-entry="" { (row(&drawn, group.legs[0], on_path)) } }
                }
            }
            p.legend.quiet {
                svg viewBox="0 0 24 8" aria-hidden="true" { rect.wait width="24" height="8" rx="2" {} } " waits for a runner "
                svg viewBox="0 0 24 8" aria-hidden="true" { rect.work width="24" height="8" rx="2" {} } " runs"
            }
            @if !critical.is_empty() { (groups::legend()) }
        }
    }
}

/// What all rows share.
struct Drawn<'a> {
    found: &'a Attempt,
    axis: Axis,
    last: Timestamp,
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

/// The legs of a matrix in one bar, from the first that began to the last that ended.
fn folded(drawn: &Drawn<'_>, group: &Group<'_>, on_path: bool) -> Markup {
    let look = group.look();
    let began = group.legs.iter().filter_map(|leg| start(leg)).min();
    let ended = group.legs.iter().map(|leg| leg.timings.ended).collect::<Option<Vec<_>>>();
    let ended = ended.and_then(|ended| ended.into_iter().max());
    let worked = began.map(|began| drawn.axis.piece(began, ended.unwrap_or(drawn.last)));
    let queued = group.legs.iter().filter_map(|leg| leg.timings.queued).min();
    let waited = queued.map(|queued| (queued, began.unwrap_or(drawn.last)));
    html! {
        li {
            details.fold id={ "waterfall-" (group.legs[0].node) } open[look.is_bad()] {
                summary.row data-entry="" {
                    div.label {
                        (look.icon()) span { (group.label()) } span.number { (group.count()) }
                        @if on_path { (groups::sign()) }
                    }
                    (bar(&drawn.axis, look, waited, worked))
                    (parts::clocked(began, ended))
                }
                ol {
                    @for leg in &group.legs {
                        li data-entry="" { (row(drawn, leg, on_path && std::ptr::eq(*leg, group.last()))) }
                    }
                }
            }
        }
    }
}

fn start(job: &Seen) -> Option<Timestamp> {
    job.timings.started.or(job.timings.claimed)
}

fn row(drawn: &Drawn<'_>, job: &Seen, on_path: bool) -> Markup {
    let (look, times, axis) = (Look::of_job(job), job.timings, &drawn.axis);
    let began = start(job);
    let until = began.or(times.ended).unwrap_or(drawn.last);
    let waited = times.queued.map(|queued| (queued, until));
    let worked = began.map(|began| axis.piece(began, times.ended.unwrap_or(drawn.last)));
    html! {
        div.row {
            div.label {
                (look.icon())
                @match job.id {
                    Some(id) => a href=(job_address(drawn.found, id)) data-open="" { (job.name) },
                    None => span { (job.name) },
                }
                @if on_path { (groups::sign()) }
            }
            (bar(axis, look, waited, worked))
            (parts::clocked(began, times.ended))
            @if !matches!(look, Look::Success | Look::Running) || job.reused.is_some() {
                p.about { (look.word()) ": " (list::reason(job)) }
            }
        }
    }
}

fn bar(
    axis: &Axis,
    look: Look,
    waited: Option<(Timestamp, Timestamp)>,
    worked: Option<(u64, u64)>,
) -> Markup {
    let wait = waited.map(|(from, to)| (axis.piece(from, to), to.since(from)));
    let label = match wait {
        Some((_, wait)) => format!("{}, waited {}", look.word(), parts::length(wait)),
        None => look.word().to_owned(),
    };
    html! {
        svg viewBox={ "0 0 " (WIDTH) " 16" } preserveAspectRatio="none" role="img" aria-label=(label) {
            title { (label) }
            @if let Some(((x, width), _)) = wait { rect.wait x=(x) y="5" width=(width) height="6" rx="2" {} }
            @if let Some((x, width)) = worked { rect.work.(look.class()) x=(x) y="1" width=(width) height="14" rx="2" {} }
        }
    }
}
