//! The scenarios by `kiln run`, and what is its own: what it says of artifacts, and where it keeps them.

use std::fs;

use serde_json::Value;

use super::{Machine, scenarios, write};
use crate::Place;
use crate::run::commit_all;

struct Here(Place);

impl Machine for Here {
    fn run(&self) -> String {
        self.0.kiln(&["run"]).code(0).out.clone()
    }
}

fn here(write: &dyn Fn(&Place)) -> Box<dyn Machine> {
    let place = Place::new();
    write(&place);
    commit_all(place.path());
    Box::new(Here(place))
}

macro_rules! scenarios {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                scenarios::$name(&here);
            }
        )*
    };
}

scenarios! {
    caches_are_found_by_key_and_by_beginning_and_never_change
    a_cache_is_there_in_the_next_run
    clients_of_the_first_version_of_caches_work_as_well
    a_large_cache_goes_both_ways
    artifacts_are_uploaded_listed_downloaded_replaced_and_deleted
    a_large_artifact_goes_both_ways
    a_job_can_say_who_it_is_if_it_may
    only_actions_have_the_tokens_and_only_as_long_as_their_job_lasts
}

fn place(jobs: &[String]) -> Place {
    let place = Place::new();
    write(&place, jobs);
    commit_all(place.path());
    place
}

/// R5
#[test]
fn a_run_says_which_artifacts_it_left_and_where() {
    let step = super::script(
        "fs.writeFileSync('a.txt', 'hello');
        await artifact.uploadArtifact('report', ['a.txt'], '.');",
    );
    let place = place(&[super::job("one", "", &[step])]);
    let answer = place.kiln(&["run"]);
    let line = answer.code(0).out.lines().find(|line| line.starts_with("artifact report"));
    let line = line.unwrap_or_else(|| panic!("{answer:#?}"));
    let path = line.split_whitespace().last().expect("it ends with a path");
    assert!(path.ends_with("artifacts/report.zip"), "{line}");
    assert!(fs::read(path).expect("it is there").starts_with(b"PK"), "{line}");
    let answer = place.kiln(&["run", "--json"]);
    let last = answer.code(0).out.lines().last().expect("it says something");
    let last: Value = serde_json::from_str(last).expect("it writes JSON");
    assert_eq!(last["artifacts"][0]["name"], "report", "{last:#}");
    let runs = place.path().join(".git/kiln-state/runs");
    for run in fs::read_dir(runs).expect("it is there").flatten() {
        let jobs = run.path().join("jobs");
        assert!(!jobs.exists(), "nothing is left of uploads on their way: {jobs:?}");
    }
}

/// R5, P11
#[test]
fn a_run_that_goes_on_from_a_failed_one_has_its_artifacts() {
    let first = super::script(
        "fs.writeFileSync('a.txt', 'hello');
        await artifact.uploadArtifact('report', ['a.txt'], '.');",
    );
    let second = super::script(
        "const {artifact: found} = await artifact.getArtifact('report');
        await artifact.downloadArtifact(found.id, {path: 'in'});
        assert.equal(fs.readFileSync('in/a.txt', 'utf8'), 'hello');
        await artifact.uploadArtifact('more', ['in/a.txt'], '.');
        assert.ok(process.env.GITHUB_RUN_ATTEMPT > 1, 'only the second try succeeds');",
    );
    let jobs = [super::job("one", "", &[first]), super::job("two", "    needs: one\n", &[second])];
    let place = place(&jobs);
    place.kiln(&["run"]).code(1);
    let answer = place.kiln(&["run", "--from-failed"]);
    let lines = answer.code(0).out.lines().filter(|line| line.starts_with("artifact "));
    assert_eq!(lines.count(), 2, "{answer:#?}");
}

/// P9
#[test]
fn a_proxy_does_not_stand_between_an_action_and_its_services() {
    let step = super::script(
        "fs.writeFileSync('a.txt', 'hello');
        assert.ok(await cache.saveCache(['a.txt'], 'key') > 0);
        await artifact.uploadArtifact('report', ['a.txt'], '.');",
    );
    let more = "    env: {http_proxy: 'http://127.0.0.1:9', HTTPS_PROXY: 'http://127.0.0.1:9'}\n";
    place(&[super::job("one", more, &[step])]).kiln(&["run"]).code(0);
}
