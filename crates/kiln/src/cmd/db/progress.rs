//! How far something is that may take long: one moving line on a terminal, and for a copy elsewhere a
//! line for each table.

use std::io::{IsTerminal as _, stderr};

use kiln_store::{Phase, Progress};

use crate::output::Console;

#[derive(Debug)]
pub(super) struct Shown<'c> {
    console: &'c mut Console,
    moving: bool,
}

impl<'c> Shown<'c> {
    pub(super) fn on(console: &'c mut Console) -> Self {
        Self { console, moving: stderr().is_terminal() }
    }

    pub(super) fn show(&mut self, progress: Progress<'_>) {
        let text = line(progress);
        if !self.moving && progress.done == progress.total && progress.total > 0 {
            self.console.eprint(&format!("{text}\n"));
        }
        self.move_to(&text);
    }

    /// Shows this in the moving line, if there is one.
    pub(super) fn move_to(&mut self, text: &str) {
        if self.moving {
            self.console.eprint(&format!("\r{text}\x1b[K"));
        }
    }

    /// Leaves the moving line.
    pub(super) fn end(self) {
        if self.moving {
            self.console.eprint("\r\x1b[K");
        }
    }
}

fn line(progress: Progress<'_>) -> String {
    let Progress { phase, table, done, total } = progress;
    let verb = match phase {
        Phase::Copying => "copying",
        Phase::Checking => "checking",
    };
    let rows = if total == 1 { "row" } else { "rows" };
    if done == total {
        format!("{verb} {table}: {total} {rows}")
    } else {
        format!("{verb} {table}: {done} of {total} {rows}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(phase: Phase, done: u64, total: u64, expected: &str) {
        assert_eq!(line(Progress { phase, table: "runs", done, total }), expected);
    }

    #[test]
    fn a_line_says_what_is_done_and_how_far() {
        check(Phase::Copying, 0, 10, "copying runs: 0 of 10 rows");
        check(Phase::Copying, 10, 10, "copying runs: 10 rows");
        check(Phase::Checking, 1, 1, "checking runs: 1 row");
    }
}
