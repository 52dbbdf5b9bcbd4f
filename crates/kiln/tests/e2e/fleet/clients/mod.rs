//! GitHub's clients, as they are, with a server that speaks HTTPS: octokit, `PyGithub` and `gh`.

mod gh;
mod https;

use std::path::PathBuf;
use std::process::Command;

use kiln_testkit::certificates::Certificates;

use super::world::{Program, Server};
use super::{Kind, World};
use crate::gateway;

/// One job that says something, remarks something, and leaves something.
const WORKFLOW: &str = "
name: CI
on:
  push:
  workflow_dispatch:
    inputs:
      mode: { type: string, default: good }
env: { MODULES: 'MODULES-OF-NPM' }
jobs:
  build:
    runs-on: linux
    steps:
      - uses: actions/checkout@v4
      - name: Say
        run: |
          echo hello from kiln
          echo '::warning file=a.txt,line=3::careful'
          mkdir -p out && echo hello > out/hello.txt
      - name: Keep
        uses: ./client
        with:
          script: await artifact.uploadArtifact('dist', ['out/hello.txt'], 'out')
      - name: End
        run: |
          case '${{ inputs.mode }}' in
            bad) echo this is bad; exit 1 ;;
            slow) sleep 600 ;;
          esac
";

/// An installation with HTTPS, a runner, and a repository `acme/app`.
struct Installation {
    world: World,
    server: Server,
    certificates: Certificates,
    _runner: Program,
}

impl Installation {
    fn new(kind: Kind) -> Self {
        let world = World::new(kind);
        let certificates = Certificates::new(world.place.path());
        let world = world.trusting(&certificates.authority());
        let (cert, key) = certificates.make("server", "DNS:localhost,IP:127.0.0.1");
        let server = world.server_with("server", &["--tls-cert", &cert, "--tls-key", &key]);
        assert!(server.address.starts_with("https://127.0.0.1:"), "{}", server.address);
        let authority = certificates.authority();
        let runner =
            world.runner_with(&server, "one", &["linux"], &["--ca", &authority.to_string_lossy()]);
        let place = world.place.below("repositories/app");
        gateway::write_client(&place);
        let modules = gateway::modules().display().to_string();
        world.repository(&server, "app", &WORKFLOW.replace("MODULES-OF-NPM", &modules));
        Self { world, server, certificates, _runner: runner }
    }

    /// Runs a program that knows the server, which must succeed, and returns what it said.
    #[track_caller]
    fn succeeds(&self, command: &mut Command) -> String {
        let (code, out, err) = self.runs(command);
        assert_eq!(code, Some(0), "{command:?}\n{out}\n{err}");
        out
    }

    fn runs(&self, command: &mut Command) -> (Option<i32>, String, String) {
        let authority = self.certificates.authority();
        let output = command
            .current_dir(self.world.place.path())
            .env_remove("http_proxy")
            .env_remove("https_proxy")
            .env("HOME", self.world.place.path())
            .env("BASE", format!("{}/api/v3", self.server.address))
            .env("TOKEN", self.server.token())
            .env("CA", &authority)
            .env("NODE_EXTRA_CA_CERTS", &authority)
            .env("SSL_CERT_FILE", &authority)
            .env("MODULES", gateway::modules())
            .output()
            .expect("scripts/test installs what is needed");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }
}

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// F5
fn octokit(kind: Kind) {
    let installation = Installation::new(kind);
    let mut node = Command::new("timeout");
    let said = installation.succeeds(node.args(["120", "node"]).arg(script("octokit.mjs")));
    assert_eq!(said.trim(), "all is well");
}

#[test]
fn octokit_lists_dispatches_watches_reruns_cancels_and_downloads_on_sqlite() {
    octokit(Kind::Sqlite);
}

#[test]
fn octokit_lists_dispatches_watches_reruns_cancels_and_downloads_on_postgres() {
    octokit(Kind::Postgres);
}

/// F5
#[test]
fn pygithub_lists_dispatches_watches_reruns_cancels_and_downloads() {
    let installation = Installation::new(Kind::Sqlite);
    // One that is there before, as on any server.
    let run = installation.world.trigger(&installation.server, "app");
    installation.world.ended(&installation.server, run);
    let python =
        std::env::var_os("KILN_TEST_PYTHON").expect("scripts/test names a Python with PyGithub");
    let mut command = Command::new("timeout");
    let said = installation.succeeds(command.arg("120").arg(python).arg(script("pygithub.py")));
    assert_eq!(said.trim(), "all is well");
}
