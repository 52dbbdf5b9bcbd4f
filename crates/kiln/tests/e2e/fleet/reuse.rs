//! `cache-result`: jobs whose result is there already are not run again, and say so. (P13)

use super::world::{Program, Server, commit, job};
use super::{Kind, World, on_both};
use crate::Place;

const WORKFLOW: &str = "
on: push
jobs:
  test:
    runs-on: linux
    outputs: { version: \"${{ steps.it.outputs.version }}\" }
    steps:
      - uses: actions/checkout@v4
      - uses: ./tool
      - id: it
        run: |
          echo \"ran on $(cat src/a.txt)\"
          echo \"version=$(cat src/a.txt)\" >> $GITHUB_OUTPUT
  use:
    needs: test
    runs-on: linux
    steps: [{ run: \"echo used ${{ needs.test.outputs.version }}\" }]
  secret:
    runs-on: linux
    steps: [{ run: \"echo ${{ github.run_id }}\" }]
";
const COMPANION: &str = "jobs:
  test: { cache-result: { inputs: ['src/**'] } }
  use: { cache-result: true }
  secret: { cache-result: true }
";
const TOOL: &str = "name: t
description: d
runs: { using: composite, steps: [{ run: echo tooled, shell: bash }] }
";

struct Installation {
    world: World,
    server: Server,
    place: Place,
    _runner: Program,
}

impl Installation {
    fn new(world: World) -> Self {
        let server = world.server("server");
        let runner = world.runner(&server, "one", &["linux"]);
        let files = world.place.below("repositories/app");
        files.file(".kiln/workflows/ci.yml", COMPANION);
        files.file("src/a.txt", "one\n");
        files.file("tool/action.yml", TOOL);
        files.file("README.md", "first\n");
        let place = world.repository(&server, "app", WORKFLOW);
        Self { world, server, place, _runner: runner }
    }

    fn change(&self, file: &str, text: &str) {
        self.place.file(file, text);
        self.place.git(&["add", "-A"]);
        commit(&self.place);
    }

    /// Runs it; says of each of two jobs whether it was reused, and gives their logs.
    fn run(&self) -> Ran {
        let run = self.world.trigger(&self.server, "app");
        let ended = self.world.ended(&self.server, run);
        assert_eq!(ended["conclusion"], "success", "{ended:#}");
        let of = |name: &str| {
            let job = job(&ended, name);
            (!job["reused_from"].is_null(), self.world.log(&self.server, job))
        };
        let (test, user, secret) = (of("test"), of("use"), of("secret"));
        Ran { reused: (test.0, user.0), test: test.1, user: user.1, secret: secret.1 }
    }
}

struct Ran {
    reused: (bool, bool),
    test: String,
    user: String,
    secret: String,
}

on_both! {
    fn a_job_runs_again_only_when_something_changed_that_it_depends_on(world) {
        let it = Installation::new(world);
        let first = it.run();
        assert_eq!(first.reused, (false, false));
        assert!(first.test.contains("It runs: no earlier job had this fingerprint."), "{}", first.test);
        assert!(first.test.contains("ran on one") && first.user.contains("used one"));
        let never = "cannot be used again: it uses `github.run_id`, which is never the same.";
        assert!(first.secret.contains(never), "{}", first.secret);

        let same = it.run();
        assert_eq!(same.reused, (true, true), "{}\n{}", same.test, same.user);
        assert!(same.test.contains("Nothing is run: the result of job `test`"), "{}", same.test);
        assert!(!same.test.contains("ran on") && !same.user.contains("used one"));

        // Another commit, but none of the files that count for the first.
        it.change("README.md", "second\n");
        let other = it.run();
        assert_eq!(other.reused, (true, false), "{}\n{}", other.test, other.user);
        assert!(other.user.contains("used one"), "outputs come with the result: {}", other.user);

        it.change("src/a.txt", "two\n");
        let changed = it.run();
        assert_eq!(changed.reused, (false, false));
        assert!(changed.test.contains("changed since run #1: the files."), "{}", changed.test);
        assert!(changed.test.contains("ran on two") && changed.user.contains("used two"));

        // The files of an action of its own count, whatever `inputs` says.
        it.change("tool/action.yml", &TOOL.replace("tooled", "tooled anew"));
        assert_eq!(it.run().reused, (false, false));

        // Back to files that were green before.
        it.change("src/a.txt", "one\n");
        it.change("tool/action.yml", TOOL);
        assert_eq!(it.run().reused, (true, false));
    }
}

const MATRIX: &str = "
on: push
jobs:
  build:
    runs-on: linux
    strategy: { matrix: { part: [a, b] } }
    steps:
      - uses: actions/checkout@v4
      - uses: acme/tools@v1
      - run: mkdir out && cp src/${{ matrix.part }}.txt out/file
      - uses: ./client
        with:
          script: |
            await artifact.uploadArtifact('part-${{ matrix.part }}', ['out/file'], 'out');
  join:
    needs: build
    runs-on: linux
    steps:
      - uses: actions/checkout@v4
      - uses: ./client
        with:
          script: |
            const {artifacts} = await artifact.listArtifacts();
            for (const one of artifacts) await artifact.downloadArtifact(one.id, {path: one.name});
            console.log('joined ' + ['a', 'b'].map(it => fs.readFileSync(`part-${it}/file`, 'utf8').trim()).join(' '));
";
const OF_BUILD: &str = "jobs:
  build: { cache-result: { inputs: ['src/**', 'client/**'] } }
";

fn tool(word: &str) -> String {
    format!(
        "name: t\ndescription: d\nruns: {{ using: composite, steps: [{{ run: echo {word}, shell: bash }}] }}\n"
    )
}

/// An action in a mirror, under a tag that can be moved.
fn tagged(tools: &Place, word: &str) {
    tools.file("action.yml", tool(word));
    if !tools.path().join(".git").exists() {
        tools.git(&["init", "-q", "-b", "main"]);
    }
    tools.git(&["add", "-A"]);
    commit(tools);
    tools.git(&["tag", "-f", "v1"]);
}

on_both! {
    /// P13: legs of a matrix are used again one by one, with their artifacts; a tag that was moved is another action.
    fn legs_with_artifacts_are_used_again_until_an_action_moves(world) {
        let tools = world.place.below("mirror/acme/tools");
        tagged(&tools, "first");
        let mirror = world.place.path().join("mirror").to_string_lossy().into_owned();
        let server = world.server("server");
        let more = ["--actions", mirror.as_str()];
        let _runner = world.runner_with(&server, "one", &["linux"], &more);
        let files = world.place.below("repositories/app");
        files.file(".kiln/workflows/ci.yml", OF_BUILD);
        files.file("src/a.txt", "one\n");
        files.file("src/b.txt", "two\n");
        crate::gateway::write_client(&files);
        let modules = crate::gateway::modules();
        let workflow = MATRIX.replace("jobs:", &format!("env: {{MODULES: '{}'}}\njobs:", modules.display()));
        let place = world.repository(&server, "app", &workflow);
        let run = || {
            let run = world.trigger(&server, "app");
            let ended = world.ended(&server, run);
            let logs: Vec<String> = ["build (a)", "build (b)", "join"]
                .map(|name| world.log(&server, job(&ended, name)))
                .to_vec();
            assert_eq!(ended["conclusion"], "success", "{ended:#}\n{}", logs.concat());
            let reused = ["build (a)", "build (b)"].map(|name| !job(&ended, name)["reused_from"].is_null());
            (reused, logs)
        };
        let (reused, logs) = run();
        assert_eq!(reused, [false, false]);
        assert!(logs[2].contains("joined one two"), "{}", logs[2]);
        let (reused, logs) = run();
        assert_eq!(reused, [true, true], "{}", logs.concat());
        assert!(logs[0].contains("with its artifact `part-a`"), "{}", logs[0]);
        assert!(logs[2].contains("joined one two"), "artifacts come with the result: {}", logs[2]);

        // The same name, another commit.
        tagged(&tools, "second");
        let (reused, logs) = run();
        assert_eq!(reused, [false, false], "{}", logs.concat());
        for log in &logs[..2] {
            assert!(log.contains("changed since run #1: the actions."), "{log}");
            assert!(log.contains("second"), "{log}");
        }
        place.file("src/b.txt", "three\n");
        place.git(&["add", "-A"]);
        commit(&place);
        let (reused, logs) = run();
        assert_eq!(reused, [false, false]);
        assert!(logs[1].contains("changed since run #3: the files."), "{}", logs[1]);
        assert!(logs[2].contains("joined one three"), "{}", logs[2]);
    }
}
