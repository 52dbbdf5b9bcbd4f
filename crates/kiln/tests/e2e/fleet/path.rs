//! From a trigger to the last line of a log.

use serde_json::json;

use super::world::{commit, job};
use super::{Kind, World, on_both};

const PIPELINE: &str = r#"
on: [push, workflow_dispatch]
jobs:
  pick:
    runs-on: linux
    outputs:
      flavours: ${{ steps.choose.outputs.flavours }}
    steps:
      - id: choose
        run: echo 'flavours=["sweet","salty"]' >> "$GITHUB_OUTPUT"
  bake:
    needs: pick
    runs-on: linux
    strategy:
      matrix:
        flavour: ${{ fromJSON(needs.pick.outputs.flavours) }}
    outputs:
      last: ${{ steps.bake.outputs.last }}
    steps:
      - uses: actions/checkout@v4
      - id: bake
        run: |
          test -f .github/workflows/ci.yml
          echo "baking ${{ matrix.flavour }} for $GITHUB_REPOSITORY"
          echo "last=${{ matrix.flavour }}" >> "$GITHUB_OUTPUT"
  serve:
    needs: bake
    runs-on: linux
    steps:
      - run: test -n "${{ needs.bake.outputs.last }}"
"#;

on_both! {
    /// S1 S2 P7 P9
    fn a_trigger_becomes_jobs_with_outputs_a_matrix_and_logs(world) {
        let server = world.server("server");
        let _runner = world.runner(&server, "one", &["linux"]);
        world.repository(&server, "app", PIPELINE);
        let run = world.trigger(&server, "app");
        let ended = world.ended(&server, run);
        assert_eq!(ended["conclusion"], "success", "{ended:#}");
        let names: Vec<_> = ended["jobs"].as_array().unwrap().iter().map(|job| &job["name"]).collect();
        assert_eq!(names.len(), 4, "{names:?}");
        let sweet = world.log(&server, job(&ended, "bake (sweet)"));
        assert!(sweet.contains("baking sweet for acme/app"), "{sweet}");
        assert!(!sweet.contains("salty"), "{sweet}");
        let steps = job(&ended, "bake (salty)")["steps"].as_array().unwrap().clone();
        assert!(steps.iter().all(|step| step["conclusion"] == "success"), "{steps:?}");
        assert!(steps.len() >= 2, "{steps:?}");
    }

    /// S2 S10 S16
    fn each_job_goes_to_the_runner_that_has_its_labels(world) {
        let server = world.server("server");
        let _plain = world.runner(&server, "plain", &["linux"]);
        world.repository(&server, "app", "
on: push
jobs:
  small:
    runs-on: linux
    steps: [{ run: 'true' }]
  big:
    runs-on: [linux, big]
    steps: [{ run: 'true' }]
");
        let run = world.trigger(&server, "app");
        let waits = world.until(&server, "the one waits for a runner and the other is done", |world| {
            let run = world.run(&server, run);
            let done = job(&run, "small")["status"] == "completed";
            (done && job(&run, "big")["status"] == "queued").then_some(run)
        });
        let reason = job(&waits, "big")["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains("big"), "it must name what is missing: {reason}");
        let queue = world.get(&server, "/api/queue");
        let waiting = &queue["items"][0];
        assert_eq!((&waiting["position"], &waiting["name"]), (&json!(1), &json!("big")), "{queue:#}");
        let _big = world.runner(&server, "big", &["linux", "big"]);
        let ended = world.ended(&server, run);
        assert_eq!(ended["conclusion"], "success");
        assert_eq!((&job(&ended, "small")["runner"], &job(&ended, "big")["runner"]), (&json!("plain"), &json!("big")));
    }

    /// P10
    fn what_failed_is_run_again_as_a_further_attempt(world) {
        let server = world.server("server");
        let _runner = world.runner(&server, "one", &["linux"]);
        let flag = world.place.path().join("flag");
        let workflow = format!("
on: push
jobs:
  good:
    runs-on: linux
    steps: [{{ run: 'true' }}]
  bad:
    runs-on: linux
    steps: [{{ run: 'test -f {}' }}]
  after:
    needs: [good, bad]
    runs-on: linux
    steps: [{{ run: 'true' }}]
", flag.display());
        world.repository(&server, "app", &workflow);
        let run = world.trigger(&server, "app");
        let first = world.ended(&server, run);
        assert_eq!(first["conclusion"], "failure");
        assert_eq!(job(&first, "after")["conclusion"], "skipped");
        std::fs::write(&flag, "").unwrap();
        let (status, answer) =
            world.post(&server, &format!("/api/runs/{run}/rerun"), &json!({ "failed": true }));
        assert_eq!(status, 201, "{answer}");
        assert_eq!(answer["attempt"], 2);
        let second = world.ended(&server, run);
        assert_eq!((&second["conclusion"], &second["attempt"]), (&json!("success"), &json!(2)), "{second:#}");
        assert_eq!(job(&second, "good")["run_attempt"], 1, "it succeeded before");
        let earlier = world.get(&server, &format!("/api/runs/{run}?attempt=1"));
        assert_eq!(earlier["conclusion"], "failure", "attempts are kept");
    }

    /// P19
    fn a_broken_workflow_is_a_visible_failed_run(world) {
        let server = world.server("server");
        world.repository(&server, "app", "on: push\njobs:\n  a:\n    runs-on: linux\n    steps: [{ rum: 'true' }]\n");
        let run = world.trigger(&server, "app");
        let ended = world.ended(&server, run);
        assert_eq!(ended["conclusion"], "startup_failure");
        let note = ended["note"].as_str().unwrap();
        assert!(note.contains("rum") && note.contains("ci.yml"), "{note}");
    }

    /// A step can read its repository, and has nothing with which it could speak for its job.
    fn steps_see_a_token_of_their_own(world) {
        let server = world.server("server");
        let _runner = world.runner(&server, "one", &["linux"]);
        world.repository(&server, "app", "
on: push
jobs:
  a:
    runs-on: linux
    steps:
      - env:
          TOKEN: ${{ github.token }}
          URL: ${{ github.server_url }}
        run: |
          case $TOKEN in kgt_*) ;; *) echo other; exit 1 ;; esac
          if env | grep -q kjt_; then echo leaked; exit 1; fi
          git clone -q \"http://x-access-token:$TOKEN@${URL#http://}/$GITHUB_REPOSITORY.git\" copy
          test -f copy/.github/workflows/ci.yml
      - run: exit 7
        continue-on-error: true
");
        let run = world.trigger(&server, "app");
        let ended = world.ended(&server, run);
        let job = job(&ended, "a");
        assert_eq!(ended["conclusion"], "success", "{}", world.log(&server, job));
        let codes: Vec<_> = job["steps"].as_array().unwrap().iter().map(|step| &step["exit_code"]).collect();
        assert!(codes.contains(&&json!(0)) && codes.contains(&&json!(7)), "{job:#}");
        assert!(job["used"]["cpu_ms"].as_u64().unwrap() > 0, "{job:#}");
    }

    /// P12 S22
    fn the_same_trigger_twice_makes_one_run(world) {
        let server = world.server("server");
        let place = world.repository(&server, "app", "on: push\njobs:\n  a:\n    runs-on: linux\n    steps: [{ run: 'true' }]\n");
        // Without a key of its own, which makes each trigger another one.
        let trigger = || {
            let (status, made) = world.post(&server, "/api/repos/acme/app/trigger", &json!({}));
            assert!([200, 201].contains(&status), "{status} {made}");
            made["runs"][0]["id"].as_i64().expect("a run has an id")
        };
        let first = trigger();
        assert_eq!(trigger(), first, "the same commit and ref within five minutes");
        commit(&place);
        assert_ne!(trigger(), first);
    }
}
