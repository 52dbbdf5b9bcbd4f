//! A git repository with the files of the fixture and the workflows of an area.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::events::Outcome;
use super::{Workflow, corpus};
use crate::{Answer, Place};

pub(super) struct Repository {
    place: Place,
    /// Beside the repository, so that its files are no part of it.
    state: tempfile::TempDir,
    tools: PathBuf,
}

impl Repository {
    /// `tools` is the directory with `check`, from the corpus.
    pub(super) fn new(workflows: &[Workflow], tools: &str) -> Self {
        let place = Place::new();
        copy(&corpus().join("fixture"), place.path());
        for workflow in workflows {
            let file = format!("workflows/{}.yml", workflow.name);
            place.file(&format!(".github/{file}"), &workflow.text);
            if let Some(companion) = &workflow.companion {
                place.file(&format!(".kiln/{file}"), companion);
            }
        }
        crate::run::commit_all(place.path());
        let state = tempfile::tempdir().expect("the system has a directory for such files");
        Self { place, state, tools: corpus().join(tools) }
    }

    pub(super) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Programs of the corpus come before all others.
    pub(super) fn search_path(&self) -> OsString {
        let mut path = self.tools.clone().into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").expect("tests have a PATH"));
        path
    }

    pub(super) fn run(&self, workflow: &Workflow) -> Outcome {
        let file = format!(".github/workflows/{}.yml", workflow.name);
        let output = Command::new(env!("CARGO_BIN_EXE_kiln"))
            .current_dir(self.path())
            .args(["run", "--json", "--workflow", &file])
            .args(&workflow.expectation.args)
            .env("PATH", self.search_path())
            .env("KILN_STATE", self.state.path())
            .env_remove("KILN_ACTIONS")
            .stdin(Stdio::null())
            .output()
            .expect("the binary was built for this test");
        Outcome::of(&Answer::of(&output))
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the directory is ours");
    for entry in fs::read_dir(from).expect("the fixture is there") {
        let entry = entry.expect("it is listed");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("the directory is ours");
        }
    }
}
