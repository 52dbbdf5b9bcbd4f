//! What people and programs see of a run while it goes on, and at its end.

mod ending;
mod json;
mod live;
mod plain;
mod watch;

use std::collections::HashSet;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::Result;
use kiln_core::plan::Workflow;
use kiln_core::run::Conclusion;
use kiln_runner::local::{Progress, Summary};

use crate::Outcome;
use crate::output::text::{QUIET, mark, style};
use crate::output::{Console, Manner, frame};
use ending::Ending;
use live::Live;
use plain::Plain;
use watch::Watch;

/// What stands before the runs of several workflows.
pub(super) fn heading(workflow: &str) -> String {
    format!("\n{QUIET}──{QUIET:#} {workflow}\n")
}

/// The first event of a run, for programs.
pub(super) fn started(workflow: &Workflow) -> String {
    let event = serde_json::json!({
        "event": "run_started", "workflow": workflow.path, "name": workflow.name,
    });
    format!("{event}\n")
}

/// How one of several workflows ended.
pub(super) fn verdict(workflow: &str, outcome: Outcome) -> String {
    let conclusion = match outcome {
        Outcome::Clean => Conclusion::Success,
        Outcome::Cancelled => Conclusion::Cancelled,
        Outcome::Errors | Outcome::Trouble => Conclusion::Failure,
    };
    let (style, sign) = (style(conclusion), mark(conclusion));
    format!("{style}{sign} {}{style:#} {workflow}\n", conclusion.word())
}

/// Hears of a run from several threads and shows it.
pub(super) struct Screen<'c>(Mutex<Inner<'c>>);

struct Inner<'c> {
    console: &'c mut Console,
    watch: Watch,
    view: View,
    start: Instant,
}

enum View {
    Json,
    Plain(Plain),
    Live(Box<Live>),
}

impl<'c> Screen<'c> {
    #[expect(clippy::disallowed_methods, reason = "people want to see how long it takes")]
    pub(super) fn new(console: &'c mut Console, manner: Manner) -> Self {
        let view = match manner {
            Manner::Json => View::Json,
            Manner::Plain => View::Plain(Plain::default()),
            Manner::Live => View::Live(Box::default()),
        };
        Self(Mutex::new(Inner { console, watch: Watch::default(), view, start: Instant::now() }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner<'c>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn show(&self, progress: &Progress) {
        self.lock().show(progress);
    }

    /// The user asked for an end.
    pub(super) fn cancelling(&self, forced: bool) {
        let inner = &mut *self.lock();
        match &mut inner.view {
            View::Json => {}
            View::Plain(_) => inner.console.note_line(live::message(forced)),
            View::Live(live) => live.cancelling(forced),
        }
    }

    /// The program was stopped, and goes on.
    pub(super) fn resumed(&self) {
        if let View::Live(live) = &mut self.lock().view {
            live.resumed();
        }
    }

    /// Keeps the live view up to date until the other end of `stop` is gone.
    pub(super) fn animate(&self, stop: &Receiver<()>) {
        while matches!(stop.recv_timeout(live::FRAME), Err(RecvTimeoutError::Timeout)) {
            let inner = &mut *self.lock();
            let View::Live(live) = &mut inner.view else { return };
            if let Some(text) = live.paint(inner.start.elapsed()) {
                inner.console.paint(&text);
            }
        }
    }

    pub(super) fn finish(&self, summary: &Summary, directory: &Path) -> Result<()> {
        let inner = &mut *self.lock();
        let (visible, terminal) = match &mut inner.view {
            View::Json => {
                let line = json::summary(summary, directory);
                return inner.console.print_raw(&format!("{line}\n"));
            }
            View::Plain(_) => (HashSet::new(), None),
            View::Live(live) => {
                if let Some(text) = live.clear() {
                    inner.console.paint(&text);
                }
                (live.visible(), Some(frame::size()))
            }
        };
        let ending =
            Ending { summary, watch: &inner.watch, directory, visible: &visible, terminal };
        inner.console.print(&ending.text())
    }
}

impl Inner<'_> {
    fn show(&mut self, progress: &Progress) {
        self.watch.hear(progress);
        // A reader that has gone does not stop the run.
        match &mut self.view {
            View::Json => {
                let lines = json::lines(progress, &self.watch);
                if !lines.is_empty() {
                    let _ = self.console.print_raw(&lines);
                }
            }
            View::Plain(plain) => {
                let lines = plain.lines(progress, &self.watch, self.console.has_color());
                if !lines.is_empty() {
                    let _ = self.console.print(&lines);
                }
            }
            View::Live(live) => live.hear(progress, &self.watch, self.start.elapsed()),
        }
    }
}
