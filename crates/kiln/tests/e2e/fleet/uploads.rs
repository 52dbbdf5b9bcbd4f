//! Runners and servers that are killed while bytes are on their way: they are sent anew, and nothing is ever had
//! that is not whole.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::world::{Server, job};
use super::{Kind, World, on_both};
use crate::gateway;

/// How many megabytes are saved: enough to be met on their way. `KILN_TEST_LARGE` makes it a gigabyte.
fn megabytes() -> u32 {
    if std::env::var_os("KILN_TEST_LARGE").is_some() { 1024 } else { 96 }
}

/// A job that saves a cache, and one that finds exactly that.
fn begin(world: &World, server: &Server) -> i64 {
    let place = world.place.path().display();
    let workflow = format!(
        "
on: push
jobs:
  a:
    runs-on: linux
    outputs: {{sum: '${{{{ steps.make.outputs.sum }}}}'}}
    steps:
      - id: make
        run: |
          test -f {place}/large || head -c {count}M /dev/urandom > {place}/large
          mkdir deps && cp {place}/large deps/large
          echo sum=$(sha256sum < deps/large | cut -d' ' -f1) >> $GITHUB_OUTPUT
          echo begun >> {place}/begun
      - uses: actions/cache/save@v4
        with: {{path: deps, key: large}}
  b:
    needs: a
    runs-on: linux
    steps:
      - uses: actions/cache/restore@v4
        with: {{path: deps, key: large, fail-on-cache-miss: true}}
      - run: test $(sha256sum < deps/large | cut -d' ' -f1) = ${{{{ needs.a.outputs.sum }}}}
",
        count = megabytes()
    );
    world.repository(server, "app", &workflow);
    let run = world.trigger(server, "app");
    world.file(server, "begun");
    // Some of it has arrived, and not all of it.
    world.until(server, "packs arrive", |world| {
        let kept = world.get(server, "/api/storage")["kept"]["stored"].as_u64().unwrap_or(0);
        (kept >= 8 << 20).then_some(())
    });
    run
}

/// The caches that can be found.
fn caches(world: &World, server: &Server) -> Vec<Value> {
    let found = world.get(server, "/repos/acme/app/actions/caches");
    found["actions_caches"].as_array().expect("it is a list").clone()
}

fn check_end(world: &World, server: &Server, run: i64) -> Value {
    let ended = world.ended(server, run);
    let logs = || ["a", "b"].map(|name| world.log(server, job(&ended, name))).concat();
    assert_eq!(ended["conclusion"], "success", "{ended:#}\n{}", logs());
    let found = caches(world, server);
    assert_eq!(found.len(), 1, "{found:#?}");
    ended
}

/// A job that uploads an artifact with GitHub's own client, which sends it in blocks, and one that has it. Returns
/// the run and the SHA-256 of the bytes.
fn begin_artifact(world: &World, server: &Server) -> (i64, String) {
    let place = world.place.path().display();
    let make = gateway::command(&format!(
        "test -f {place}/large || head -c {}M /dev/urandom > {place}/large
        mkdir out && cp {place}/large out/large
        sha256sum < out/large | cut -d' ' -f1 > {place}/sum",
        megabytes().max(192)
    ));
    let send = gateway::script(
        "const up = await artifact.uploadArtifact('large', ['out/large'], 'out', {skipArchive: true});
        assert.equal(up.digest, sha256('out/large'));",
    );
    let check = gateway::script(&format!(
        "const {{artifacts}} = await artifact.listArtifacts();
        assert.deepEqual(artifacts.map(it => it.name), ['large']);
        await artifact.downloadArtifact(artifacts[0].id, {{path: 'in', expectedHash: artifacts[0].digest}});
        assert.equal(sha256('in/large'), fs.readFileSync('{place}/sum', 'utf8').trim());"
    ));
    let jobs =
        [gateway::job("a", "", &[make, send]), gateway::job("b", "    needs: a\n", &[check])];
    let app = world.place.below("repositories/app");
    gateway::write(&app, &jobs);
    let workflow = fs::read_to_string(app.path().join(".github/workflows/ci.yml"));
    world.repository(server, "app", &workflow.expect("it was just written"));
    let run = world.trigger(server, "app");
    let sum = world.file(server, "sum").trim().to_owned();
    let data = world.place.path().join(&server.name);
    world.until(server, "bytes arrive", |_| (bytes_below(&data) >= 8 << 20).then_some(()));
    (run, sum)
}

/// How many bytes lie below a folder, in files that may come and go.
fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => bytes_below(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

/// Whoever asks while bytes are on their way finds nothing of them: not in lists, not by a name or number that was
/// reserved, not by their SHA-256.
fn check_unreadable(world: &World, server: &Server, run: i64, sum: &str) {
    for list in [
        format!("/api/runs/{run}/artifacts"),
        format!("/repos/acme/app/actions/runs/{run}/artifacts"),
        "/repos/acme/app/actions/artifacts?name=large".to_owned(),
    ] {
        let found = world.get(server, &list);
        assert_eq!(found["artifacts"].as_array().map(Vec::len), Some(0), "{list}: {found}");
    }
    // The one that is reserved is the first of all.
    for path in [
        "/repos/acme/app/actions/artifacts/1".to_owned(),
        "/repos/acme/app/actions/artifacts/1/zip".to_owned(),
        "/api/artifacts/1".to_owned(),
        format!("/api/blobs/{sum}?owner=acme"),
        format!("/api/blobs/{sum}/link?owner=acme"),
    ] {
        let (status, body) = world.send(server, "GET", &path, None);
        assert_eq!(status, 404, "{path}: {body}");
    }
}

on_both! {
    /// C7 C11 R5
    fn a_server_killed_while_an_artifact_is_sent_shows_nothing_before_it_has_all(world) {
        let server = world.server("server");
        let runner = world.runner(&server, "one", &["linux"]);
        let (run, sum) = begin_artifact(&world, &server);
        check_unreadable(&world, &server, run, &sum);
        let listen = server.listen();
        server.program.kill();
        // So that it does not send it again while we look.
        runner.freeze();
        let server = world.server_at("server", &listen);
        check_unreadable(&world, &server, run, &sum);
        runner.thaw();
        let ended = world.ended(&server, run);
        let logs = || ["a", "b"].map(|name| world.log(&server, job(&ended, name))).concat();
        assert_eq!(ended["conclusion"], "success", "{ended:#}\n{}", logs());
        assert_eq!(job(&ended, "a")["attempt"], 1, "the runner went on");
        let found = world.get(&server, &format!("/api/runs/{run}/artifacts"));
        let found = found["artifacts"].as_array().expect("it is a list");
        assert_eq!((found.len(), &found[0]["hash"]), (1, &Value::String(sum)));
    }

    /// C7 C11
    fn a_runner_killed_while_it_saves_a_cache_begins_anew(world) {
        let server = world.server("server");
        let runner = world.runner(&server, "one", &["linux"]);
        let run = begin(&world, &server);
        runner.kill();
        let _again = world.runner_again(&server, "one");
        check_end(&world, &server, run);
    }

    /// C7 C11
    fn a_server_killed_while_a_cache_is_saved_has_all_of_it_in_the_end(world) {
        let server = world.server("server");
        let _runner = world.runner(&server, "one", &["linux"]);
        let run = begin(&world, &server);
        let listen = server.listen();
        server.program.kill();
        let server = world.server_at("server", &listen);
        let ended = check_end(&world, &server, run);
        assert_eq!(job(&ended, "a")["attempt"], 1, "the runner went on");
    }
}
