//! The runner's own variables and contexts.

use kiln_core::value::{Object, Value};
use kiln_lang::expr::coerce::to_text;

use super::environment::Variables;
use super::files::CommandFiles;
use super::frame::Frame;
use super::places::Places;
use super::task::Task;

/// Properties of the `github` context that are variables as well, as with GitHub's runner.
const VARIABLES: [&str; 29] = [
    "actor",
    "actor_id",
    "api_url",
    "base_ref",
    "event_name",
    "event_path",
    "graphql_url",
    "head_ref",
    "job",
    "ref",
    "ref_name",
    "ref_protected",
    "ref_type",
    "repository",
    "repository_id",
    "repository_owner",
    "repository_owner_id",
    "retention_days",
    "run_attempt",
    "run_id",
    "run_number",
    "server_url",
    "sha",
    "triggering_actor",
    "workflow",
    "workflow_ref",
    "workflow_sha",
    "artifacts",
    "artifacts_list",
];

/// What every process of a step finds in its environment and cannot change.
pub(super) struct Protected<'a> {
    pub(super) task: &'a Task,
    pub(super) frame: &'a Frame,
    pub(super) github: &'a Object,
    pub(super) files: &'a CommandFiles,
    /// The name of the runner.
    pub(super) runner: &'a str,
}

impl Protected<'_> {
    pub(super) fn variables(&self) -> Variables {
        let mut all = Variables::default();
        for (name, value) in self.github.iter().filter(|(name, _)| VARIABLES.contains(name)) {
            all.insert(format!("GITHUB_{}", name.to_uppercase()), to_text(value).into_owned());
        }
        let places = &self.task.places;
        let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
        let own = [
            ("GITHUB_WORKSPACE", path(&places.workspace)),
            ("GITHUB_ENV", path(&self.files.env)),
            ("GITHUB_OUTPUT", path(&self.files.output)),
            ("GITHUB_PATH", path(&self.files.path)),
            ("GITHUB_STATE", path(&self.files.state)),
            ("GITHUB_STEP_SUMMARY", path(&self.files.summary)),
            ("RUNNER_TEMP", path(&places.temp)),
            ("RUNNER_TOOL_CACHE", path(&places.tool_cache)),
            ("RUNNER_OS", "Linux".to_owned()),
            ("RUNNER_ARCH", arch().to_owned()),
            ("RUNNER_NAME", self.runner.to_owned()),
            ("RUNNER_ENVIRONMENT", "self-hosted".to_owned()),
        ];
        all.extend(own.map(|(name, value)| (name.to_owned(), value)));
        for (name, value) in self.frame.github() {
            all.insert(format!("GITHUB_{}", name.to_uppercase()), value);
        }
        all
    }
}

/// Whether the runner itself sets a variable, so that no step may.
pub(super) fn is_protected(name: &str, task: &Task) -> bool {
    const OWN: [&str; 8] =
        ["WORKSPACE", "ENV", "OUTPUT", "PATH", "STATE", "STEP_SUMMARY", "ACTIONS", "ACTION"];
    if let Some(rest) = name.strip_prefix("GITHUB_") {
        let known = task.contexts.github.get(rest).is_some()
            && VARIABLES.contains(&rest.to_lowercase().as_str());
        return known || OWN.contains(&rest);
    }
    name.starts_with("RUNNER_")
}

/// The architecture of this machine, as `runner.arch` has it.
pub fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "X64",
        "aarch64" => "ARM64",
        "arm" => "ARM",
        "x86" => "X86",
        other => other,
    }
}

/// The `runner` context.
pub(super) fn runner(name: &str, places: &Places) -> Value {
    let runner: Object = [
        ("os", Value::from("Linux")),
        ("arch", Value::from(arch())),
        ("name", Value::from(name)),
        ("environment", Value::from("self-hosted")),
        ("temp", Value::from(&*places.temp.to_string_lossy())),
        ("tool_cache", Value::from(&*places.tool_cache.to_string_lossy())),
        ("workspace", Value::from(&*places.workspace.to_string_lossy())),
    ]
    .into_iter()
    .collect();
    Value::object(runner)
}
