//! `kiln run`: a whole run on this machine, with the same engine and the same job driver as a fleet.

mod github;
mod log;
mod pool;
mod room;
mod state;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, SystemTime};

use kiln_core::plan::Plan;
use kiln_core::run::{Conclusion, Effect, Event, LegNo, Neighbourhood, Run, RunState, apply};
use kiln_core::time::Timestamp;
use kiln_core::value::Object;
use kiln_lang::engine::Expressions;

use crate::job::{Annotation, Host, StepEnd};
use crate::process::{Control, Tree};
use crate::workspace::Pristine;

pub use github::{EventSource, github_context};
use pool::{Finished, Pool};
use state::Names;

/// What a run on this machine needs to know.
#[derive(Debug)]
pub struct Options {
    pub plan: Arc<Plan>,
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
    pub tool_cache: PathBuf,
}

/// Something that people watching a run want to know. `Lines` are whole, each with its line break.
#[derive(Debug, Clone)]
pub enum Progress {
    JobStarted { leg: LegNo, name: String },
    StepStarted { leg: LegNo, step: usize, name: String },
    Lines { leg: LegNo, text: Vec<u8> },
    StepFinished { leg: LegNo, step: usize, end: StepEnd },
    Annotation { leg: LegNo, annotation: Annotation },
    Summary { leg: LegNo, markdown: String },
    JobFinished { leg: LegNo, conclusion: Conclusion },
}

/// How the jobs of a run ended, in the order of the workflow.
#[derive(Debug)]
pub struct Summary {
    pub conclusion: Conclusion,
    pub jobs: Vec<JobSummary>,
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
        let hood = Neighbourhood::new(Run::new(1, options.plan.clone()));
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
                receiver,
                control: &control,
                options: &options,
            };
            world.event(Event::Start);
            world.until_done();
            pool.close();
            tree.sweep_strangers();
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
    receiver: Receiver<Message>,
    control: &'w Control,
    options: &'w Options,
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
                    other => self.effect(&other),
                }
            }
        }
    }

    fn effect(&mut self, effect: &Effect) {
        match effect {
            Effect::Enqueue(leg) => {
                let names = Names { hood: &self.hood, expressions: &self.expressions };
                self.pool.push(names.queued(*leg));
            }
            Effect::Dequeue(leg) => self.pool.remove(*leg),
            Effect::Stop { leg, forced, .. } => self.pool.stop(*leg, *forced),
            Effect::WakeAt { leg, at } => {
                self.wakes.insert((*at, *leg));
            }
            // There is only this run; the rest is told by the states themselves.
            _ => {}
        }
    }

    fn until_done(&mut self) {
        while !matches!(self.hood.run.state, RunState::Done(_)) {
            self.claim();
            let message = match self.wakes.first() {
                None => self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some((at, _)) => self.receiver.recv_timeout(at.since(now())),
            };
            match message {
                Ok(Message::Finished(finished)) => self.finished(finished),
                Ok(Message::Cancel { forced }) => self.cancel(forced),
                Err(RecvTimeoutError::Timeout) => self.wake(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Workers take what is queued by themselves; the run hears of it here.
    fn claim(&mut self) {
        for leg in self.pool.claimable() {
            self.event(Event::Claimed { leg, runner: 0 });
            let attempt = self.hood.legs[&leg].attempt;
            self.event(Event::Started { leg, attempt });
            self.pool.release(leg, attempt);
        }
    }

    fn finished(&mut self, finished: Finished) {
        let Finished { leg, attempt, report } = finished;
        let (conclusion, outputs) = (report.conclusion, report.outputs);
        self.event(Event::Finished { leg, attempt, conclusion, outputs });
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
        let names = Names { hood: &self.hood, expressions: &self.expressions };
        Summary { conclusion, jobs: names.summaries(&self.options.directory) }
    }
}

/// Makes what the jobs of a run share.
fn prepare(options: &Options) -> std::io::Result<()> {
    std::fs::create_dir_all(options.directory.join("logs"))?;
    let event = state::event_path(&options.directory);
    github::write_event(&options.github, &event).map_err(std::io::Error::other)
}

/// The one place that looks at the clock.
#[expect(clippy::disallowed_methods, reason = "this is the clock of a local run")]
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
