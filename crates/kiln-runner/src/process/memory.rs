//! How much memory the processes of a tree have together.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::getpid;

use super::Tree;
use super::sweep::{Member, add_kin, process_table, read_environment};

impl Tree {
    /// The memory that all processes of the tree have now, in bytes. What several of them share counts for
    /// each: to know better costs too much.
    ///
    /// Processes of the tree descend from this one, or were adopted by it, so only its children are asked for
    /// their mark.
    pub fn memory(&self) -> u64 {
        let own = getpid().as_raw_pid();
        let table = process_table();
        let mut environment = Vec::new();
        let mut members = BTreeSet::new();
        for (pid, entry) in table.iter().filter(|(_, entry)| entry.parent == own) {
            if read_environment(*pid, &mut environment).is_ok() && self.has(&environment) {
                members.insert(Member { pid: *pid, start: entry.start });
            }
        }
        if members.is_empty() {
            return 0;
        }
        add_kin(&mut members, &table);
        members.iter().filter_map(|member| resident(member.pid)).sum()
    }
}

/// The bytes of a process that are in memory.
fn resident(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes << 10)
}
