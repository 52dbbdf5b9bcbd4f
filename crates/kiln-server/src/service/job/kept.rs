//! Texts that are the same for many jobs, written once.
//!
//! Jobs of a run see the same `github` but for their own name and token, and jobs of one commit have the same plan, however
//! often it runs. Writing both anew was half of what an answer to a claim cost.

use std::sync::{Arc, Weak};

use kiln_core::id::RunId;
use kiln_core::plan::{Permissions, Plan};
use kiln_store::Cache;
use kiln_store::runs::RunFacts;
use serde_json::value::RawValue;

/// How many runs: of one that waits for its first job to end, the others come a while later.
const MOST_RUNS: usize = 2_048;
/// How many jobs of plans.
const MOST_JOBS: usize = 512;
/// What is longer is written each time: few of them would fill the memory.
const LONGEST: usize = 16 << 10;

/// Texts of jobs. What they were made of is kept with them, so that what has changed is never taken for what was.
#[derive(Debug)]
pub struct Texts {
    of_runs: Cache<(RunId, u32), Arc<OfRun>>,
    /// By the address of the plan, which no other has as long as its text is here, and the places of workflow and job in it.
    of_jobs: Cache<(usize, usize, usize), Arc<OfJob>>,
}

#[derive(Debug)]
struct OfRun {
    run: Arc<RunFacts>,
    /// An object without its last bracket.
    github: String,
}

/// What the plan says of a job.
#[derive(Debug)]
pub(super) struct OfJob {
    pub(super) plan: Weak<Plan>,
    pub(super) granted: Option<Permissions>,
    pub(super) text: Box<RawValue>,
    pub(super) steps: Vec<String>,
}

impl Default for Texts {
    fn default() -> Self {
        Self { of_runs: Cache::new(MOST_RUNS), of_jobs: Cache::new(MOST_JOBS) }
    }
}

impl Texts {
    /// The object that `write` makes for a run, with what only one job sees added to it.
    pub(super) fn github(
        &self,
        run: &Arc<RunFacts>,
        own: [(&str, &str); 2],
        write: impl FnOnce() -> Result<String, serde_json::Error>,
    ) -> Result<Box<RawValue>, serde_json::Error> {
        let key = (run.id, run.attempt);
        if let Some(known) = self.of_runs.get(&key).filter(|known| known.run == *run) {
            return with(&known.github, own);
        }
        let mut github = write()?;
        github.pop();
        let whole = with(&github, own);
        if github.len() <= LONGEST {
            self.of_runs.put(key, Arc::new(OfRun { run: Arc::clone(run), github }));
        }
        whole
    }

    /// What the plan says of a job that was granted this, as `write` has it.
    pub(super) fn job(
        &self,
        plan: &Arc<Plan>,
        (workflow, job): (usize, usize),
        granted: Option<Permissions>,
        write: impl FnOnce(Option<Permissions>) -> Result<OfJob, serde_json::Error>,
    ) -> Result<Arc<OfJob>, serde_json::Error> {
        let key = (Arc::as_ptr(plan).addr(), workflow, job);
        let is_it = |known: &Arc<OfJob>| {
            std::ptr::eq(known.plan.as_ptr(), Arc::as_ptr(plan)) && known.granted == granted
        };
        if let Some(known) = self.of_jobs.get(&key).filter(is_it) {
            return Ok(known);
        }
        let written = Arc::new(write(granted)?);
        if written.text.get().len() <= LONGEST {
            self.of_jobs.put(key, Arc::clone(&written));
        }
        Ok(written)
    }
}

/// Closes an object behind these.
fn with(open: &str, own: [(&str, &str); 2]) -> Result<Box<RawValue>, serde_json::Error> {
    let mut text = String::with_capacity(open.len() + 300);
    text.push_str(open);
    for (name, value) in own {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&serde_json::to_string(name)?);
        text.push(':');
        text.push_str(&serde_json::to_string(value)?);
    }
    text.push('}');
    RawValue::from_string(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_job_sees_is_added_to_what_all_see() {
        let check = |open: &str, expect: &str| {
            let whole = with(open, [("job", "a\"b"), ("token", "t")]).unwrap();
            assert_eq!(whole.get(), expect);
        };
        check("{", r#"{"job":"a\"b","token":"t"}"#);
        check(r#"{"sha":"x""#, r#"{"sha":"x","job":"a\"b","token":"t"}"#);
    }

    #[test]
    fn a_plan_is_written_again_only_for_another_grant() {
        let texts = Texts::default();
        let plan = Arc::new(Plan { workflows: Vec::new() });
        let mut written = 0;
        let mut ask = |granted: Option<Permissions>| {
            let write = |granted| {
                written += 1;
                let text = RawValue::from_string("{}".to_owned())?;
                Ok(OfJob { plan: Arc::downgrade(&plan), granted, text, steps: Vec::new() })
            };
            texts.job(&plan, (0, 0), granted.clone(), write).unwrap().granted.clone() == granted
        };
        assert!(ask(None) && ask(None));
        assert!(ask(Some(Permissions::read_all())) && ask(None));
        assert_eq!(written, 3);
    }
}
