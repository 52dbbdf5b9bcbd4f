//! Published actions, unmodified, from the directory that `KILN_TEST_ACTIONS` names: repositories at
//! `owner/repository`. They are not ours to keep here, so these tests are ignored unless asked for;
//! `scripts/test` asks where the variable is set, and says so where it is not.

use std::env;

use crate::Place;
use crate::run::{commit_all, jobs};

fn mirror() -> String {
    env::var("KILN_TEST_ACTIONS")
        .expect("KILN_TEST_ACTIONS must name a directory with repositories at owner/repository")
}

/// Those of the versions that the mirror has; there must be one.
fn versions(action: &str, wanted: &[&'static str]) -> Vec<&'static str> {
    let place = Place::new();
    place.git(&["init", "-q"]);
    let found = |suffix: &str| {
        let path = format!("{}/{action}{suffix}", mirror());
        std::path::Path::new(&path).is_dir().then_some(path)
    };
    let path = found("").or_else(|| found(".git"));
    let path = path.unwrap_or_else(|| panic!("KILN_TEST_ACTIONS has no {action}"));
    let refs = place.git(&["ls-remote", &path]);
    let has = |version: &&&str| {
        let names = ["refs/tags/", "refs/heads/"].map(|kind| format!("{kind}{version}"));
        refs.lines().any(|line| names.iter().any(|name| line.ends_with(name)))
    };
    let versions: Vec<_> = wanted.iter().filter(has).copied().collect();
    assert!(!versions.is_empty(), "{path} has none of {wanted:?}:\n{refs}");
    versions
}

/// Writes a workflow with the steps in a job for each version; `VERSION` stands for it.
fn write(place: &Place, versions: &[&str], steps: &str) {
    let legs = versions.iter().map(|version| {
        format!("  {version}:\n    runs-on: x\n    steps:\n{}", steps.replace("VERSION", version))
    });
    place.file(".github/workflows/ci.yml", jobs(&legs.collect::<String>()));
}

fn run(place: &Place, versions: &[&str], steps: &str) -> String {
    write(place, versions, steps);
    commit_all(place.path());
    let mirror = mirror();
    let answer = place.kiln(&["run", "--actions", &mirror]);
    let out = answer.code(0).out.clone();
    for version in versions {
        assert!(out.contains(&format!("{version}  succeeded")), "{out}");
    }
    out
}

const CHECKOUT: [&str; 6] = ["v2", "v3", "v4", "v5", "v6", "v7"];

fn newest_checkout() -> &'static str {
    versions("actions/checkout", &CHECKOUT).last().expect("there is one")
}

/// A repository with a history: a tag, another branch, a file for each.
fn history() -> Place {
    let place = Place::new();
    place.file("a", "one");
    commit_all(place.path());
    place.git(&["tag", "first"]);
    place.git(&["checkout", "-q", "-b", "feature"]);
    place.file("f", "feature");
    commit_all(place.path());
    place.git(&["checkout", "-q", "main"]);
    place.file("a", "two");
    place
}

/// P9, R1
#[test]
#[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
fn every_checkout_fetches_the_commit_of_the_run() {
    let versions = versions("actions/checkout", &CHECKOUT);
    run(
        &history(),
        &versions,
        "      - run: rm -rf * .github\n      \
         - uses: actions/checkout@VERSION\n      \
         - run: test \"$(git rev-parse HEAD) $(git branch --show-current) $(cat a)\" = \"$GITHUB_SHA main two\"\n      \
         - run: test \"$(git rev-list --count HEAD)\" = 1 && git fetch -q --unshallow && test \"$(git rev-list --count HEAD)\" = 2\n",
    );
}

/// P9, R1
#[test]
#[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
fn checkout_fetches_what_its_inputs_ask_for() {
    run(
        &history(),
        &[newest_checkout()],
        "      - uses: actions/checkout@VERSION\n        with: {ref: feature, path: other}\n      \
         - run: test \"$(cat other/f)\" = feature\n      \
         - uses: actions/checkout@VERSION\n        with: {ref: first, path: old, persist-credentials: false}\n      \
         - run: test \"$(cat old/a)\" = one && ! git -C old fetch\n      \
         - uses: actions/checkout@VERSION\n        with: {fetch-depth: 0, path: all}\n      \
         - run: cd all && test \"$(git rev-list --count HEAD) $(git tag) $(git rev-parse origin/feature^)\" = \"2 first $(git rev-parse first)\"\n",
    );
}

/// P9
#[test]
#[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
fn checkout_leaves_what_the_workspace_of_a_dirty_run_held() {
    let place = history();
    place.file("gone", "");
    let steps = "      - run: find . -type f | sort > $RUNNER_TEMP/before && cat a > $RUNNER_TEMP/a\n      \
         - uses: actions/checkout@VERSION\n      \
         - run: find . -type f -not -path './.git/*' | sort | diff - $RUNNER_TEMP/before && diff a $RUNNER_TEMP/a && test \"$(cat a)\" = dirty\n      \
         - run: test -z \"$(git status --porcelain)\"\n";
    write(&place, &[newest_checkout()], steps);
    commit_all(place.path());
    place.file("a", "dirty").file("new", "new");
    std::fs::remove_file(place.path().join("gone")).expect("it is ours");
    let mirror = mirror();
    place.kiln(&["run", "--dirty", "--actions", &mirror]).code(0);
}

/// P9
#[test]
#[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
fn checkout_takes_submodules_from_where_the_user_has_them() {
    let library = Place::new();
    library.file("lib", "library");
    commit_all(library.path());
    let place = history();
    let from = library.path().to_str().expect("it is text").to_owned();
    let add = ["-c", "protocol.file.allow=always", "submodule", "add", "-q", "--name", "lib"];
    place.git(&[&add[..], &[&from, "vendor/lib"]].concat());
    place.git(&["config", "-f", ".gitmodules", "submodule.lib.url", "../lib.git"]);
    run(
        &place,
        &[newest_checkout()],
        "      - uses: actions/checkout@VERSION\n        with: {submodules: recursive}\n      \
         - run: test \"$(cat vendor/lib/lib)\" = library\n",
    );
}

/// P9
#[test]
#[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
fn github_script_gives_outputs_variables_and_annotations() {
    let versions = versions("actions/github-script", &["v6", "v7", "v8"]);
    let place = Place::new();
    let out = run(
        &place,
        &versions,
        "      - id: s\n        uses: actions/github-script@VERSION\n        with:\n          script: |\n            \
         core.setOutput('who', `${context.repo.repo} ${context.eventName}`)\n            \
         core.exportVariable('MODE', 'fast')\n            core.warning('careful VERSION')\n            \
         return {answer: 42}\n      \
         - run: test '${{ fromJSON(steps.s.outputs.result).answer }} ${{ steps.s.outputs.who }}' = \"42 ${GITHUB_REPOSITORY#*/} push\" && test $MODE = fast\n      \
         - uses: actions/github-script@VERSION\n        id: bad\n        continue-on-error: true\n        with: {script: 'throw new Error(\"on purpose\")'}\n      \
         - run: test ${{ steps.bad.outcome }} = failure\n",
    );
    for version in versions {
        assert!(out.contains(&format!("careful {version}")), "{out}");
    }
}

/// P9
#[test]
#[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
fn paths_filter_sees_what_a_branch_changed() {
    let versions = versions("dorny/paths-filter", &["v2", "v3", "v4"]);
    let checkout = newest_checkout();
    let place = Place::new();
    place.file("src/a", "1").file("docs/a", "1");
    commit_all(place.path());
    place.git(&["checkout", "-q", "-b", "topic"]);
    place.file("src/a", "2");
    let steps = "      - uses: actions/checkout@CHECKOUT\n      \
         - id: f\n        uses: dorny/paths-filter@VERSION\n        with:\n          base: main\n          filters: |\n            src: ['src/**']\n            docs: ['docs/**']\n      \
         - run: test '${{ steps.f.outputs.src }} ${{ steps.f.outputs.docs }}' = 'true false'\n";
    run(&place, &versions, &steps.replace("CHECKOUT", checkout));
}
