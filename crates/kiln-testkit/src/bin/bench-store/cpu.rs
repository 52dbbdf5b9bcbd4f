//! How long processors worked for this process: says more than a rate where others use them, too.

use std::fs;

use kiln_testkit::cpu::of_thread;

/// Microseconds of all threads, and of the one that writes to SQLite.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) all: f64,
    pub(crate) writer: f64,
}

impl Spent {
    /// Until now, by the threads that there are; nothing where the system does not say it.
    pub(crate) fn until_now() -> Self {
        let mut spent = Self::default();
        for thread in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let micros = of_thread(&thread.path()).unwrap_or(0.0);
            spent.all += micros;
            let name = fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
            if name.trim() == "kiln-writer" {
                spent.writer += micros;
            }
        }
        spent
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { all: self.all - earlier.all, writer: self.writer - earlier.writer }
    }
}
