//! Something that happened to a run, applied to its rows.

use std::collections::BTreeMap;
use std::rc::Rc;

use kiln_core::id::RepoId;
use kiln_core::run::{
    AtHand, Effect, Event, Group, Neighbourhood, Rejected, Transition, Wanted, apply_within,
};
use kiln_core::time::Timestamp;

use super::evaluator::Model;
use super::plant::Planted;
use super::{RunRows, Tx};

/// Rows and what follows from how they changed.
pub(super) struct Changed {
    pub(super) run: u64,
    pub(super) before: Rc<RunRows>,
    pub(super) after: RunRows,
    pub(super) groups: BTreeMap<String, Group>,
    pub(super) effects: Vec<Effect>,
}

impl Tx<'_> {
    /// Applies an event to the current attempt of a run.
    pub(super) fn change(&mut self, run: u64, event: Event) -> Result<(), Rejected> {
        let before = Rc::clone(&self.rows.runs[&run]);
        let after = (*before).clone();
        self.change_from(run, before, after, event)
    }

    /// The same for rows that are not written yet; `before` is what is.
    pub(super) fn change_from(
        &mut self,
        run: u64,
        before: Rc<RunRows>,
        mut after: RunRows,
        event: Event,
    ) -> Result<(), Rejected> {
        let groups = self.groups_of(after.repo);
        let (now, model, steps) = (self.now, self.model(), self.rules.steps);
        let (groups, effects) = if self.rules.sparse {
            let mut all = after.hood.clone();
            let whole = apply_to_all(&mut all, groups.clone(), event.clone(), now, model, steps);
            let some = apply_to_some(&mut after.hood, groups, event, now, model, steps);
            let (left, right) =
                (format!("{whole:?} {all:?}"), format!("{some:?} {:?}", after.hood));
            assert!(left == right, "fewer rows at hand must not matter:\n{left}\n{right}");
            some?
        } else {
            apply_to_all(&mut after.hood, groups, event, now, model, steps)?
        };
        let mut changed = Changed { run, before, after, groups, effects };
        Planted { rules: self.rules, rows: self.rows }.corrupt(&mut changed);
        self.save(changed);
        Ok(())
    }

    fn groups_of(&self, repo: RepoId) -> BTreeMap<String, Group> {
        let all = self.rows.groups.range((repo, String::new())..);
        let own = all.take_while(|((owner, _), _)| *owner == repo);
        own.map(|((_, name), group)| (name.clone(), group.clone())).collect()
    }
}

type Applied = (BTreeMap<String, Group>, Vec<Effect>);

fn apply_to_all(
    hood: &mut Neighbourhood,
    groups: BTreeMap<String, Group>,
    event: Event,
    now: Timestamp,
    model: Model,
    steps: usize,
) -> Result<Applied, Rejected> {
    hood.groups = groups;
    let effects = apply_within(hood, event, now, &model, steps);
    Ok((std::mem::take(&mut hood.groups), effects?))
}

/// Brings rows only when the transition asks for them, then puts back what it had.
fn apply_to_some(
    full: &mut Neighbourhood,
    mut groups: BTreeMap<String, Group>,
    event: Event,
    now: Timestamp,
    model: Model,
    steps: usize,
) -> Result<Applied, Rejected> {
    let mut some = Neighbourhood::new(full.run.clone());
    let mut at_hand = AtHand::default();
    let mut transition = Transition::within(event, steps);
    loop {
        let wanted = transition.advance(&mut some, &at_hand, now, &model)?;
        if transition.is_done() {
            break;
        }
        assert!(!wanted.is_empty(), "a transition that stops wants rows");
        bring(&wanted, full, &groups, &mut some, &mut at_hand);
    }
    full.run = some.run;
    full.scopes.extend(some.scopes);
    full.nodes.extend(some.nodes);
    full.legs.extend(some.legs);
    groups.retain(|name, _| !at_hand.groups.contains(name));
    groups.extend(some.groups);
    Ok((groups, transition.into_effects()))
}

fn bring(
    wanted: &Wanted,
    full: &Neighbourhood,
    groups: &BTreeMap<String, Group>,
    some: &mut Neighbourhood,
    at_hand: &mut AtHand,
) {
    for (number, scope) in &full.scopes {
        if wanted.whole || wanted.scopes.contains(number) {
            some.scopes.entry(*number).or_insert_with(|| scope.clone());
        }
    }
    for (number, node) in &full.nodes {
        if wanted.whole || wanted.nodes.contains(number) {
            some.nodes.entry(*number).or_insert_with(|| node.clone());
        }
    }
    for (number, leg) in &full.legs {
        let open = wanted.open_legs && !leg.state.is_done();
        let hold = wanted.whole || open || wanted.legs.contains(number);
        if hold || wanted.glances.contains(number) {
            some.legs.entry(*number).or_insert_with(|| leg.clone());
        }
        if hold {
            at_hand.legs.insert(*number);
        }
    }
    for name in &wanted.groups {
        if let Some(group) = groups.get(name) {
            some.groups.entry(name.clone()).or_insert_with(|| group.clone());
        }
    }
    at_hand.groups.extend(wanted.groups.iter().cloned());
    at_hand.legs.extend(&wanted.legs);
    at_hand.glances.extend(&wanted.glances);
    at_hand.whole |= wanted.whole;
    at_hand.open_legs |= wanted.open_legs;
}
