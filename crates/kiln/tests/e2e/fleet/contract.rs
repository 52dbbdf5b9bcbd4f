//! schemathesis asks a server all that its OpenAPI document allows, and much that it does not.
//!
//! It is a Python package that `scripts/test` installs. Its versions, seed and number of cases are fixed, so
//! that it asks the same each time.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::world::Server;
use super::{Kind, World, on_both};

/// Whatever is asked, no answer is the server's own fault, and every answer is one that the document has.
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_schema_conformance";

/// It takes half a minute on two cores that do nothing else.
const SECONDS: &str = "170";

const WORKFLOW: &str = "
on: [push, workflow_dispatch]
jobs:
  a:
    runs-on: linux
    steps: [{ run: 'true' }]
";

/// What is asked about: most questions name something that is there.
const SETTINGS: &str = r#"
seed = 7
continue-on-failure = true
# Nothing here is a long poll: runners do not wait, and the job whose log is followed is over.
request-timeout = 20.0
hooks = "{hooks}"
warnings = false
headers = { Authorization = "Bearer {token}" }

[generation]
max-examples = 5
database = "none"

[phases]
examples.enabled = false
stateful.enabled = false

[dictionaries]
owner = { values = ["acme"] }
repo = { values = ["app"] }
git = { values = ["app.git"] }
run = { values = ["{open_run}"] }
job = { values = ["{ended_job}"] }
workflow = { values = ["ci.yml", "1"] }
one = { values = [1] }
zero = { values = [0] }
runner = { values = [{runner}] }
claimed = { values = [{claimed_job}] }

[parameters]
"path.owner" = { dictionary = "owner", probability = 0.7 }
"path.repo" = { dictionary = "repo", probability = 0.7 }
"path.run" = { dictionary = "run", probability = 0.7 }
"path.run_id" = { dictionary = "run", probability = 0.7 }
"path.job" = { dictionary = "job", probability = 0.7 }
"path.job_id" = { dictionary = "job", probability = 0.7 }
"path.workflow_id" = { dictionary = "workflow", probability = 0.7 }
"path.attempt_number" = { dictionary = "one", probability = 0.7 }
"path.id" = { dictionary = "one", probability = 0.7 }

[[operations]]
include-tag = "git"
parameters = { "path.repo" = { dictionary = "git", probability = 0.7 } }

[[operations]]
include-path-regex = "^/actions/runners/"
headers = { Authorization = "Bearer {runner_token}" }
parameters = { "path.id" = { dictionary = "runner", probability = 0.7 }, "body.wait" = { dictionary = "zero", probability = 1.0 } }

[[operations]]
include-path-regex = "^/actions/jobs/"
headers = { Authorization = "Bearer {job_token}" }
parameters = { "path.id" = { dictionary = "claimed", probability = 0.7 }, "path.attempt" = { dictionary = "one", probability = 0.7 } }

# It would revoke the token with which everything is asked.
[[operations]]
include-operation-id = "delete_api_tokens_id"
enabled = false
"#;

on_both! {
    /// S20
    fn no_question_of_schemathesis_breaks_a_server(world) {
        let server = world.server_with("server", &["--set", "limits.failed_logins=0"]);
        world.repository(&server, "app", WORKFLOW);
        let known = known(&world, &server);
        let settings = world.place.path().join("schemathesis.toml");
        std::fs::write(&settings, filled(SETTINGS, &known)).unwrap();
        let output = Command::new("timeout")
            .args(["--kill-after=1", SECONDS])
            .arg(schemathesis())
            .arg("--config-file")
            .arg(&settings)
            .args(["run", "--no-color", "--workers", "2", "--checks", CHECKS])
            .arg(format!("{}/api/openapi.json", server.address))
            .current_dir(world.place.path())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("NO_PROXY", "*")
            .output()
            .expect("`timeout` is part of every Linux");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{}: {text}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
        // One operation is left out, and it does not ask for the document again that it has.
        let all = operations(&world, &server);
        assert!(text.contains(&format!("Tested: {}", all - 2)), "{all} operations\n{text}");
        let status = world.get(&server, "/ready")["status"].clone();
        assert_eq!(status, "ok", "it works on");
    }
}

/// What there is, by the names it has in the settings.
fn known(world: &World, server: &Server) -> Vec<(&'static str, String)> {
    let (runner, runner_token) = register(world, server);
    let ended = claim(world, server, runner, &runner_token, "ended");
    let path = format!("/actions/jobs/{}/attempts/1/complete", ended["job_id"]);
    let token = text(&ended["token"]);
    let said = json!({ "conclusion": "success" });
    assert_eq!(world.send_as(server, &token, "POST", &path, Some(&said)).0, 200);
    let open = claim(world, server, runner, &runner_token, "open");
    vec![
        ("hooks", hooks().to_string_lossy().into_owned()),
        ("token", server.token().to_owned()),
        ("open_run", open["run_id"].to_string()),
        ("ended_job", ended["job_id"].to_string()),
        ("runner", runner.to_string()),
        ("runner_token", runner_token),
        ("claimed_job", open["job_id"].to_string()),
        ("job_token", text(&open["token"])),
    ]
}

/// A runner that takes jobs and does nothing with them.
fn register(world: &World, server: &Server) -> (i64, String) {
    let asked = json!({
        "key": world.key(server),
        "name": "patient",
        "version": "1.0",
        "protocol": 1,
        // The base point of the curve is as good a key as any: nobody opens these secrets.
        "public_key": "CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "capabilities": { "labels": ["linux"], "systems": ["x86_64-linux"], "os": "linux", "architecture": "x64", "cores": 4, "memory_mb": 8_000, "disk_mb": 50_000, "max_parallel": 9 },
    });
    let (status, made) = world.post(server, "/api/runners/register", &asked);
    assert_eq!(status, 200, "{made}");
    (made["id"].as_i64().expect("an id is a number"), text(&made["access_token"]))
}

/// The job of a new run.
fn claim(world: &World, server: &Server, runner: i64, token: &str, key: &str) -> Value {
    let event = json!({ "workflow": "ci.yml" });
    let (status, made) = world.post(server, "/api/repos/acme/app/trigger", &event);
    assert_eq!(status, 201, "{made}");
    let path = format!("/actions/runners/{runner}/jobs/claim");
    let asked = json!({ "nonce": key, "wait": 10 });
    let (status, job) = world.send_as(server, token, "POST", &path, Some(&asked));
    assert_eq!(status, 200, "{job}");
    job
}

fn text(value: &Value) -> String {
    value.as_str().expect("it is a text").to_owned()
}

fn filled(settings: &str, known: &[(&str, String)]) -> String {
    known.iter().fold(settings.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{name}}}"), value)
    })
}

fn operations(world: &World, server: &Server) -> usize {
    let document = world.get(server, "/api/openapi.json");
    let paths = document["paths"].as_object().expect("there are paths");
    paths.values().map(|item| item.as_object().map_or(0, serde_json::Map::len)).sum()
}

fn schemathesis() -> PathBuf {
    let fallback = workspace().join("target/pypi/bin/schemathesis");
    let program = std::env::var_os("KILN_TEST_SCHEMATHESIS").map_or(fallback, PathBuf::from);
    let place = program.display();
    assert!(
        program.exists(),
        "schemathesis is not at {place}: run `scripts/test`, which installs it"
    );
    program
}

fn hooks() -> PathBuf {
    workspace().join("tests/pypi/hooks.py")
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
