//! From what was typed, the environment and what was kept to the settings of a runner.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use kiln_runner::action::{Mirror, Nodes};
use kiln_runner::agent::{BackendKind, Bounds, Identity, Options};
use kiln_runner::job::environment::inheritable;
use kiln_runner::process::VARIABLE;

use crate::cli::{AgentOptions, DataArg, RunnerBackend};

pub(super) fn options(args: &AgentOptions) -> Result<Options> {
    let data = data_directory(&args.data)?;
    let known = Identity::load(&data).map_err(anyhow::Error::msg)?;
    let server = args.server.clone().or_else(|| set("KILN_SERVER"));
    let server = server.or_else(|| known.as_ref().map(|known| known.server.clone()));
    let server =
        server.context("which server? name it with `--server http://HOST:8420` or KILN_SERVER")?;
    let mut options = detected(&server, data);
    options.key = key(args.key.as_deref())?;
    if let Some(name) = args.name.clone().or_else(|| known.map(|known| known.name)) {
        options.name = name;
    }
    let labels = &mut options.capabilities.labels;
    if args.only_labels {
        labels.retain(|label| label == "self-hosted");
    }
    for label in &args.label {
        if !labels.iter().any(|known| known.eq_ignore_ascii_case(label)) {
            labels.push(label.clone());
        }
    }
    if let Some(jobs) = args.jobs {
        options.capabilities.max_parallel = jobs;
    }
    if let Some(work) = &args.work {
        options.work = std::path::absolute(work)?;
    }
    options.once = args.once;
    options.unregister = args.unregister_on_exit;
    options.grace = args.grace;
    options.ca.clone_from(&args.ca);
    options.bounds = Bounds {
        least_disk_mb: args.min_disk >> 20,
        least_memory_mb: args.min_memory >> 20,
        most_load: args.max_load,
    };
    options.backend = match args.backend {
        RunnerBackend::Host => BackendKind::Host,
        RunnerBackend::Dummy => BackendKind::Dummy,
    };
    let actions = args.actions.clone().or_else(|| set("KILN_ACTIONS"));
    options.actions = actions.as_deref().map(Mirror::parse);
    options.guard = Some(std::env::current_exe().context("cannot find this program")?);
    options.alone = true;
    Ok(options)
}

/// The runner of a directory, as it was registered.
pub(super) fn known(data: &DataArg, ca: Option<PathBuf>) -> Result<Options> {
    let data = data_directory(data)?;
    let Some(identity) = Identity::load(&data).map_err(anyhow::Error::msg)? else {
        bail!("there is no registered runner in `{}`", data.display());
    };
    let mut options = detected(&identity.server, data);
    options.name = identity.name;
    options.ca = ca;
    Ok(options)
}

#[expect(clippy::disallowed_methods, reason = "this is where the environment of jobs comes from")]
fn detected(server: &str, data: PathBuf) -> Options {
    let mut options = Options::detect(server, data, inheritable(std::env::vars_os(), &[]));
    options.nodes = Arc::new(Nodes::configured(|name| std::env::var_os(name)));
    options.outer = std::env::var_os(VARIABLE);
    options
}

/// The key itself, or what is in the file of that name.
fn key(given: Option<&str>) -> Result<Option<String>> {
    let Some(text) = given.map(str::to_owned).or_else(|| set("KILN_RUNNER_KEY")) else {
        return Ok(None);
    };
    if text.starts_with("krk_") || !Path::new(&text).exists() {
        return Ok(Some(text));
    }
    let read = std::fs::read_to_string(&text);
    let key = read.with_context(|| format!("cannot read the key in `{text}`"))?;
    Ok(Some(key.trim().to_owned()))
}

pub(super) fn data_directory(argument: &DataArg) -> Result<PathBuf> {
    if let Some(data) = &argument.data {
        return Ok(std::path::absolute(data)?);
    }
    let all = match (set("KILN_DATA"), set("XDG_DATA_HOME"), std::env::home_dir()) {
        (Some(data), _, _) => PathBuf::from(data),
        (None, Some(shared), _) => PathBuf::from(shared).join("kiln"),
        (None, None, Some(home)) if set("HOME").is_some() => home.join(".local/share/kiln"),
        _ => PathBuf::from("/var/lib/kiln"),
    };
    Ok(std::path::absolute(all.join("runner"))?)
}

#[expect(clippy::disallowed_methods, reason = "the environment may say what was not typed")]
pub(super) fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
