//! What bounds `kiln run`: labels, time, silence, the size of logs.

use crate::Place;
use crate::run::{commit_all, jobs, repository};

fn summary(place: &Place, args: &[&str], code: i32) -> serde_json::Value {
    let answer = place.kiln(&[&["run", "--json"], args].concat());
    let last = answer.code(code).out.lines().last().expect("a run says how it ended").to_owned();
    serde_json::from_str(&last).expect("it is JSON")
}

/// S10
#[test]
fn a_job_for_another_machine_is_skipped_with_its_label_and_ends_no_other() {
    let place = repository(&jobs(
        "  test:\n    runs-on: ['${{ matrix.os }}']\n    strategy: {matrix: {os: [mac, Linux]}}\n    steps: [{run: 'echo on ${{ matrix.os }}'}]\n  \
         app:\n    runs-on: {labels: [linux, gpu]}\n    steps: [{run: echo never}]\n  \
         store:\n    needs: app\n    runs-on: linux\n    steps: [{run: echo never}]\n",
    ));
    let end = summary(&place, &["--label", "linux", "--label", "x64"], 0);
    let job = |name: &str| {
        let found = end["jobs"].as_array().unwrap().iter().find(|job| job["name"] == name);
        found.unwrap_or_else(|| panic!("{name} in {end:#}")).clone()
    };
    assert_eq!(job("test (Linux)")["conclusion"], "success");
    assert_eq!(job("test (mac)")["conclusion"], "skipped");
    assert_eq!(job("test (mac)")["note"], "needs the label `mac`; this machine has `linux`, `x64`");
    assert_eq!(job("app")["note"], "needs the label `gpu`; this machine has `linux`, `x64`");
    assert_eq!(job("store")["note"], "it needs `app`, which was skipped");
    let answer = place.kiln(&["run", "--label", "linux"]);
    assert!(answer.code(0).out.contains("needs the label `gpu`"), "{answer:#?}");
    place.kiln(&["run"]).code(0);
}

/// S13
#[test]
fn the_limits_of_time_and_silence_are_given_for_the_run() {
    let place = repository(&jobs(
        "  quiet:\n    runs-on: x\n    steps: [{run: sleep 60}]\n  \
         own:\n    runs-on: x\n    timeout-minutes: 5\n    steps: [{run: sleep 1; echo awake}]\n",
    ));
    let answer = place.kiln(&["run", "--silence", "0.04", "--job", "quiet"]);
    assert!(
        answer.code(1).out.contains("the step printed nothing for 2 s and was ended"),
        "{answer:#?}"
    );
    let answer = place.kiln(&["run", "--timeout", "0.01", "--silence", "0"]);
    let out = &answer.code(1).out;
    assert!(out.contains("quiet  timed out") && out.contains("own    succeeded"), "{out}");
}

/// S13
#[test]
fn a_log_over_its_limit_is_cut_and_the_job_goes_on() {
    let place = repository(&jobs(
        "  a:\n    runs-on: x\n    steps:\n      - run: seq 1 5000; echo the last line; false\n      - if: always()\n        run: echo after\n",
    ));
    let end = summary(&place, &["--log-limit", "2kB"], 1);
    let log = std::fs::read_to_string(end["jobs"][0]["log"].as_str().unwrap()).unwrap();
    assert!(log.len() < 2_100 && log.contains("\n300\n"), "{}", log.len());
    assert!(log.ends_with("[... log truncated at 2 kB]\n"), "{log}");
    let answer = place.kiln(&["run", "--log-limit", "2kB"]);
    assert!(answer.code(1).out.contains("  the last line\n"), "watchers see the end: {answer:#?}");
}

/// R1
#[test]
fn a_folder_with_workflows_of_its_own_is_a_repository_of_its_own() {
    let place = Place::new();
    place.file("top", "");
    place.file("examples/x/file", "");
    let script = "test -f file && test ! -e top && test ! -e examples";
    let workflow = jobs(&format!("  a:\n    runs-on: x\n    steps: [{{run: {script}}}]\n"));
    place.file("examples/x/.github/workflows/ci.yml", workflow);
    commit_all(place.path());
    for args in [&["run"][..], &["run", "--dirty"]] {
        place.kiln_in("examples/x", args, "").code(0);
    }
    let elsewhere = ["run", "--workflow", "examples/x/.github/workflows/ci.yml"];
    place.kiln(&elsewhere).code(0);
}
