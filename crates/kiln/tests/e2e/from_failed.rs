//! `kiln run --from-failed` with real processes.

use crate::run::{commit_all, find, jobs, repository, wait_for};
use crate::{Answer, Place};

/// Fails while there is no file `fixed`; says which jobs ran.
const WORKFLOW: &str = "  good:\n    runs-on: x\n    outputs: {v: '${{ steps.s.outputs.v }}'}\n    steps: [{id: s, run: 'echo ran good; echo v=from-good >> $GITHUB_OUTPUT'}]\n  \
    legs:\n    runs-on: x\n    strategy: {fail-fast: false, matrix: {n: [1, 2]}}\n    steps: [{run: 'echo ran leg ${{ matrix.n }}; test -e fixed || test ${{ matrix.n }} = 1'}]\n  \
    call:\n    uses: ./.github/workflows/callee.yml\n    secrets: {key: '${{ secrets.KEY }}'}\n  \
    after:\n    needs: [good, legs, call]\n    runs-on: x\n    steps: [{run: 'echo ran after with ${{ needs.good.outputs.v }} ${{ needs.call.outputs.v }} try ${{ github.run_attempt }}'}]\n";

const CALLEE: &str = "on:\n  workflow_call:\n    secrets: {key: {}}\n    outputs: {v: {value: '${{ jobs.first.outputs.v }}'}}\njobs:\n  \
    first:\n    runs-on: x\n    outputs: {v: from-call}\n    steps: [{run: echo ran first}]\n  \
    second:\n    needs: first\n    runs-on: x\n    steps: [{run: 'echo ran second; test -e fixed && test -n \"$K\"', env: {K: '${{ secrets.key }}'}}]\n";

fn place() -> Place {
    let place = Place::new();
    place.file(".github/workflows/ci.yml", jobs(WORKFLOW));
    place.file(".github/workflows/callee.yml", CALLEE);
    commit_all(place.path());
    place
}

/// What the jobs said that they ran, in order of the alphabet.
fn ran(answer: &Answer) -> Vec<String> {
    let lines = answer.out.lines().filter_map(|line| line.split_once("│ ran "));
    let mut ran: Vec<String> = lines.map(|(_, what)| what.to_owned()).collect();
    ran.sort();
    ran
}

fn again(place: &Place, rest: &[&str]) -> Answer {
    place.kiln(&[&["run", "--from-failed", "--secret", "KEY=12345678"][..], rest].concat())
}

/// P10, P11
#[test]
fn only_what_failed_and_what_depends_on_it_runs_and_earlier_outputs_are_there() {
    let place = place();
    let first = place.kiln(&["run", "--secret", "KEY=12345678"]);
    assert_eq!(ran(first.code(1)), ["first", "good", "leg 1", "leg 2", "second"]);
    let still = again(&place, &[]);
    assert_eq!(ran(still.code(1)), ["leg 2", "second"]);
    place.file("fixed", "");
    commit_all(place.path());
    let fixed = again(&place, &[]);
    assert_eq!(ran(fixed.code(0)), ["after with from-good from-call try 3", "leg 2", "second"]);
    for taken in ["good", "legs (1)", "call / first"] {
        let line = fixed.out.lines().find(|line| line.starts_with(taken) && !line.contains('│'));
        assert!(line.is_some_and(|line| line.contains("taken over")), "{taken}: {fixed:#?}");
    }
    assert!(fixed.err.contains("taken over from the commit"), "{fixed:#?}");
    let none = again(&place, &[]);
    assert!(none.code(2).err.contains("nothing to run again"), "{none:#?}");
}

/// P10
#[test]
fn programs_are_told_which_jobs_were_taken_over() {
    let place = place();
    place.kiln(&["run", "--secret", "KEY=12345678"]).code(1);
    let answer = again(&place, &["--dirty", "--json"]);
    let last = answer.code(1).out.lines().last().expect("it ends");
    let last: serde_json::Value = serde_json::from_str(last).expect("it is JSON");
    assert_eq!(last["attempt"], 2);
    let jobs = last["jobs"].as_array().expect("there are jobs");
    let taken: Vec<&str> = jobs
        .iter()
        .filter(|job| job["taken_over"] == true)
        .filter_map(|job| job["name"].as_str())
        .collect();
    assert_eq!(taken, ["good", "legs (1)", "call / first"]);
}

/// P10
#[test]
fn a_changed_job_runs_anew_with_what_depends_on_it() {
    let place = place();
    place.kiln(&["run", "--secret", "KEY=12345678"]).code(1);
    let changed = WORKFLOW.replace("v=from-good", "v=changed").replace("  after:", "  later:");
    // Lines that move do not make a job another one.
    place.file(
        ".github/workflows/ci.yml",
        jobs(&format!("  new:\n    runs-on: x\n    steps: [{{run: echo ran new}}]\n{changed}")),
    );
    place.file("fixed", "");
    commit_all(place.path());
    let answer = again(&place, &[]);
    let expect = ["after with changed from-call try 2", "good", "leg 2", "new", "second"];
    assert_eq!(ran(answer.code(0)), expect);
    assert!(answer.err.contains("`good` has changed since and runs anew"), "{answer:#?}");
    assert!(answer.err.contains("`after` is no longer in the workflow"), "{answer:#?}");
}

/// P10
#[test]
fn what_cannot_be_gone_on_from_is_said_plainly() {
    let place = repository(&jobs("  a:\n    runs-on: x\n    steps: [{run: test -e fixed}]\n"));
    let none = again(&place, &[]);
    assert!(none.code(2).err.contains("there is no earlier run"), "{none:#?}");
    let mixed = again(&place, &["--job", "a"]);
    assert!(mixed.code(2).err.contains("cannot be used with"), "{mixed:#?}");
    place.kiln(&["run"]).code(1);
    let workflow = place.path().join(".github/workflows/ci.yml");
    place.file(
        ".github/workflows/ci.yml",
        jobs("  b:\n    runs-on: x\n    steps: [{run: 'true'}]\n"),
    );
    // Nothing of the earlier run fits, so all of the workflow is new and runs.
    assert!(again(&place, &[]).code(0).err.contains("`a` is no longer in the workflow"));
    place.kiln(&["run", "--var", "x=1"]).code(0);
    std::fs::remove_file(&workflow).expect("it is ours");
    assert!(again(&place, &[]).code(2).err.contains("nothing to run again"));
    let runs = place.path().join(".git/kiln-state/runs");
    for run in std::fs::read_dir(&runs).expect("it is there").flatten() {
        std::fs::write(run.path().join("run.json"), "{\"version\": 99}").expect("it is ours");
    }
    assert!(again(&place, &[]).code(2).err.contains("version 99"));
}

/// P10, S6: what was done when kiln itself was killed stays done.
#[test]
fn a_killed_run_goes_on_from_what_it_had_done() {
    let place = repository(&jobs(
        "  a:\n    runs-on: x\n    steps: [{run: echo ran a}]\n  b:\n    runs-on: x\n    steps: [{run: 'echo ran b; test -e fixed || sleep 300'}]\n",
    ));
    let state = place.path().join(".git/kiln-state");
    let mut child = place
        .command("", &["run", "--jobs", "2"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("the binary was built for this test");
    wait_for(|| {
        let record = std::fs::read_to_string(find(&state, "run.json")?).ok()?;
        record.contains(r#""conclusion": "success""#).then_some(())
    });
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    place.file("fixed", "");
    assert_eq!(ran(again(&place, &["--dirty"]).code(0)), ["b"]);
}

/// P10: variables, inputs and the chosen job are those of the last run.
#[test]
fn the_run_is_asked_for_again_as_it_was_asked_for() {
    let place = repository(&jobs(
        "  a:\n    runs-on: x\n    steps: [{run: 'echo ran a ${{ vars.V }}; test -e fixed'}]\n  b:\n    runs-on: x\n    steps: [{run: echo ran b}]\n",
    ));
    assert_eq!(ran(place.kiln(&["run", "--job", "a", "--var", "V=1"]).code(1)), ["a 1"]);
    assert_eq!(ran(again(&place, &[]).code(1)), ["a 1"]);
    assert_eq!(ran(again(&place, &["--var", "V=2"]).code(1)), ["a 2"]);
}
