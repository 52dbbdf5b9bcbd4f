//! Which secrets reach which job.

use super::*;
use crate::engine::{leg_environment, leg_secrets};

const OUTER: &str = "on: push\njobs:\n\
    \x20 none: {uses: ./.github/workflows/callee.yml}\n\
    \x20 all: {uses: ./.github/workflows/callee.yml, secrets: inherit}\n\
    \x20 some:\n    strategy: {matrix: {v: [7]}}\n    uses: ./.github/workflows/callee.yml\n    secrets: {one: '${{ secrets.A }}-${{ matrix.v }}'}\n\
    \x20 own: {runs-on: x, steps: [{run: a}]}\n";

/// Calls `inner.yml` in three ways, once more narrowing what it was given itself.
const MIDDLE: &str = "on:\n  workflow_call:\n    secrets: {one: {}}\njobs:\n\
    \x20 on: {uses: ./.github/workflows/inner.yml, secrets: inherit}\n\
    \x20 off: {uses: ./.github/workflows/inner.yml}\n\
    \x20 map: {uses: ./.github/workflows/inner.yml, secrets: {deep: '${{ secrets.one }}${{ secrets.A }}'}}\n";

const INNER: &str = "on:\n  workflow_call:\n    secrets: {deep: {}}\njobs:\n  inner: {runs-on: x, steps: [{run: a}]}\n";

struct Both;

impl Library for Both {
    fn workflow(&self, target: &CallTarget) -> Lookup {
        let CallTarget::Local(path) = target else { return Lookup::Missing };
        let text = if path.ends_with("inner.yml") { INNER } else { MIDDLE };
        Lookup::Found(LoadedFile { path: path.clone(), text: text.to_owned() })
    }

    fn companion(&self, _workflow_path: &str) -> Option<LoadedFile> {
        None
    }
}

/// The ids of the jobs that call a leg, and its own.
fn path(world: &World, leg: LegNo) -> String {
    let row = &world.hood.legs[&leg];
    let id = &world.hood.job_of(row.node).id;
    match world.hood.scopes[&world.hood.nodes[&row.node].scope].caller {
        Some(caller) => format!("{}/{id}", path(world, caller)),
        None => id.clone(),
    }
}

/// P9, R6
#[test]
fn a_called_workflow_sees_only_the_secrets_that_its_caller_hands_on() {
    let world = World::with(OUTER, &Both);
    let run: Object = [("A", "1"), ("B", "2"), ("GITHUB_TOKEN", "t")]
        .map(|(k, v)| (k, v.into()))
        .into_iter()
        .collect();
    let check = |wanted: &str, expect: &str| {
        let legs = world.hood.legs.keys().copied();
        let leg = legs.into_iter().find(|leg| path(&world, *leg) == wanted).expect("it is there");
        let seen = leg_secrets(&world.expressions, &world.hood, leg, &run).expect("they evaluate");
        let seen: Vec<String> = seen
            .iter()
            .map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or("?")))
            .collect();
        assert_eq!(seen.join(" "), expect, "{wanted}");
    };
    check("own", "A=1 B=2 GITHUB_TOKEN=t");
    check("all/on/inner", "A=1 B=2 GITHUB_TOKEN=t");
    check("all/off/inner", "GITHUB_TOKEN=t");
    check("all/map/inner", "deep=1 GITHUB_TOKEN=t");
    check("none/on/inner", "GITHUB_TOKEN=t");
    check("none/map/inner", "deep= GITHUB_TOKEN=t");
    check("some/on/inner", "one=1-7 GITHUB_TOKEN=t");
    check("some/map/inner", "deep=1-7 GITHUB_TOKEN=t");
}

#[test]
fn the_name_of_an_environment_is_evaluated_for_each_leg() {
    let matrix = "    strategy: {matrix: {to: [prod, '']}}\n    environment: {name: '${{ matrix.to }}', url: '${{ steps.x.outputs.y }}'}\n";
    let world = World::new(
        &[job("a", "[]", matrix), job("b", "[]", "    environment: lab\n"), job("c", "[]", "")]
            .concat(),
    );
    let check = |leg: &str, expect: Option<&str>| {
        let name = leg_environment(&world.expressions, &world.hood, world.leg(leg));
        assert_eq!(name.expect("it evaluates").as_deref(), expect, "{leg}");
    };
    check("a (prod)", Some("prod"));
    check("a", None);
    check("b", Some("lab"));
    check("c", None);
}
