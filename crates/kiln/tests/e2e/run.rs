//! `kiln run` with real processes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Place;

/// A repository with one committed workflow, and its own place for state.
pub(crate) fn repository(workflow: &str) -> Place {
    let place = Place::new();
    place.file(".github/workflows/ci.yml", workflow);
    commit_all(place.path());
    place
}

pub(crate) fn commit_all(directory: &Path) {
    let script = "git init -q -b main && git add -A && git -c user.name=a -c user.email=a@localhost commit -q --allow-empty -m x";
    let done = Command::new("sh")
        .args(["-c", script])
        .current_dir(directory)
        .status()
        .expect("there is a shell");
    assert!(done.success());
}

pub(crate) fn jobs(jobs: &str) -> String {
    format!("name: CI\non: push\njobs:\n{jobs}")
}

/// P11, P8
#[test]
fn steps_share_outputs_environment_and_path() {
    let place = repository(&jobs(
        "  a:\n    runs-on: x\n    outputs: {v: '${{ steps.one.outputs.v }}'}\n    env: {LEVEL: job}\n    steps:\n      \
         - id: one\n        run: |\n          echo v=1 >> $GITHUB_OUTPUT\n          echo MODE=fast >> $GITHUB_ENV\n          mkdir bin; printf '#!/bin/sh\\necho tool' > bin/mytool; chmod +x bin/mytool; echo $PWD/bin >> $GITHUB_PATH\n      \
         - run: test \"$MODE ${{ env.MODE }} $LEVEL $(mytool)\" = 'fast fast step tool'\n        env: {LEVEL: step}\n  \
         b:\n    needs: a\n    runs-on: x\n    steps:\n      - run: test '${{ needs.a.outputs.v }}' = 1\n      - run: test -f .github/workflows/ci.yml\n",
    ));
    let answer = place.kiln(&["run"]);
    assert!(answer.code(0).out.contains("b  succeeded"), "{answer:#?}");
}

/// R1
#[test]
fn a_job_finds_nothing_of_the_one_before_it_in_the_same_place() {
    let spoil = "echo spoilt > .github/workflows/ci.yml; touch new $RUNNER_TEMP/left; \
                 echo A=1 | tee -a $GITHUB_ENV >> $GITHUB_OUTPUT; ln -sf /etc/passwd $GITHUB_PATH; sleep 0.1 >/dev/null 2>&1 &";
    let check = "test ! -e new; test -z \"$(ls -A $RUNNER_TEMP)$A\"; grep -q CI .github/workflows/ci.yml; \
                 test ! -s $GITHUB_ENV; test ! -s $GITHUB_OUTPUT; test ! -L $GITHUB_PATH";
    let job = |id: &str, needs: &str, run: &str| {
        format!(
            "  {id}:\n    runs-on: x\n    needs: {needs}\n    steps:\n      - run: '{run}'\n      - run: '{run}'\n"
        )
    };
    let place = repository(&jobs(&format!(
        "{}{}{}",
        job("untouched", "[]", "true"),
        job("spoils", "[untouched]", spoil),
        job("checks", "[spoils]", check)
    )));
    place.kiln(&["run", "--jobs", "1"]).code(0);
}

/// P7, S14
#[test]
fn a_failure_is_shown_with_its_step_and_skips_what_needs_it() {
    let place = repository(&jobs(
        "  bad:\n    runs-on: x\n    steps:\n      - name: Break\n        run: echo oh no; exit 3\n      - run: echo unreached\n      - if: failure()\n        run: echo cleanup\n  \
         after:\n    needs: bad\n    runs-on: x\n    steps: [{run: echo never}]\n",
    ));
    let answer = place.kiln(&["run"]);
    let out = &answer.code(1).out;
    assert!(
        out.contains("bad failed\n  ▸ Break\n  oh no\n  error: process completed with exit code 3"),
        "{out}"
    );
    assert!(
        out.contains("cleanup") && !out.contains("unreached") && !out.contains("never"),
        "{out}"
    );
    assert!(out.contains("it needs `bad`, which failed"), "{out}");
}

/// R6
#[test]
fn secrets_are_masked_in_every_line_and_in_names() {
    let place = repository(&jobs(
        "  a:\n    runs-on: x\n    steps:\n      - name: with ${{ secrets.TOKEN }}\n        run: |\n          echo plain ${{ secrets.TOKEN }}\n          printf %s \"$T\" | base64\n          echo '::add-mask::hidden-too'\n          echo hidden-too\n        env: {T: '${{ secrets.TOKEN }}'}\n",
    ));
    let answer = place.kiln(&["run", "--secret", "TOKEN=s3cr3t-value"]);
    let out = &answer.code(0).out;
    for leaked in ["s3cr3t-value", "czNjcjN0LXZhbHVl", "hidden-too"] {
        assert!(!out.contains(leaked), "{leaked} in {out}");
    }
    let json = place.kiln(&["run", "--json", "--secret", "TOKEN=s3cr3t-value"]);
    assert!(!json.code(0).out.contains("s3cr3t-value"), "{json:#?}");
}

/// P1, P9
#[test]
fn matrices_calls_and_local_actions_run() {
    let place = Place::new();
    place.file(
        ".github/workflows/ci.yml",
        jobs("  m:\n    runs-on: x\n    strategy: {matrix: {n: [1, 2]}}\n    steps: [{run: 'echo leg ${{ matrix.n }} of ${{ strategy.job-total }}'}]\n  \
              call:\n    uses: ./.github/workflows/callee.yml\n    with: {who: you}\n  \
              acts:\n    runs-on: x\n    steps:\n      - id: c\n        uses: ./composite\n        with: {who: me}\n      - run: test '${{ steps.c.outputs.said }}' = 'hello me'\n      - id: js\n        uses: ./js\n        with: {a b: ' 1 '}\n      - run: test '${{ steps.js.outputs.got }}' = ' 1 '\n"),
    );
    place.file(
        ".github/workflows/callee.yml",
        "on:\n  workflow_call:\n    inputs: {who: {type: string, required: true}}\njobs:\n  inner:\n    runs-on: x\n    steps: [{run: 'echo called by ${{ inputs.who }}'}]\n",
    );
    place.file(
        "composite/action.yml",
        "name: c\ndescription: d\ninputs: {who: {default: nobody}}\noutputs: {said: {value: '${{ steps.s.outputs.said }}'}}\nruns:\n  using: composite\n  steps:\n    - id: s\n      shell: bash\n      run: echo \"said=hello ${{ inputs.who }}\" >> $GITHUB_OUTPUT\n",
    );
    place.file(
        "js/action.yml",
        "name: j\ndescription: d\nruns: {using: node20, main: main.js, post: post.js}\n",
    );
    place.file(
        "js/main.js",
        "const fs = require('fs');\nfs.appendFileSync(process.env.GITHUB_OUTPUT, `got=${process.env.INPUT_A_B}\\n`);\nfs.appendFileSync(process.env.GITHUB_STATE, 'kept=42\\n');\n",
    );
    place.file("js/post.js", "console.log('post has ' + process.env.STATE_kept);\n");
    commit_all(place.path());
    let answer = place.kiln(&["run"]);
    let out = &answer.code(0).out;
    for expected in ["leg 1 of 2", "leg 2 of 2", "call / inner", "called by you", "post has 42"] {
        assert!(out.contains(expected), "{expected} not in {out}");
    }
}

/// R1
#[test]
fn the_built_in_checkout_works_offline_and_dirty_files_are_seen_only_when_asked() {
    let place = repository(&jobs(
        "  a:\n    runs-on: x\n    steps:\n      - id: co\n        uses: actions/checkout@v4\n        with: {path: sub}\n      - run: test \"$(git -C sub rev-parse HEAD)\" = \"$GITHUB_SHA\"\n      - run: test ! -e extra\n",
    ));
    place.file("extra", "");
    place.kiln(&["run"]).code(0);
    place.kiln(&["run", "--dirty"]).code(1);
}

/// S14
#[test]
fn an_interrupt_ends_the_whole_tree_and_lets_always_steps_run() {
    let place = repository(&jobs(
        "  a:\n    runs-on: x\n    steps:\n      - run: |\n          (setsid sh -c 'trap \"\" INT TERM; echo $$ > ../../daemon; sleep 300' &)\n          echo ready > ../../ready\n          sleep 300\n      - if: always()\n        run: echo cleanup ran\n",
    ));
    let state = place.path().join("state");
    let child = Command::new(env!("CARGO_BIN_EXE_kiln"))
        .arg("run")
        .current_dir(place.path())
        .env("KILN_STATE", &state)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let ready = wait_for(|| find(&state, "ready").and_then(|_| find(&state, "daemon")));
    let daemon = std::fs::read_to_string(ready).unwrap().trim().to_owned();
    assert!(
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success()
    );
    let output = child.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{out}");
    assert!(out.contains("cleanup ran"), "{out}");
    wait_for(|| (!Path::new("/proc").join(&daemon).exists()).then_some(()));
}

/// S14
#[test]
fn kill_9_of_kiln_leaves_no_process_behind() {
    let place = repository(&jobs(
        "  a:\n    runs-on: x\n    steps:\n      - run: |\n          (setsid sh -c 'trap \"\" INT TERM HUP; echo $$ > ../../daemon; sleep 300' &)\n          echo ready > ../../ready\n          sleep 300\n",
    ));
    let state = place.path().join("state");
    let mut child = Command::new(env!("CARGO_BIN_EXE_kiln"))
        .arg("run")
        .current_dir(place.path())
        .env("KILN_STATE", &state)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let file = wait_for(|| find(&state, "ready").and_then(|_| find(&state, "daemon")));
    let daemon = std::fs::read_to_string(file).unwrap().trim().to_owned();
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for(|| (!Path::new("/proc").join(&daemon).exists()).then_some(()));
}

/// S13
#[test]
fn time_limits_end_steps_and_jobs_and_containers_are_refused() {
    let place = repository(&jobs(
        "  step:\n    runs-on: x\n    steps:\n      - timeout-minutes: 0.005\n        run: sleep 60\n      - if: failure()\n        run: echo after the step\n  \
         job:\n    runs-on: x\n    timeout-minutes: 0.005\n    steps:\n      - run: sleep 60\n      - run: echo unreached\n      - if: always()\n        run: echo after the job\n  \
         box:\n    runs-on: x\n    container: alpine\n    steps: [{run: echo inside}]\n",
    ));
    let answer = place.kiln(&["run"]);
    let out = &answer.code(1).out;
    assert!(out.contains("after the step") && out.contains("after the job"), "{out}");
    assert!(out.contains("job   timed out"), "{out}");
    assert!(
        out.contains("`container` needs a container backend") && !out.contains("inside"),
        "{out}"
    );
    assert!(!out.contains("unreached"), "{out}");
}

#[test]
fn wrong_usage_and_broken_workflows_exit_with_2() {
    let place = repository(&jobs("  a:\n    runs-on: x\n    steps: [{run: 'true'}]\n"));
    assert!(place.kiln(&["run", "--job", "b"]).code(2).err.contains("no job `b`"));
    assert!(place.kiln(&["run", "--input", "x=1"]).code(2).err.contains("no input `x`"));
    assert!(
        place
            .kiln(&["run", "--secret", "NOT_THERE_AT_ALL"])
            .code(2)
            .err
            .contains("NOT_THERE_AT_ALL")
    );
    place.file("broken.yml", "on: push\njobs: {a: {step: []}}\n");
    place.kiln(&["run", "--workflow", "broken.yml"]).code(2);
    let skipped =
        place.kiln(&["run", "--event", "pull_request", "--workflow", ".github/workflows/ci.yml"]);
    assert!(skipped.code(0).err.contains("does not run"), "{skipped:#?}");
}

pub(crate) fn find(directory: &Path, name: &str) -> Option<PathBuf> {
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if entry.file_name() == name
                && std::fs::metadata(&path).is_ok_and(|file| file.len() > 0)
            {
                return Some(path);
            }
        }
    }
    None
}

/// Looks until it is there, for at most twenty seconds.
pub(crate) fn wait_for<T>(look: impl Fn() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "it did not happen in time");
        std::thread::sleep(Duration::from_millis(20));
    }
}
