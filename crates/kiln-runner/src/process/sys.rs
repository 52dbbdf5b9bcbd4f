//! What no safe crate offers of the system.
#![expect(
    unsafe_code,
    reason = "wait4 with resource usage, waitid with the pid, ignored signals, and what a process does before it becomes \
              the program have no safe wrapper"
)]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::Pid;

/// What a process used, together with those of its children that it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub user: Duration,
    pub system: Duration,
    /// The largest resident size that any one of them had, in bytes.
    pub max_rss: u64,
}

/// Takes the exit status of this child if it has ended, which frees its pid.
pub(super) fn take_status(pid: Pid) -> io::Result<Option<(ExitStatus, Usage)>> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to live, writable values of the types that the call fills.
    let answer = unsafe {
        libc::wait4(pid.as_raw_nonzero().get(), &raw mut status, libc::WNOHANG, usage.as_mut_ptr())
    };
    match answer {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        _ => {
            // SAFETY: an `rusage` consists of integers, for which zeroes are valid, too.
            let usage = unsafe { usage.assume_init() };
            Ok(Some((ExitStatus::from_raw(status), usage_of(&usage))))
        }
    }
}

/// The pid of one child that has ended, whose status stays where it is.
pub(super) fn any_zombie() -> Option<Pid> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the pointer is to a live, writable `siginfo_t`.
    let answer = unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), options) };
    if answer != 0 {
        return None; // There are no children at all.
    }
    // SAFETY: a `siginfo_t` consists of integers and pointers, for which zeroes are valid; the pid is
    // zero when no child has ended, and set when one has.
    let pid = unsafe { info.assume_init().si_pid() };
    Pid::from_raw(pid)
}

/// Makes processes started from now on fail when they ask at the terminal, where they would otherwise
/// stop and wait forever, since each is in a process group in the background.
pub fn refuse_terminal() {
    for signal in [libc::SIGTTIN, libc::SIGTTOU] {
        // SAFETY: ignoring a signal installs no handler, so nothing of ours runs asynchronously.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Lets the process write to these files before it becomes the program: zero is whoever writes it.
pub(super) fn join(command: &mut std::process::Command, groups: Vec<File>) {
    let join = move || groups.iter().try_for_each(write_zero);
    // SAFETY: between fork and exec only write(2) is called, on files that are open; nothing is allocated.
    unsafe { command.pre_exec(join) };
}

fn write_zero(group: &File) -> io::Result<()> {
    rustix::io::write(group, b"0")?;
    Ok(())
}

fn usage_of(usage: &libc::rusage) -> Usage {
    Usage {
        user: duration_of(usage.ru_utime),
        system: duration_of(usage.ru_stime),
        max_rss: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
    }
}

fn duration_of(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}
