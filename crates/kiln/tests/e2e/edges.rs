//! What jobs may do to each other and to themselves, and must not get away with.

use std::fs;

use crate::Place;
use crate::run::{commit_all, jobs, repository};

/// R1: the next job in the same place must not follow a link, nor find what the last one left.
#[test]
fn a_job_leaves_nothing_beside_its_workspace_for_the_next() {
    let outside = Place::new();
    outside.file("precious", "kept");
    let legs = "  a:\n    runs-on: x\n    strategy: {max-parallel: 1, matrix: {n: [1, 2, 3]}}\n    steps:\n      \
         - run: test ! -e ../beside && touch ../beside\n      \
         - run: test ! -L \"$RUNNER_TEMP\" && rm -r \"$RUNNER_TEMP\" && ln -s '${{ vars.OUTSIDE }}' \"$RUNNER_TEMP\"\n";
    let place = repository(&jobs(legs));
    let outside_variable = format!("OUTSIDE={}", outside.path().display());
    place.kiln(&["run", "--jobs", "1", "--var", &outside_variable]).code(0);
    assert_eq!(fs::read_to_string(outside.path().join("precious")).expect("it is there"), "kept");
}

/// P8
#[test]
fn a_problem_matcher_must_be_a_file_of_a_sensible_size() {
    let place = repository(&jobs(
        "  a:\n    runs-on: x\n    steps: [{run: 'mkfifo pipe; echo ::add-matcher::pipe'}]\n  \
         b:\n    runs-on: x\n    steps: [{run: 'echo ::add-matcher::/dev/zero'}]\n",
    ));
    let answer = place.kiln(&["run"]);
    let refused = answer.code(1).out.matches("it is no file, or larger than 1 MiB").count();
    assert!(refused >= 2, "{answer:#?}");
}

/// R6
#[test]
fn a_secret_from_the_environment_is_not_in_the_environment_of_steps() {
    let place = repository(&jobs(
        "  a:\n    runs-on: x\n    steps:\n      - run: test -z \"$MY_SECRET\"\n      - run: test \"$GIVEN\" = hush-hush\n        env: {GIVEN: '${{ secrets.MY_SECRET }}'}\n",
    ));
    let output = place
        .command("", &["run", "--secret", "MY_SECRET"])
        .env("MY_SECRET", "hush-hush")
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{output:?}");
}

/// P8
#[test]
fn an_output_that_cannot_be_evaluated_fails_the_job() {
    let place = repository(&jobs(
        "  a:\n    runs-on: x\n    outputs: {v: \"${{ fromJSON('{') }}\"}\n    steps: [{run: 'true'}]\n",
    ));
    assert!(place.kiln(&["run"]).code(1).out.contains("the output `v`"));
}

/// S13
#[test]
fn limits_hold_for_composite_actions_and_for_pauses_between_tries() {
    let place = Place::new();
    place.file(
        ".github/actions/slow/action.yml",
        "name: Slow\ndescription: d\nruns: {using: composite, steps: [{run: sleep 30, shell: bash}, {run: echo unreached, shell: bash}]}\n",
    );
    place.file(
        ".github/workflows/ci.yml",
        jobs(
            "  a:\n    runs-on: x\n    steps:\n      - uses: actions/checkout@v4\n      - uses: ./.github/actions/slow\n        timeout-minutes: 0.01\n  \
             b:\n    runs-on: x\n    timeout-minutes: 0.02\n    steps:\n      - {id: flaky, run: exit 3}\n      - run: echo never\n",
        ),
    );
    place.file(
        ".kiln/workflows/ci.yml",
        "jobs:\n  b:\n    steps:\n      flaky: {retry: {max: 3, backoff: 60}}\n",
    );
    commit_all(place.path());
    let answer = place.kiln(&["run"]);
    let out = &answer.code(1).out;
    assert!(out.contains("the step ran longer than") && !out.contains("unreached"), "{out}");
    assert!(!out.contains("never"), "{out}");
}

/// P15
#[test]
fn a_cancelled_background_step_that_waits_for_its_next_try_does_not_fail_the_job() {
    let place = Place::new();
    place.file(
        ".github/workflows/ci.yml",
        jobs(
            "  a:\n    runs-on: x\n    steps:\n      - {id: back, background: true, run: 'touch tried; exit 3'}\n      \
             - run: until test -e tried; do sleep 0.02; done; sleep 0.3\n      - cancel: back\n",
        ),
    );
    place.file(
        ".kiln/workflows/ci.yml",
        "jobs:\n  a:\n    steps:\n      back: {retry: {max: 3, backoff: 60}}\n",
    );
    commit_all(place.path());
    place.kiln(&["run"]).code(0);
}

/// S14
#[test]
fn what_drops_its_mark_and_its_session_ends_with_the_run() {
    let place = repository(&jobs(
        "  a:\n    runs-on: x\n    steps:\n      - run: |\n          env -i setsid sh -c 'echo $$ > '\"$PID\"'; exec sleep 300' &\n          until test -s \"$PID\"; do sleep 0.02; done\n        env: {PID: '${{ vars.PID }}'}\n",
    ));
    let file = place.path().join(".git/daemon");
    place.kiln(&["run", "--var", &format!("PID={}", file.display())]).code(0);
    let daemon = fs::read_to_string(file).expect("it was written").trim().to_owned();
    assert!(!std::path::Path::new("/proc").join(daemon).exists());
}
