//! What published actions expect of the services around them, with GitHub's own clients from npm,
//! unmodified. Each scenario runs wherever jobs run: by `kiln run` here, on a server in `fleet::gateway`.

mod built_in;
mod built_in_artifacts;
mod identity;
mod local;
pub(crate) mod scenarios;

use std::env;
use std::path::{Path, PathBuf};

use crate::Place;

/// Where jobs run.
pub(crate) trait Machine {
    /// Runs the workflow once more, which must succeed, and returns what its jobs said.
    fn run(&self) -> String;
}

/// Makes a machine for a repository.
pub(crate) type Machines<'m> = &'m dyn Fn(&dyn Fn(&Place)) -> Box<dyn Machine>;

/// Where `scripts/test` installed GitHub's clients.
pub(crate) fn modules() -> PathBuf {
    let fallback = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/npm/node_modules");
    let modules = env::var_os("KILN_TEST_NODE_MODULES").map_or(fallback, PathBuf::from);
    let modules = modules.canonicalize().expect("scripts/test installs what is needed from npm");
    assert!(modules.join("@actions/cache").is_dir(), "no @actions/cache in {}", modules.display());
    modules
}

/// A job with steps; `needs` may be empty.
pub(crate) fn job(id: &str, more: &str, steps: &[String]) -> String {
    let checkout = "      - uses: actions/checkout@v4\n";
    format!("  {id}:\n    runs-on: linux\n{more}    steps:\n{checkout}{}", steps.concat())
}

/// A step that runs a script with the clients.
pub(crate) fn script(text: &str) -> String {
    let indented: Vec<String> =
        text.trim().lines().map(|line| format!("            {line}")).collect();
    format!("      - uses: ./client\n        with:\n          script: |\n{}\n", indented.join("\n"))
}

/// A step that runs a command.
pub(crate) fn command(text: &str) -> String {
    let indented: Vec<String> =
        text.trim().lines().map(|line| format!("          {line}")).collect();
    format!("      - run: |\n{}\n", indented.join("\n"))
}

/// Writes the workflow and the action of a scenario into a repository.
pub(crate) fn write(place: &Place, jobs: &[String]) {
    let modules = modules();
    let workflow = format!(
        "name: CI\non: [push, workflow_dispatch]\nenv: {{MODULES: '{}'}}\njobs:\n{}",
        modules.display(),
        jobs.concat()
    );
    place.file(".github/workflows/ci.yml", workflow);
    write_client(place);
}

/// Writes the action with the clients into a repository.
pub(crate) fn write_client(place: &Place) {
    place.file("client/action.yml", include_str!("../../gateway/action.yml"));
    place.file("client/client.mjs", include_str!("../../gateway/client.mjs"));
}
