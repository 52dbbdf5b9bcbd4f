//! This machine as a place for jobs.

use std::sync::Arc;

use anyhow::Result;
use kiln_runner::action::{Mirror, Nodes, Resolver};
use kiln_runner::backend::OnHost;
use kiln_runner::job::environment::inheritable;
use kiln_runner::job::{CLEAN_UP, Host};
use kiln_runner::origin::Origin;

use super::state::state_directory;
use crate::cli::RunArgs;

#[expect(clippy::disallowed_methods, reason = "this is where the environment of jobs comes from")]
pub(super) fn host(args: &RunArgs, origin: Origin) -> Result<Host> {
    let mirror = args.actions.clone().or_else(|| std::env::var("KILN_ACTIONS").ok());
    // Jobs get secrets by name, and only those that are meant for them.
    let inherited = inheritable(std::env::vars_os(), &args.secret);
    Ok(Host {
        inherited,
        resolver: Resolver::new(
            mirror.as_deref().map(Mirror::parse),
            state_directory()?.join("actions"),
        ),
        origin,
        name: "kiln".to_owned(),
        nodes: Arc::new(Nodes::configured(|name| std::env::var_os(name))),
        backend: Box::new(OnHost),
        timeout: args.timeout,
        silence: Some(args.silence).filter(|limit| !limit.is_zero()),
        clean_up: CLEAN_UP,
    })
}
