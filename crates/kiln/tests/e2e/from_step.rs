//! `kiln run --job JOB --from-step STEP` with real processes.

use crate::run::{jobs, repository};
use crate::{Answer, Place};

const WORKFLOW: &str = "  first:\n    runs-on: x\n    steps: [{run: echo ran first}]\n  \
    build:\n    needs: first\n    runs-on: x\n    steps:\n      - uses: actions/checkout@v4\n      \
    - {id: make, run: 'echo ran make; echo v=1 >> $GITHUB_OUTPUT'}\n      \
    - {name: Test, run: 'echo ran test ${{ steps.make.outcome }} [${{ steps.make.outputs.v }}]; test -f .github/workflows/ci.yml'}\n      \
    - {name: Last, run: 'echo ran last; test -f fixed'}\n  \
    call:\n    uses: ./.github/workflows/callee.yml\n";

fn place() -> Place {
    let place = repository(&jobs(WORKFLOW));
    let callee = "on: workflow_call\njobs:\n  inner:\n    runs-on: x\n    steps: [{run: 'true'}]\n";
    place.file(".github/workflows/callee.yml", callee);
    crate::run::commit_all(place.path());
    place
}

fn ran(answer: &Answer) -> Vec<&str> {
    let lines = answer.out.lines().filter_map(|line| line.split_once("│ ran "));
    lines.map(|(_, what)| what).collect()
}

/// P10 P11
#[test]
fn a_job_begins_at_a_step_and_what_it_needs_runs_whole() {
    let place = place();
    let from = |step: &str| place.kiln(&["run", "--dirty", "--job", "build", "--from-step", step]);
    for step in ["3", "Test"] {
        let answer = from(step);
        assert_eq!(ran(answer.code(1)), ["first", "test skipped []", "last"], "{answer:#?}");
        assert!(answer.out.contains("Left out: the job begins at step 3, `Test`."), "{answer:#?}");
    }
    assert_eq!(ran(from("make").code(1)), ["first", "make", "test success [1]", "last"]);
    // It goes on as it was asked for.
    assert_eq!(ran(from("4").code(1)), ["first", "last"]);
    place.file("fixed", "");
    assert_eq!(ran(place.kiln(&["run", "--dirty", "--from-failed"]).code(0)), ["last"]);
}

/// P10
#[test]
fn a_step_that_is_not_there_is_refused_before_anything_runs() {
    let place = place();
    let check = |arguments: &[&str], expected: &str| {
        let answer = place.kiln(&[&["run"], arguments].concat());
        assert!(answer.code(2).err.contains(expected), "{answer:#?}");
        assert_eq!(ran(&answer), [""; 0]);
    };
    let steps = "1 `Run actions/checkout@v4`, 2 `Run echo ran make; echo v=1 >> $GITHUB_OUTPUT` (id `make`), 3 `Test`, 4 `Last`";
    let unknown = format!("the job has no step `9`; its steps are {steps}");
    check(&["--job", "build", "--from-step", "9"], &unknown);
    check(&["--job", "call", "--from-step", "1"], "calls a workflow");
    check(&["--from-step", "2"], "--job");
}
