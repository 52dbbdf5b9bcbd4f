//! Which Node runs a JavaScript action.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::process::{
    self, Command, Control, End, Ending, Limits, Sink, Stream, Tree, find_program,
};

/// Versions of Node that actions can ask for, oldest first.
const VERSIONS: [u32; 4] = [12, 16, 20, 24];

/// The Nodes of this machine.
#[derive(Debug, Default)]
pub struct Nodes {
    configured: Vec<(u32, PathBuf)>,
    /// The major versions of plain `node`s, which must be asked.
    asked: Mutex<HashMap<PathBuf, Option<u32>>>,
}

/// A Node for an action.
#[derive(Debug, PartialEq, Eq)]
pub struct Node {
    pub program: PathBuf,
    /// What people should know: it is older than the action wants.
    pub note: Option<String>,
}

impl Nodes {
    /// Takes the programs that `KILN_NODE12` … `KILN_NODE24` name.
    pub fn configured(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let named = VERSIONS.iter().filter_map(|version| {
            let program = variable(&format!("KILN_NODE{version}")).filter(|it| !it.is_empty())?;
            Some((*version, PathBuf::from(program)))
        });
        Self { configured: named.collect(), asked: Mutex::default() }
    }

    /// Finds a Node for an action: the version it asks for, else the next newer one, else plain
    /// `node`. What a job puts on its own `PATH` is for its scripts and does not count.
    pub fn find(&self, wanted: u32, path: &OsStr) -> Result<Node, String> {
        for version in VERSIONS.into_iter().filter(|version| *version >= wanted) {
            if let Some((_, program)) = self.configured.iter().find(|(known, _)| *known == version)
            {
                return configured(version, program);
            }
            if let Some(program) = on_path(&format!("node{version}"), path) {
                return Ok(Node { program, note: None });
            }
        }
        let Some(program) = on_path("node", path) else {
            return Err(format!(
                "the action needs Node {wanted} or newer, and neither `node` nor `node{wanted}` is on PATH; \
                 install Node, or set KILN_NODE{wanted} to its path"
            ));
        };
        let old = self.version(&program).filter(|found| *found < wanted);
        let note = old.map(|found| {
            format!(
                "the action asks for Node {wanted}, and `{}` is Node {found}; \
                 set KILN_NODE{wanted} to the path of a newer one",
                program.display()
            )
        });
        Ok(Node { program, note })
    }

    /// The major version of a program, if it tells one. It is asked once.
    fn version(&self, program: &Path) -> Option<u32> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        *asked.entry(program.to_owned()).or_insert_with(|| ask_version(program))
    }
}

fn configured(version: u32, program: &Path) -> Result<Node, String> {
    let nowhere = OsStr::new("/");
    let found = find_program(program, nowhere, Path::new("/"));
    found.map(|program| Node { program, note: None }).ok_or_else(|| {
        format!(
            "KILN_NODE{version} is `{}`, which is no program; give the absolute path of a Node",
            program.display()
        )
    })
}

fn on_path(name: &str, path: &OsStr) -> Option<PathBuf> {
    find_program(Path::new(name), path, Path::new("/"))
}

fn ask_version(program: &Path) -> Option<u32> {
    #[derive(Default)]
    struct FirstLine(Option<String>);
    impl Sink for FirstLine {
        fn line(&mut self, stream: Stream, text: &[u8], _: Ending) {
            if stream == Stream::Stdout && self.0.is_none() {
                self.0 = Some(String::from_utf8_lossy(text).into_owned());
            }
        }
    }
    let command = Command {
        program: program.to_owned(),
        args: vec!["--version".into()],
        env: Vec::new(),
        cwd: "/".into(),
    };
    let mut said = FirstLine::default();
    let limits = Limits { wall: Some(Duration::from_secs(10)), ..Limits::default() };
    let (control, tree) = (Control::new().ok()?, Tree::new(None).ok()?);
    let outcome = process::run(&command, &mut said, &control, &limits, &tree).ok()?;
    let version = said.0.filter(|_| outcome.end == End::Exited(0))?;
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    /// A directory with programs that say they are some version of Node.
    fn programs(names: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for (name, version) in names {
            let file = directory.path().join(name);
            fs::write(&file, format!("#!/bin/sh\necho {version}\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        directory
    }

    fn check(programs: &[(&str, &str)], wanted: u32, expect: &str, has_note: bool) {
        let directory = self::programs(programs);
        let found = Nodes::default().find(wanted, directory.path().as_os_str()).unwrap();
        assert_eq!(found.program, directory.path().join(expect), "{wanted}");
        assert_eq!(found.note.is_some(), has_note, "{:?}", found.note);
    }

    #[test]
    fn the_wanted_version_comes_first_then_newer_ones_then_plain_node() {
        let all =
            [("node12", ""), ("node16", ""), ("node20", ""), ("node24", ""), ("node", "v22.1.0")];
        check(&all, 12, "node12", false);
        check(&all, 20, "node20", false);
        check(&all[2..], 12, "node20", false);
        check(&all[3..], 20, "node24", false);
        check(&all[4..], 20, "node", false);
        check(&[("node16", ""), ("node", "v22.1.0")], 20, "node", false);
    }

    #[test]
    fn a_plain_node_that_is_older_is_taken_with_a_word_about_it() {
        check(&[("node", "v20.11.1")], 24, "node", true);
        check(&[("node", "v24.0.0")], 24, "node", false);
        check(&[("node", "who knows")], 24, "node", false);
    }

    #[test]
    fn a_configured_node_beats_the_path_and_must_be_there() {
        let directory = programs(&[("node20", ""), ("mine", "")]);
        let mine = directory.path().join("mine");
        let nodes = Nodes::configured(|name| (name == "KILN_NODE20").then(|| mine.clone().into()));
        let found = nodes.find(16, directory.path().as_os_str()).unwrap();
        assert_eq!(found.program, mine);
        let nodes =
            Nodes::configured(|name| (name == "KILN_NODE24").then(|| "/nowhere/node".into()));
        let error = nodes.find(24, directory.path().as_os_str()).unwrap_err();
        assert!(error.contains("KILN_NODE24") && error.contains("/nowhere/node"), "{error}");
        let found = nodes.find(20, directory.path().as_os_str()).unwrap();
        assert_eq!(found.program, directory.path().join("node20"), "24 was not asked for");
        let empty = Nodes::configured(|_| Some(OsString::new()));
        assert!(empty.find(20, directory.path().as_os_str()).is_ok());
    }

    #[test]
    fn without_any_node_the_error_names_the_remedy() {
        let directory = programs(&[("node16", "")]);
        let error = Nodes::default().find(20, directory.path().as_os_str()).unwrap_err();
        for part in ["Node 20", "install Node", "KILN_NODE20"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
