//! One job runs again from one of its steps: what it does leaves marks outside of Kiln. (P10)

use std::fs;

use super::world::job;
use super::{Kind, World, on_both};

const WORKFLOW: &str = "
on: push
jobs:
  build:
    runs-on: linux
    steps:
      - uses: actions/checkout@v4
      - { id: make, run: 'echo made >> MARKS; echo v=1 >> $GITHUB_OUTPUT' }
      - uses: ./tool
      - parallel: [{ run: echo beside >> MARKS }]
      - { id: serve, background: true, run: echo served >> MARKS }
      - wait: serve
      - name: Test
        run: |
          echo \"tested ${{ steps.make.outcome }} [${{ steps.make.outputs.v }}]\" >> MARKS
          test -f FLAG
  after:
    needs: build
    runs-on: linux
    steps: [{ run: echo first >> MARKS }, { run: echo second >> MARKS }]
";
const TOOL: &str = "name: t
description: d
runs: { using: composite, steps: [{ run: echo tooled >> MARKS, shell: bash }] }
";

on_both! {
    /// P10
    fn a_job_that_begins_at_a_step_prepares_its_place_and_leaves_out_scripts(world) {
        let server = world.server("server");
        let _runner = world.runner(&server, "one", &["linux"]);
        let marks = world.place.path().join("marks");
        let flag = world.place.path().join("flag");
        let with = |text: &str| {
            text.replace("MARKS", &marks.to_string_lossy()).replace("FLAG", &flag.to_string_lossy())
        };
        world.place.below("repositories/app").file("tool/action.yml", with(TOOL));
        world.repository(&server, "app", &with(WORKFLOW));
        // What was done since the last look.
        let done = || {
            let text = fs::read_to_string(&marks).unwrap_or_default();
            let _ = fs::remove_file(&marks);
            text.lines().map(str::to_owned).collect::<Vec<String>>()
        };
        let run = world.trigger(&server, "app");
        let first = world.ended(&server, run);
        assert_eq!(first["conclusion"], "failure");
        assert_eq!(done(), ["made", "tooled", "beside", "served", "tested success [1]"]);

        fs::write(&flag, "").unwrap();
        let slug = first["slug"].as_str().unwrap();
        let wrong = world.kiln(&server, &["rerun", slug, "--from-step", "Test"]);
        assert!(wrong.code(2).err.contains("name it with `--job`"), "{wrong:#?}");
        let wrong = world.kiln(&server, &["rerun", slug, "--job", "build", "--from-step", "Deploy"]);
        assert!(wrong.code(2).err.contains("no step `Deploy`; its steps are 1 "), "{wrong:#?}");
        let again = ["rerun", slug, "--job", "build", "--from-step", "Test", "--watch"];
        world.kiln(&server, &again).code(0);
        assert_eq!(done(), ["tooled", "tested skipped []", "first", "second"]);
        let second = world.ended(&server, run);
        let build = job(&second, "build");
        let log = world.log(&server, build);
        assert_eq!(log.matches("Left out: the job begins at step 8, `Test`.").count(), 3, "{log}");
        let ends: Vec<&str> = build["steps"].as_array().unwrap().iter()
            .filter_map(|step| step["conclusion"].as_str()).collect();
        let expected = ["success", "skipped", "success", "success", "skipped", "skipped", "success", "success"];
        assert_eq!(ends[..expected.len()], expected, "{build:#}");

        // By the job itself, and then all of it.
        let slug = build["slug"].as_str().unwrap();
        world.kiln(&server, &["rerun", slug, "--from-step", "8", "--watch"]).code(0);
        assert_eq!(done(), ["tooled", "tested skipped []", "first", "second"]);
        let slug = first["slug"].as_str().unwrap();
        world.kiln(&server, &["rerun", slug, "--watch"]).code(0);
        let all = ["made", "tooled", "beside", "served", "tested success [1]", "first", "second"];
        assert_eq!(done(), all);
    }
}
