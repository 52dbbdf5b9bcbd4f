//! A disk without room, for tests of what happens then.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Where the disk is.
const FOLDER: &str = "KILN_TEST_SMALL_DISK";
/// What a test says at its end: one that was not found would say nothing, and end well.
const DONE: &str = "all is as it should be";

/// Runs a test of this binary that is ignored otherwise, where there is a disk of 8 MiB.
#[expect(clippy::disallowed_methods, reason = "the test starts itself again")]
pub fn with_small_disk(test: &str) {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let script = "mount -t tmpfs -o size=8m tmpfs \"$1\" && exec \"$2\" --exact \"$3\" --ignored --nocapture";
    // A user namespace, for those who are not root.
    let done = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(std::env::current_exe().expect("this program is a file"))
        .arg(test)
        .env(FOLDER, folder.path())
        .stdin(Stdio::null())
        .output()
        .expect("unshare is installed");
    let said = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains(DONE), "{said}{errors}");
}

/// What such a test does, with the folder in which the small disk is.
#[expect(clippy::disallowed_methods, reason = "the other test says there where it is")]
#[expect(clippy::print_stdout, reason = "this is how the other test hears that it ran")]
pub async fn on_small_disk(test: impl AsyncFnOnce(PathBuf)) {
    let folder = std::env::var_os(FOLDER).expect("another test starts this one");
    test(folder.into()).await;
    println!("{DONE}");
}
