//! Published actions on a server; see `crate::published`.

use super::{Kind, World};
use crate::published::{legs, mirror, versions};

/// R5, R8
#[test]
#[ignore = "runs published actions: needs KILN_TEST_ACTIONS"]
fn every_cache_is_found_again_on_a_server() {
    let versions = versions("actions/cache", &["v3", "v4", "v5"]);
    if versions.is_empty() {
        return;
    }
    for kind in [Kind::Sqlite, Kind::Postgres] {
        let world = World::new(kind);
        let server = world.server("server");
        let mirror = mirror();
        let _runner = world.runner_with(&server, "one", &["x"], &["--actions", &mirror]);
        let steps = "      - id: c\n        uses: actions/cache@VERSION\n        with: {path: deps, key: VERSION-1, restore-keys: VERSION-}\n      \
             - run: echo \"hit=[${{ steps.c.outputs.cache-hit }}] $(cat deps/a || true)\"\n      \
             - run: mkdir -p deps && echo VERSION > deps/a\n";
        let workflow = format!("on: [push, workflow_dispatch]\njobs:\n{}", legs(&versions, steps));
        world.repository(&server, "app", &workflow);
        for expect in ["hit=[] ", "hit=[true] "] {
            let run = world.trigger(&server, "app");
            let ended = world.ended(&server, run);
            let jobs = ended["jobs"].as_array().expect("a run has jobs");
            assert_eq!(ended["conclusion"], "success", "{ended:#}");
            assert_eq!(jobs.len(), versions.len());
            for job in jobs {
                let log = world.log(&server, job);
                assert!(log.contains(expect), "{expect} not in {log}");
            }
        }
    }
}
