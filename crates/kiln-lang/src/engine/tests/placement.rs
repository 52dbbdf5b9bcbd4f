//! What legs are called and where they may run.

use kiln_core::run::{Evaluator as _, Placement};

use super::*;

fn placement(world: &World, leg: LegNo) -> Result<Placement, String> {
    let context = world.hood.context(world.hood.legs[&leg].node, Some(leg));
    world.expressions.placement(&context)
}

/// The placement of the one leg of a job, with a matrix of `os: [mac]` and `v: [1.5]` if asked for.
fn of(matrix: bool, keys: &str) -> Result<Placement, String> {
    let strategy = if matrix { "    strategy: {matrix: {os: [mac], v: [1.5]}}\n" } else { "" };
    let world = World::new(&format!("  a:\n{strategy}{keys}    steps: [{{run: a}}]\n"));
    placement(&world, *world.hood.legs.keys().next().expect("it has a leg"))
}

/// P1
#[test]
fn a_leg_is_called_by_its_name_or_its_id_and_values() {
    let check = |matrix: bool, name: &str, expect: &str| {
        let found = of(matrix, &format!("    runs-on: x\n{name}")).expect("it is valid");
        assert_eq!(found.name, expect);
    };
    check(false, "", "a");
    check(true, "", "a (mac, 1.5)");
    check(false, "    name: Build it\n", "Build it");
    check(true, "    name: On ${{ matrix.os }}\n", "On mac");
    check(true, "    name: Build it\n", "Build it");
    check(true, "    name: ${{ fromJSON('{') }}\n", "a (mac, 1.5)");
}

/// Whoever writes a workflow must not be able to write into rows and pages what they cannot hold.
#[test]
fn a_name_is_cut_to_size_and_holds_no_control_characters() {
    let name =
        |keys: &str| of(false, &format!("    runs-on: x\n{keys}")).expect("it is valid").name;
    assert_eq!(name("    name: \"a\\0b\\nc\"\n"), "a\u{fffd}b\u{fffd}c");
    assert_eq!(name(&format!("    name: {}\n", "é".repeat(400))), "é".repeat(400));
    assert_eq!(name(&format!("    name: {}\n", "é".repeat(401))), format!("{}…", "é".repeat(399)));
    let long = format!("    runs-on: x\n    strategy: {{matrix: {{v: [{}]}}}}\n", "v".repeat(999));
    let found = of(false, &long).expect("it is valid").name;
    assert!(found.starts_with("a (vvv") && found.ends_with('…') && found.chars().count() == 400);
}

#[test]
fn what_a_runner_must_have_is_bounded() {
    let check = |keys: &str, expect: &str| {
        let error = of(false, keys).expect_err("it does not fit");
        assert_eq!(error, expect);
    };
    let control = "has a control character, such as a line break; expected none";
    check("    runs-on: \"a\\0b\"\n", &format!("`runs-on`: a label {control}"));
    check("    runs-on: {group: \"a\\nb\"}\n", &format!("`runs-on`: a group {control}"));
    let environment = "    runs-on: x\n    environment: \"a\\0b\"\n";
    check(environment, &format!("`environment`: the name {control}"));
    let long = format!("    runs-on: {}\n", "x".repeat(401));
    check(&long, "`runs-on`: a label has 401 characters; expected up to 400");
}

#[test]
fn runs_on_is_a_label_a_list_or_a_group_with_labels() {
    let check = |runs_on: &str, labels: &[&str], pool: Option<&str>| {
        let found = of(true, &format!("    runs-on: {runs_on}\n")).expect("it is valid");
        assert_eq!((found.labels, found.pool.as_deref()), (owned(labels), pool), "{runs_on}");
        assert_eq!(found.environment, None);
    };
    check("ubuntu-latest", &["ubuntu-latest"], None);
    check("${{ matrix.os }}", &["mac"], None);
    check("[self-hosted, '${{ matrix.os }}']", &["self-hosted", "mac"], None);
    check("{group: big, labels: x}", &["x"], Some("big"));
    check(
        "{group: '${{ matrix.os }}s', labels: [x, '${{ matrix.v }}']}",
        &["x", "1.5"],
        Some("macs"),
    );
    check("{group: big}", &[], Some("big"));
    check("{labels: [x, y]}", &["x", "y"], None);
    check("${{ fromJSON('[\"a\", \"b\"]') }}", &["a", "b"], None);
    check("${{ fromJSON('{\"group\":\"g\", \"labels\":\"l\"}') }}", &["l"], Some("g"));
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn a_runs_on_that_says_nothing_useful_is_an_error() {
    let check = |runs_on: &str, expect: &str| {
        let error = of(true, &format!("    runs-on: {runs_on}\n")).expect_err(runs_on);
        assert_eq!(error, expect, "{runs_on}");
    };
    check("${{ matrix.gone }}", "`runs-on` names neither a label nor a group");
    check("${{ fromJSON('[]') }}", "`runs-on` names neither a label nor a group");
    check("${{ fromJSON('{\"label\":\"x\"}') }}", "`runs-on` names neither a label nor a group");
    check("[x, '${{ matrix.gone }}']", "`runs-on`: a label is empty");
    check("${{ fromJSON('[[\"x\"]]') }}", "`runs-on`: a label must be a text, found Array");
    check("{group: '${{ matrix.gone }}', labels: x}", "`runs-on`: a group is empty");
    let error = of(false, "    runs-on: ${{ fromJSON('{') }}\n").expect_err("it is no JSON");
    assert!(error.starts_with("`runs-on`: `fromJSON('{')`: "), "{error}");
}

/// P1
#[test]
fn the_environment_is_a_name_a_map_or_an_expression() {
    let check = |environment: &str, expect: Option<&str>| {
        let keys = format!("    runs-on: x\n    environment: {environment}\n");
        let found = of(true, &keys).expect("it is valid");
        assert_eq!(found.environment.as_deref(), expect, "{environment}");
    };
    check("production", Some("production"));
    check("{name: staging, url: 'http://x'}", Some("staging"));
    check("{name: 'on-${{ matrix.os }}', url: '${{ steps.a.outputs.url }}'}", Some("on-mac"));
    check("${{ matrix.os }}", Some("mac"));
    check("${{ matrix.gone }}", None);
    let wrong = "    runs-on: x\n    environment: ${{ fromJSON('{') }}\n";
    let error = of(false, wrong).expect_err("it is no JSON");
    assert!(error.starts_with("`environment`: `fromJSON('{')`: "), "{error}");
}

/// P9: the names of callers are in other rows.
#[test]
fn a_call_needs_no_runner_and_the_called_job_has_its_own_name() {
    let callee = "on:\n  workflow_call:\n    inputs: {on: {type: string}}\njobs:\n  inner: {runs-on: '${{ inputs.on }}', steps: [{run: a}]}\n";
    let caller =
        "on: push\njobs:\n  outer: {uses: ./.github/workflows/callee.yml, with: {on: mac}}\n";
    let world = World::with(caller, &Callee(callee));
    let outer = placement(&world, world.leg("outer")).expect("it is valid");
    assert_eq!(outer, Placement { name: "outer".to_owned(), ..Placement::default() });
    let inner = placement(&world, world.leg("inner")).expect("it is valid");
    assert_eq!((inner.name.as_str(), inner.labels), ("inner", owned(&["mac"])));
}
