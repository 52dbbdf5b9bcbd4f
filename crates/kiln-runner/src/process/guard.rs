//! The small process that clears up when this one is killed.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use super::{Swept, Tree, VARIABLE, orphans};

/// Processes that were just about to start others are caught by looking for so long after the last.
const QUIET: Duration = Duration::from_millis(500);
const BOUND: Duration = Duration::from_secs(15);

/// What the guard is told when there is nothing to do.
const ALL_WELL: &[u8] = b"ok";

/// Makes sure that the processes of a tree do not outlive this one, even if it is killed by SIGKILL:
/// another process waits at a pipe, whose end comes when this process is gone, however that happened.
#[derive(Debug)]
pub struct Guard {
    process: Child,
}

impl Guard {
    /// Starts `program __guard TOKEN`, which must call [`guard_main`]. `/proc/self/exe` as the program
    /// works even when the file has been replaced.
    pub fn start(program: &Path, tree: &Tree) -> io::Result<Self> {
        let mut command = std::process::Command::new(program);
        command
            .arg("__guard")
            .arg(tree.token())
            .env_clear()
            // The guard belongs to what is around the tree, but not to the tree.
            .env(VARIABLE, tree.outer_mark())
            .current_dir("/")
            // Ctrl-C at the terminal is not for the guard.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = orphans::start_guard(&mut command)?;
        Ok(Self { process })
    }

    /// Lets the guard go: the tree has ended. Without this call the guard sweeps when the value is
    /// dropped.
    pub fn dismiss(&mut self) -> io::Result<()> {
        match self.process.stdin.take() {
            Some(mut pipe) => pipe.write_all(ALL_WELL),
            None => Ok(()),
        }
    }

    /// Lets the guard go and waits until it is gone.
    pub fn finish(mut self) -> io::Result<()> {
        self.dismiss()?;
        orphans::wait_for_guard(self.process)
    }
}

/// The work of the guard: waits until its standard input ends, then sweeps the tree of this token,
/// unless it was told that all is well.
pub fn guard_main(token: &str) -> io::Result<Swept> {
    let tree = Tree::of_token(token)?;
    let mut told = Vec::new();
    io::stdin().lock().take(16).read_to_end(&mut told)?;
    if told == ALL_WELL {
        return Ok(Swept::default());
    }
    Ok(tree.sweep_until_quiet(QUIET, BOUND))
}
