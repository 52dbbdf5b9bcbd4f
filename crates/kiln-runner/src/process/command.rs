//! What to start, and a clear word when it cannot be started.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Pid;

use super::child::Process;
use super::{Tree, VARIABLE, orphans, sys};

#[derive(Clone, Debug, Default)]
pub struct Command {
    /// A path, relative to `cwd`; or a bare name, looked up in the `PATH` of `env`.
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// The whole environment but for the tree's mark: nothing is inherited. The last of equal names
    /// counts.
    pub env: Vec<(OsString, OsString)>,
    pub cwd: PathBuf,
}

/// Finds an executable file as a shell would. Relative folders in `path` are relative to `cwd`.
pub fn find_program(name: &Path, path: &OsStr, cwd: &Path) -> Option<PathBuf> {
    let mut candidates = std::env::split_paths(path).map(|folder| cwd.join(folder).join(name));
    candidates.find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    let metadata = file.metadata();
    metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// What a process reads and writes instead of nothing and a pipe.
#[derive(Debug)]
pub struct Ends {
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
}

/// A process that was just started.
pub(super) struct Started {
    pub(super) process: Process,
    /// `None` when it writes to an end of its own.
    pub(super) stdout: Option<OwnedFd>,
    pub(super) stderr: OwnedFd,
}

impl Command {
    pub(super) fn start(&self, tree: &Tree, ends: Option<Ends>) -> io::Result<Started> {
        let program = self.resolve()?;
        let (stdin, stdout) = match ends {
            Some(ends) => (Stdio::from(ends.stdin), Stdio::from(ends.stdout)),
            None => (Stdio::null(), Stdio::piped()),
        };
        let mut command = std::process::Command::new(&program);
        if let Some(cage) = tree.cage() {
            sys::join(&mut command, cage.doors()?);
        }
        command
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env(VARIABLE, tree.mark())
            .current_dir(&self.cwd)
            .process_group(0)
            .stdin(stdin)
            .stdout(stdout)
            .stderr(Stdio::piped());
        let started = start_unless_busy(&mut command);
        let (mut child, pid) = started.map_err(|error| self.explain(&program, &error))?;
        if let Some(leader) = tree.leader() {
            leader.began(pid);
        }
        let process = Process::new(pid)?;
        let stdout = child.stdout.take().map(OwnedFd::from);
        let stderr = child.stderr.take().expect("it was asked for");
        Ok(Started { process, stdout, stderr: stderr.into() })
    }

    /// The path of the program. The standard library would look up a bare name, too, but starts
    /// processes by a slower way then.
    fn resolve(&self) -> io::Result<PathBuf> {
        if self.program.as_os_str().as_bytes().contains(&b'/') {
            return Ok(self.cwd.join(&self.program));
        }
        let path = self.env.iter().rfind(|(name, _)| name == "PATH");
        let path = path.map(|(_, value)| value.as_os_str()).unwrap_or_default();
        find_program(&self.program, path, &self.cwd).ok_or_else(|| {
            let program = self.program.display();
            let place = if path.is_empty() {
                "`PATH` is not set".to_owned()
            } else {
                format!("no such file in {}", path.display())
            };
            let message = format!("program `{program}` not found: {place}");
            io::Error::new(io::ErrorKind::NotFound, message)
        })
    }

    /// The system's error says neither which file is meant nor which of several causes it has.
    fn explain(&self, program: &Path, error: &io::Error) -> io::Error {
        let cwd = self.cwd.display();
        let name = program.display();
        let message = match error.kind() {
            _ if !self.cwd.exists() => format!("working directory `{cwd}` does not exist"),
            _ if !self.cwd.is_dir() => format!("working directory `{cwd}` is not a directory"),
            io::ErrorKind::NotFound if !program.exists() => format!("program `{name}` not found"),
            io::ErrorKind::NotFound => format!("the interpreter of `{name}` was not found"),
            io::ErrorKind::PermissionDenied => format!("`{name}` is not executable"),
            io::ErrorKind::ArgumentListTooLong => self.explain_size(program),
            io::ErrorKind::InvalidInput => self.explain_zero_byte(program),
            _ => format!("cannot start `{name}`: {error}"),
        };
        io::Error::new(error.kind(), message)
    }

    fn explain_size(&self, program: &Path) -> String {
        let name = program.display();
        let largest = self.env.iter().max_by_key(|(_, value)| value.len());
        let hint = largest.map(|(name, value)| {
            let (name, length) = (name.display(), value.len());
            format!(": the largest variable is `{name}` with {length} bytes")
        });
        let hint = hint.unwrap_or_default();
        format!("cannot start `{name}`, its arguments and environment are too large{hint}")
    }

    fn explain_zero_byte(&self, program: &Path) -> String {
        let name = program.display();
        let has_zero = |text: &OsStr| text.as_bytes().contains(&0);
        let guilty = self.env.iter().find(|(name, value)| has_zero(name) || has_zero(value));
        let place = match guilty {
            Some((name, _)) => format!("variable `{}`", name.display()),
            None => "an argument or path".to_owned(),
        };
        format!("cannot start `{name}`, {place} contains a zero byte")
    }
}

/// A program that was just written cannot be started while another thread's new process still holds a
/// copy of the file that it was written through. That passes within milliseconds.
fn start_unless_busy(
    command: &mut std::process::Command,
) -> io::Result<(std::process::Child, Pid)> {
    let mut wait = Duration::from_millis(1);
    loop {
        match orphans::start(command) {
            Err(error) if is_busy(&error) && wait < Duration::from_secs(1) => {
                std::thread::sleep(wait);
                wait *= 2;
            }
            other => return other,
        }
    }
}

fn is_busy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ExecutableFileBusy
}
