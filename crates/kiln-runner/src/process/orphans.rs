//! Children of this process: those it started, and those it adopted when their parent died.
//!
//! An adopted child that ends stays a zombie until it is waited for. Waiting for "any child" would
//! steal the status of a process that a thread in `run` waits for, so the started ones are listed.

use std::fs;
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use rustix::process::{Pid, getpid, set_child_subreaper};

use super::sys::{self, Usage};

/// Children that are no orphans.
static KNOWN: Mutex<Known> = Mutex::new(Known { started: Vec::new(), guards: Vec::new() });

struct Known {
    /// The started processes whose status has not been taken.
    started: Vec<Pid>,
    /// Guards, which belong to no tree. One that was killed is freed like an orphan.
    guards: Vec<Pid>,
}

/// Whether every orphan becomes our child, as far as we know.
static ADOPTS_ALL: AtomicBool = AtomicBool::new(false);

/// Held for reading from the start of a process until it is listed, so that it cannot be taken for an
/// orphan in between, and for writing while orphans are reaped. Starts do not exclude one another.
static STARTING: RwLock<()> = RwLock::new(());

/// Makes this process the one that adopts its orphaned descendants. Call it once, at the start.
pub fn become_subreaper() -> io::Result<()> {
    set_child_subreaper(Some(getpid()))?;
    ADOPTS_ALL.store(true, Ordering::SeqCst);
    Ok(())
}

/// Whether this process may have adopted somebody who is still there. One look at the children of the
/// first thread, to which the kernel gives all orphans; those of other threads were started there.
///
/// The answer no is certain: an orphan is in the list before its parent can be freed, and since only we
/// free those in the list, under the lock, the kernel skips none while it writes the list.
pub(super) fn may_have_adopted() -> bool {
    if !ADOPTS_ALL.load(Ordering::SeqCst) {
        return true;
    }
    let known = known();
    let list = format!("/proc/self/task/{}/children", getpid().as_raw_pid());
    let Ok(children) = fs::read_to_string(list) else {
        return true; // Some kernels are built without these lists.
    };
    let is_known = |child: &str| {
        let pid = child.parse().ok().and_then(Pid::from_raw);
        pid.is_some_and(|pid| known.started.contains(&pid) || known.guards.contains(&pid))
    };
    !children.split_ascii_whitespace().all(is_known)
}

/// Frees adopted children that have ended, and says how many. One system call when there are none.
///
/// A started process that has ended hides others until its own thread has taken its status; they are
/// found the next time.
pub fn reap_orphans() -> usize {
    let mut reaped = 0;
    while let Some(pid) = sys::any_zombie() {
        let _nothing_starts = STARTING.write().unwrap_or_else(PoisonError::into_inner);
        let mut known = known();
        if known.started.contains(&pid) || !matches!(sys::take_status(pid), Ok(Some(_))) {
            break;
        }
        known.guards.retain(|guard| *guard != pid);
        reaped += 1;
    }
    reaped
}

/// Starts a process and lists it as ours.
pub(super) fn start(command: &mut std::process::Command) -> io::Result<(Child, Pid)> {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn()?;
    let pid = Pid::from_child(&child);
    known().started.push(pid);
    Ok((child, pid))
}

/// Starts a process that belongs to no tree.
pub(super) fn start_guard(command: &mut std::process::Command) -> io::Result<Child> {
    let mut known = known();
    let child = command.spawn()?;
    known.guards.push(Pid::from_child(&child));
    Ok(child)
}

/// Waits for the end of a guard.
pub(super) fn wait_for_guard(mut guard: Child) -> io::Result<()> {
    let ended = match guard.wait() {
        // Somebody killed it, and it was taken for an orphan.
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(()),
        other => other.map(drop),
    };
    let pid = Pid::from_child(&guard);
    known().guards.retain(|other| *other != pid);
    ended
}

/// Takes the status of a process of ours if it has ended. The list stays locked meanwhile: its pid may
/// be given to the next process at once.
pub(super) fn take_status(pid: Pid) -> io::Result<Option<(ExitStatus, Usage)>> {
    let mut known = known();
    let status = sys::take_status(pid)?;
    if status.is_some() {
        known.started.retain(|other| *other != pid);
    }
    Ok(status)
}

/// Gives up on a process of ours: should it end one day, it is an orphan. It stays the child of the
/// thread that started it, where [`may_have_adopted`] does not look.
pub(super) fn abandon(pid: Pid) {
    ADOPTS_ALL.store(false, Ordering::SeqCst);
    known().started.retain(|other| *other != pid);
}

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}
