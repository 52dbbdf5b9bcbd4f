//! Ending all processes of a tree, wherever they have gone.
//!
//! Members are found in `/proc`: processes that carry the tree's mark in their environment, all their
//! descendants, and all in a group or session that a member leads. The latter two matter for programs
//! that write their title over their environment, as database servers do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use super::orphans::{end_adopted, may_have_adopted};
use super::{Tree, reap_orphans};

/// More is not read of an environment; the system's own limit is below.
const MAX_ENVIRONMENT: usize = 8 * 1024 * 1024;

/// On a machine where processes start all the time no look is certain. So many empty ones will do.
const UNCERTAIN_LOOKS: u32 = 10;

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub killed: usize,
    /// The pids that were still there at the end: they hang in the kernel, or belong to another user.
    pub survivors: Vec<i32>,
}

/// Ends every process that this one adopted, whatever it did to its mark. Only for a process that looks
/// after nothing at the moment: what somebody still needs would end, too.
pub fn end_orphans() {
    reap_orphans();
    if may_have_adopted() {
        end_adopted(BOUND_OF_ADOPTED);
    }
}

/// How long adopted processes have to be gone after SIGKILL.
const BOUND_OF_ADOPTED: Duration = Duration::from_secs(5);

impl Tree {
    /// Kills all processes of the tree and waits until they are gone, for 5 s at most.
    ///
    /// With nothing to kill it costs one look at the environment of each process of this user.
    pub fn sweep(&self) -> Swept {
        self.sweep_until_quiet(Duration::ZERO, Duration::from_secs(5))
    }

    /// Sweeps after the last process that [`run`](super::run) started in the tree has ended.
    ///
    /// What such a process left running lost its parent, and became a child of this process if that
    /// adopts orphans: with none, nothing is left and nothing is searched. Who was started in the name
    /// of the tree but by strangers, such as `at`, waits for [`Tree::sweep_strangers`].
    pub fn sweep_leftovers(&self) -> Swept {
        reap_orphans();
        if may_have_adopted() { self.sweep() } else { Swept::default() }
    }

    /// Does the same after the last job of a run, and looks at all processes of this user once.
    pub fn sweep_strangers(&self) -> Swept {
        let swept = self.sweep_leftovers();
        // What dropped its mark is ours all the same.
        end_adopted(BOUND_OF_ADOPTED);
        let is_clean = self.look().members.is_empty();
        if is_clean { swept } else { self.sweep() }
    }

    /// Sweeps until no member was seen for `quiet`, or until `bound` is over.
    pub(super) fn sweep_until_quiet(&self, quiet: Duration, bound: Duration) -> Swept {
        let start = Instant::now();
        let mut last_seen = start;
        let mut doubts = 0;
        let mut pause = FIRST_PAUSE;
        let mut killed = BTreeSet::new();
        let mut ending: BTreeSet<Member> = BTreeSet::new();
        while start.elapsed() < bound {
            let look = self.freeze(start + bound);
            for member in &look.members {
                member.signal(Signal::KILL);
            }
            // A process that ends loses its environment before it lets go of its files.
            ending.retain(Member::is_alive);
            reap_orphans();
            if look.members.is_empty() && ending.is_empty() {
                doubts += u32::from(!look.certain);
                let is_clean = look.certain || doubts >= UNCERTAIN_LOOKS;
                if is_clean && last_seen.elapsed() >= quiet {
                    break;
                }
            } else {
                doubts = 0;
                last_seen = Instant::now();
            }
            pause = if look.members.is_subset(&killed) {
                (pause * 2).min(LAST_PAUSE)
            } else {
                FIRST_PAUSE
            };
            killed.extend(look.members.iter().copied());
            ending.extend(look.members);
            std::thread::sleep(pause);
        }
        Swept {
            killed: killed.len() - ending.len(),
            survivors: ending.iter().map(|member| member.pid).collect(),
        }
    }

    /// Stops the members, until none appears that was not stopped. What is stopped starts no further
    /// process, and stays the parent of those it started, so that none gets lost.
    fn freeze(&self, until: Instant) -> Look {
        let mut frozen = BTreeSet::new();
        loop {
            let look = self.look();
            if look.members.is_subset(&frozen) || Instant::now() > until {
                return look;
            }
            frozen.extend(look.members);
        }
    }

    /// Finds and stops all members.
    fn look(&self) -> Look {
        let before = last_pid();
        let mut look = Look { members: BTreeSet::new(), certain: true };
        self.add_marked(&mut look);
        // Between the list of processes and the look at one of them, it may have started another and
        // ended. None did if none was started at all.
        look.certain &= before.is_some() && before == last_pid();
        if !look.members.is_empty() {
            add_kin(&mut look.members, &process_table());
            for member in &look.members {
                member.signal(Signal::STOP);
            }
        }
        look
    }

    /// Finds and stops the processes with the tree's mark.
    fn add_marked(&self, look: &mut Look) {
        let mut environment = Vec::new();
        for pid in all_pids() {
            if read_environment(pid, &mut environment).is_err() {
                continue; // It has ended, or is another user's.
            }
            if environment.is_empty() {
                look.certain &= !read_entry(pid).is_some_and(|entry| entry.is_in_exec);
            } else if self.has(&environment)
                && let Some(entry) = read_entry(pid)
            {
                let member = Member { pid, start: entry.start };
                // At once: some do not live for long.
                member.signal(Signal::STOP);
                look.members.insert(member);
            }
        }
    }
}

const FIRST_PAUSE: Duration = Duration::from_micros(100);
const LAST_PAUSE: Duration = Duration::from_millis(20);

/// What was found at one time.
struct Look {
    members: BTreeSet<Member>,
    /// Whether it can be excluded that a member was overlooked.
    certain: bool,
}

/// A process: pids are used again, but not for two that started at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member {
    pub(super) pid: i32,
    pub(super) start: u64,
}

impl Member {
    pub(super) fn is_alive(&self) -> bool {
        read_entry(self.pid).is_some_and(|entry| entry.start == self.start)
    }

    /// Sends a signal, if the process is still this one.
    fn signal(self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return;
        };
        // The descriptor comes first: what is then read is about the process it stands for, or that
        // one has ended, and the signal reaches nobody.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
            return;
        };
        if self.is_alive() {
            // It may end before us, or not be ours to end: the next look tells.
            let _ = pidfd_send_signal(&process, signal);
        }
    }
}

/// Adds descendants of these processes, and all in groups and sessions that they lead.
pub(super) fn add_kin(members: &mut BTreeSet<Member>, table: &BTreeMap<i32, Entry>) {
    let mut pids: BTreeSet<i32> = members.iter().map(|member| member.pid).collect();
    loop {
        let belongs = |pid: i32, entry: &Entry| {
            let mut leaders = [entry.parent, entry.group, entry.session].into_iter();
            !pids.contains(&pid) && leaders.any(|leader| pids.contains(&leader))
        };
        let kin = table.iter().filter(|(pid, entry)| belongs(**pid, entry));
        let kin: Vec<Member> =
            kin.map(|(pid, entry)| Member { pid: *pid, start: entry.start }).collect();
        if kin.is_empty() {
            return;
        }
        pids.extend(kin.iter().map(|member| member.pid));
        members.extend(kin);
    }
}

/// A process and all that it started, directly or not, as far as those in between are still there. None if it is
/// not there itself.
pub(super) fn descendants(root: Member) -> BTreeSet<Member> {
    if !root.is_alive() {
        return BTreeSet::new();
    }
    let table = process_table();
    let (mut found, mut open) = (BTreeSet::from([root]), vec![root.pid]);
    while let Some(parent) = open.pop() {
        for (pid, entry) in table.iter().filter(|(_, entry)| entry.parent == parent) {
            if found.insert(Member { pid: *pid, start: entry.start }) {
                open.push(*pid);
            }
        }
    }
    found
}

/// What `/proc` says about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) parent: i32,
    group: i32,
    session: i32,
    pub(super) start: u64,
    /// It is about to become another program, and has no environment for this moment.
    is_in_exec: bool,
}

/// All processes that have not ended, but this one.
pub(super) fn process_table() -> BTreeMap<i32, Entry> {
    let entry = |pid| Some((pid, read_entry(pid)?));
    all_pids().filter_map(entry).collect()
}

/// All processes but this one. The newest come first: those that are soon replaced by others are seen
/// before that.
fn all_pids() -> impl Iterator<Item = i32> {
    let own = getpid().as_raw_pid();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pids: Vec<i32> = pids.filter(|pid| *pid != own).collect();
    pids.into_iter().rev()
}

/// The pid of the process that was started last.
fn last_pid() -> Option<i32> {
    let load = fs::read_to_string("/proc/loadavg").ok()?;
    load.split_ascii_whitespace().nth(4)?.parse().ok()
}

pub(super) fn read_entry(pid: i32) -> Option<Entry> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&stat))
}

/// Reads a line of `/proc/PID/stat`. `None` for a process that has ended.
fn parse_stat(stat: &str) -> Option<Entry> {
    // The name stands in brackets, and may contain some itself.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    let id = |at: usize| fields.get(at)?.parse().ok();
    let is_zero = |at: usize| fields.get(at).is_none_or(|field| *field == "0");
    let (has_memory, has_environment) = (!is_zero(20), !is_zero(48));
    Some(Entry {
        parent: id(1)?,
        group: id(2)?,
        session: id(3)?,
        start: fields.get(19)?.parse().ok()?,
        is_in_exec: has_memory && !has_environment,
    })
}

/// Reads the environment of a process in one system call, or as few as its size allows.
pub(super) fn read_environment(pid: i32, environment: &mut Vec<u8>) -> io::Result<()> {
    environment.clear();
    let file = File::open(format!("/proc/{pid}/environ"))?;
    while environment.len() < MAX_ENVIRONMENT {
        environment.reserve(16 * 1024);
        let room = environment.capacity() - environment.len();
        if rustix::io::read(&file, spare_capacity(environment))? < room {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Entry, Member, add_kin, parse_stat};
    use std::collections::{BTreeMap, BTreeSet};

    fn entry(parent: i32, group: i32, session: i32) -> Entry {
        Entry { parent, group, session, start: 7, is_in_exec: false }
    }

    #[test]
    fn a_name_cannot_forge_the_fields_after_it() {
        let tail = "0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 7 0 9";
        let check = |head: &str, expect: Option<Entry>| {
            assert_eq!(parse_stat(&format!("{head} {tail}")), expect, "{head}");
        };
        check("5 (bash) S 1 2 3", Some(entry(1, 2, 3)));
        check("5 (a) S 9 9 9 (b)) R 1 2 3", Some(entry(1, 2, 3)));
        check("5 (gone) Z 1 2 3", None);
        check("5 no name", None);
        assert_eq!(parse_stat("5 (cut) S 1"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn a_process_with_memory_but_without_environment_is_in_exec() {
        let check = |memory: &str, environment_end: &str, expect: bool| {
            let stat = format!(
                "5 (bash) R 1 2 3 0 -1 4 1 0 0 0 1 2 0 0 20 0 1 0 7 {memory} 9 1 1 1 1 1 1 0 0 0 0 0 0 0 17 1 0 0 0 \
                 0 0 1 1 1 1 1 1 {environment_end} 0"
            );
            let fields = stat.split(' ').count();
            assert_eq!((fields, parse_stat(&stat).unwrap().is_in_exec), (52, expect), "{stat}");
        };
        check("4096", "0", true);
        check("4096", "140726", false);
        check("0", "0", false);
    }

    #[test]
    fn kin_are_descendants_and_who_is_led_by_a_member() {
        let table = BTreeMap::from([
            (10, entry(1, 10, 10)),  // The marked one.
            (11, entry(10, 10, 10)), // Its child.
            (12, entry(11, 12, 12)), // A grandchild with a session.
            (13, entry(1, 12, 12)),  // One whose parent is gone, in that session.
            (20, entry(1, 20, 1)),   // A stranger.
            (21, entry(20, 20, 1)),
        ]);
        let mut members = BTreeSet::from([Member { pid: 10, start: 7 }]);
        add_kin(&mut members, &table);
        let pids: Vec<i32> = members.iter().map(|member| member.pid).collect();
        assert_eq!(pids, [10, 11, 12, 13]);
    }
}
