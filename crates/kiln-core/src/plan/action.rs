//! A compiled action: what `action.yml` says.

use super::{Condition, Step, Template};

#[derive(Debug, Clone)]
pub struct Action {
    pub name: String,
    pub inputs: Vec<ActionInput>,
    /// Only composite actions compute their outputs; others set them while they run.
    pub outputs: Vec<(String, Option<Template>)>,
    pub runs: ActionRuns,
}

#[derive(Debug, Clone)]
pub struct ActionInput {
    pub name: String,
    pub default: Option<Template>,
    pub deprecation: Option<String>,
}

#[derive(Debug, Clone)]
pub enum ActionRuns {
    JavaScript {
        /// The version of Node that it was written for: 12, 16, 20 or 24.
        node: u32,
        main: String,
        pre: Option<Script>,
        post: Option<Script>,
    },
    Composite(Vec<Step>),
    Docker {
        image: String,
        entrypoint: Option<String>,
        args: Vec<Template>,
        env: Vec<(String, Template)>,
        pre: Option<Script>,
        post: Option<Script>,
    },
}

/// A script before the job's first step or after its last one.
#[derive(Debug, Clone)]
pub struct Script {
    pub path: String,
    /// `always()` when the action says nothing.
    pub condition: Condition,
}
