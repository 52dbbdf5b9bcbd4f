//! Published actions on a server; see `crate::published`.

use super::{Kind, World, on_both};
use crate::Place;
use crate::published::{self, legs, mirror, newest_checkout, versions};
use crate::run::commit_all;

/// Runs the steps with each version in a repository of its own, once for each expectation, which `EXPECT` stands for.
/// `prepare` makes what the repository holds besides the workflow.
fn check(
    world: &World,
    versions: &[&'static str],
    steps: &str,
    expects: &[&str],
    prepare: impl Fn(&Place),
) {
    let server = world.server("server");
    let mirror = mirror();
    let _runner = world.runner_with(&server, "one", &["x"], &["--actions", &mirror]);
    for version in versions {
        let name = format!("app-{}", version.replace('.', "-"));
        let app = world.place.below(&format!("repositories/{name}"));
        prepare(&app);
        let workflow = |expect: &str| {
            let jobs = legs(&[version], &steps.replace("EXPECT", expect));
            format!("on: [push, workflow_dispatch]\njobs:\n{jobs}")
        };
        world.repository(&server, &name, &workflow(expects[0]));
        for (turn, expect) in expects.iter().enumerate() {
            if turn > 0 {
                app.file(".github/workflows/ci.yml", workflow(expect));
                commit_all(app.path());
            }
            let ended = world.ended(&server, world.trigger(&server, &name));
            let log = world.log(&server, &ended["jobs"][0]);
            assert_eq!(ended["conclusion"], "success", "{version}, {expect}: {log}");
        }
    }
}

/// The steps after a checkout, as workflows have it.
fn checked_out(steps: &str) -> Option<String> {
    let checkout = newest_checkout()?;
    Some(format!("      - uses: actions/checkout@{checkout}\n{steps}"))
}

on_both! {
    /// P9, R1
    #[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
    fn every_checkout_fetches_the_commit_of_the_run(world) {
        let versions = versions("actions/checkout", &published::CHECKOUT);
        check(&world, &versions, published::EVERY_CHECKOUT, &[""], published::make_history);
    }

    /// P9
    #[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
    fn github_script_gives_outputs_variables_and_annotations(world) {
        let versions = versions("actions/github-script", &published::GITHUB_SCRIPT);
        // The token of the job opens the interface of the server.
        let asks = "      - uses: actions/github-script@VERSION\n        with:\n          script: |\n            \
             const {data} = await github.rest.actions.listJobsForWorkflowRun({...context.repo, run_id: context.runId})\n            \
             if (data.jobs.length !== 1) throw new Error(JSON.stringify(data))\n";
        let steps = format!("{}{asks}", published::SCRIPT);
        check(&world, &versions, &steps, &[""], |_| {});
    }

    /// R5, R8
    #[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
    fn every_cache_is_found_again(world) {
        let versions = versions("actions/cache", &["v3", "v4", "v5"]);
        let steps = "      - id: c\n        uses: actions/cache@VERSION\n        with: {path: deps, key: VERSION-1, restore-keys: VERSION-}\n      \
             - run: test \"[${{ steps.c.outputs.cache-hit }}] $(cat deps/a || true)\" = 'EXPECT'\n      \
             - run: mkdir -p deps && echo VERSION > deps/a\n";
        check(&world, &versions, steps, &["[] ", "[true] VERSION"], |_| {});
    }

    /// R8
    #[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
    fn setup_node_finds_a_seeded_tool_and_caches_for_npm(world) {
        let versions = versions("actions/setup-node", &published::SETUP_NODE);
        let stable = Place::new();
        let Some(steps) = checked_out(&published::setup_node(&stable)) else { return };
        check(&world, &versions, &steps, &["false", "true"], published::package);
    }

    /// R8
    #[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
    fn rust_cache_finds_in_the_next_run_what_it_saved(world) {
        let versions = versions("Swatinem/rust-cache", &published::RUST_CACHE);
        let stable = Place::new();
        check(&world, &versions, &published::rust_cache(&stable), &["false", "true"], |_| {});
    }
}
