//! Which workflows, jobs and legs run, and what is said when none does.

use crate::Place;
use crate::run::commit_all;

/// A repository with two workflows.
fn two() -> Place {
    let place = Place::new();
    place.file(
        ".github/workflows/ci.yml",
        "on: push\njobs:\n  build:\n    runs-on: x\n    strategy: {matrix: {mode: [fast, slow]}}\n    steps: [{run: 'echo built ${{ matrix.mode }}'}]\n",
    );
    place.file(
        ".github/workflows/release.yaml",
        "on:\n  push: {branches: [main]}\n  workflow_dispatch: {inputs: {target: {required: true}}}\njobs:\n  publish:\n    runs-on: x\n    steps: [{run: 'echo ::group::Details; echo published ${{ inputs.target }}; echo ::endgroup::'}]\n",
    );
    place.file("src/file", "");
    commit_all(place.path());
    place
}

#[test]
fn a_workflow_is_found_by_its_name_from_anywhere_in_the_repository() {
    let place = two();
    for name in ["ci.yml", "ci", ".github/workflows/ci.yml"] {
        let answer = place.kiln_in("src", &["run", "--workflow", name], "");
        assert!(answer.code(0).out.contains("built fast"), "{name}: {answer:#?}");
    }
    assert!(place.kiln(&["plan", "ci.yml"]).code(0).out.contains("build"));
    let answer = place.kiln(&["run", "--workflow", "cy.yml"]);
    assert!(
        answer.code(2).err.contains("cannot find `cy.yml`; did you mean `ci.yml`?"),
        "{answer:#?}"
    );
}

#[test]
fn of_several_workflows_those_run_that_have_the_job_and_all_is_checked_first() {
    let place = two();
    let answer = place.kiln(&["run", "--job", "publish"]);
    assert!(
        answer.code(0).out.contains("published") && !answer.out.contains("built"),
        "{answer:#?}"
    );
    let answer = place.kiln(&["run", "--job", "bulid"]);
    let err = &answer.code(2).err;
    assert!(err.contains("no job `bulid`; did you mean `build`?"), "{err}");
    assert!(!answer.out.contains("started"), "{answer:#?}");
    let answer = place.kiln(&["run", "--event", "workflow_dispatch"]);
    assert!(answer.code(2).err.contains("give `--input target=…`"), "{answer:#?}");
}

#[test]
fn each_of_several_workflows_has_a_heading_and_a_verdict() {
    let place = two();
    let answer = place.kiln(&["run"]);
    let out = &answer.code(0).out;
    assert!(out.contains("── .github/workflows/ci.yml"), "{out}");
    assert!(
        out.ends_with(
            "✓ succeeded .github/workflows/ci.yml\n✓ succeeded .github/workflows/release.yaml\n"
        ),
        "{out}"
    );
    let answer = place.kiln(&["run", "--json"]);
    let started = answer.code(0).out.matches("\"event\":\"run_started\"").count();
    assert_eq!(started, 2, "{answer:#?}");
}

#[test]
fn a_push_is_one_to_the_branch_that_is_checked_out() {
    let place = two();
    std::fs::write(place.path().join(".git/HEAD"), "ref: refs/heads/topic\n").expect("it is ours");
    std::fs::copy(
        place.path().join(".git/refs/heads/main"),
        place.path().join(".git/refs/heads/topic"),
    )
    .expect("there is a commit");
    let answer = place.kiln(&["run"]);
    assert!(
        answer.code(0).out.contains("built") && !answer.out.contains("published"),
        "{answer:#?}"
    );
    let answer = place.kiln(&["run", "--workflow", "release"]);
    assert!(answer.code(0).err.contains("does not run"), "{answer:#?}");
}

#[test]
fn a_matrix_name_that_nobody_has_is_a_mistake() {
    let place = two();
    let answer = place.kiln(&["run", "--workflow", "ci", "--matrix", "mod=fast"]);
    assert!(
        answer.code(2).err.contains("no matrix has `mod`; did you mean `mode`?"),
        "{answer:#?}"
    );
    let answer = place.kiln(&["run", "--workflow", "ci", "--matrix", "mode=fast"]);
    assert!(answer.code(0).out.contains("built fast") && !answer.out.contains("built slow"));
}

#[test]
fn plain_output_has_every_line_also_those_of_groups() {
    let answer = two().kiln(&["run", "--workflow", "release"]);
    let out = &answer.code(0).out;
    assert!(out.contains("│ Details\n") && out.contains("│ published"), "{out}");
}

#[test]
fn what_is_missing_is_named_with_its_remedy() {
    let place = Place::new();
    place.file(
        ".github/workflows/a.yml",
        "on: push\njobs:\n  a:\n    runs-on: x\n    steps: [{run: 'true'}]\n",
    );
    assert!(place.kiln(&["run"]).code(2).err.contains("is not in a git repository"));
    place.file(".git/HEAD", "ref: refs/heads/main\n");
    assert!(place.kiln(&["run"]).code(2).err.contains("has no commit yet"));
    let place = two();
    place.file(".git/secrets", "# a key\nA=1\nMIIEsecret\n");
    let answer = place.kiln(&["run", "--secret-file", ".git/secrets"]);
    let err = &answer.code(2).err;
    assert!(
        err.contains(".git/secrets:3: expected `NAME=VALUE`") && !err.contains("MIIE"),
        "{err}"
    );
}

#[test]
fn a_relative_place_for_state_works() {
    let place = two();
    let mut command = place.command("", &["run", "--workflow", "ci"]);
    let output = command.env("KILN_STATE", ".git/here").output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
}
