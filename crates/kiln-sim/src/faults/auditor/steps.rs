//! What may change in one step, and what may not.

use kiln_core::run::{Again, Conclusion, Leg, LegState, NodeNo, NodeState, RunState};

use super::End;
use super::excuses::{has_excuse, run_has_excuse};
use super::reference::Graph;
use super::{Auditor, Ledger, Step};
use crate::faults::kiln::evaluator::is_broken;
use crate::faults::kiln::{Done, News, RunRows, Word, Work};

/// After so many losses a job has failed.
const MOST_LOSSES: u32 = 4;

impl Auditor {
    pub(super) fn run_changed(
        &mut self,
        step: &Step<'_>,
        ledger: &Ledger,
        run: u64,
        before: Option<&RunRows>,
        after: &RunRows,
    ) {
        let same = before.filter(|before| before.hood.run.attempt == after.hood.run.attempt);
        if let Some(before) = before.filter(|_| same.is_none())
            && !matches!(before.hood.run.state, RunState::Done(_))
        {
            self.find("terminal states do not change", format!("run {run} was open, and is anew"));
        }
        self.shape(step.after, run, after);
        if let Work::Again { what, .. } = step.work {
            self.runs_again(run, *what, after);
        }
        if let Some(before) = same {
            self.terminal(run, before, after);
        }
        for node in after.hood.nodes.keys() {
            self.node_changed(run, *node, same, after);
        }
        for (number, leg) in &after.hood.legs {
            let past = same.and_then(|before| before.hood.legs.get(number));
            if let Some(past) = past {
                self.holder_changed(step, ledger, (run, past), leg, after);
            }
            let was_open = past.is_none_or(|past| !past.state.is_done());
            if was_open && leg.state.is_done() && leg.run_attempt == after.hood.run.attempt {
                self.leg_ended(step, ledger, (run, past), leg, after);
            }
        }
        let was_open = same.is_none_or(|rows| !matches!(rows.hood.run.state, RunState::Done(_)));
        if was_open && let RunState::Done(end) = after.hood.run.state {
            self.run_ended(ledger, run, end, after);
        }
    }

    /// Whoever asks that what failed run again is not told that nothing did.
    pub(super) fn refused_again(&mut self, step: &Step<'_>) {
        let (Work::Again { run, what: Again::Failed }, Done::Refused(why)) = (step.work, step.done)
        else {
            return;
        };
        let state = step.before.runs.get(run).map(|run| &run.hood.run.state);
        if let Some(RunState::Done(end)) = state
            && end.wants_another_try()
        {
            let text = format!("run {run} ended as {end:?}, and nothing runs again: {why}");
            self.find("what failed runs again with all that needs it", text);
        }
    }

    /// A re-run keeps only what was good, and nothing that depends on what runs again.
    fn runs_again(&mut self, run: u64, what: Again, after: &RunRows) {
        let attempt = after.hood.run.attempt;
        for (number, node) in after.hood.nodes.iter().filter(|(_, node)| node.run_attempt < attempt)
        {
            let NodeState::Done(end) = node.state else { continue };
            let forgotten = what == Again::Failed && end.wants_another_try();
            let anew = |need: &u32| after.hood.nodes[need].run_attempt == attempt;
            if forgotten || what == Again::All || node.needs.iter().any(anew) {
                let text = format!("node {number} of run {run} keeps {end:?} after {what:?}");
                self.find("what failed runs again with all that needs it", text);
            }
        }
    }

    fn terminal(&mut self, run: u64, before: &RunRows, after: &RunRows) {
        const RULE: &str = "terminal states do not change";
        let is_done = |state: &RunState| matches!(state, RunState::Done(_));
        if is_done(&before.hood.run.state) && before.hood.run.state != after.hood.run.state {
            self.find(RULE, format!("run {run} is {:?}", after.hood.run.state));
        }
        for (number, past) in &before.hood.nodes {
            let state = after.hood.nodes.get(number).map(|node| &node.state);
            if matches!(past.state, NodeState::Done(_)) && state != Some(&past.state) {
                self.find(RULE, format!("node {number} of run {run} is {state:?}"));
            }
        }
        for (number, past) in &before.hood.legs {
            let leg = after.hood.legs.get(number);
            let same =
                leg.is_some_and(|leg| (&leg.state, leg.attempt) == (&past.state, past.attempt));
            if past.state.is_done() && !same {
                self.find(RULE, format!("leg {number} of run {run}: {past:?} became {leg:?}"));
            }
        }
    }

    /// A job starts only when all it needs is done and its condition holds; it is left out only when that
    /// is not so.
    fn node_changed(
        &mut self,
        run: u64,
        number: NodeNo,
        before: Option<&RunRows>,
        after: &RunRows,
    ) {
        let past = before.and_then(|before| before.hood.nodes.get(&number));
        let pending = past.is_none_or(|past| matches!(past.state, NodeState::Pending { .. }));
        let node = &after.hood.nodes[&number];
        let unopened = matches!(after.hood.run.state, RunState::Done(Conclusion::Cancelled));
        if !pending
            || matches!(node.state, NodeState::Pending { .. })
            || node.run_attempt != after.hood.run.attempt
            // A re-run has rows before it starts.
            || (before.is_none() && after.hood.run.attempt > 1 && !node.legs.is_empty())
        {
            return;
        }
        let graph = Graph(after);
        let name = || format!("node {number} of run {run} ({})", after.hood.job_of(number).id);
        let calm = before.is_none_or(|before| {
            !before.hood.nodes.contains_key(&number) || !Graph(before).is_cancelled(number)
        });
        let cancelled = graph.is_cancelled(number);
        let holds = (calm && graph.runs(number, false)) || (cancelled && graph.runs(number, true));
        if is_broken(after.hood.job_of(number))
            && node.state == NodeState::Done(Conclusion::Failure)
        {
            if !holds || !node.legs.is_empty() {
                self.find("a job that cannot begin fails when its turn comes", name());
            }
            return;
        }
        if !node.legs.is_empty() {
            if let Some(need) = graph.open_need(number) {
                let text = format!("{} began before node {need} was done", name());
                self.find("a job starts only when its needs are done", text);
            }
            if !holds {
                self.find("a job starts only when its condition holds", name());
            }
            return;
        }
        let abandoned = unopened || is_abandoned(number, after);
        let right = match node.state {
            NodeState::Done(Conclusion::Skipped) => !graph.runs(number, false) || cancelled,
            NodeState::Done(Conclusion::Cancelled) => cancelled || abandoned,
            _ => false,
        };
        let forced = after.hood.run.cancel.as_ref().is_some_and(|cancel| cancel.forced);
        if !right || (holds && !cancelled && !forced && !abandoned) {
            let text = format!("{} ended as {:?} without a leg", name(), node.state);
            self.find("a job is left out only when its condition says so", text);
        }
    }

    /// Who has a leg changes only by its own word, or when its time is over.
    fn holder_changed(
        &mut self,
        step: &Step<'_>,
        ledger: &Ledger,
        (run, past): (u64, &Leg),
        leg: &Leg,
        after: &RunRows,
    ) {
        let number = leg.number;
        let job = after.jobs[&number].id;
        if leg.attempt != past.attempt
            && (past.state != LegState::Queued || leg.attempt != past.attempt + 1)
        {
            let text = format!("leg {number} of run {run}: {past:?} became {leg:?}");
            self.find("each claim is made once, of a queued job", text);
        }
        let (Some(holder), now) = (holder(&past.state), holder(&leg.state)) else { return };
        if now.is_some_and(|now| now != holder) && leg.attempt == past.attempt {
            let text = format!("runner {holder} had job {job}, now it is {now:?}");
            self.find("two runners never hold one attempt", text);
        }
        if now.is_some() {
            return;
        }
        match step.work {
            Work::News(News { job: told, claim, runner, .. }) if *told == job => {
                if (*claim, *runner) != (past.attempt, holder) {
                    let text = format!(
                        "claim {claim} of runner {runner} ended claim {} of runner {holder} (job {job})",
                        past.attempt
                    );
                    self.find("a late word is refused", text);
                }
            }
            Work::Reap(_) => {
                let until = step.before.ledger.until.get(&(job, past.attempt));
                if until.is_some_and(|until| *until > step.now) {
                    let text = format!(
                        "job {job} was taken from runner {holder}, who had it until {until:?}, at {:?}",
                        step.now
                    );
                    self.find("a lease is good as long as it was said", text);
                }
            }
            _ if leg.state == LegState::Done(Conclusion::Cancelled) => {}
            _ => {
                let text = format!("job {job} was taken from runner {holder}: {:?}", leg.state);
                self.find("a job is taken from a runner for a reason", text);
            }
        }
        self.tries(ledger, past, leg, after);
    }

    fn tries(&mut self, ledger: &Ledger, past: &Leg, leg: &Leg, after: &RunRows) {
        let job = after.jobs[&leg.number].id;
        let ends = ledger.accepted.range((job, 0)..=(job, u32::MAX)).count();
        let most = Graph(after).most_tries(leg.node);
        let losses = ledger.losses.get(&job).copied().unwrap_or(0);
        if u32::try_from(ends).unwrap_or(u32::MAX) > most || losses > MOST_LOSSES {
            let text = format!(
                "job {job} ended {ends} times where {most} are allowed, and was lost {losses} times (claim {})",
                past.attempt
            );
            self.find("tries are counted", text);
        }
    }

    fn leg_ended(
        &mut self,
        step: &Step<'_>,
        ledger: &Ledger,
        (run, past): (u64, Option<&Leg>),
        leg: &Leg,
        after: &RunRows,
    ) {
        let LegState::Done(end) = leg.state else { return };
        let job = after.jobs[&leg.number].id;
        let name = || format!("leg {} of run {run} (job {job}) ended as {end:?}", leg.number);
        if end == Conclusion::Cancelled {
            let inside = leg.scope.and_then(|scope| Graph(after).of_scope(scope));
            if inside != Some(end) && !has_excuse(ledger, (run, past), leg, after) {
                let text = format!("{} ({:?})", name(), leg.note);
                self.find("nothing is cancelled without a reason", text);
            }
            return;
        }
        if let Some(scope) = leg.scope {
            if Graph(after).of_scope(scope) != Some(end) {
                self.find("a call ends as its jobs do", name());
            }
            return;
        }
        let lost = ledger.losses.get(&job).copied().unwrap_or(0);
        if end == Conclusion::Failure && lost >= MOST_LOSSES {
            return;
        }
        if matches!(step.work, Work::GiveUp)
            && end == Conclusion::Failure
            && leg.attempt == past.map_or(0, |past| past.attempt)
        {
            // That there is no runner for it shows at the end: then others could not wait for one either.
            return;
        }
        let mark = self.executions.get(&(job, leg.attempt));
        let told = matches!(step.work, Work::News(News { job: told, claim, word: Word::Finished(word), .. })
            if *told == job && *claim == leg.attempt && *word == end);
        if !told || mark.is_none_or(|mark| mark.end != End::Came(end)) {
            let text = format!("{}; the runner's mark says {mark:?}", name());
            self.find("a job ends as its runner says", text);
        }
    }

    fn run_ended(&mut self, ledger: &Ledger, run: u64, end: Conclusion, after: &RunRows) {
        let open = after.hood.legs.values().any(|leg| !leg.state.is_done())
            || after.hood.nodes.values().any(|node| !matches!(node.state, NodeState::Done(_)));
        if open {
            self.find("a run ends when all its jobs have", format!("run {run} is {end:?}"));
        }
        let root = after.hood.scopes.values().find(|scope| scope.caller.is_none());
        let expected = root.and_then(|root| Graph(after).of_scope(root.number));
        let unopened = end == Conclusion::Cancelled && after.hood.run.cancel.is_some();
        if expected != Some(end) && !unopened {
            let text = format!("run {run} ended as {end:?}, its jobs say {expected:?}");
            self.find("a run ends as the slow model says", text);
        }
        if let Some(cancel) = &after.hood.run.cancel
            && !run_has_excuse(ledger, run, after, &cancel.by)
        {
            let text = format!("run {run}, by {}: {}", cancel.by, cancel.reason);
            self.find("nothing is cancelled without a reason", text);
        }
    }
}

fn holder(state: &LegState) -> Option<u64> {
    match state {
        LegState::Claimed { runner }
        | LegState::Running { runner }
        | LegState::Uploading { runner } => Some(*runner),
        _ => None,
    }
}

/// In a call whose caller has ended.
fn is_abandoned(number: NodeNo, rows: &RunRows) -> bool {
    let scope = &rows.hood.scopes[&rows.hood.nodes[&number].scope];
    scope.caller.is_some_and(|caller| rows.hood.legs[&caller].state.is_done())
}
