//! What is kept of a local run on disk, so that a later one can go on from it.
//!
//! One JSON file in the directory of the run: what was asked for, how each job ended, its outputs, and
//! the shape of each job, by which a changed one is noticed. Secrets are not in it: nothing of a run's
//! rows holds them, and outputs that do were dropped by the job.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use kiln_core::plan::{Job, JobKind, Place, Plan, Step, StepKind};
use kiln_core::run::{
    Again, Conclusion, Memory, Neighbourhood, PastJob, Refused, Run, again, recall, remember,
};
use sha2::{Digest as _, Sha256};

use super::EventSource;
use super::format;

/// The name of the file in the directory of a run.
const FILE: &str = "run.json";

/// More is not written and not read.
const MAX_BYTES: u64 = 32 << 20;

/// What a run was asked to do.
#[derive(Debug, Clone)]
pub struct Order {
    /// The file of the workflow.
    pub workflow: String,
    pub commit: String,
    pub dirty: bool,
    pub event: EventSource,
    pub job: Option<String>,
    /// At which step that begins, as typed.
    pub from_step: Option<String>,
    /// `name=value` each, as typed.
    pub matrix: Vec<String>,
    pub inputs: Vec<(String, String)>,
    pub vars: Vec<(String, String)>,
}

/// A run that ended, or one whose kiln is gone.
#[derive(Debug, Clone)]
pub struct Record {
    pub order: Order,
    pub conclusion: Conclusion,
    pub memory: Memory,
    /// By workflow and job, so that a job that has changed since is noticed.
    pub(super) shapes: BTreeMap<String, String>,
}

impl Record {
    pub(super) fn of(order: &Order, hood: &Neighbourhood, conclusion: Conclusion) -> Self {
        Self {
            order: order.clone(),
            conclusion,
            memory: remember(hood),
            shapes: shapes(&hood.run.plan),
        }
    }

    /// Replaces the file of an earlier moment, in one piece.
    pub(super) fn write(&self, directory: &Path) -> Result<(), String> {
        let text = format::write(self)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(format!("the outputs of its jobs are larger than {} MiB", MAX_BYTES >> 20));
        }
        let path = directory.join(FILE);
        let written = fs::create_dir_all(directory)
            .and_then(|()| fs::write(path.with_extension("new"), text))
            .and_then(|()| fs::rename(path.with_extension("new"), &path));
        written.map_err(|error| format!("cannot write `{}`: {error}", path.display()))
    }

    /// The record in the directory of a run.
    pub fn read(directory: &Path) -> Result<Self, String> {
        let path = directory.join(FILE);
        let wrong = |why: &str| format!("cannot read `{}`: {why}", path.display());
        let length = fs::metadata(&path).map_err(|error| wrong(&error.to_string()))?.len();
        if length > MAX_BYTES {
            return Err(wrong(&format!("it is larger than {} MiB", MAX_BYTES >> 20)));
        }
        let text = fs::read_to_string(&path).map_err(|error| wrong(&error.to_string()))?;
        format::read(&text).map_err(|why| wrong(&why))
    }

    /// The rows of a new attempt: what failed and what has changed runs, the rest is taken over.
    pub fn take_over(&self, run: Run) -> Result<Neighbourhood, Refused> {
        let fits = |plan: &Plan, workflow: usize, job: usize| {
            self.shapes.get(&key(plan, workflow, job)) == Some(&shape(plan, workflow, job))
        };
        again(&recall(run, &self.memory, &fits), Again::Failed)
    }

    /// The jobs that succeeded but cannot be taken over, because they have changed, and those that are
    /// gone.
    pub fn changes(&self, plan: &Plan) -> Changes {
        let mut changes = Changes::default();
        self.compare(plan, 0, &self.memory.jobs, &mut changes);
        changes
    }

    fn compare(&self, plan: &Plan, workflow: usize, past: &[PastJob], changes: &mut Changes) {
        for past in past {
            let Some((index, job)) = plan.workflows[workflow].job(&past.id) else {
                changes.gone.insert(past.id.clone());
                continue;
            };
            let same =
                self.shapes.get(&key(plan, workflow, index)) == Some(&shape(plan, workflow, index));
            if !same && past.conclusion == Conclusion::Success {
                changes.changed.insert(past.id.clone());
            }
            let JobKind::Call(call) = &job.kind else { continue };
            let called = past.legs.iter().filter_map(|leg| leg.call.as_ref());
            if let Some(workflow) = call.workflow {
                called.for_each(|call| self.compare(plan, workflow, &call.jobs, changes));
            }
        }
    }
}

/// What differs between a workflow and the run that it goes on from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    pub changed: BTreeSet<String>,
    pub gone: BTreeSet<String>,
}

fn key(plan: &Plan, workflow: usize, job: usize) -> String {
    let workflow = &plan.workflows[workflow];
    format!("{}#{}", workflow.path, workflow.jobs[job].id)
}

fn shapes(plan: &Plan) -> BTreeMap<String, String> {
    let jobs = |workflow: usize| {
        let count = plan.workflows[workflow].jobs.len();
        (0..count).map(move |job| (key(plan, workflow, job), shape(plan, workflow, job)))
    };
    (0..plan.workflows.len()).flat_map(jobs).collect()
}

/// A digest of all that a job says. Where it stands in its file does not count, nor do the places of
/// other jobs in the plan.
fn shape(plan: &Plan, workflow: usize, job: usize) -> String {
    let workflow = &plan.workflows[workflow];
    let needs = workflow.jobs[job].needs.iter().map(|need| workflow.jobs[*need].id.as_str());
    let needs: Vec<&str> = needs.collect();
    let mut job: Job = workflow.jobs[job].clone();
    job.needs = Vec::new();
    job.place = Place::default();
    match &mut job.kind {
        JobKind::Steps(steps) => forget_places(&mut steps.steps),
        JobKind::Call(call) => call.workflow = None,
    }
    let text = format!("{needs:?} {job:?} {:?} {:?}", workflow.env, workflow.defaults);
    digest(text.as_bytes())
}

/// SHA-256 in hexadecimals.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn forget_places(steps: &mut [Step]) {
    for step in steps {
        step.place = Place::default();
        if let StepKind::Parallel(inner) = &mut step.kind {
            forget_places(inner);
        }
    }
}
