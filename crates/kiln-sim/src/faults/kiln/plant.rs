//! Mistakes of the engine, made by spoiling what it said.

use std::collections::BTreeSet;

use kiln_core::run::{
    Conclusion, Effect, Group, LegNo, LegState, Member, NodeNo, NodeState, RunState, Step, Wait,
};

use super::change::Changed;
use super::{Rows, Rules};
use crate::faults::bug::Bug;

pub(super) struct Planted<'p> {
    pub(super) rules: Rules,
    pub(super) rows: &'p Rows,
}

impl Planted<'_> {
    pub(super) fn corrupt(&self, changed: &mut Changed) {
        match self.rules.bug {
            Some(Bug::RetryWithoutCap) => forget_tries(changed),
            Some(Bug::SkippedPropagation) => tell_nobody(changed),
            Some(Bug::GateBypass) => bypass(changed),
            Some(Bug::SlotLeakOnCancel) => self.keep_slot(changed, Conclusion::is_cancelled),
            Some(Bug::GateLeak) => self.keep_slot(changed, Conclusion::is_failure),
            _ => {}
        }
    }

    /// Those who ended in this way hold their groups for ever.
    fn keep_slot(&self, changed: &mut Changed, ends_so: impl Fn(Conclusion) -> bool) {
        let repo = changed.after.repo;
        for effect in &changed.effects {
            let (leg, group) = match effect {
                Effect::LegDone { leg, conclusion } if ends_so(*conclusion) => {
                    let past = changed.before.hood.legs.get(leg);
                    (Some(*leg), past.and_then(|leg| leg.group.clone()))
                }
                Effect::RunDone(conclusion) if ends_so(*conclusion) => {
                    (None, changed.before.hood.run.group.clone())
                }
                _ => continue,
            };
            let member = Member { leg, ..changed.after.hood.run.member(None) };
            let Some(name) = group else { continue };
            let before = self.rows.groups.get(&(repo, name.clone()));
            if let Some(group) = before.filter(|group| group.holder() == Some(member)) {
                changed.groups.insert(name, group.clone());
            }
        }
        let kept: Vec<Group> = changed.groups.values().cloned().collect();
        let holds = |next: &Member| kept.iter().any(|group| group.holder() == Some(*next));
        changed.effects.retain(|effect| !matches!(effect, Effect::Admit(next) if !holds(next)));
    }
}

fn forget_tries(changed: &mut Changed) {
    for leg in changed.after.hood.legs.values_mut() {
        leg.retries = 0;
        leg.losses = 0;
    }
}

/// Jobs that waited for one that failed are as they were before.
fn tell_nobody(changed: &mut Changed) {
    let failed = |effect: &Effect| {
        matches!(effect, Effect::NodeDone { conclusion: Conclusion::Failure, .. })
    };
    // A group that has been left cannot be entered again so easily.
    if !changed.effects.iter().any(failed) || changed.before.hood.run.group.is_some() {
        return;
    }
    let before = &changed.before.hood;
    let waited =
        before.nodes.values().filter(|node| matches!(node.state, NodeState::Pending { .. }));
    let waited: BTreeSet<NodeNo> = waited.map(|node| node.number).collect();
    if waited.is_empty() {
        return;
    }
    let after = &mut changed.after.hood;
    let new = |leg: &LegNo| before.legs.contains_key(leg);
    after.legs.retain(|leg, _| new(leg));
    after.scopes.retain(|scope, _| before.scopes.contains_key(scope));
    for node in &waited {
        let told = after.nodes.insert(*node, before.nodes[node].clone());
        // What was not told is open, and its workflow counts it so.
        if let Some(NodeState::Done(_)) = told.map(|told| told.state)
            && let Some(scope) = after.scopes.get_mut(&before.nodes[node].scope)
        {
            scope.open += 1;
        }
    }
    // Nor will they be told later: they keep their workflow and their run open.
    let tells = |effect: &Effect| {
        matches!(effect, Effect::Continue(Step::Told(_) | Step::Closed(_)) | Effect::RunDone(_))
    };
    changed.effects.retain(|effect| !tells(effect));
    if matches!(after.run.state, RunState::Done(_)) {
        after.run.state = RunState::Active;
    }
}

/// Legs that ask for a group go on without waiting for it.
fn bypass(changed: &mut Changed) {
    let now = changed.after.hood.legs.values().filter_map(|leg| leg.timings.queued).max();
    for leg in changed.after.hood.legs.values_mut() {
        if leg.state == LegState::Waiting(Wait::Group) && leg.group.is_some() {
            leg.state = LegState::Queued;
            leg.timings.queued = now;
        }
    }
}
