//! What a job may use of its machine, and what is known of that afterwards. (S23)

use serde_json::json;

use super::world::job;
use super::{Kind, World, on_both};

on_both! {
    /// S23
    fn a_job_over_its_limits_fails_says_which_and_is_not_tried_again(world) {
        let server = world.server("server");
        let _runner = world.runner(&server, "one", &["linux"]);
        let place = world.place.below("repositories/app");
        place.file(".kiln/workflows/ci.yml", "
jobs:
  memory:
    limits: { memory: 60 MB, cores: 1.5 }
  disk:
    limits: { disk: 5 MB }
");
        world.repository(&server, "app", "
on: push
jobs:
  memory:
    runs-on: linux
    steps:
      - run: python3 -c 'x = bytearray(200_000_000)'
  disk:
    runs-on: linux
    steps:
      - run: head -c 20000000 /dev/zero > large
      - run: echo never
  small:
    runs-on: linux
    environment: { name: staging, url: 'https://app.example.com/${{ github.run_number }}' }
    steps:
      - run: head -c 3000000 /dev/zero > file
");
        let run = world.trigger(&server, "app");
        let ended = world.ended(&server, run);
        let memory = job(&ended, "memory");
        assert_eq!((&memory["conclusion"], &memory["attempt"]), (&json!("failure"), &json!(1)), "{memory:#}");
        let log = world.log(&server, memory);
        assert!(log.contains("needs more memory than its limit of 60 MB"), "{log}");
        let allowed = &memory["allowed"];
        assert_eq!((&allowed["memory_mb"], &allowed["cpu_millis"]), (&json!(60), &json!(1500)), "{allowed:#}");
        assert!(allowed["wall_seconds"].as_u64().is_some_and(|limit| limit > 0));

        let disk = job(&ended, "disk");
        assert_eq!(disk["conclusion"], "failure", "{disk:#}");
        let log = world.log(&server, disk);
        assert!(log.contains("its limit is 5 MB") && !log.contains("never"), "{log}");

        let small = job(&ended, "small");
        assert_eq!(small["conclusion"], "success", "{small:#}");
        assert!(small["used"]["disk_mb"].as_u64().is_some_and(|used| (3..6).contains(&used)), "{small:#}");
        assert!(small["prepared_at"].is_string());
        assert_eq!(small["deployment"], json!({ "environment": "staging", "url": "https://app.example.com/1" }));
        let listed = world.get(&server, "/api/v3/repos/acme/app/deployments");
        assert_eq!(listed[0]["environment"], "staging", "{listed:#}");
    }
}
