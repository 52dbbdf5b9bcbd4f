//! The workers of a local run: each takes the next queued leg and runs it to its end.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

use kiln_core::plan::{JobIndex, WorkflowIndex};
use kiln_core::run::{Conclusion, LegNo};

use crate::job::{self, Contexts, Places, Report, Task};
use crate::origin::TOKEN_SECRET;
use crate::process::{Control, Tree};

use super::log::LegReporter;
use super::state::log_path;
use super::{Message, Options, Progress};

/// A leg that waits for a worker.
pub(super) struct Queued {
    pub(super) leg: LegNo,
    pub(super) workflow: WorkflowIndex,
    pub(super) job: JobIndex,
    pub(super) name: String,
    pub(super) contexts: Contexts,
    /// The environment it deploys to, or why its name could not be evaluated.
    pub(super) environment: Result<Option<String>, String>,
    /// What it sees of the secrets, or why they could not be handed on to it.
    pub(super) secrets: Result<Vec<(String, String)>, String>,
}

pub(crate) struct Finished {
    pub(crate) leg: LegNo,
    pub(crate) attempt: u32,
    pub(crate) report: Report,
}

pub(super) struct Pool<'p> {
    options: &'p Options,
    control: &'p Control,
    tree: &'p Tree,
    progress: &'p (dyn Fn(Progress) + Sync),
    shared: Mutex<Shared>,
    changed: Condvar,
}

#[derive(Default)]
struct Shared {
    queued: VecDeque<Queued>,
    /// Claimed by the run, ready for a worker.
    ready: VecDeque<(Queued, u32)>,
    /// How many workers have nothing to do.
    idle: usize,
    running: HashMap<LegNo, Control>,
    closed: bool,
}

impl<'p> Pool<'p> {
    pub(super) fn new(
        options: &'p Options,
        control: &'p Control,
        tree: &'p Tree,
        progress: &'p (dyn Fn(Progress) + Sync),
    ) -> Self {
        let shared = Mutex::new(Shared { idle: options.jobs.max(1), ..Shared::default() });
        Self { options, control, tree, progress, shared, changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn start<'s>(&'s self, scope: &'s Scope<'s, '_>, sender: &Sender<Message>)
    where
        'p: 's,
    {
        for _ in 0..self.options.jobs.max(1) {
            let sender = sender.clone();
            scope.spawn(move || self.work(&sender));
        }
    }

    pub(super) fn push(&self, queued: Queued) {
        self.lock().queued.push_back(queued);
    }

    pub(super) fn remove(&self, leg: LegNo) {
        self.lock().queued.retain(|queued| queued.leg != leg);
    }

    /// The legs that idle workers could take now.
    pub(super) fn claimable(&self) -> Vec<LegNo> {
        let shared = self.lock();
        let free = shared.idle.saturating_sub(shared.ready.len());
        shared.queued.iter().take(free).map(|queued| queued.leg).collect()
    }

    /// The run has marked a leg as claimed: a worker may have it.
    pub(super) fn release(&self, leg: LegNo, attempt: u32) {
        let mut shared = self.lock();
        let Some(at) = shared.queued.iter().position(|queued| queued.leg == leg) else { return };
        if let Some(queued) = shared.queued.remove(at) {
            shared.ready.push_back((queued, attempt));
            self.changed.notify_one();
        }
    }

    pub(super) fn stop(&self, leg: LegNo, forced: bool) {
        if let Some(control) = self.lock().running.get(&leg) {
            control.cancel();
            if forced {
                control.kill();
            }
        }
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn work(&self, sender: &Sender<Message>) {
        while let Some((queued, attempt)) = self.next() {
            let leg = queued.leg;
            let report = self.run(queued);
            let mut shared = self.lock();
            shared.running.remove(&leg);
            shared.idle += 1;
            drop(shared);
            if sender.send(Message::Finished(Finished { leg, attempt, report })).is_err() {
                return;
            }
        }
    }

    fn next(&self) -> Option<(Queued, u32)> {
        let mut shared = self.lock();
        loop {
            if let Some(ready) = shared.ready.pop_front() {
                shared.idle -= 1;
                return Some(ready);
            }
            if shared.closed {
                return None;
            }
            shared = self.changed.wait(shared).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, queued: Queued) -> Report {
        let leg = queued.leg;
        (self.progress)(Progress::JobStarted { leg, name: queued.name.clone() });
        let report = self.try_run(queued).unwrap_or_else(|message| {
            let line = format!("##[error]{message}");
            (self.progress)(Progress::Line { leg, step: 0, line: line.into_bytes() });
            Report { conclusion: Conclusion::Failure, outputs: Vec::new(), deployment: None }
        });
        if let Some(deployment) = report.deployment.clone() {
            (self.progress)(Progress::Deployed { leg, deployment });
        }
        (self.progress)(Progress::JobFinished { leg, conclusion: report.conclusion });
        report
    }

    fn try_run(&self, queued: Queued) -> Result<Report, String> {
        let leg = queued.leg;
        let options = self.options;
        let base = options.directory.join("jobs").join(leg.to_string());
        let repository =
            queued.contexts.github.get("repository").and_then(kiln_core::value::Value::as_str);
        let short =
            repository.and_then(|name| name.rsplit('/').next()).unwrap_or("repository").to_owned();
        let places = Places {
            workspace: base.join("work").join(&short).join(&short),
            temp: base.join("temp"),
            tool_cache: options.tool_cache.clone(),
            actions: options.host.resolver.store.clone(),
        };
        options.pristine.copy_to(&places.workspace).map_err(|error| error.to_string())?;
        let control = self.control.child().map_err(|error| error.to_string())?;
        let tree = self.tree.child().map_err(|error| error.to_string())?;
        self.lock().running.insert(leg, control.clone());
        let mut contexts = queued.contexts;
        let workspace = places.workspace.to_string_lossy().into_owned();
        contexts.github.insert("workspace", workspace.into());
        contexts.github.insert("token", options.host.origin.token().into());
        let event = base.join("event.json");
        super::github::write_event(&contexts.github, &event)?;
        contexts.github.insert("event_path", event.to_string_lossy().into_owned().into());
        let task = Task {
            plan: options.start.run.plan.clone(),
            workflow: queued.workflow,
            job: queued.job,
            name: queued.name,
            contexts,
            environment: queued.environment?,
            secrets: with_token(queued.secrets?, options.host.origin.token()),
            masks: options.secrets.iter().map(|(_, secret)| secret.clone()).collect(),
            places,
        };
        let log = log_path(&options.directory, leg);
        let reporter = LegReporter::new(leg, &log, options.log_limit, self.progress)?;
        let report = job::run(&task, &options.host, &reporter, &control, &tree);
        reporter.finish()?;
        tree.sweep();
        // The workspace was the job's own; what is worth keeping are its logs.
        let _ = fs::remove_dir_all(&base);
        Ok(report)
    }
}

/// The secrets of a job: GitHub gives each one a token.
fn with_token(mut secrets: Vec<(String, String)>, token: &str) -> Vec<(String, String)> {
    if !secrets.iter().any(|(name, _)| name.eq_ignore_ascii_case(TOKEN_SECRET)) {
        secrets.push((TOKEN_SECRET.to_owned(), token.to_owned()));
    }
    secrets
}
