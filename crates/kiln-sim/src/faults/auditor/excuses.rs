//! Why something may have been cancelled: somebody asked, a sibling failed, a newer one wants the group.

use kiln_core::id::RepoId;
use kiln_core::run::{Cancel, Conclusion, Leg, LegState, Member, RunState, Wait};

use super::Ledger;
use super::reference::Graph;
use crate::faults::kiln::RunRows;
use crate::faults::kiln::evaluator::request;

pub(super) fn has_excuse(
    ledger: &Ledger,
    (run, past): (u64, Option<&Leg>),
    leg: &Leg,
    rows: &RunRows,
) -> bool {
    let attempt = rows.hood.run.attempt;
    let node = &rows.hood.nodes[&leg.node];
    let scope = &rows.hood.scopes[&node.scope];
    // Some jobs go on when their run is cancelled, unless it never began.
    let unopened = matches!(rows.hood.run.state, RunState::Done(Conclusion::Cancelled))
        && past.is_none_or(|past| past.state == LegState::Waiting(Wait::MaxParallel));
    let stops = |cancel: &Cancel| cancel.forced || unopened || !Graph(rows).runs(leg.node, true);
    if rows.hood.run.cancel.as_ref().is_some_and(stops)
        || scope.cancelled
        || ledger.cancels.contains(&(run, attempt, Some(leg.number)))
    {
        return true;
    }
    let failed = |other: &u32| {
        let other = &rows.hood.legs[other];
        Graph(rows).counted(other) == Some(Conclusion::Failure)
    };
    if Graph(rows).fails_fast(leg.node) && node.legs.iter().any(failed) {
        return true;
    }
    // What is in a call ends with it.
    if scope.caller.is_some_and(|caller| rows.hood.legs[&caller].state.is_done()) {
        return true;
    }
    let cancelled_inside = leg.scope.and_then(|scope| rows.hood.scopes.get(&scope));
    if cancelled_inside.is_some_and(|scope| scope.cancelled) {
        return true;
    }
    let job = rows.hood.job_of(leg.node);
    let Some(group) = job.concurrency.as_ref().map(|group| request(group, leg.index)) else {
        return false;
    };
    let waits = [LegState::Waiting(Wait::Group), LegState::Waiting(Wait::MaxParallel)];
    let waited = past.is_none_or(|past| waits.contains(&past.state));
    let member = rows.hood.run.member(Some(leg.number));
    if rows.hood.run.plan.root().concurrency.as_ref().map(|own| request(own, 0).name)
        == Some(group.name.clone())
    {
        // It would wait for its own run.
        return true;
    }
    let newer =
        pushed_out(ledger, rows.repo, &group.name, member) || has_rival(rows, leg, &group.name);
    (waited || group.cancel_in_progress) && newer
}

pub(super) fn run_has_excuse(ledger: &Ledger, run: u64, rows: &RunRows, by: &str) -> bool {
    let attempt = rows.hood.run.attempt;
    if by != "concurrency" {
        return ledger.cancels.contains(&(run, attempt, None));
    }
    let group = rows.hood.run.plan.root().concurrency.as_ref();
    group
        .map(|group| request(group, 0))
        .is_some_and(|group| pushed_out(ledger, rows.repo, &group.name, rows.hood.run.member(None)))
}

/// Whether another leg of the run asked for the same group, and came and went in this very step, as a call
/// does whose jobs are all skipped. Nobody saw it enter.
fn has_rival(rows: &RunRows, leg: &Leg, group: &str) -> bool {
    rows.hood.legs.values().filter(|other| other.number != leg.number).any(|other| {
        let job = rows.hood.job_of(other.node);
        let wanted = job.concurrency.as_ref().map(|group| request(group, other.index));
        other.timings.ended == leg.timings.ended && wanted.is_some_and(|it| it.name == group)
    })
}

/// Whether somebody asked for the group after this member did. One that came and went in one step was
/// never seen to enter.
fn pushed_out(ledger: &Ledger, repo: RepoId, group: &str, member: Member) -> bool {
    let Some(entered) = ledger.entered.get(&(repo, group.to_lowercase())) else { return false };
    match entered.iter().rposition(|other| *other == member) {
        Some(at) => at + 1 < entered.len(),
        None => entered.iter().any(|other| *other != member),
    }
}
