//! What the expressions of a run see, as it is kept with the run.

use std::any::Any;
use std::sync::Arc;

use kiln_core::id::RunId;
use kiln_core::plan::Plan;
use kiln_core::run::Evaluator;
use kiln_core::value::{Object, Value};
use kiln_lang::engine::Expressions;
use kiln_store::runs::Evaluators;
use serde::{Deserialize, Serialize};

/// The kept form: JSON with one object for each context.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Context {
    pub github: Object,
    #[serde(skip_serializing_if = "Object::is_empty")]
    pub vars: Object,
    /// Of a dispatch, typed.
    #[serde(skip_serializing_if = "Object::is_empty")]
    pub inputs: Object,
}

impl Context {
    pub fn write(&self) -> String {
        serde_json::to_string(self).expect("values can be written as JSON")
    }

    pub fn read(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// What the expressions of an attempt of a run see.
    pub fn expressions(self, run: RunId, attempt: u32) -> Expressions {
        let Self { mut github, vars, inputs } = self;
        github.insert("run_id", Value::from(run.0.to_string()));
        Expressions { github, vars, inputs }.at_attempt(attempt)
    }
}

/// Lets the store evaluate the expressions of jobs.
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
        Ok(Arc::new(Context::read(context)?.expressions(run, attempt)))
    }
}

/// What [`Contexts`] made of the context of a run.
pub fn expressions(
    evaluator: &Arc<dyn Evaluator + Send + Sync>,
) -> Result<Arc<Expressions>, String> {
    let evaluator: Arc<dyn Any + Send + Sync> =
        Arc::<dyn Evaluator + Send + Sync>::clone(evaluator);
    evaluator.downcast().map_err(|_| "the expressions of the run are of another kind".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_comes_back_as_it_was_with_the_numbers_of_its_run() {
        let github: Object = [("sha", Value::from("abc"))].into_iter().collect();
        let inputs: Object = [("fast", Value::Bool(true))].into_iter().collect();
        let text = Context { github, inputs, ..Context::default() }.write();
        assert_eq!(text, r#"{"github":{"sha":"abc"},"inputs":{"fast":true}}"#);
        let read = Context::read(&text).unwrap().expressions(RunId(7), 3);
        let words = |name: &str| read.github.get(name).and_then(Value::as_str).map(str::to_owned);
        assert_eq!(words("run_id").as_deref(), Some("7"));
        assert_eq!(words("run_attempt").as_deref(), Some("3"));
        assert_eq!(words("sha").as_deref(), Some("abc"));
        assert!(matches!(read.inputs.get("fast"), Some(Value::Bool(true))));
        assert!(Context::read("{}").is_ok());
        assert!(Context::read("no").is_err());
    }
}
