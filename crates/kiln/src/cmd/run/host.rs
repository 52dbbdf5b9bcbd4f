//! This machine as a place for jobs.

use std::ffi::OsString;

use anyhow::Result;
use kiln_runner::action::{Mirror, Nodes, Resolver};
use kiln_runner::backend::OnHost;
use kiln_runner::git::BINDING_VARIABLES;
use kiln_runner::job::Host;
use kiln_runner::job::environment::Environment;
use kiln_runner::origin::Origin;

use super::state::state_directory;
use crate::cli::RunArgs;

#[expect(clippy::disallowed_methods, reason = "this is where the environment of jobs comes from")]
pub(super) fn host(args: &RunArgs, origin: Origin) -> Result<Host> {
    let mirror = args.actions.clone().or_else(|| std::env::var("KILN_ACTIONS").ok());
    // A workflow must not see what Kiln itself is told, nor another run's variables, nor the
    // repository whose hook Kiln may have been started by.
    let foreign = |name: &OsString| {
        let name = name.to_string_lossy();
        ["KILN_", "GITHUB_", "RUNNER_", "INPUT_", "ACTIONS_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
            || BINDING_VARIABLES.contains(&&*name)
    };
    let mut inherited: Environment =
        std::env::vars_os().filter(|(name, _)| !foreign(name)).collect();
    keep_from_proxies(&mut inherited);
    Ok(Host {
        inherited,
        resolver: Resolver {
            mirror: mirror.as_deref().map(Mirror::parse),
            store: state_directory()?.join("actions"),
        },
        origin,
        nodes: Nodes::configured(|name| std::env::var_os(name)),
        backend: Box::new(OnHost),
        timeout: args.timeout,
        silence: Some(args.silence).filter(|limit| !limit.is_zero()),
    })
}

/// What a run serves on loopback must not be looked for behind a proxy.
fn keep_from_proxies(environment: &mut Environment) {
    let is_proxy = |name: &OsString| name.to_string_lossy().to_lowercase().ends_with("_proxy");
    if !environment.keys().any(is_proxy) {
        return;
    }
    // Some programs read one, some the other.
    for name in ["no_proxy", "NO_PROXY"] {
        let exceptions = environment.entry(name.into()).or_default();
        if !exceptions.is_empty() {
            exceptions.push(",");
        }
        exceptions.push("localhost,.localhost,127.0.0.1");
    }
}
