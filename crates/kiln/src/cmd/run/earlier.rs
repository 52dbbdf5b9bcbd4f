//! Which runs of a repository came last, for `--from-failed`.
//!
//! `KILN_STATE/repositories/` has a file for each repository with the directories of the runs of its
//! last `kiln run`, one for each workflow. Each of these directories has a record of its run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use kiln_core::run::Refused;
use kiln_runner::local::{Changes, Record, digest};
use serde_json::{Value, json};

use super::state::{is_abandoned, remove_used_up};
use crate::output::Console;

/// Raised when an older kiln would misunderstand the file.
const VERSION: u64 = 1;

/// The runs of one `kiln run`, as they start.
#[derive(Debug, Default)]
pub(super) struct Batch {
    runs: Vec<PathBuf>,
}

/// A run that another one goes on from.
pub(super) struct Earlier {
    pub(super) directory: PathBuf,
    pub(super) record: Record,
}

impl Batch {
    /// From now on, this run is among the last of its repository.
    pub(super) fn add(&mut self, state: &Path, root: &Path, run: &Path) -> Result<()> {
        let path = file_of(state, root)?;
        if self.runs.is_empty() {
            // What was killed could not clean up after itself.
            let last = directories(&path).unwrap_or_default();
            last.iter().filter(|run| is_abandoned(run)).for_each(|run| remove_used_up(run));
        }
        self.runs.push(run.to_owned());
        let text = json!({"version": VERSION, "repository": root, "runs": self.runs}).to_string();
        // Written beside and renamed, so that nobody ever reads half of it.
        let new = path.with_extension(format!("{}.new", std::process::id()));
        fs::create_dir_all(state.join("repositories"))
            .and_then(|()| fs::write(&new, text))
            .and_then(|()| fs::rename(&new, &path))
            .with_context(|| format!("cannot write `{}`", path.display()))
    }
}

fn file_of(state: &Path, root: &Path) -> Result<PathBuf> {
    Ok(state.join("repositories").join(format!("{}.json", name_of(root)?)))
}

/// What a repository is called where something is kept for it.
pub(super) fn name_of(root: &Path) -> Result<String> {
    let root =
        fs::canonicalize(root).with_context(|| format!("cannot find `{}`", root.display()))?;
    Ok(digest(root.as_os_str().as_encoded_bytes()))
}

/// What failed in the last `kiln run` of a repository.
pub(super) fn failed(state: &Path, root: &Path) -> Result<Vec<Earlier>> {
    let runs = last(state, root)?;
    let count = runs.len();
    let failed: Vec<Earlier> =
        runs.into_iter().filter(|run| run.record.conclusion.wants_another_try()).collect();
    if failed.is_empty() {
        let what = if count == 1 { "the last run" } else { "none of the last runs" };
        let verb = if count == 1 { "did not fail" } else { "failed" };
        bail!("{what} of `{}` {verb}, so there is nothing to run again", root.display());
    }
    Ok(failed)
}

fn last(state: &Path, root: &Path) -> Result<Vec<Earlier>> {
    let path = file_of(state, root)?;
    if !path.exists() {
        bail!("there is no earlier run of `{}`; start one with `kiln run`", root.display());
    }
    let runs = directories(&path)?;
    let read = |directory: PathBuf| match Record::read(&directory) {
        Ok(record) => Ok(Earlier { directory, record }),
        Err(why) => Err(anyhow!("{why}; start anew with `kiln run`")),
    };
    runs.into_iter().map(read).collect()
}

/// The runs that came last of all repositories, from which others may go on.
pub(super) fn all_last(state: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(state.join("repositories")).into_iter().flatten().flatten();
    files.flat_map(|file| directories(&file.path()).unwrap_or_default()).collect()
}

/// The directories of the runs that came last.
fn directories(path: &Path) -> Result<Vec<PathBuf>> {
    let wrong = |why: String| {
        anyhow!("cannot read `{}`: {why}; start anew with `kiln run`", path.display())
    };
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let file: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    match &file["version"] {
        version if *version == VERSION => {}
        other => return Err(wrong(format!("it is of version {other}, this kiln knows {VERSION}"))),
    }
    serde_json::from_value(file["runs"].clone()).map_err(|error| wrong(error.to_string()))
}

/// Says what is different from the run that this one goes on from.
pub(super) fn tell(record: &Record, changes: &Changes, commit: &str, console: &mut Console) {
    let names = |jobs: &std::collections::BTreeSet<String>| {
        let names: Vec<String> = jobs.iter().map(|job| format!("`{job}`")).collect();
        (names.join(", "), names.len() > 1)
    };
    if record.order.commit != commit {
        let short = record.order.commit.get(..10).unwrap_or(&record.order.commit);
        console.note_line(&format!("jobs that succeeded are taken over from the commit {short}"));
    }
    match names(&changes.changed) {
        (_, _) if changes.changed.is_empty() => {}
        (names, many) => {
            let (has, its) = if many { ("have", "their ends") } else { ("has", "its end") };
            let (run, are) = if many { ("run", "are") } else { ("runs", "is") };
            console.note_line(&format!(
                "{names} {has} changed since and {run} anew; {its} {are} not taken over"
            ));
        }
    }
    match names(&changes.gone) {
        (_, _) if changes.gone.is_empty() => {}
        (names, many) => {
            let are = if many { "are" } else { "is" };
            console.note_line(&format!("{names} {are} no longer in the workflow"));
        }
    }
}

/// Why nothing of the earlier run can be run again.
pub(super) fn refused(refused: Refused, record: &Record) -> anyhow::Error {
    match refused {
        Refused::NothingFailed => anyhow!(
            "what failed in the last run is no longer in `{}`; start anew with `kiln run`",
            record.order.workflow
        ),
        other => anyhow!("{other}"),
    }
}
