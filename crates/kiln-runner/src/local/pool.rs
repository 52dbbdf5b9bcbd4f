//! The workers of a local run: each takes the next queued leg and runs it to its end.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

use kiln_core::plan::{JobIndex, WorkflowIndex};
use kiln_core::run::{Conclusion, LegNo};

use crate::gateway::local::OnShelf;
use crate::job::mask::Masker;
use crate::job::{self, Contexts, Report, Task};
use crate::process::{Control, Tree};

use super::log::LegReporter;
use super::room::{self, Room};
use super::state::{event_path, log_path};
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
    /// It has `id-token: write`.
    pub(super) may_identify: bool,
    /// It has `actions: write`.
    pub(super) may_write_actions: bool,
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
    /// Knows all secrets of the run; made once, since that takes longer than many a job.
    masker: Masker,
    shared: Mutex<Shared>,
    changed: Condvar,
    /// How many rooms were made.
    rooms: AtomicUsize,
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
        let (changed, rooms) = (Condvar::new(), AtomicUsize::new(0));
        let secrets = options.secrets.iter().map(|(_, secret)| secret.as_str());
        let mut masker = Masker::default();
        // What is too short to be masked is too short to be a secret.
        let _ = masker.add_all(secrets.chain([options.host.origin.token()]));
        Self { options, control, tree, progress, masker, shared, changed, rooms }
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
    /// It can be stopped from here on, before a worker has begun with it.
    pub(super) fn release(&self, leg: LegNo, attempt: u32) {
        let mut shared = self.lock();
        let Some(at) = shared.queued.iter().position(|queued| queued.leg == leg) else { return };
        if let Some(queued) = shared.queued.remove(at) {
            if let Ok(control) = self.control.child() {
                shared.running.insert(leg, control);
            }
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
        let mut room = None;
        while let Some((queued, attempt)) = self.next() {
            let leg = queued.leg;
            let report = self.survive(queued, &mut room);
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

    /// A fault of our own fails the job, and nobody waits for it for ever.
    fn survive(&self, queued: Queued, room: &mut Option<Room>) -> Report {
        let leg = queued.leg;
        let ran = catch_unwind(AssertUnwindSafe(|| self.run(queued, room)));
        ran.unwrap_or_else(|_| {
            *room = None;
            let text = b"##[error]Kiln itself failed here; please report it\n".to_vec();
            (self.progress)(Progress::Lines { leg, step: 0, text });
            let conclusion = Conclusion::Failure;
            (self.progress)(Progress::JobFinished { leg, conclusion });
            Report::of(conclusion)
        })
    }

    fn run(&self, queued: Queued, room: &mut Option<Room>) -> Report {
        let leg = queued.leg;
        (self.progress)(Progress::JobStarted { leg, name: queued.name.clone() });
        let report = self.try_run(queued, room).unwrap_or_else(|message| {
            let message = self.masker.mask_text(&message);
            let text = format!("##[error]{message}\n").into_bytes();
            (self.progress)(Progress::Lines { leg, step: 0, text });
            Report::of(Conclusion::Failure)
        });
        if let Some(deployment) = report.deployment.clone() {
            (self.progress)(Progress::Deployed { leg, deployment });
        }
        (self.progress)(Progress::JobFinished { leg, conclusion: report.conclusion });
        report
    }

    /// Runs a leg in the room of the last one, or in a new one if that cannot be had.
    fn try_run(&self, queued: Queued, room: &mut Option<Room>) -> Result<Report, String> {
        let leg = queued.leg;
        let options = self.options;
        let old = room.take().and_then(|room| room.tidy(&options.pristine));
        let room = room.insert(old.map_or_else(|| self.new_room(), Ok)?);
        let control = self.lock().running.get(&leg).cloned();
        let control = control.ok_or("there are too many open files to start a job")?;
        let tree = self.tree.child().map_err(|error| error.to_string())?;
        let mut contexts = queued.contexts;
        let workspace = room.places.workspace.to_string_lossy().into_owned();
        contexts.github.insert("workspace", workspace.into());
        contexts.github.insert("token", options.host.origin.token().into());
        let event = event_path(&options.directory).to_string_lossy().into_owned();
        contexts.github.insert("event_path", event.into());
        let environment = queued.environment?;
        let (shelf, at) = (Arc::clone(&options.shelf), environment.as_deref());
        let services = OnShelf::new(shelf, &contexts.github, at);
        let task = Task {
            plan: options.start.run.plan.clone(),
            workflow: queued.workflow,
            job: queued.job,
            name: queued.name,
            contexts,
            environment,
            secrets: options.host.origin.with_token(queued.secrets?),
            masker: self.masker.clone(),
            services: Arc::new(services),
            may_identify: queued.may_identify,
            // What lies on this machine is its owner's.
            reads_caches_only: false,
            may_write_actions: queued.may_write_actions,
            places: room.places.clone(),
        };
        let log = log_path(&options.directory, leg);
        let reporter = LegReporter::new(leg, &log, options.log_limit, self.progress)?;
        let report = job::run(&task, &options.host, &reporter, &control, &tree);
        tree.sweep_leftovers();
        reporter.finish()?;
        Ok(report)
    }

    fn new_room(&self) -> Result<Room, String> {
        let number = self.rooms.fetch_add(1, Ordering::Relaxed) + 1;
        Room::new(&room::path_of(&self.options.directory, number), self.options)
    }
}
