//! What the core asks of the expression language, which it does not know itself.

use std::any::Any;

use crate::plan::{self, Preference, QueueMode, Requires};
use crate::queue::{Demand, Requirements};
use crate::value::Object;

use super::{Conclusion, Leg, Node, Run, Scope};

/// Answers questions about a job from its expressions. An error fails the job with that message. Whoever made it gets
/// it back as what it was by way of [`Any`].
pub trait Evaluator: Any {
    /// Whether the job runs, asked when all it needs is done, and again when the run is cancelled.
    fn condition(&self, job: &JobContext<'_>) -> Result<bool, String>;

    /// The legs of the job's matrix; one without variables when it has none.
    fn legs(&self, job: &JobContext<'_>) -> Result<Legs, String>;

    /// The concurrency group of the run itself.
    fn run_group(&self, run: &Run) -> Result<Option<GroupRequest>, String>;

    /// The concurrency group of a leg.
    fn group(&self, job: &JobContext<'_>) -> Result<Option<GroupRequest>, String>;

    /// Whether a failure of the leg is tolerated (`continue-on-error`).
    fn tolerates_failure(&self, job: &JobContext<'_>) -> Result<bool, String>;

    /// What a leg is called and where it may run.
    fn placement(&self, job: &JobContext<'_>) -> Result<Placement, String>;

    /// The inputs for the workflow that a leg calls.
    fn inputs(&self, job: &JobContext<'_>) -> Result<Object, String>;

    /// The outputs of a called workflow, from the jobs in it.
    fn call_outputs(
        &self,
        run: &Run,
        scope: &Scope,
        jobs: &[Need<'_>],
    ) -> Result<Vec<(String, String)>, String>;
}

/// A job and what its expressions may see.
#[derive(Debug)]
pub struct JobContext<'a> {
    pub run: &'a Run,
    pub scope: &'a Scope,
    pub node: &'a Node,
    pub job: &'a plan::Job,
    pub needs: Vec<Need<'a>>,
    pub status: Status,
    pub leg: Option<&'a Leg>,
}

/// A job that another one needs.
#[derive(Debug, Clone, Copy)]
pub struct Need<'a> {
    pub id: &'a str,
    pub conclusion: Conclusion,
    pub outputs: &'a [(String, String)],
}

/// The answers of the status functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    pub success: bool,
    pub failure: bool,
    pub cancelled: bool,
}

#[derive(Debug, Clone)]
pub struct Legs {
    pub legs: Vec<Object>,
    pub fail_fast: bool,
    pub max_parallel: Option<u32>,
}

/// What a queue must know of a leg, evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// The name of the leg alone, as GitHub shows it: what `name` says, else the id with the values of
    /// its matrix. The callers of its workflow (`caller / job`) are other rows, which one leg does not
    /// see; whoever has them puts their names in front.
    pub name: String,
    /// A runner must have all of them. Empty only beside a pool, and for a call, which needs no runner.
    pub labels: Vec<String>,
    /// What `runs-on` calls a group.
    pub pool: Option<String>,
    /// What a runner must have besides.
    pub requires: Requires,
    /// Who is to take it first.
    pub prefer: Vec<Preference>,
    pub environment: Option<String>,
}

impl Placement {
    /// What a runner must have, in the one form that equal requirements share.
    pub fn requirements(&self) -> Result<Requirements, String> {
        let (labels, pool) = (self.labels.clone(), self.pool.clone());
        let demand = Demand { labels, pool, ..Demand::of(&self.requires, &self.prefer) };
        Requirements::new(demand).map_err(|error| error.to_string())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRequest {
    /// Compared without regard to case.
    pub name: String,
    pub cancel_in_progress: bool,
    pub queue: QueueMode,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S2, S20
    #[test]
    fn the_requirements_of_a_leg_are_all_that_it_asks_for() {
        let placement = Placement {
            labels: vec!["Linux".to_owned()],
            pool: Some("big".to_owned()),
            requires: Requires {
                tools: vec!["docker".to_owned()],
                cores: Some(4),
                ..Requires::default()
            },
            prefer: vec![Preference {
                labels: vec!["Warm".to_owned()],
                pool: None,
                after_seconds: 30,
            }],
            ..Placement::default()
        };
        let expect = concat!(
            r#"{"labels":["linux"],"pool":"big","tools":["docker"],"min_cores":4,"#,
            r#""prefer":[{"labels":["warm"],"after_seconds":30}]}"#
        );
        assert_eq!(placement.requirements().unwrap().canonical(), expect);
    }
}
