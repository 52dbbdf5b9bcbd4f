//! How long processors worked for other processes meanwhile: where the time of a cycle goes.

use std::fs;
use std::path::Path;

use kiln_testkit::cpu::of_thread;

/// A process with all its children, under the name of its row.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub(crate) name: String,
    process: String,
}

impl Watched {
    /// From `NAME=PID`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, process) =
            text.split_once('=').ok_or_else(|| format!("`{text}`: no NAME=PID"))?;
        Ok(Self { name: name.to_owned(), process: process.to_owned() })
    }

    /// Microseconds until now, by the threads that there are.
    pub(crate) fn until_now(&self) -> f64 {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
        let mine = all.filter(|process| self.is_or_bore(process));
        mine.map(|process| of_process(&process)).sum()
    }

    fn is_or_bore(&self, process: &Path) -> bool {
        if process.file_name().is_some_and(|name| name == self.process.as_str()) {
            return true;
        }
        // Behind the name, which may hold anything but a bracket that is not its last: state, then parent.
        let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        rest.split_whitespace().nth(1) == Some(self.process.as_str())
    }
}

fn of_process(process: &Path) -> f64 {
    let threads = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| of_thread(&thread.path())).sum()
}
