//! What the expressions of a run see: the text that is kept with it, and what becomes of that.

use std::sync::Arc;

use kiln_core::id::RunId;
use kiln_core::plan::Plan;
use kiln_core::run::Evaluator;
use kiln_core::value::{Object, Value};
use kiln_lang::engine::Expressions;
use kiln_store::runs::Evaluators;
use serde::{Deserialize, Serialize};

/// What is known about a run when it is created, as it is kept in [`NewRun::context`].
///
/// The `github` context lacks what only the row of the run says: its id, its number, its attempt.
///
/// [`NewRun::context`]: kiln_store::runs::NewRun
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunContext {
    pub github: Object,
    pub vars: Object,
    /// Typed.
    pub inputs: Object,
}

impl RunContext {
    pub fn write(&self) -> String {
        serde_json::to_string(self).expect("values are always JSON")
    }

    pub fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| format!("the context of the run: {error}"))
    }

    /// What the expressions of an attempt see.
    pub fn expressions(self, run: RunId, attempt: u32) -> Expressions {
        let Self { mut github, vars, inputs } = self;
        github.insert("run_id", Value::from(run.to_string()));
        Expressions { github, vars, inputs }.at_attempt(attempt)
    }
}

/// Evaluates expressions of runs by their [`RunContext`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Contexts;

impl Evaluators for Contexts {
    fn evaluator(
        &self,
        run: RunId,
        attempt: u32,
        _plan: &Arc<Plan>,
        context: &str,
    ) -> Result<Arc<dyn Evaluator + Send + Sync>, String> {
        Ok(Arc::new(RunContext::read(context)?.expressions(run, attempt)))
    }
}
