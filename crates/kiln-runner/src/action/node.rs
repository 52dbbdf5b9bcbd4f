//! Which Node runs a JavaScript action.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::process::find_program;

/// Versions of Node that actions can ask for, oldest first.
const VERSIONS: [u32; 4] = [12, 16, 20, 24];

/// Finds a Node for an action: the version it asks for, else the next newer one, else whatever
/// `node` is.
pub fn find_node(wanted: u32, path: &OsStr, cwd: &Path) -> Result<PathBuf, String> {
    let newer = VERSIONS.iter().filter(|version| **version >= wanted);
    let names = newer.map(|version| format!("node{version}")).chain(["node".to_owned()]);
    let mut found = names.filter_map(|name| find_program(Path::new(&name), path, cwd));
    found.next().ok_or_else(|| {
        format!("the action needs Node {wanted} or newer, and there is no `node` or `node{wanted}` on PATH; install Node")
    })
}
