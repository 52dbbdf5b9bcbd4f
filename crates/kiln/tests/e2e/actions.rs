//! Actions of others, from a mirror that a test makes.

use crate::Place;
use crate::run::{commit_all, jobs, repository};

/// Steps of one job.
fn steps(steps: &str) -> String {
    jobs(&format!("  a:\n    runs-on: x\n    steps:\n{steps}"))
}

/// A mirror with one repository, `acme/tools`.
fn mirror(files: &[(&str, &str)]) -> Place {
    let place = Place::new();
    let tools = place.below("acme/tools");
    for (name, content) in files {
        tools.file(name, content);
    }
    commit_all(tools.path());
    place
}

fn run(place: &Place, mirror: &Place, more: &[&str]) -> String {
    let actions = mirror.path().to_str().expect("it is text");
    let answer = place.kiln(&[&["run", "--actions", actions], more].concat());
    answer.code(0).out.clone()
}

/// P9
#[test]
fn an_action_finds_the_repository_and_the_token_and_scripts_the_public_address() {
    let tools = mirror(&[
        (
            "fetch/action.yml",
            "inputs: {token: {default: '${{ github.token }}'}, sha: {default: '${{ github.sha }}'}}\n\
             runs: {using: node20, main: ../dist/fetch.js}\n",
        ),
        (
            "dist/fetch.js",
            "const {execFileSync: run} = require('child_process');\n\
             const {GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: name, INPUT_TOKEN: token, INPUT_SHA: sha} = process.env;\n\
             const basic = Buffer.from(`x-access-token:${token}`).toString('base64');\n\
             const git = (...words) => run('git', words, {cwd: process.env.RUNNER_TEMP, encoding: 'utf8'});\n\
             git('init', '-q');\n\
             git('-c', `http.extraheader=AUTHORIZATION: basic ${basic}`, 'fetch', '-q', '--depth=1', `${server}/${name}`, sha);\n\
             console.log('fetched ' + git('show', 'FETCH_HEAD:extra').trim());\n\
             console.log('token ' + token);\n",
        ),
    ]);
    let place = repository(&steps(
        "      - uses: acme/tools/fetch@main\n      - run: echo at $GITHUB_SERVER_URL ${{ github.server_url }}\n",
    ));
    place.file("extra", "not committed");
    let out = run(&place, &tools, &["--dirty"]);
    for expected in
        ["fetched not committed", "token ***", "at https://github.com https://github.com"]
    {
        assert!(out.contains(expected), "{expected} not in {out}");
    }
    let actions = tools.path().to_str().expect("it is text");
    let args = ["run", "--dirty", "--actions", actions];
    // Nobody listens there, and nobody needs to.
    place.kiln_with(&[("http_proxy", "http://127.0.0.1:9")], &args).code(0);
    let status = place.git(&["status", "--porcelain"]);
    assert_eq!(status, "?? extra\n", "the user's repository is as it was");
}

/// P9
#[test]
fn a_given_token_is_the_token_of_the_job() {
    let place = repository(&steps(
        "      - run: test '${{ github.token }}' = \"$A\" && test '${{ secrets.GITHUB_TOKEN }}' = \"$A\" && test ${#A} = 19\n        \
         env: {A: my-very-own-token-1}\n",
    ));
    place.kiln(&["run", "--secret", "GITHUB_TOKEN=my-very-own-token-1"]).code(0);
    let place = repository(&steps(
        "      - run: test -n '${{ github.token }}' && test '${{ github.token }}' = '${{ secrets.github_token }}'\n      - run: test -z \"$GITHUB_TOKEN\"\n",
    ));
    place.kiln(&["run"]).code(0);
}

/// P9
#[test]
fn an_action_calls_others_of_its_repository_from_the_root() {
    let tools = mirror(&[
        (
            "outer/action.yml",
            "runs:\n  using: Composite\n  unknown: key\n  steps:\n    - uses: $/inner\n      with: {who: outer}\n",
        ),
        (
            "inner/action.yml",
            "deprecated: yes\ninputs:\n  who: {type: string, required: 'yes'}\n  level: {default: 7}\n  flag: {default: true}\n  none:\n\
             runs: {using: NODE20, main: ./main.js}\n",
        ),
        (
            "inner/main.js",
            "const e = process.env;\nconsole.log(['inner', e.INPUT_WHO, e.INPUT_LEVEL, e.INPUT_FLAG, JSON.stringify(e.INPUT_NONE), e.GITHUB_ACTION_REPOSITORY].join(' '));\n",
        ),
    ]);
    let place = repository(&steps(
        "      - uses: acme/tools/outer@main\n      - uses: acme/tools/inner@main\n        with: {who: me, typo: 1}\n",
    ));
    let out = run(&place, &tools, &[]);
    for expected in [
        "inner outer 7 true \"\" acme/tools",
        "inner me 7 true",
        "the action has no input `typo`; it has: who, level, flag, none",
    ] {
        assert!(out.contains(expected), "{expected} not in {out}");
    }
}

/// P9
#[test]
fn the_workflows_own_actions_are_those_of_the_commit_whatever_steps_did() {
    let place = Place::new();
    place.file(
        ".github/workflows/ci.yml",
        steps("      - run: rm -rf own\n      - uses: $/own\n      - run: test ! -e own\n"),
    );
    place.file(
        "own/action.yml",
        "name: o\ndescription: d\nruns: {using: composite, steps: [{run: 'echo own one', shell: bash}, {uses: $/own/sub}]}\n",
    );
    place.file(
        "own/sub/action.yml",
        "name: s\ndescription: d\nruns: {using: composite, steps: [{run: 'echo own two', shell: bash}]}\n",
    );
    commit_all(place.path());
    place.file("own/action.yml", "this is not committed");
    let out = &place.kiln(&["run"]).code(0).out.clone();
    assert!(out.contains("own one") && out.contains("own two"), "{out}");
}

/// P9
#[test]
fn own_action_files_are_read_strictly_and_those_of_others_as_the_runner_reads_them() {
    let odd = "inputs: {}\ndeprecated: true\nruns: {using: node20, main: main.js}\n";
    let place = Place::new();
    place.file(".github/workflows/ci.yml", steps("      - uses: ./odd\n"));
    place.file("odd/action.yml", odd).file("odd/main.js", "");
    commit_all(place.path());
    let answer = place.kiln(&["run"]);
    assert!(answer.code(1).out.contains("unknown key `deprecated`"), "{answer:#?}");
    let tools = mirror(&[("action.yml", odd), ("main.js", "console.log('it ran')")]);
    let place = repository(&steps("      - uses: acme/tools@main\n"));
    assert!(run(&place, &tools, &[]).contains("it ran"));
    let tools = mirror(&[("action.yml", "runs: {using: perl, main: main.pl}\n")]);
    let actions = tools.path().to_str().expect("it is text");
    let answer = place.kiln(&["run", "--actions", actions]);
    assert!(answer.code(1).out.contains("nothing here runs `using: perl`"), "{answer:#?}");
}

/// P9
#[test]
fn jobs_that_want_the_same_action_at_once_share_it() {
    let tools = mirror(&[(
        "action.yml",
        "runs: {using: composite, steps: [{run: 'echo shared', shell: bash}]}\n",
    )]);
    let legs = "  a:\n    runs-on: x\n    strategy: {matrix: {n: [1, 2, 3, 4, 5, 6]}}\n    steps: [{uses: acme/tools@main}]\n";
    let place = repository(&jobs(legs));
    let out = run(&place, &tools, &["--jobs", "6"]);
    assert_eq!(out.matches("│ shared").count(), 6, "{out}");
}

/// P9
#[test]
fn a_configured_node_runs_actions_and_the_jobs_own_path_does_not_count() {
    let place = Place::new();
    place.file(
        ".github/workflows/ci.yml",
        steps(
            "      - run: mkdir bin && printf '#!/bin/sh\\necho wrong node' > bin/node && chmod +x bin/node && echo $PWD/bin >> $GITHUB_PATH\n      - uses: ./js\n",
        ),
    );
    place.file("js/action.yml", "name: j\ndescription: d\nruns: {using: node16, main: main.js}\n");
    place.file("js/main.js", "console.log('the right node')");
    commit_all(place.path());
    let answer = place.kiln(&["run"]);
    assert!(answer.code(0).out.contains("the right node"), "{answer:#?}");
    place.file("mine", "#!/bin/sh\necho my node runs $(basename $1)\n");
    let mine = place.path().join("mine");
    place.git(&["update-index", "--add", "--chmod=+x", "mine"]);
    make_executable(&mine);
    let answer = place.kiln_with(&[("KILN_NODE20", mine.to_str().expect("it is text"))], &["run"]);
    assert!(answer.code(0).out.contains("my node runs main.js"), "{answer:#?}");
    let answer = place.kiln_with(&[("KILN_NODE16", "/nowhere")], &["run"]);
    assert!(answer.code(1).out.contains("KILN_NODE16 is `/nowhere`"), "{answer:#?}");
}

fn make_executable(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, mode).expect("the file is ours");
}

/// A hook of git sets variables that bind git to its repository; jobs must not see them.
#[test]
fn a_run_in_a_hook_of_git_does_not_touch_the_repository_of_the_hook() {
    let place = repository(&steps(
        "      - uses: actions/checkout@v4\n      - run: test \"$(git rev-parse --show-toplevel)\" = \"$(pwd -P)\" && test -z \"$GIT_DIR$GIT_INDEX_FILE\"\n",
    ));
    let (dir, index) = (place.path().join(".git"), place.path().join(".git/index"));
    let text = |path: &std::path::Path| path.to_str().expect("it is text").to_owned();
    let env = [("GIT_DIR", text(&dir)), ("GIT_INDEX_FILE", text(&index))];
    let env = env.each_ref().map(|(name, value)| (*name, value.as_str()));
    place.kiln_with(&env, &["run", "--dirty"]).code(0);
}

/// R1
#[test]
fn the_built_in_checkout_has_the_branch_and_all_history_when_asked() {
    let place = repository(&steps(
        "      - uses: actions/checkout@v4\n      - run: test \"$(git rev-list --count HEAD) $(git branch --show-current)\" = '1 main'\n      \
         - uses: actions/checkout@v4\n        with: {fetch-depth: 0}\n      \
         - run: test \"$(git rev-list --count HEAD) $(git tag) $(git rev-parse origin/other)\" = \"2 v1 $(git rev-parse HEAD~1)\"\n",
    ));
    place.git(&["tag", "v1"]);
    place.git(&["branch", "other"]);
    place.file("more", "");
    commit_all(place.path());
    place.kiln(&["run"]).code(0);
}
