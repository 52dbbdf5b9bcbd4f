//! `kiln run`: a whole run on this machine, with the same engine and the same job driver as a fleet.

mod expected;
mod format;
mod github;
mod labels;
mod log;
mod pool;
mod record;
mod room;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, SystemTime};

use kiln_core::run::{Conclusion, Effect, Event, LegNo, Neighbourhood, RunState, apply};
use kiln_core::time::Timestamp;
use kiln_core::value::Object;
use kiln_lang::engine::Expressions;

use crate::gateway::local::{Left, Shelf};
use crate::job::{Annotation, Deployment, Host, StepEnd, write_event};
use crate::process::{Control, Tree};
use crate::workspace::Pristine;

pub use github::{EventSource, github_context};
use pool::{Finished, Pool};
pub use record::{Changes, Order, Record, digest};
use state::Names;

/// How often a run is written down while it goes on.
const RECORD_EVERY: Duration = Duration::from_secs(1);

/// What a run on this machine needs to know.
#[derive(Debug)]
pub struct Options {
    /// The run as it starts: new, or a further attempt of one that ended.
    pub start: Neighbourhood,
    /// What was asked for, kept with the run.
    pub order: Order,
    pub github: Object,
    pub vars: Object,
    pub inputs: Object,
    pub secrets: Vec<(String, String)>,
    /// How many jobs run at once.
    pub jobs: usize,
    /// Logs, workspaces and temporary files of this run live here.
    pub directory: PathBuf,
    pub pristine: Pristine,
    pub host: Host,
    /// Artifacts and caches.
    pub shelf: Arc<Shelf>,
    pub tool_cache: PathBuf,
    /// The labels that this machine answers to; any label when there are none.
    pub labels: Vec<String>,
    /// How many bytes the log of a job may have.
    pub log_limit: u64,
}

/// Something that people watching a run want to know. `Lines` are whole, each with its line break.
#[derive(Debug, Clone)]
pub enum Progress {
    /// How many jobs the run has, as far as is known by now.
    Expected {
        jobs: usize,
    },
    JobStarted {
        leg: LegNo,
        name: String,
    },
    StepStarted {
        leg: LegNo,
        step: usize,
        name: String,
    },
    /// Whole lines of the log, each with its line break.
    Lines {
        leg: LegNo,
        step: usize,
        text: Vec<u8>,
    },
    /// A try failed and the declared retry gives the step another.
    StepRetried {
        leg: LegNo,
        step: usize,
        failed_try: u32,
    },
    StepFinished {
        leg: LegNo,
        step: usize,
        end: StepEnd,
    },
    Annotation {
        leg: LegNo,
        annotation: Annotation,
    },
    Summary {
        leg: LegNo,
        markdown: String,
    },
    Deployed {
        leg: LegNo,
        deployment: Deployment,
    },
    JobFinished {
        leg: LegNo,
        conclusion: Conclusion,
    },
    /// A job ended without having been started.
    JobNotRun(JobSummary),
}

/// How the jobs of a run ended, in the order of the workflow.
#[derive(Debug)]
pub struct Summary {
    pub conclusion: Conclusion,
    /// Counts from one; above that, jobs may have been taken over from earlier attempts.
    pub attempt: u32,
    /// Why a later run cannot go on from this one.
    pub unrecorded: Option<String>,
    pub jobs: Vec<JobSummary>,
    pub artifacts: Vec<Left>,
}

#[derive(Debug, Clone)]
pub struct JobSummary {
    pub leg: Option<LegNo>,
    pub name: String,
    pub conclusion: Conclusion,
    /// Why it was skipped or could not start.
    pub note: Option<String>,
    pub took: Duration,
    pub log: Option<PathBuf>,
    pub deployment: Option<Deployment>,
    /// It did not run: an earlier attempt's end and outputs stand for it.
    pub taken_over: bool,
}

impl JobSummary {
    /// What there is to say about it besides how it ended.
    pub fn remark(&self) -> Option<String> {
        let verb =
            if self.conclusion == Conclusion::Success { "deployed to" } else { "environment" };
        let deployed = self.deployment.as_ref().map(|deployment| match &deployment.url {
            Some(url) => format!("{verb} {} ({url})", deployment.environment),
            None => format!("{verb} {}", deployment.environment),
        });
        let taken_over = self.taken_over.then(|| "taken over from an earlier run".to_owned());
        let parts: Vec<String> =
            self.note.clone().into_iter().chain(deployed).chain(taken_over).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// What reaches the loop of a run.
pub(crate) enum Message {
    Finished(Finished),
    Cancel { forced: bool },
}

/// By which a run is cancelled from another thread.
#[derive(Debug, Clone)]
pub struct Canceller(Sender<Message>);

impl Canceller {
    /// The first time asks, the second time forces.
    pub fn cancel(&self, forced: bool) {
        // A run that has ended does not listen any more, which is fine.
        let _ = self.0.send(Message::Cancel { forced });
    }
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Finished(finished) => write!(f, "Finished({})", finished.leg),
            Self::Cancel { forced } => write!(f, "Cancel({forced})"),
        }
    }
}

/// A run that is about to start.
#[derive(Debug)]
pub struct LocalRun<'t> {
    options: Options,
    tree: &'t Tree,
    sender: Sender<Message>,
    receiver: Receiver<Message>,
}

impl<'t> LocalRun<'t> {
    /// All processes of the run belong to `tree`.
    pub fn new(options: Options, tree: &'t Tree) -> Self {
        let (sender, receiver) = mpsc::channel();
        Self { options, tree, sender, receiver }
    }

    pub fn canceller(&self) -> Canceller {
        Canceller(self.sender.clone())
    }

    /// Runs everything to its end. `progress` hears from several threads.
    pub fn run(self, progress: &(dyn Fn(Progress) + Sync)) -> std::io::Result<Summary> {
        let Self { options, tree, sender, receiver } = self;
        let expressions = Expressions {
            github: options.github.clone(),
            vars: options.vars.clone(),
            inputs: options.inputs.clone(),
        };
        let hood = options.start.clone();
        let expressions = expressions.at_attempt(hood.run.attempt);
        prepare(&options)?;
        let control = Control::new()?;
        let pool = Pool::new(&options, &control, tree, progress);
        std::thread::scope(|scope| {
            pool.start(scope, &sender);
            let mut world = World {
                hood,
                expressions,
                pool: &pool,
                wakes: BTreeSet::new(),
                deployments: BTreeMap::new(),
                receiver,
                control: &control,
                options: &options,
                progress,
                expected: 0,
                counted: Timestamp::default(),
                recorded: Timestamp::default(),
                record_due: None,
                unrecorded: None,
            };
            world.record();
            world.event(Event::Start);
            world.until_done();
            pool.close();
            options.host.origin.stop();
            tree.sweep_strangers();
            world.record();
            Ok(world.summary())
        })
    }
}

struct World<'w> {
    hood: Neighbourhood,
    expressions: Expressions,
    pool: &'w Pool<'w>,
    /// Retries that wait, by when they are due.
    wakes: BTreeSet<(Timestamp, LegNo)>,
    deployments: BTreeMap<LegNo, Deployment>,
    receiver: Receiver<Message>,
    control: &'w Control,
    options: &'w Options,
    progress: &'w (dyn Fn(Progress) + Sync),
    /// The number of jobs that was told last, and when it was counted.
    expected: usize,
    counted: Timestamp,
    /// When the run was last written down, when it must be again, and what went wrong with it.
    recorded: Timestamp,
    record_due: Option<Timestamp>,
    unrecorded: Option<String>,
}

impl World<'_> {
    fn event(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            // What the run refuses is a late word about something that has ended.
            let effects =
                apply(&mut self.hood, event, now(), &self.expressions).unwrap_or_default();
            for effect in effects {
                match effect {
                    Effect::Continue(step) => events.push(Event::Step(step)),
                    Effect::Enqueue { leg, .. } => events.extend(self.queue(leg)),
                    other => self.effect(&other),
                }
            }
        }
    }

    fn effect(&mut self, effect: &Effect) {
        match effect {
            Effect::Dequeue(leg) => self.pool.remove(*leg),
            Effect::Stop { leg, forced, .. } => self.pool.stop(*leg, *forced),
            Effect::WakeAt { leg, at } => {
                self.wakes.insert((*at, *leg));
            }
            Effect::LegDone { leg, .. } => self.tell_not_run(self.names().leg_not_run(*leg)),
            Effect::NodeDone { node, .. } => self.tell_not_run(self.names().node_not_run(*node)),
            // There is only this run; the rest is told by the states themselves.
            _ => {}
        }
    }

    fn names(&self) -> Names<'_> {
        Names {
            hood: &self.hood,
            expressions: &self.expressions,
            secrets: &self.options.secrets,
            deployments: &self.deployments,
        }
    }

    /// Gives the leg to the workers, unless this machine does not answer to its labels.
    fn queue(&self, leg: LegNo) -> Option<Event> {
        if let Some(reason) =
            labels::missing(&self.options.labels, &self.expressions, &self.hood, leg)
        {
            return Some(Event::Skip { leg, reason });
        }
        self.pool.push(self.names().queued(leg));
        None
    }

    fn tell_not_run(&self, job: Option<JobSummary>) {
        if let Some(job) = job {
            (self.progress)(Progress::JobNotRun(job));
        }
    }

    fn tell_expected(&mut self) {
        // Counting a large run again after each of its jobs would be felt.
        const LARGE: usize = 1_000;
        const PAUSE: Duration = Duration::from_millis(200);
        if self.hood.nodes.len() + self.hood.legs.len() > LARGE && now() < self.counted + PAUSE {
            return;
        }
        self.counted = now();
        let jobs = expected::jobs(&self.hood);
        if jobs != self.expected {
            self.expected = jobs;
            (self.progress)(Progress::Expected { jobs });
        }
    }

    fn until_done(&mut self) {
        while !matches!(self.hood.run.state, RunState::Done(_)) {
            self.tell_expected();
            self.claim();
            let wake = self.wakes.first().map(|(at, _)| *at);
            let message = match wake.into_iter().chain(self.record_due).min() {
                None => self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => self.receiver.recv_timeout(at.since(now())),
            };
            match message {
                Ok(Message::Finished(finished)) => self.finished(finished),
                Ok(Message::Cancel { forced }) => self.cancel(forced),
                Err(RecvTimeoutError::Timeout) => self.wake(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.record_due.is_some_and(|at| at <= now()) {
                self.record();
            }
        }
    }

    /// Workers take what is queued by themselves; the run hears of it here.
    fn claim(&mut self) {
        for leg in self.pool.claimable() {
            self.event(Event::Claimed { leg, runner: 0 });
            let attempt = self.hood.legs[&leg].attempt;
            self.event(Event::Started { leg, attempt, preparing: None });
            self.pool.release(leg, attempt);
        }
    }

    fn finished(&mut self, finished: Finished) {
        let Finished { leg, attempt, report } = finished;
        if let Some(deployment) = report.deployment {
            self.deployments.insert(leg, deployment);
        }
        let (conclusion, outputs) = (report.conclusion, report.outputs);
        self.event(Event::Finished { leg, attempt, conclusion, outputs });
        self.record_due.get_or_insert(self.recorded + RECORD_EVERY);
    }

    /// Writes down how far the run is, so that another one can go on from here even if this process is
    /// killed.
    fn record(&mut self) {
        let conclusion = match self.hood.run.state {
            RunState::Done(conclusion) => conclusion,
            _ => Conclusion::Cancelled,
        };
        let record = Record::of(&self.options.order, &self.hood, conclusion);
        self.unrecorded = record.write(&self.options.directory).err();
        self.recorded = now();
        self.record_due = None;
    }

    fn cancel(&mut self, forced: bool) {
        let reason = "cancelled by the user".to_owned();
        self.event(Event::Cancel { by: "user".to_owned(), reason, forced });
        if forced {
            self.control.kill();
        }
    }

    fn wake(&mut self) {
        while let Some((at, leg)) = self.wakes.first().copied() {
            if at > now() {
                return;
            }
            self.wakes.remove(&(at, leg));
            self.event(Event::Wake { leg });
        }
    }

    fn summary(&self) -> Summary {
        let conclusion = match self.hood.run.state {
            RunState::Done(conclusion) => conclusion,
            _ => Conclusion::Failure,
        };
        let (attempt, unrecorded) = (self.hood.run.attempt, self.unrecorded.clone());
        let jobs = self.names().summaries(&self.options.directory);
        let artifacts = self.options.shelf.artifacts.left();
        Summary { conclusion, attempt, unrecorded, jobs, artifacts }
    }
}

/// Makes what the jobs of a run share.
fn prepare(options: &Options) -> std::io::Result<()> {
    std::fs::create_dir_all(options.directory.join("logs"))?;
    let event = state::event_path(&options.directory);
    write_event(&options.github, &event).map_err(std::io::Error::other)
}

/// The one place that looks at the clock.
#[expect(clippy::disallowed_methods, reason = "this is the clock of a local run")]
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
