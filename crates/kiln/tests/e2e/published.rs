//! Published actions, unmodified, from the directory that `KILN_TEST_ACTIONS` names: repositories at
//! `owner/repository`. They are not ours to keep here, so these tests are ignored unless asked for;
//! `scripts/test` asks where the variable is set, and says so where it is not.

use std::env;

use crate::Place;
use crate::run::{commit_all, jobs};

pub(crate) fn mirror() -> String {
    env::var("KILN_TEST_ACTIONS")
        .expect("KILN_TEST_ACTIONS must name a directory with repositories at owner/repository")
}

/// Those of the versions that the mirror has as a whole. None if it lacks the action, which is said.
#[expect(clippy::print_stderr, reason = "what is skipped is said where the test is read")]
pub(crate) fn versions(action: &str, wanted: &[&'static str]) -> Vec<&'static str> {
    let place = Place::new();
    place.git(&["init", "-q"]);
    let found = |suffix: &str| {
        let path = format!("{}/{action}{suffix}", mirror());
        std::path::Path::new(&path).is_dir().then_some(path)
    };
    let Some(path) = found("").or_else(|| found(".git")) else {
        eprintln!("skipped: KILN_TEST_ACTIONS has no {action}");
        return Vec::new();
    };
    let refs = place.git(&["ls-remote", &path]);
    let has = |version: &&&str| {
        let names = ["refs/tags/", "refs/heads/"].map(|kind| format!("{kind}{version}"));
        refs.lines().any(|line| names.iter().any(|name| line.ends_with(name)))
    };
    let known: Vec<_> = wanted.iter().filter(has).copied().collect();
    assert!(!known.is_empty(), "{path} has none of {wanted:?}:\n{refs}");
    // A snapshot may know of a file and not have it.
    let (whole, cut): (Vec<_>, Vec<_>) =
        known.into_iter().partition(|version| is_whole(&path, version));
    for version in cut {
        eprintln!("skipped: KILN_TEST_ACTIONS has not all files of {action}@{version}");
    }
    whole
}

fn is_whole(path: &str, version: &str) -> bool {
    let archive = ["-C", path, "archive", "--format=tar", "-o", "/dev/null", version];
    let output = std::process::Command::new("git").args(archive).output();
    output.expect("there is a git").status.success()
}

/// The steps in a job for each version; `VERSION` stands for it.
pub(crate) fn legs(versions: &[&str], steps: &str) -> String {
    let leg = |version: &&str| {
        // A point is nothing for the name of a job.
        let id = version.replace('.', "-");
        format!(
            "  {id}:\n    name: {version}\n    runs-on: x\n    steps:\n{}",
            steps.replace("VERSION", version)
        )
    };
    versions.iter().map(leg).collect()
}

/// Writes a workflow with the steps in a job for each version.
fn write(place: &Place, versions: &[&str], steps: &str) {
    place.file(".github/workflows/ci.yml", jobs(&legs(versions, steps)));
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

pub(crate) const CHECKOUT: [&str; 6] = ["v2", "v3", "v4", "v5", "v6", "v7"];
pub(crate) const SETUP_NODE: [&str; 5] = ["v3", "v4", "v5", "v6", "v7"];
pub(crate) const GITHUB_SCRIPT: [&str; 3] = ["v6", "v7", "v8"];
/// What `v2` stands for changes; this one does not.
pub(crate) const RUST_CACHE: [&str; 1] = ["v2.7.8"];

/// In a repository as [`history`] has it.
pub(crate) const EVERY_CHECKOUT: &str = "      - run: rm -rf * .github\n      \
     - uses: actions/checkout@VERSION\n      \
     - run: test \"$(git rev-parse HEAD) $(git branch --show-current) $(cat a)\" = \"$GITHUB_SHA main two\"\n      \
     - run: test \"$(git rev-list --count HEAD)\" = 1 && git fetch -q --unshallow && test \"$(git rev-list --count HEAD)\" = 2\n";

pub(crate) const SCRIPT: &str = "      - id: s\n        uses: actions/github-script@VERSION\n        with:\n          script: |\n            \
     core.setOutput('who', `${context.repo.repo} ${context.eventName}`)\n            \
     core.exportVariable('MODE', 'fast')\n            core.warning('careful VERSION')\n            \
     return {answer: 42}\n      \
     - run: test '${{ fromJSON(steps.s.outputs.result).answer }} ${{ steps.s.outputs.who }}' = \"42 ${GITHUB_REPOSITORY#*/} push\" && test $MODE = fast\n      \
     - uses: actions/github-script@VERSION\n        id: bad\n        continue-on-error: true\n        with: {script: 'throw new Error(\"on purpose\")'}\n      \
     - run: test ${{ steps.bad.outcome }} = failure\n";

/// With files of [`package`] in the workspace. Paths are part of what a cache is, and the workspace of each run is
/// another: so npm has its cache in a place that stays.
pub(crate) fn setup_node(stable: &Place) -> String {
    let steps = "      - run: |\n          at=$RUNNER_TOOL_CACHE/node/20.99.0/$(node -p process.arch)\n          mkdir -p $at/bin\n          \
         ln -sf \"$(command -v node)\" $at/bin/node && ln -sf \"$(command -v npm)\" $at/bin/npm && touch $at.complete\n          \
         echo npm_config_cache=STABLE/npm-VERSION >> $GITHUB_ENV\n      \
         - id: node\n        uses: actions/setup-node@VERSION\n        with: {node-version: 20.99.0, cache: npm, check-latest: false}\n      \
         - run: test \"$(command -v node)\" = $RUNNER_TOOL_CACHE/node/20.99.0/$(node -p process.arch)/bin/node\n      \
         - run: test '${{ steps.node.outputs.cache-hit }}' = EXPECT && mkdir -p STABLE/npm-VERSION && touch STABLE/npm-VERSION/x\n";
    steps.replace("STABLE", stable.path().to_str().expect("it is text"))
}

/// The files of a package of npm.
pub(crate) fn package(place: &Place) {
    place.file("package-lock.json", "{\"name\": \"x\", \"lockfileVersion\": 3, \"packages\": {}}");
    place.file("package.json", "{\"name\": \"x\", \"version\": \"1.0.0\"}");
}

/// With a crate in a place that stays, as [`setup_node`] has one. Its clean-up is thorough, so it gets a home of its own.
pub(crate) fn rust_cache(stable: &Place) -> String {
    stable.file("Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    stable.file("Cargo.lock", "version = 3\n\n[[package]]\nname = \"x\"\nversion = \"0.1.0\"\n");
    stable.file("src/lib.rs", "");
    // The home of the job need not be the one that has the toolchain.
    let rustup = env::var("RUSTUP_HOME").or_else(|_| env::var("HOME").map(|at| at + "/.rustup"));
    let steps = "      - run: |\n          mkdir -p STABLE/cargo && echo CARGO_HOME=STABLE/cargo >> $GITHUB_ENV\n          \
         echo RUSTUP_HOME=RUSTUP >> $GITHUB_ENV\n      \
         - id: c\n        uses: Swatinem/rust-cache@VERSION\n        with: {cache-bin: false, workspaces: STABLE}\n      \
         - run: test \"[${{ steps.c.outputs.cache-hit }}]\" = '[EXPECT]' && mkdir -p STABLE/target/debug/deps && touch STABLE/target/debug/x\n";
    let steps =
        steps.replace("RUSTUP_HOME=RUSTUP", &format!("RUSTUP_HOME={}", rustup.unwrap_or_default()));
    steps.replace("STABLE", stable.path().to_str().expect("it is text"))
}

pub(crate) fn newest_checkout() -> Option<&'static str> {
    versions("actions/checkout", &CHECKOUT).last().copied()
}

/// A repository with a history: a tag, another branch, a file for each.
fn history() -> Place {
    let place = Place::new();
    make_history(&place);
    place
}

pub(crate) fn make_history(place: &Place) {
    place.file("a", "one");
    commit_all(place.path());
    place.git(&["tag", "first"]);
    place.git(&["checkout", "-q", "-b", "feature"]);
    place.file("f", "feature");
    commit_all(place.path());
    place.git(&["checkout", "-q", "main"]);
    place.file("a", "two");
}

/// P9, R1
#[test]
#[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
fn every_checkout_fetches_the_commit_of_the_run() {
    let versions = versions("actions/checkout", &CHECKOUT);
    if versions.is_empty() {
        return;
    }
    run(&history(), &versions, EVERY_CHECKOUT);
}

/// P9, R1
#[test]
#[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
fn checkout_fetches_what_its_inputs_ask_for() {
    let Some(checkout) = newest_checkout() else { return };
    run(
        &history(),
        &[checkout],
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
    let Some(checkout) = newest_checkout() else { return };
    let place = history();
    place.file("gone", "");
    let steps = "      - run: find . -type f | sort > $RUNNER_TEMP/before && cat a > $RUNNER_TEMP/a\n      \
         - uses: actions/checkout@VERSION\n      \
         - run: find . -type f -not -path './.git/*' | sort | diff - $RUNNER_TEMP/before && diff a $RUNNER_TEMP/a && test \"$(cat a)\" = dirty\n      \
         - run: test -z \"$(git status --porcelain)\"\n";
    write(&place, &[checkout], steps);
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
    let Some(checkout) = newest_checkout() else { return };
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
        &[checkout],
        "      - uses: actions/checkout@VERSION\n        with: {submodules: recursive}\n      \
         - run: test \"$(cat vendor/lib/lib)\" = library\n",
    );
}

/// P9
#[test]
#[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
fn github_script_gives_outputs_variables_and_annotations() {
    let versions = versions("actions/github-script", &GITHUB_SCRIPT);
    if versions.is_empty() {
        return;
    }
    let out = run(&Place::new(), &versions, SCRIPT);
    for version in versions {
        assert!(out.contains(&format!("careful {version}")), "{out}");
    }
}

/// P9
#[test]
#[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
fn paths_filter_sees_what_a_branch_changed() {
    let versions = versions("dorny/paths-filter", &["v2", "v3", "v4"]);
    let (false, Some(checkout)) = (versions.is_empty(), newest_checkout()) else { return };
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

/// R5, R8
#[test]
#[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
fn every_cache_is_saved_at_the_end_of_a_job_and_found_in_the_next_run() {
    let versions = versions("actions/cache", &["v3", "v4", "v5"]);
    if versions.is_empty() {
        return;
    }
    let place = Place::new();
    let steps = "      - id: c\n        uses: actions/cache@VERSION\n        with: {path: deps, key: VERSION-KEY, restore-keys: VERSION-}\n      \
         - run: test \"[${{ steps.c.outputs.cache-hit }}] $(cat deps/a || true)\" = 'EXPECT'\n      \
         - run: mkdir -p deps && echo VERSION > deps/a\n";
    let check = |key: &str, expect: &str| {
        run(&place, &versions, &steps.replace("KEY", key).replace("EXPECT", expect));
    };
    check("1", "[] ");
    check("1", "[true] VERSION");
    check("2", "[false] VERSION");
    check("2", "[true] VERSION");
}

/// R5
#[test]
#[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
fn every_artifact_is_uploaded_replaced_and_downloaded() {
    let up = versions("actions/upload-artifact", &["v4", "v5", "v6", "v7"]);
    let down = versions("actions/download-artifact", &["v4", "v5", "v6", "v7", "v8"]);
    let (false, Some(down)) = (up.is_empty(), down.last()) else {
        panic!(
            "KILN_TEST_ACTIONS has no actions/upload-artifact or no actions/download-artifact with its `dist`"
        );
    };
    let place = Place::new();
    let steps = "      - run: mkdir -p out/sub && echo VERSION > out/a && echo two > out/sub/b\n      \
         - id: up\n        uses: actions/upload-artifact@VERSION\n        with: {name: of-VERSION, path: out, retention-days: 1}\n      \
         - run: test -n '${{ steps.up.outputs.artifact-id }}' && test -n '${{ steps.up.outputs.artifact-digest }}' && echo three > out/c\n      \
         - uses: actions/upload-artifact@VERSION\n        with: {name: of-VERSION, path: out, overwrite: true}\n      \
         - uses: actions/upload-artifact@VERSION\n        with: {name: nothing, path: nowhere, if-no-files-found: ignore}\n      \
         - uses: actions/download-artifact@DOWN\n        with: {name: of-VERSION, path: back}\n      \
         - run: test \"$(cat back/a back/sub/b back/c | tr '\\n' ' ')\" = 'VERSION two three '\n      \
         - uses: actions/download-artifact@DOWN\n        with: {pattern: of-VERSION*, path: all}\n      \
         - run: test \"$(cat all/a all/of-VERSION/a 2>/dev/null)\" = VERSION\n";
    run(&place, &up, &steps.replace("DOWN", down));
}

/// R8: a seeded tool cache is all that it needs offline.
#[test]
#[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
fn setup_node_finds_a_seeded_tool_and_caches_for_npm() {
    let versions = versions("actions/setup-node", &SETUP_NODE);
    if versions.is_empty() {
        return;
    }
    let (place, stable) = (Place::new(), Place::new());
    package(&place);
    let steps = setup_node(&stable);
    let first = run(&place, &versions, &steps.replace("EXPECT", "false"));
    assert!(first.contains("Cache saved with the key"), "{first}");
    run(&place, &versions, &steps.replace("EXPECT", "true"));
}

/// R8
#[test]
#[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
fn rust_cache_finds_in_the_next_run_what_it_saved() {
    let versions = versions("Swatinem/rust-cache", &RUST_CACHE);
    if versions.is_empty() {
        return;
    }
    let (place, stable) = (Place::new(), Place::new());
    place.file("a", "");
    let steps = rust_cache(&stable);
    run(&place, &versions, &steps.replace("EXPECT", "false"));
    run(&place, &versions, &steps.replace("EXPECT", "true"));
}
