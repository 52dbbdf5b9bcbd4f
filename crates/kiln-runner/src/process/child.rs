//! A process that was started here.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::process::ExitStatus;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::{Usage, orphans};

/// The leader of its own group. Should an error or a panic cut its run short, the group does not
/// outlive this value.
pub(super) struct Process {
    pid: Pid,
    /// Readable when the process has ended.
    pidfd: Option<OwnedFd>,
    /// Its status was not taken, so that its pid is still its own, and its group's.
    is_there: bool,
}

impl Process {
    pub(super) fn new(pid: Pid) -> io::Result<Self> {
        let mut process = Self { pid, pidfd: None, is_there: true };
        process.pidfd = Some(pidfd_open(pid, PidfdFlags::empty())?);
        Ok(process)
    }

    /// What becomes readable when the process has ended; nothing once its status was taken.
    pub(super) fn exit(&self) -> Option<BorrowedFd<'_>> {
        let pidfd = self.pidfd.as_ref()?;
        self.is_there.then(|| pidfd.as_fd())
    }

    pub(super) fn take_status(&mut self) -> io::Result<Option<(ExitStatus, Usage)>> {
        let status = orphans::take_status(self.pid)?;
        self.is_there &= status.is_none();
        Ok(status)
    }

    pub(super) fn signal_group(&self, signal: Signal) {
        if self.is_there {
            // They may all be about to end.
            let _ = kill_process_group(self.pid, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_there {
            self.signal_group(Signal::KILL);
            orphans::abandon(self.pid);
        }
    }
}
