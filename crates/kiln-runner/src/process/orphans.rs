//! Children of this process: those it started, and those it adopted when their parent died.
//!
//! An adopted child that ends stays a zombie until it is waited for. Waiting for "any child" would
//! steal the status of a process that a thread in `run` waits for, so the started ones are listed.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use rustix::process::{Pid, getpid, set_child_subreaper};

use super::sys::{self, Usage};

/// The started processes whose status has not been taken.
static STARTED: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Held for reading from the start of a process until it is listed, so that it cannot be taken for an
/// orphan in between, and for writing while orphans are reaped. Starts do not exclude one another.
static STARTING: RwLock<()> = RwLock::new(());

/// Makes this process the one that adopts its orphaned descendants. Call it once, at the start.
pub fn become_subreaper() -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    Ok(())
}

/// Frees adopted children that have ended, and says how many. One system call when there are none.
///
/// A started process that has ended hides others until its own thread has taken its status; they are
/// found the next time.
pub fn reap_orphans() -> usize {
    let mut reaped = 0;
    while let Some(pid) = sys::any_zombie() {
        let _nothing_starts = STARTING.write().unwrap_or_else(PoisonError::into_inner);
        if started().contains(&pid) || !matches!(sys::take_status(pid), Ok(Some(_))) {
            break;
        }
        reaped += 1;
    }
    reaped
}

/// Starts a process and lists it as ours.
pub(super) fn start(command: &mut std::process::Command) -> io::Result<(Child, Pid)> {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn()?;
    let pid = Pid::from_child(&child);
    started().push(pid);
    Ok((child, pid))
}

/// Takes the status of a process of ours if it has ended. The list stays locked meanwhile: its pid may
/// be given to the next process at once.
pub(super) fn take_status(pid: Pid) -> io::Result<Option<(ExitStatus, Usage)>> {
    let mut started = started();
    let status = sys::take_status(pid)?;
    if status.is_some() {
        started.retain(|other| *other != pid);
    }
    Ok(status)
}

/// Gives up on a process of ours: should it end one day, it is an orphan.
pub(super) fn abandon(pid: Pid) {
    started().retain(|other| *other != pid);
}

fn started() -> MutexGuard<'static, Vec<Pid>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}
