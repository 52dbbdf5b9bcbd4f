//! Where runs leave what stays.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

#[expect(clippy::disallowed_methods, reason = "the environment says where state belongs")]
pub(super) fn state_directory() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(directory) = set("KILN_STATE") {
        return std::path::absolute(directory).context("KILN_STATE is no path");
    }
    if let Some(directory) = set("XDG_STATE_HOME") {
        return Ok(Path::new(&directory).join("kiln"));
    }
    let home = std::env::home_dir().context("there is no home directory; set KILN_STATE")?;
    Ok(home.join(".local/state/kiln"))
}

/// Where caches are kept between runs. Who moves all that Kiln keeps moves them, too.
#[expect(clippy::disallowed_methods, reason = "the environment says where caches belong")]
pub(super) fn cache_directory() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if set("KILN_STATE").is_some() {
        return Ok(state_directory()?.join("caches"));
    }
    if let Some(directory) = set("XDG_CACHE_HOME") {
        return Ok(Path::new(&directory).join("kiln"));
    }
    let home = std::env::home_dir().context("there is no home directory; set KILN_STATE")?;
    Ok(home.join(".cache/kiln"))
}

/// Removes what a run needs only while it goes on: files, workspaces, uploads on their way.
pub(super) fn remove_used_up(run: &Path) {
    for used_up in ["files", "jobs", "repository.git"] {
        let _ = std::fs::remove_dir_all(run.join(used_up));
    }
}

/// Whether the process of a run is gone without having cleaned up.
pub(super) fn is_abandoned(run: &Path) -> bool {
    let name = run.file_name().unwrap_or_default().to_string_lossy();
    let process = name.rsplit_once('-').map(|(_, process)| Path::new("/proc").join(process));
    process.is_some_and(|process| !process.exists()) && run.join("jobs").exists()
}

/// A new directory for this run, named by its time and process.
#[expect(clippy::disallowed_methods, reason = "runs are named by when they started")]
pub(super) fn run_directory() -> Result<PathBuf> {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let name = format!("{}-{}", since.as_millis(), std::process::id());
    let directory = state_directory()?.join("runs").join(name);
    // Scripts and their files may hold secrets.
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
    made.with_context(|| {
        format!("cannot make `{}`; KILN_STATE names another place", directory.display())
    })?;
    Ok(directory)
}
