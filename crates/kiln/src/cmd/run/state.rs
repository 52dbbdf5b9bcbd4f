//! Where runs leave what stays.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

#[expect(clippy::disallowed_methods, reason = "the environment says where state belongs")]
pub(super) fn state_directory() -> Result<PathBuf> {
    if let Some(directory) = std::env::var_os("KILN_STATE") {
        return Ok(directory.into());
    }
    if let Some(directory) = std::env::var_os("XDG_STATE_HOME") {
        return Ok(Path::new(&directory).join("kiln"));
    }
    let home = std::env::home_dir().context("there is no home directory; set KILN_STATE")?;
    Ok(home.join(".local/state/kiln"))
}

/// A new directory for this run, named by its time and process.
#[expect(clippy::disallowed_methods, reason = "runs are named by when they started")]
pub(super) fn run_directory() -> Result<PathBuf> {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let name = format!("{}-{}", since.as_millis(), std::process::id());
    let directory = state_directory()?.join("runs").join(name);
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make `{}`", directory.display()))?;
    Ok(directory)
}
