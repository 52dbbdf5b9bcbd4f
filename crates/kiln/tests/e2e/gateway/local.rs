//! The scenarios by `kiln run`, and what is its own: what it says of artifacts, and where it keeps them.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use super::{Machine, scenarios, write};
use crate::Place;
use crate::run::{commit_all, find, wait_for};

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
    jobs_side_by_side_do_not_disturb_each_other
    a_second_save_of_a_built_in_cache_moves_only_what_changed
    the_built_in_cache_does_what_its_inputs_say
    a_job_can_say_who_it_is_if_it_may
    only_actions_have_the_tokens_and_only_as_long_as_their_job_lasts
    artifacts_go_from_job_to_job_without_a_mirror
    a_word_that_was_read_from_another_step_is_good_for_nothing
    the_token_of_a_job_opens_its_repository
}

fn place(jobs: &[String]) -> Place {
    let place = Place::new();
    write(&place, jobs);
    commit_all(place.path());
    place
}

/// R7, P1: a called workflow has at most what its caller has.
#[test]
fn a_called_workflow_cannot_say_who_it_is_unless_its_caller_may() {
    let may = super::script("assert.ok(await core.getIDToken('x'));");
    let may_not = super::script(
        "await assert.rejects(core.getIDToken('x'), /ACTIONS_ID_TOKEN_REQUEST_URL/);",
    );
    for (caller, step) in [("", may_not), ("    permissions: {id-token: write}\n", may)] {
        let place = Place::new();
        write(&place, &[super::job("inner", "    permissions: {id-token: write}\n", &[step])]);
        let text = fs::read_to_string(place.path().join(".github/workflows/ci.yml"));
        let text = text.expect("it was just written");
        let called = text.replacen("on: [push, workflow_dispatch]", "on: workflow_call", 1);
        assert_ne!(called, text);
        place.file(".github/workflows/called.yml", called);
        let call = "    uses: ./.github/workflows/called.yml\n";
        let text = format!("on: push\njobs:\n  call:\n{caller}{call}");
        place.file(".github/workflows/ci.yml", text);
        commit_all(place.path());
        place.kiln(&["run"]).code(0);
    }
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

/// R5: on a server, these calls go to the server itself.
#[test]
fn the_interface_of_a_run_here_knows_its_repository_and_deletes_its_artifacts() {
    let step = super::script(
        "fs.writeFileSync('a.txt', 'hello');
        await artifact.uploadArtifact('report', ['a.txt'], '.');
        const [repositoryOwner, repositoryName] = process.env.GITHUB_REPOSITORY.split('/');
        const findBy = {token, workflowRunId: Number(process.env.GITHUB_RUN_ID), repositoryOwner, repositoryName};
        await assert.rejects(artifact.listArtifacts({findBy: {...findBy, token: 'another'}}), /token/);
        await assert.rejects(artifact.listArtifacts({findBy: {...findBy, workflowRunId: 99}}), /own run/);
        await artifact.deleteArtifact('report', {findBy});
        assert.equal((await artifact.listArtifacts({findBy})).artifacts.length, 0);
        const ask = path => fetch(`${process.env.GITHUB_API_URL}${path}`, {headers: {authorization: `token ${token}`}});
        assert.equal((await (await ask(`/repos/${process.env.GITHUB_REPOSITORY}`)).json()).default_branch, 'main');
        assert.equal((await ask('/user')).status, 404);",
    );
    let place =
        place(&[super::job("one", "    permissions: {actions: write, contents: read}\n", &[step])]);
    let answer = place.kiln(&["run"]);
    assert!(!answer.code(0).out.contains("artifact report"), "{answer:#?}");
    // Whoever brings a token of GitHub's wants to speak with GitHub.
    let step = super::script("assert.equal(process.env.GITHUB_API_URL, 'https://api.github.com');");
    let place = self::place(&[super::job("one", "", &[step])]);
    place.kiln(&["run", "--secret", "GITHUB_TOKEN=a-token-of-mine-1"]).code(0);
}

/// R8
#[test]
fn a_run_that_is_killed_in_the_middle_of_an_upload_leaves_nothing_to_be_read() {
    let begin = super::script(
        "const call = (method, body) => fetch(`${process.env.ACTIONS_RESULTS_URL}twirp/github.actions.results.api.v1.CacheService/${method}`, {
          method: 'POST', body: JSON.stringify({key: 'k', version: 'v', ...body}),
          headers: {authorization: `Bearer ${process.env.ACTIONS_RUNTIME_TOKEN}`}}).then(answer => answer.json());
        assert.equal((await call('GetCacheEntryDownloadURL', {restore_keys: ['k']})).ok, false);
        const {signed_upload_url: url} = await call('CreateCacheEntry', {});
        if (process.env.GITHUB_RUN_ATTEMPT === '1') {
          const blocks = [1, 2, 3].map(id => fetch(`${url}&comp=block&blockid=${id}`, {method: 'PUT', body: Buffer.alloc(20_000_000, id)}));
          await Promise.all(blocks);
          const hanging = fetch(url, {method: 'PUT', duplex: 'half', headers: {'content-length': '1000'}, body: new ReadableStream({
            start: stream => stream.enqueue(Buffer.from('half of it'))})});
          fs.writeFileSync('is-hanging', 'yes');
          await hanging;
        }",
    );
    let place = place(&[super::job("one", "", &[begin])]);
    let mut killed =
        place.command("", &["run"]).stdout(Stdio::null()).spawn().expect("it is built");
    let state = place.path().join(".git/kiln-state");
    wait_for(|| find(&state, "is-hanging"));
    killed.kill().expect("it runs");
    killed.wait().expect("it is dead");
    // Files of uploads have numbers.
    let spooled = || find(&state.join("runs"), "2");
    assert!(spooled().is_some(), "it could not clean up");
    place.kiln(&["run", "--from-failed"]).code(0);
    assert_eq!(spooled(), None, "the next run did");
    assert_eq!(find(&state.join("caches"), "archive"), None);
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
