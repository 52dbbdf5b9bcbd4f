//! Steps beside others, steps tried again, and what actions do before the first step.

use std::fs;

use crate::run::{commit_all, repository};
use crate::{Answer, Place};

fn steps(steps: &str) -> String {
    format!("on: push\njobs:\n  a:\n    runs-on: x\n    steps:\n{steps}")
}

fn run(workflow: &str) -> Answer {
    repository(&steps(workflow)).kiln(&["run"])
}

/// P8
#[test]
fn a_background_step_runs_beside_and_its_outputs_come_with_the_wait() {
    let answer = run(r#"
      - id: back
        background: true
        run: |
          until test -e go; do sleep 0.02; done
          echo v=late >> "$GITHUB_OUTPUT"
          echo SET=1 >> "$GITHUB_ENV"
          echo "$PWD" >> "$GITHUB_PATH"
      - run: test "${{ steps.back.outputs.v }}$SET" = "" && touch go
      - wait: back
      - run: test "${{ steps.back.outputs.v }} $SET ${{ steps.back.outcome }}" = "late 1 success"
      - run: case $PATH in "$PWD":*) ;; *) exit 1;; esac
"#);
    answer.code(0);
}

/// P8
#[test]
fn a_failed_background_step_fails_the_wait_and_the_job() {
    let answer = run(r"
      - {id: bad, background: true, run: exit 4}
      - run: echo goes on
      - wait: [bad]
      - run: echo unreached
      - if: failure() && steps.bad.outcome == 'failure'
        run: echo seen
");
    let out = &answer.code(1).out;
    assert!(out.contains("goes on") && out.contains("seen") && !out.contains("unreached"), "{out}");
}

/// P8
#[test]
fn a_failure_counts_even_when_the_wait_is_tolerated_or_nobody_waits() {
    let answer = run(r"
      - {id: bad, background: true, run: exit 4}
      - {wait: bad, continue-on-error: true}
      - run: echo goes on
");
    assert!(answer.code(1).out.contains("goes on"), "{answer:#?}");
    let answer = run("      - {background: true, run: exit 4}\n      - run: echo goes on\n");
    assert!(answer.code(1).out.contains("Wait for all background steps"), "{answer:#?}");
    let answer = run(
        "      - {background: true, run: exit 4, continue-on-error: true}\n      - wait-all: true\n",
    );
    answer.code(0);
}

/// S14
#[test]
fn a_cancelled_background_step_is_gone_and_does_not_fail_the_job() {
    let place = repository(&steps(
        r#"
      - id: server
        background: true
        run: echo $$ > "$HOME_DIR/pid"; sleep 600 & exec sleep 601
        env: {HOME_DIR: '${{ vars.HOME_DIR }}'}
      - run: until test -s "${{ vars.HOME_DIR }}/pid"; do sleep 0.02; done
      - cancel: server
      - run: test "${{ steps.server.outcome }}" = cancelled
      - run: "! kill -0 $(cat '${{ vars.HOME_DIR }}/pid')"
"#,
    ));
    let home = place.path().join(".git");
    place.kiln(&["run", "--var", &format!("HOME_DIR={}", home.display())]).code(0);
    assert!(fs::read_to_string(home.join("pid")).is_ok());
}

/// P8
#[test]
fn parallel_steps_run_at_once_and_are_waited_for() {
    // Each waits for the other, so one after the other would never end.
    let answer = run(r#"
      - parallel:
          - id: one
            timeout-minutes: 0.5
            run: touch one; until test -e two; do sleep 0.02; done; echo v=1 >> "$GITHUB_OUTPUT"
          - id: two
            timeout-minutes: 0.5
            run: touch two; until test -e one; do sleep 0.02; done; echo v=2 >> "$GITHUB_OUTPUT"
          - {if: false, id: not, run: exit 1}
      - run: test "${{ steps.one.outputs.v }}${{ steps.two.outputs.v }}${{ steps.not.outcome }}" = 12skipped
"#);
    answer.code(0);
}

/// P8
#[test]
fn at_most_ten_background_steps_run_at_once() {
    let background = r"
      - background: true
        run: |
          mkdir here-$$
          ls -d here-* | wc -l >> counts
          sleep 0.2
          rmdir here-$$
";
    let check = r#"
      - wait-all: true
      - run: sort -n counts | tail -1 | { read most; echo "most $most"; test $most -gt 1 && test $most -le 10; }
      - run: test $(wc -l < counts) = 14
"#;
    run(&(background.repeat(14) + check)).code(0);
}

/// P15
#[test]
fn a_step_is_tried_again_as_its_companion_file_declares() {
    let place = Place::new();
    place.file(
        ".github/workflows/ci.yml",
        steps(
            "      - {id: flaky, run: 'echo x >> n; test $(wc -l < n) -ge 3 && echo v=ok >> $GITHUB_OUTPUT'}\n      \
             - run: test ${{ steps.flaky.outputs.v }} = ok\n      \
             - {id: hopeless, run: exit 5, continue-on-error: true}\n      \
             - {id: slow, run: 'test -e slow || { touch slow; sleep 60; }', timeout-minutes: 0.005}\n",
        ),
    );
    place.file(
        ".kiln/workflows/ci.yml",
        "jobs:\n  a:\n    steps:\n      flaky: {retry: {max: 2}}\n      hopeless: {retry: {max: 1}}\n      slow: {retry: {max: 1, on: timeout}}\n",
    );
    commit_all(place.path());
    let answer = place.kiln(&["run", "--json"]);
    let out = &answer.code(0).out;
    let retried = out.lines().filter(|line| line.contains("step_retried")).count();
    assert_eq!(retried, 4, "{out}");
    assert!(out.contains("try 1 of 2 failed, the next one starts"), "{out}");
}

/// R5
#[test]
fn the_first_scripts_of_fetched_actions_run_before_all_steps() {
    let mirror = Place::new();
    mirror.file(
        "me/early/action.yml",
        "name: Early\ndescription: d\ninputs: {who: {description: d, default: you}}\nruns: {using: node20, pre: pre.js, main: main.js, post: post.js}\n",
    );
    let say = |what: &str| {
        format!(
            "const fs = require('fs');\nconsole.log('{what} ' + process.env.INPUT_WHO + ' ' + (process.env.STATE_a || '') + (process.env.STATE_b || ''));\n"
        )
    };
    let save =
        |name: &str| format!("fs.appendFileSync(process.env.GITHUB_STATE, '{name}={name}\\n');\n");
    mirror.file("me/early/pre.js", say("pre") + &save("a"));
    mirror.file("me/early/main.js", say("main") + &save("b"));
    mirror.file("me/early/post.js", say("post"));
    mirror.file(
        "me/outer/action.yml",
        "name: Outer\ndescription: d\nruns: {using: composite, steps: [{uses: me/early@main, with: {who: inner}}]}\n",
    );
    for name in ["me/early", "me/outer"] {
        commit_all(&mirror.path().join(name));
    }
    let place = repository(&steps(
        "      - run: echo first\n      - {uses: me/early@main, with: {who: me}}\n      - uses: me/outer@main\n",
    ));
    let answer = place.kiln(&["run", "--actions", &mirror.path().to_string_lossy()]);
    let out = &answer.code(0).out;
    let said: Vec<&str> = out
        .lines()
        .filter_map(|line| line.split_once("│ ").map(|(_, said)| said))
        .filter(|said| {
            ["pre", "main", "post", "first"].contains(&said.split(' ').next().unwrap_or(""))
        })
        .collect();
    let expect = [
        "pre me ",
        "pre inner ",
        "first",
        "main me a",
        "main inner a",
        "post inner ab",
        "post me ab",
    ];
    assert_eq!(said, expect, "{out}");
}
