//! What the expressions of steps see.

use kiln_core::run::Conclusion;
use kiln_core::value::{Object, Value};
use kiln_lang::expr::eval::{Env, StatusFunction};
use kiln_lang::hash_files::hash_files;

use crate::files::Tree;

use super::environment::Variables;
use super::task::Task;

/// The contexts of one step at one moment.
pub(super) struct StepEnv<'a> {
    pub(super) task: &'a Task,
    pub(super) github: &'a Object,
    /// What changes in it from step to step.
    pub(super) own: Vec<(&'static str, String)>,
    pub(super) env: Variables,
    pub(super) steps: Value,
    /// Replaces the job's inputs inside an action.
    pub(super) inputs: Value,
    pub(super) runner: &'a Value,
    /// The state of the job, or of the composite action around the step.
    pub(super) status: Conclusion,
    /// Secrets are hidden from actions.
    pub(super) secrets: bool,
}

impl Env for StepEnv<'_> {
    fn context(&self, name: &str) -> Option<Value> {
        let contexts = &self.task.contexts;
        let strings = |pairs: &mut dyn Iterator<Item = (&String, &String)>| {
            Value::object(
                pairs.map(|(name, value)| (name.as_str(), Value::from(value.as_str()))).collect(),
            )
        };
        Some(match name {
            "github" => {
                let mut github = self.github.clone();
                for (name, value) in &self.own {
                    github.insert(*name, Value::from(value.as_str()));
                }
                Value::object(github)
            }
            "env" => strings(&mut self.env.iter()),
            "vars" => Value::object(contexts.vars.clone()),
            "inputs" => self.inputs.clone(),
            "needs" => Value::object(contexts.needs.clone()),
            "matrix" => Value::object(contexts.matrix.clone()),
            "strategy" => Value::object(contexts.strategy.clone()),
            "steps" => self.steps.clone(),
            "runner" => self.runner.clone(),
            "job" => job(self.status),
            "secrets" if self.secrets => {
                strings(&mut self.task.secrets.iter().map(|(name, value)| (name, value)))
            }
            "secrets" => Value::object(Object::new()),
            _ => return None,
        })
    }

    fn status(&self, function: StatusFunction, _jobs: &[String]) -> Result<bool, String> {
        Ok(match function {
            StatusFunction::Always => true,
            StatusFunction::Success => self.status == Conclusion::Success,
            StatusFunction::Failure => self.status.is_failure(),
            StatusFunction::Cancelled => self.status.is_cancelled(),
        })
    }

    fn hash_files(&self, patterns: &[String]) -> Result<String, String> {
        let tree = Tree::at(&self.task.places.workspace)?;
        hash_files(&tree, patterns, tree.places())
    }
}

fn job(status: Conclusion) -> Value {
    Value::object([("status", Value::from(status.result()))].into_iter().collect())
}
